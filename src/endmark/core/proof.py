"""Any bytes in, one proven value or `Refused` out: which form it is, what its proof covers (spec/mc1.md, M10-M14)."""

from enum import StrEnum
from typing import Any

import msgspec

from endmark.core import dsse, evidence, mc1, plan, strictjson, verdict
from endmark.core.evidence import Level
from endmark.core.refusal import Refused, Signal


class Form(StrEnum):
    """What the bytes turned out to be."""

    PLAN = "plan"
    WITNESS = "witness"
    VERDICT = "verdict"
    BODY = "body"


class Proven(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that arrived whole. `value` is None for a body endmark does not interpret."""

    form: Form
    value: plan.Plan | verdict.Verdict | None
    level: Level
    evidence: tuple[str, ...]
    received_bytes: int
    expected_bytes: int | None


def prove(
    raw: bytes, cap: int = mc1.DEFAULT_CAP, verify: dsse.Verify | None = None, marks: list[str] | None = None
) -> Proven:
    """What `raw` is and how it is proven. `cap`: the largest body accepted, in bytes.

    `verify` checks the signatures of a signed envelope; without it none is accepted. What is not signed is read alike.
    `marks`: those that the reviewer was asked to echo, where a verdict is expected.
    Raises `Refused`, and nothing else, whatever the bytes; TypeError for what is not `bytes`.
    """
    if not isinstance(raw, bytes):
        raise TypeError(f"bytes were expected, not {type(raw).__name__}")
    if mc1.looks_like(raw) or not raw:
        envelope = mc1.read(raw, cap)
        document = strictjson.loads(raw, envelope.start, envelope.end, envelope.expected_bytes)  # M10
        return _enveloped(document, len(raw), envelope.expected_bytes, marks)
    if len(raw) > (cap if verify is None else dsse.most_bytes(cap)):  # M12 D8
        raise _over_cap(len(raw), cap)
    document = strictjson.loads(raw)
    if dsse.looks_like(document):
        return _signed(document, len(raw), cap, verify, marks)
    if len(raw) > cap:  # M12
        raise _over_cap(len(raw), cap)
    return _bare(document, len(raw))


def _over_cap(received: int, cap: int) -> Refused:
    return Refused(
        Signal.OVER_CAP, received, None, lambda: f"{received:,} bytes or more arrived, over the cap of {cap:,}"
    )


def _signed(
    document: dict[str, Any], received: int, cap: int, verify: dsse.Verify | None, marks: list[str] | None
) -> Proven:
    """A signed envelope: first its signature, then the envelope in it (D6, D8)."""
    signed = dsse.read(document, received)
    if verify is None:
        raise Refused(
            Signal.WEAK_EVIDENCE, received, None, "it is signed, and no trusted keys were named to check that"
        )
    keyid = dsse.verified(signed, verify, received)
    try:
        if not mc1.looks_like(signed.payload):  # D8
            raise Refused(Signal.NO_ENVELOPE, received, None, "what is signed is no MC1 envelope")
        inner = prove(signed.payload, cap, None, marks)
    except Refused as refused:
        raise Refused(refused.signal, received, None, f"in the signed payload: {refused.detail}") from None
    return msgspec.structs.replace(
        inner,
        level=Level.SIGNED,
        evidence=(Level.SIGNED.word, f"key:{keyid}", *inner.evidence[1:]),
        received_bytes=received,
        expected_bytes=None,
    )


def _enveloped(document: dict[str, Any], received: int, expected: int, marks: list[str] | None) -> Proven:
    form = Form.BODY
    value: plan.Plan | verdict.Verdict | None = None
    listed: tuple[str, ...] = evidence.ENVELOPE
    if _sets_out_to_be_a_plan(document):
        form, value = Form.PLAN, plan.read(document, received, expected)
        listed += evidence.PLAN
    elif "verdict" in document:
        form, value = Form.VERDICT, verdict.read(document, received, expected, marks)
        # V11
        listed += tuple(f"no-{key}" for key in ("findings", "marks") if getattr(value, key) is None)
        listed += ("marks-echoed",) if marks else ()
    return Proven(
        form=form,
        value=value,
        level=Level.SEALED,
        evidence=(Level.SEALED.word, *listed),
        received_bytes=received,
        expected_bytes=expected,
    )


def _sets_out_to_be_a_plan(document: dict[str, Any]) -> bool:
    """M13: statements, their count, our tool, or a trailer where no tool is named. Another tool's body is not ours."""
    if "statements" in document or "stmt_count" in document:
        return True
    return document["tool"] == plan.TOOL if "tool" in document else "trailer" in document


def _bare(document: dict[str, Any], received: int) -> Proven:
    if "verdict" in document and not _sets_out_to_be_a_plan(document):  # M14
        raise Refused(Signal.NO_ENVELOPE, received, None, "a verdict counts only in an MC1 envelope, none was found")
    if "tool" in document or "sha256" in document:  # M14
        form, value, level = Form.PLAN, plan.read(document, received), Level.BARE
        listed: tuple[str, ...] = (*evidence.PLAN, evidence.UNCOVERED)  # P20
    else:
        form, value, level = Form.WITNESS, plan.read_witness(document, received), Level.WITNESS
        listed = evidence.WITNESS
    return Proven(
        form=form,
        value=value,
        level=level,
        evidence=(level.word, *listed),
        received_bytes=received,
        expected_bytes=None,
    )


def seal(raw: bytes, cap: int = mc1.DEFAULT_CAP) -> bytes:
    """A whole body as an MC1 envelope: a witness form becomes a plan, anything else goes in exactly as written.

    The seal proves what happens from here on; that the body was whole before rests on its own witness. Raises Refused
    for what is not one strict JSON object, is not what its keys say it is, or is an envelope already.
    """
    received = len(raw)
    if mc1.looks_like(raw) or not raw:
        mc1.read(raw, cap)
        raise Refused(Signal.WRONG_VALUE, received, None, "this is an envelope already; it is sealed once")
    if received > cap:  # M12
        raise _over_cap(received, cap)
    document = strictjson.loads(raw)
    if dsse.looks_like(document):
        raise Refused(Signal.WRONG_VALUE, received, None, "this is a signed envelope already; it is sealed once")
    value: plan.Plan | verdict.Verdict | None = None
    if _sets_out_to_be_a_plan(document):
        proven = _bare(document, received)
        value = proven.value if proven.form is Form.WITNESS else None
    elif "verdict" in document:
        verdict.read(document, received)
    sealed = plan.seal(value) if isinstance(value, plan.Plan) else mc1.seal(raw)
    if len(sealed) - sealed.index(b"\n") - 1 > cap:  # M11: nobody with this cap could read it
        raise _over_cap(received, cap)
    return sealed
