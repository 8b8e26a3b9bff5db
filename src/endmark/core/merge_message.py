"""The message of a merge commit: a line for people, the decision's id, and the signed record between two fixed lines.

spec/decision-record.md, rules R10-R12. Whoever guards the branch needs this message, git and trusted keys; no ledger.
"""

import base64
import binascii
import re

from endmark.core.refusal import Refused, Signal

BEGIN = b"-----BEGIN ENDMARK RECORD-----\n"
END = b"-----END ENDMARK RECORD-----\n"
_WIDTH = 76
_DECISION = re.compile(rb"^Endmark-Decision: (dec_[0-9a-z]{26})$", re.MULTILINE)
_PLAIN = re.compile(r"[^\x20-\x7e]")


def write(title: str, decision_id: str, record: bytes | None) -> bytes:
    """The one spelling of a merge's message (R10). What cannot stand in a line of ASCII becomes `?`."""
    head = f"{_PLAIN.sub('?', title)}\n\nEndmark-Decision: {decision_id}\n".encode("ascii")
    if record is None:
        return head
    text = base64.b64encode(record)
    lines = b"".join(text[at : at + _WIDTH] + b"\n" for at in range(0, len(text), _WIDTH))
    return b"%s\n%s%s%s" % (head, BEGIN, lines, END)


def decision_of(message: bytes) -> str | None:
    """The id of the decision that a message names; None for one that names none, or several."""
    found = _DECISION.findall(message)
    return found[0].decode("ascii") if len(found) == 1 else None


def record_of(message: bytes) -> bytes:
    """The record in a message (R11, R12). Raises Refused, and nothing else, whatever the bytes."""
    received = len(message)

    def refuse(signal: Signal, detail: str) -> Refused:
        return Refused(signal, received, None, detail)

    if BEGIN not in message:  # R11
        raise refuse(Signal.WEAK_EVIDENCE, "the commit's message holds no record of a decision")
    before, _, rest = message.partition(BEGIN)
    if not message.endswith(END):  # R11
        raise refuse(Signal.NO_SENTINEL, "the record in the commit's message does not end where the message does")
    body = rest[: -len(END)]
    if (before and not before.endswith(b"\n")) or BEGIN in rest or END in body:  # R11
        raise refuse(Signal.WRONG_VALUE, "the commit's message holds more than one record, or one within a line")
    try:
        record = base64.b64decode(body.replace(b"\n", b""), validate=True)
    except binascii.Error:
        raise refuse(Signal.WRONG_VALUE, "the record in the commit's message is not base64") from None
    text = base64.b64encode(record)
    if b"".join(text[at : at + _WIDTH] + b"\n" for at in range(0, len(text), _WIDTH)) != body:  # R12
        raise refuse(Signal.WRONG_VALUE, "the record in the commit's message is not in its one spelling")
    return record
