"""What a reviewer is shown: nothing left out, nothing hidden, and marks that no diff can foresee (rules Q1-Q10)."""

import hashlib
import itertools
import re
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from endmark.core import marks, prompt, verdict
from endmark.core.refusal import Refused

HERE = "d" * 64
PAGE_OF_THE_CHANGE = re.compile(r"block (\d+) of (\d+): (plain|escaped), (\d+) bytes(, no line end at its end)?\n")
BLOCKS = [b"diff --git a/a b/a\n+one\n", b"diff --git a/b b/b\n+two", "+\u202eevil\n".encode(), b"+\xff\\xff\r\n"]


def nonces(count, salt=""):
    return [hashlib.sha256(f"{salt}{at}".encode()).hexdigest()[:32] for at in range(count)]


def assemble(blocks, **changes):
    settings: dict[str, Any] = {"diff_sha": HERE, "policy_version": "gate-1", "max_diff_bytes": 10_000}
    settings["nonces"] = nonces(marks.needed(len(blocks)))
    return prompt.assemble(blocks, **(settings | changes))


def unescape(text):
    """The bytes that an escaped text stands for, by Q7."""
    spelled = re.compile(r"\\(?:\\|r|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")

    def back(found):
        if found[1]:
            return chr(0xDC00 + int(found[1], 16))
        if found[2] or found[3]:
            return chr(int(found[2] or found[3], 16))
        return "\\" if found[0] == "\\\\" else "\r"

    return spelled.sub(back, text).encode("utf-8", "surrogateescape")


def blocks_of(shown):
    """The blocks again, read from the text alone."""
    text = shown.text.decode()
    lines = [marks.line(mark) for mark in shown.marks]
    for before, after in itertools.pairwise(lines[:-1]):
        inside = text[text.index(before) + len(before) : text.index(after)]
        head = PAGE_OF_THE_CHANGE.match(inside)
        assert head is not None
        body = inside[head.end() :].removesuffix("\n") if head[5] else inside[head.end() :]
        raw = unescape(body) if head[3] == "escaped" else body.encode()
        assert len(raw) == int(head[4])
        yield raw


def test_a_mark_stands_before_after_each_block_and_at_the_end():
    """Q1 Q4 Q5"""
    shown = assemble(BLOCKS)
    assert len(shown.marks) == len(BLOCKS) + 2
    text = shown.text.decode()
    places = [text.index(marks.line(mark)) for mark in shown.marks]
    assert places == sorted(places)
    assert [text.count(mark) for mark in shown.marks] == [1] * len(shown.marks)
    assert text.endswith(marks.line(shown.marks[-1]))
    assert text.startswith(prompt.INSTRUCTIONS.decode()[:20])
    heads = PAGE_OF_THE_CHANGE.findall(text)
    assert [(head[0], head[2]) for head in heads] == [
        ("1", "plain"),
        ("2", "plain"),
        ("3", "escaped"),
        ("4", "escaped"),
    ]
    assert f'"diff_sha": "{HERE}"' in text
    assert [mark.partition("-")[0] for mark in shown.marks] == ["1", "2", "3", "4", "5", "6"]
    assert list(blocks_of(shown)) == BLOCKS


@given(
    st.lists(
        st.binary(min_size=1, max_size=60) | st.text(min_size=1).map(lambda text: text.encode()), min_size=1, max_size=5
    )
)
@example([b"\\", b"\\\\", b"\\x41", b"A", b"\xff\\xff", b"\\xff"])
@example([b"\r", b"\\r", b"\r\\", "\u2028".encode(), b"\\u2028", "\U000e0041".encode()])
@example([b"\n", b"\n\n", b"a", b"a\n"])
def test_every_block_can_be_read_back(blocks):
    """Q5 Q6 Q7: so no two different diffs are written alike, whatever bytes they hold."""
    shown = assemble(blocks)
    assert list(blocks_of(shown)) == blocks
    change = shown.text.decode()
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\u2028]", change)


