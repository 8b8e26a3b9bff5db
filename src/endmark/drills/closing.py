"""What every lie needs: cut JSON closed, the documents in events, and events made of documents."""

from typing import Any

from endmark.core import strictjson
from endmark.core.refusal import Refused

_DATA = b"data:"


class NoLie(ValueError):
    """No lie can be told here. One clause says why."""


def closing(text: str) -> str:
    """What to write after a cut JSON text so that it decodes; nothing after a text that sets out to be no JSON."""
    if not text.lstrip().startswith(("{", "[")):
        return ""
    in_string, escaped, open_brackets = False, False, []
    for character in text:
        if in_string:
            if escaped:
                escaped = False
            elif character == "\\":
                escaped = True
            elif character == '"':
                in_string = False
        elif character == '"':
            in_string = True
        elif character in "[{":
            open_brackets.append("]" if character == "[" else "}")
        elif character in "]}" and open_brackets:
            open_brackets.pop()
    closers = "".join(reversed(open_brackets))
    for start in ("", *(f"{zeros}" for zeros in ("0", "00", "000", "0000")), "\\", "n"):
        for more in _ENDINGS:
            if _decodes(text + start + more + closers):
                return start + more + closers
    for word in ("true", "false", "null"):
        for left in range(1, len(word)):
            if _decodes(text + word[left:] + closers):
                return word[left:] + closers
    raise NoLie("the JSON in the answer cannot be closed here")


_ENDINGS = ("", '"', "null", ":null", '":null', '"":null', '""')


def _decodes(text: str) -> bool:
    try:
        strictjson.loads(text.encode() if text.lstrip().startswith("{") else b'{"":%b}' % text.encode())
    except (Refused, UnicodeEncodeError):
        return False
    return True


def closed(text: str, share: float, before: str = "") -> str:
    """The share of a text, closed; `before`: what the answer already said."""
    kept = text[: int(len(text) * share)]
    return kept + closing(before + kept)


def closed_object(value: dict[str, Any], share: float) -> dict[str, Any]:
    text = closed(strictjson.dumps(value).decode(), share)
    return strictjson.loads(text.encode()) if text else {}


def data(event: bytes) -> dict[str, Any] | None:
    """The object in a server-sent event or a line; None for one that holds none."""
    if event.lstrip().startswith(b"{"):
        return strictjson.loads(event)
    lines = [line[len(_DATA) :].strip() for line in event.splitlines() if line.startswith(_DATA)]
    joined = b"\n".join(lines)
    return strictjson.loads(joined) if joined.startswith(b"{") else None


def sse(document: dict[str, Any]) -> bytes:
    name = f"event: {document['type']}\n".encode() if isinstance(document.get("type"), str) else b""
    return name + b"data: " + strictjson.dumps(document) + b"\n\n"
