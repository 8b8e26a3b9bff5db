"""The signed form of an envelope: DSSE with Ed25519, as far as bytes alone go (spec/signature.md, rules D1-D9).

What is signed is the payload together with its type, never the JSON around it. Making and checking a signature needs
cryptography and is handed in.
"""

import base64
import binascii
from collections.abc import Callable
from typing import Any

import msgspec

from endmark.core import mc1, strictjson
from endmark.core.refusal import Refused, Signal
from endmark.core.strictjson import short

PAYLOAD_TYPE = "application/vnd.endmark.mc1"
KEYS = ("payloadType", "payload", "signatures")
SIGNATURE_KEYS = ("keyid", "sig")
MOST_SIGNATURES = 16
SIGNATURE_BYTES = 64

Verify = Callable[[str, bytes, bytes], bool | None]
"""(keyid, signature, message) -> whether the trusted key of that id made it; None where no trusted key has that id."""


class Signature(msgspec.Struct, frozen=True):
    """`keyid` says which key to try and proves nothing by itself."""

    keyid: str
    sig: bytes


class Signed(msgspec.Struct, frozen=True):
    """A well-formed signed envelope, not yet checked against any key."""

    payload: bytes
    signatures: tuple[Signature, ...]


def pae(payload: bytes, payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The bytes that are signed: DSSE's pre-authentication encoding (D3)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def most_bytes(cap: int) -> int:
    """The longest signed form whose payload is an envelope with a body of `cap` bytes."""
    return (cap + mc1.HEADER_MAX) * 4 // 3 + 8 + MOST_SIGNATURES * 512


def looks_like(document: dict[str, Any]) -> bool:
    """Whether an object sets out to be a signed envelope (D1)."""
    return "payloadType" in document


def read(document: dict[str, Any], received: int, payload_type: str = PAYLOAD_TYPE) -> Signed:
    """The signed envelope of this type that a strict JSON object spells. Raises Refused; nothing is verified here."""

    def refuse(signal: Signal, detail: str) -> Refused:
        return Refused(signal, received, None, detail)

    _check_keys(document, KEYS, "the signed envelope", refuse)  # D1
    kind = document["payloadType"]
    if kind != payload_type:  # D2
        raise refuse(Signal.WRONG_VALUE, f"payloadType is {short(kind)}, '{payload_type}' was expected")
    payload = _decoded(document["payload"])
    if payload is None:  # D4
        raise refuse(Signal.WRONG_VALUE, "payload is not base64 in its one spelling: RFC 4648, 4, padded, nothing else")
    found = document["signatures"]
    if not isinstance(found, list) or not 1 <= len(found) <= MOST_SIGNATURES:  # D5
        raise refuse(Signal.WRONG_VALUE, f"signatures is not a list of 1 to {MOST_SIGNATURES} signatures")
    signatures = []
    for at, item in enumerate(found):
        if not isinstance(item, dict):  # D5
            raise refuse(Signal.WRONG_TYPE, f"signatures[{at}] is {short(item)}, an object was expected")
        _check_keys(item, SIGNATURE_KEYS, f"signatures[{at}]", refuse)
        sig = _decoded(item["sig"])
        if sig is None or len(sig) != SIGNATURE_BYTES or not isinstance(item["keyid"], str):
            raise refuse(Signal.WRONG_VALUE, f"signatures[{at}] is no Ed25519 signature of 64 bytes in base64")
        signatures.append(Signature(item["keyid"], sig))
    return Signed(payload, tuple(signatures))


def verified(signed: Signed, verify: Verify, received: int, payload_type: str = PAYLOAD_TYPE) -> str:
    """The id of the first trusted key that signed (D6). Raises Refused for no such key, and for a signature of one that
    does not fit.
    """
    message = pae(signed.payload, payload_type)
    trusted = ""
    for signature in signed.signatures:
        fits = verify(signature.keyid, signature.sig, message)
        if fits is False:
            detail = f"the signature of the trusted key {short(signature.keyid)} does not fit the payload"
            raise Refused(Signal.ENVELOPE_DIGEST, received, None, detail)
        if fits:
            trusted = trusted or signature.keyid
    if not trusted:
        named = ", ".join(short(signature.keyid) for signature in signed.signatures[:3])
        raise Refused(Signal.WEAK_EVIDENCE, received, None, f"it is signed by no trusted key, only by {named}")
    return trusted


def dumps(payload: bytes, signatures: tuple[Signature, ...], payload_type: str = PAYLOAD_TYPE) -> bytes:
    """The one spelling of a signed envelope (D7)."""
    made = [{"keyid": each.keyid, "sig": _encoded(each.sig)} for each in signatures]
    return strictjson.dumps({"payloadType": payload_type, "payload": _encoded(payload), "signatures": made})


def _check_keys(
    document: dict[str, Any], keys: tuple[str, ...], what: str, refuse: Callable[[Signal, str], Refused]
) -> None:
    unknown = document.keys() - set(keys)
    if unknown:
        raise refuse(Signal.UNKNOWN_KEY, f"{what} has an unknown key {short(min(unknown))}")
    missing = [key for key in keys if key not in document]
    if missing:
        raise refuse(Signal.MISSING_KEY, f"{what} has no key {', '.join(missing)}")


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _decoded(text: Any) -> bytes | None:
    """The bytes of standard base64; None for what is not, and for a second spelling of the same bytes."""
    if not isinstance(text, str):
        return None
    try:
        raw = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None
    return raw if _encoded(raw) == text else None
