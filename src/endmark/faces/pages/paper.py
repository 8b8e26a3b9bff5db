"""Templates made pages: what others wrote is escaped, and what could hide or reorder text is made visible."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.responses import Response

from endmark import __version__
from endmark.core.printable import safe
from endmark.faces.pages import words
from endmark.faces.pages.sessions import Visit, keep
from endmark.ledger.outcomes import is_reverted

_HERE = Path(__file__).parent
STATIC = {
    "style.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def _printable(value: Any) -> Any:
    """What every expression of a template goes through before it is escaped."""
    return safe(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def static(name: str) -> bytes:
    """A file that is sent as it is."""
    return (_HERE / "static" / name).read_bytes()


def _static_url(name: str) -> str:
    return f"/static/{name}?v={hashlib.sha256(static(name)).hexdigest()[:12]}"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters.update(
        number=words.number,
        moment=words.moment,
        short=words.short,
        branch=words.branch,
        proves=words.proves,
        undone=is_reverted,
    )
    made.globals.update(look=words.look, plural=words.plural, static_url=_static_url, version=__version__)
    return made


def page(template: str, visit: Visit | None, status: int = 200, **values: Any) -> Response:
    """The page, with its headers; a new session goes out with it."""
    text = _environment().get_template(template).render(visit=visit, **values)
    response = Response(text.encode(), status, HEADERS, "text/html; charset=utf-8")
    if visit is not None and visit.is_new and visit.session is not None:
        keep(response, visit.request, visit.session)
    return response


def gone_to(place: str) -> Response:
    """After a form: the browser asks for the page anew, and a reload repeats nothing."""
    return Response(b"", 303, {**HEADERS, "location": place})