@pytest.mark.parametrize(
    ("raw", "how", "written"),
    [
        (b"a\tb\n", "plain", "a\tb\n"),
        (b"C:\\new", "plain", "C:\\new"),
        ("Gr\u00f6\u00dfe \u4e2d \U0001f600".encode(), "plain", "Gr\u00f6\u00dfe \u4e2d \U0001f600"),
        (b"C:\\new\r\n", "escaped", "C:\\\\new\\r\n"),
        (b"\x1b[31mred", "escaped", "\\u001b[31mred"),
        (b"caf\xe9", "escaped", "caf\\xe9"),
        (b"\x80\xff", "escaped", "\\x80\\xff"),
        ("p\u200bass".encode(), "escaped", "p\\u200bass"),
        ("\u202e\u2066".encode(), "escaped", "\\u202e\\u2066"),
        ("\U000e0041".encode(), "escaped", "\\U000e0041"),
        (b"\xed\xa0\x80", "escaped", "\\xed\\xa0\\x80"),
        (b"a\0b", "escaped", "a\\u0000b"),
    ],
)
def test_how_bytes_are_written(raw, how, written):
    """Q6 Q7"""
    assert prompt.shown_as(raw) == (how, written)


def test_the_page_lists_what_is_hidden():
    """Q6: and all that Unicode itself calls a control, a format character or a separator of lines is among it."""
    page = (Path(__file__).parents[2] / "spec" / "prompt.md").read_text()
    listed = re.findall(
        r"\b([0-9A-F]{4,5})(?:-([0-9A-F]{4,5}))?\b", page.partition("changes the list:")[2].partition("**Q7")[0]
    )
    hidden = {chr(code) for low, high in listed for code in range(int(low, 16), int(high or low, 16) + 1)}
    written = {
        mark
        for mark in map(chr, range(0x110000))
        if not "\ud800" <= mark <= "\udfff" and prompt.shown_as(mark.encode())[0] == "escaped"
    }
    assert written == hidden
    seen = {"Cc", "Cf", "Zl", "Zp"}
    # signs that are drawn, though they are called format characters
    drawn = set(
        map(chr, (*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD, *range(0x13430, 0x13440)))
    )
    unseen = {mark for mark in map(chr, range(0x110000)) if unicodedata.category(mark) in seen}
    assert unseen - hidden - drawn == {"\t", "\n"}


def test_many_blocks_are_assembled_quickly():
    """A nonce is looked for in what could be one, and not in every block anew."""
    blocks = [b"diff --git a/%d b/%d\n+%s\n" % (n, n, b"0123456789abcdef" * 2) for n in range(4_000)]
    shown = assemble(blocks, max_diff_bytes=10_000_000)
    assert len(shown.marks) == 4_002


def test_digests_are_of_exactly_what_is_shown():
    """Q9"""
    shown = assemble(BLOCKS)
    assert shown.sha256 == hashlib.sha256(shown.text).hexdigest()
    assert shown.instructions_sha256 == hashlib.sha256(prompt.INSTRUCTIONS).hexdigest()
    assert assemble(BLOCKS) == shown, "the same in, the same out"
    other = assemble(BLOCKS, nonces=nonces(6, "other"))
    assert other.sha256 != shown.sha256
    assert other.instructions_sha256 == shown.instructions_sha256
    assert assemble(BLOCKS, instructions=b"Look hard.\n").instructions_sha256 != shown.instructions_sha256


def test_over_the_cap_nothing_is_shown():
    """Q8"""
    size = sum(map(len, BLOCKS))
    assert assemble(BLOCKS, max_diff_bytes=size).diff_bytes == size
    with pytest.raises(Refused, match="no part of it was shown") as refused:
        assemble(BLOCKS, max_diff_bytes=size - 1)
    assert (refused.value.signal, refused.value.received_bytes) == ("diff-over-cap", size)
    for nothing in ([], [b""], [b"a", b""]):
        with pytest.raises(Refused) as refused:
            assemble(nothing)
        assert refused.value.signal == "empty"
    with pytest.raises(Refused, match="byte 4") as refused:
        assemble(BLOCKS, instructions=b"caf \xff")
    assert refused.value.signal == "wrong-type"


@pytest.mark.parametrize("planted", ["{0}", "[mark 2-{0}]", "x{0}y"])
def test_a_nonce_in_the_diff_is_none(planted):
    """Q2: what a diff holds cannot be a mark, in capitals or not, in the diff or in the instructions."""
    made = nonces(3)
    for text in (planted.format(made[1]), planted.format(made[1].upper())):
        with pytest.raises(marks.NonceInText):
            assemble([text.encode()], nonces=made)
        with pytest.raises(marks.NonceInText):
            assemble([b"a"], nonces=made, instructions=text.encode())
        shown = assemble([text.encode()], nonces=nonces(3, "fresh"))
        assert not {made[1], planted.format(made[1])} & set(shown.marks)


def test_a_nonce_that_an_escape_makes_is_seen():
    """Q2: it is the text that is looked at, and not only the bytes it was made of."""
    made = ["\\u001b"[2:] + "0" * 28, *nonces(2)]
    with pytest.raises(marks.NonceInText):
        assemble([b"\x1b" + b"0" * 28], nonces=made)


