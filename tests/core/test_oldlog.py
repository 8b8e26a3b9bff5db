"""Old logs: which form one has, what stands twice in a line, and the reasons that only some spellings have."""

import pytest

from endmark.core import doubts, oldlog
from endmark.core.oldlog import Fields, Line, Unreadable


def fields(raw, form):
    return next(oldlog.read([Line(1, raw)], form))


@pytest.mark.parametrize(
    ("first", "form"),
    [
        (b' {"a":1}', "json"),
        (b"a=b,c=d", "text"),  # which commas alone would make a CSV
        (b"at,verdict", "csv"),
        (b"words alone", "text"),
    ],
)
def test_the_form_is_told_by_the_first_line(first, form):
    assert oldlog.form_of(first) == form


def test_there_are_three_forms():
    with pytest.raises(ValueError, match="'xml'"):
        next(oldlog.read([Line(1, b"a=1")], "xml"))


@pytest.mark.parametrize(
    ("raw", "form", "twice"),
    [
        (b'{"Verdict":"pass","verdict":"fail"}', "json", ("verdict",)),
        (b'{"Verdict":"pass","verdict":"pass"}', "json", ()),
        (b"verdict=pass Verdict=fail", "text", ("verdict",)),
        (b"verdict=pass Verdict=pass", "text", ()),
    ],
)
def test_a_name_that_has_two_values_is_told(raw, form, twice):
    found = fields(raw, form)
    assert isinstance(found, Fields)
    assert found.twice == twice
    judged = doubts.judge(found)
    assert judged is not None
    assert ("ambiguous" in judged.reasons) == bool(twice)


@pytest.mark.parametrize("byte", [b"\x80", b"\xbf", b"\xff"])
def test_a_row_that_is_no_utf8_is_unreadable(byte):
    found = list(oldlog.read([Line(1, b"a,b\n"), Line(2, b"1," + byte + b"\n")], "csv"))
    assert found == [Unreadable(2, 2, "it is not UTF-8")]


def reasons(**values):
    judged = doubts.judge(Fields(1, {"verdict": "pass"} | values))
    assert judged is not None
    return judged.reasons


@pytest.mark.parametrize(
    ("findings", "blocks"),
    [
        ([], False),
        (["blocking"], False),
        ([{"severity": "advisory"}], False),
        ([{"severity": "advisory"}, {"severity": "Blocking"}], True),
        ("2 blocking", True),
        ("none", False),
        ("unblocking", False),
        (7, False),
    ],
)
def test_a_pass_with_blocking_findings(findings, blocks):
    assert ("blocking-pass" in reasons(findings=findings)) == blocks


@pytest.mark.parametrize(
    ("values", "differs"),
    [
        ({"diff_sha": "d1", "verdict_diff_sha": "d2"}, True),
        ({"diff_sha": "d1", "verdict_diff_sha": "d1"}, False),
        ({"diff_sha": "d1"}, False),
        ({"verdict_diff_sha": "d1"}, False),
    ],
)
def test_a_verdict_on_another_diff(values, differs):
    assert ("other-diff" in reasons(**values)) == differs


@pytest.mark.parametrize(
    ("declared", "received", "found"),
    [
        (512, "512", set()),
        ("512", 511, {"length-mismatch"}),
        (True, 512, {"no-length"}),
        (-512, 512, {"no-length"}),
        (0, 0, {"no-length"}),
        (512, None, set()),
    ],
)
def test_lengths_are_whole_numbers_however_they_are_spelled(declared, received, found):
    told = reasons(expected_bytes=declared, received_bytes=received)
    assert {"no-length", "length-mismatch"} & set(told) == found
