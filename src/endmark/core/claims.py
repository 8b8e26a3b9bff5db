"""What a sealer says of an envelope beside it: the evidence that the envelope does not carry (spec/seal.md, CA11)."""

import re
from typing import Any

import msgspec

from endmark.core import strictjson
from endmark.core.refusal import Refused, Signal

VERSION = 1
CLAIMED = "claimed:"
"""Before each word in a record: somebody said so, nothing here has seen it."""

_KEYS = ("version", "envelope_sha256", "evidence")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_MOST_WORDS, _LONGEST = 64, 200


class Claims(msgspec.Struct, frozen=True):
    """`envelope_sha256`: of the bytes they speak of, in lower-case hex. `evidence`: the sealer's words."""

    envelope_sha256: str
    evidence: tuple[str, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """As a record lists them."""
        return tuple(CLAIMED + word for word in self.evidence)


def write(claims: Claims) -> bytes:
    """The file of these claims: one JSON object on one line."""
    made = {"version": VERSION, "envelope_sha256": claims.envelope_sha256, "evidence": list(claims.evidence)}
    return strictjson.dumps(made) + b"\n"


def read(raw: bytes) -> Claims:
    """The claims that a file holds. Raises Refused."""
    document = strictjson.loads(raw)

    def refuse(signal: Signal, detail: str) -> Refused:
        return Refused(signal, len(raw), None, detail)

    if set(document) != set(_KEYS):
        raise refuse(Signal.UNKNOWN_KEY, f"exactly the keys {', '.join(_KEYS)} were expected")
    version, sha256, evidence = (document[key] for key in _KEYS)
    if type(version) is not int or version != VERSION:
        raise refuse(Signal.WRONG_VALUE, f"version is {strictjson.short(version)}, {VERSION} was expected")
    if not isinstance(sha256, str) or not _SHA256.fullmatch(sha256):
        raise refuse(Signal.WRONG_VALUE, "envelope_sha256 is no SHA-256 in lower-case hex")
    if not isinstance(evidence, list) or not 0 < len(evidence) <= _MOST_WORDS or not all(map(_is_word, evidence)):
        raise refuse(Signal.WRONG_VALUE, f"evidence is no list of 1 to {_MOST_WORDS} printable words")
    return Claims(sha256, tuple(evidence))


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()
