"""What is told of one decision, whatever the forge, and how any forge is spoken to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from endmark.core import strictjson
from endmark.core.refusal import CannotTry, Refused
from endmark.core.states import Decision
from endmark.core.verdict import Finding

if TYPE_CHECKING:
    import httpx

NAME = "endmark"  # of the check: a branch's protection requires it by this name
_TRIES = 3
_AGAIN = frozenset({502, 503, 504})  # the forge did not get to it


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """One decision as a forge shows it. `commit` is the head that was judged; `summary` is Markdown.

    `findings` are shown beside the lines they name.
    """

    commit: str
    decision_id: str
    state: Decision
    title: str
    summary: str
    findings: Sequence[Finding] = ()
    name: str = NAME
    details_url: str | None = None


def send(
    client: httpx.Client, method: str, path: str, payload: Mapping[str, Any], headers: Mapping[str, str]
) -> Mapping[str, Any]:
    """What the forge answers to one request, as an object. A request that did not get through is sent again, twice.

    Raises CannotTry for anything but a 2xx answer. The headers, which hold the token, stand in no message.
    """
    import httpx

    said = ""
    for _ in range(_TRIES):
        try:
            answer = client.request(method, path, json=payload, headers=dict(headers), follow_redirects=False)
        except httpx.HTTPError as fault:
            said = type(fault).__name__
            continue
        if answer.is_success:
            return _object(answer.content, path)
        said = f"{answer.status_code} {_message(answer.content)}".strip()
        if answer.status_code not in _AGAIN:
            break
    raise CannotTry(f"{client.base_url.host} did not take {method} {path}: {said}. The decision stands in the ledger.")


def _object(raw: bytes, path: str) -> Mapping[str, Any]:
    try:
        return strictjson.loads(raw)
    except Refused as refused:
        raise CannotTry(f"what the forge answered to {path} is no JSON object: {refused.detail}.") from None


def _message(raw: bytes) -> str:
    """The forge's own words, made safe to print."""
    try:
        words = strictjson.loads(raw).get("message", "")
    except Refused:
        return ""
    return ascii(words)[1:-1][:200] if isinstance(words, str) else ascii(words)[:200]
