"""The record in a merge's message: every cut, every flip, everything before and after (R10, R11, R12)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark.core import merge_message
from endmark.core.merge_message import BEGIN, END, decision_of, record_of, write
from endmark.core.refusal import Refused

DECISION = "dec_" + "0" * 26
RECORD = b'{"payloadType":"application/vnd.in-toto+json"}' * 7
MESSAGE = write("Merge 1234 into main", DECISION, RECORD)


def signal(message):
    try:
        return record_of(message)
    except Refused as refused:
        return refused.signal.value


def test_the_message_is_spelled_so():
    lines = MESSAGE.decode("ascii").split("\n")
    assert lines[:5] == ["Merge 1234 into main", "", f"Endmark-Decision: {DECISION}", "", BEGIN.decode().strip()]
    assert lines[-2:] == [END.decode().strip(), ""]
    assert {len(line) for line in lines[5:-3]} == {76}
    assert decision_of(MESSAGE) == DECISION
    assert write("Zusammenf\u00fchrung\n\x1b[31m", DECISION, None) == (
        b"Zusammenf?hrung??[31m\n\nEndmark-Decision: " + DECISION.encode() + b"\n"
    )


@given(st.binary(max_size=400))
def test_what_was_written_is_read(record):
    assert record_of(write("Merge", DECISION, record)) == record


def test_every_cut_is_refused():
    for cut in range(len(MESSAGE)):
        assert isinstance(signal(MESSAGE[:cut]), str), cut


def test_no_flip_reads_as_another_record():
    start, end = MESSAGE.index(BEGIN), len(MESSAGE)
    for at in range(start, end):
        for bit in range(8):
            flipped = bytearray(MESSAGE)
            flipped[at] ^= 1 << bit
            found = signal(bytes(flipped))
            # Within the base64 a flip may spell other bytes: those are signed, so they say so.
            assert found != RECORD, (at, bit)


@pytest.mark.parametrize(
    ("message", "found"),
    [
        (b"", "weak-evidence"),
        (b"Merge branch 'topic'\n", "weak-evidence"),
        (MESSAGE + b"\n", "no-sentinel"),
        (MESSAGE + b"Signed-off-by: somebody\n", "no-sentinel"),
        (MESSAGE[: -len(END)], "no-sentinel"),
        (MESSAGE + MESSAGE, "wrong-value"),
        (MESSAGE.replace(b"\n" + BEGIN, b"\n> " + BEGIN), "wrong-value"),
        (MESSAGE.replace(END, END + END), "wrong-value"),
        (MESSAGE.replace(BEGIN, BEGIN + b"\n"), "wrong-value"),
        (MESSAGE.replace(b"\n" + END, b"=\n" + END), "wrong-value"),
        (MESSAGE.replace(b"\n" + END, b"\r\n" + END), "wrong-value"),
        (MESSAGE.replace(BEGIN, BEGIN + b"!"), "wrong-value"),
    ],
    ids=[
        "nothing",
        "no record",
        "a line after",
        "a trailer after",
        "no end",
        "two messages",
        "within a line",
        "two ends",
        "an empty line in it",
        "another padding",
        "another line end",
        "no base64",
    ],
)
def test_what_is_no_record(message, found):
    assert signal(message) == found


@given(st.binary(max_size=200))
def test_any_bytes_are_a_record_or_refused(raw):
    for message in (raw, BEGIN + raw, BEGIN + raw + END, MESSAGE + raw):
        signal(message)
        decision_of(message)


def test_a_message_that_names_two_decisions_names_none():
    line = f"Endmark-Decision: {DECISION}\n".encode()
    assert decision_of(b"x\n\n" + line + line) is None
    assert decision_of(b"x " + line) is None
    assert merge_message.decision_of(line) == DECISION