@pytest.mark.parametrize(
    "given_",
    [nonces(2), nonces(4), ["a"] * 3, [*nonces(2), "A" * 32], [*nonces(2), "a" * 31], [nonces(1)[0]] * 3],
)
def test_nonces_that_are_none(given_):
    """Q1"""
    with pytest.raises(ValueError, match="nonce"):
        assemble([b"a"], nonces=given_)


def test_without_marks_none_are_asked_for():
    shown = assemble(BLOCKS, nonces=None)
    assert shown.marks == ()
    assert b"mark " not in shown.text.partition(b"block 1")[2]


def made(echoed):
    return verdict.Verdict("pass", HERE, "gate-1", [], echoed)


def test_marks_are_echoed_all_and_in_order():
    """Q3"""
    asked = assemble(BLOCKS).marks
    marks.verify(made(list(asked)), asked, 10)
    for echoed, says in (
        (None, "none of the 6"),
        ([], "6 of 6"),
        (list(asked[:-1]), "1 of 6"),
        (list(asked[1:]), "1 of 6"),
        ([*asked[:2], *asked[3:]], "1 of 6"),
        ([asked[1], asked[0], *asked[2:]], "order"),
        (list(asked[::-1]), "order"),
        ([*asked, "7-x"], "nobody asked"),
        ([*asked, asked[-1]], "nobody asked"),
        ([mark.upper() for mark in asked], "6 of 6"),
        ([f"{mark} " for mark in asked], "6 of 6"),
    ):
        with pytest.raises(Refused, match=says) as refused:
            marks.verify(made(echoed), asked, 10)
        assert (refused.value.signal, refused.value.received_bytes) == ("marks", 10)


def test_input_tokens_that_cannot_have_held_it():
    """Q10"""
    shown = assemble([b"+the quick brown fox jumps over the lazy dog\n" * 100])
    least = shown.least_input_tokens
    assert 4_500 // 8 <= least <= 5_000 // 8
    assert prompt.check_input_tokens(shown, None, 1) == "input-tokens:none"
    assert prompt.check_input_tokens(shown, least, 1) == f"input-tokens:{least}"
    for counted in (0, 1, least - 1):
        with pytest.raises(Refused, match="input tokens") as refused:
            prompt.check_input_tokens(shown, counted, 7)
        assert (refused.value.signal, refused.value.received_bytes) == ("input-cut", 7)


def test_long_runs_count_for_little():
    """Q10: one token may be a line of a hundred equal signs."""
    assert prompt.least_tokens(b"=" * 8_000) == 0
    assert prompt.least_tokens(b" " * 100 + b"x=1\n" + b" " * 100) == (4 + 4 + 4) // 8
    assert prompt.least_tokens(bytes(range(256))) == 32


# --- input that was cut on its way to the model


def seen_in(text):
    """The marks that a model would echo that was shown this much."""
    return re.findall(r"\[mark ([0-9]+-[0-9a-f]+)\]", text.decode("utf-8", "replace"))


def echoes_all(shown, text):
    try:
        marks.verify(made(seen_in(text)), shown.marks, 0)
    except Refused:
        return False
    return True


def test_a_model_that_did_not_see_the_end_of_the_prompt_cannot_echo_it():
    shown = assemble(BLOCKS)
    assert echoes_all(shown, shown.text)
    last = len(shown.text) - 1  # the line end after the last mark says nothing
    assert [at for at in range(last) if echoes_all(shown, shown.text[:at])] == []


def test_a_model_that_lost_a_block_with_its_mark_cannot_echo_it():
    """The beginning dropped, as servers with a short context do, or any part of the middle that holds a mark."""
    shown = assemble(BLOCKS)
    lines = [marks.line(mark).encode() for mark in shown.marks]
    first = shown.text.index(lines[0])
    assert [at for at in range(first + 1, len(shown.text)) if echoes_all(shown, shown.text[at + 6 :])] == []
    for line in lines:
        at = shown.text.index(line)
        for more in (0, 1, 20, 60):
            assert not echoes_all(shown, shown.text[: at - more] + shown.text[at + len(line) + more :])


def test_what_marks_cannot_show():
    """Said plainly in the page: a loss inside a block, or of the instructions alone, leaves every mark in its place."""
    shown = assemble(BLOCKS)
    assert echoes_all(shown, shown.text.replace(b"+one", b""))
    assert echoes_all(shown, shown.text[50:])
