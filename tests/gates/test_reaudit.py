"""Old logs read again: every record that proves nothing is listed with its reasons, and nothing is made better."""

import csv
import io
import json
import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from endmark import reaudit
from endmark.core import doubts, oldlog, strictjson
from endmark.core.refusal import CannotTry

SHA = "e" * 64
SOUND = {
    "attempt_id": "r1",
    "at": "2026-07-01T10:00:00Z",
    "diff_sha": "d1",
    "verdict": "pass",
    "source": "strict",
    "expected_bytes": 512,
    "received_bytes": 512,
    "body_sha256": SHA,
    "sentinel": True,
    "blocking": 0,
}


def record(*without, **changes):
    return {key: value for key, value in (SOUND | changes).items() if key not in without}


def as_json(*records):
    return b"".join(json.dumps(one).encode() + b"\n" for one in records)


def as_text(*records):
    def word(value):
        text = str(value).lower() if isinstance(value, bool) else str(value)
        quoted = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{quoted}"' if " " in text or not text else text

    lines = (" ".join(f"{key}={word(value)}" for key, value in one.items()) for one in records)
    return "".join(f"INFO gate: {line}\n" for line in lines).encode()


def as_csv(*records):
    names = list(dict.fromkeys(name for one in records for name in one))
    out = io.StringIO(newline="")
    rows = csv.writer(out)
    rows.writerow(names)
    for one in records:
        rows.writerow(
            [str(one[name]).lower() if name == "sentinel" and name in one else one.get(name, "") for name in names]
        )
    return out.getvalue().encode()


FORMS = {"json": as_json, "text": as_text, "csv": as_csv}
forms = pytest.mark.parametrize("form", FORMS)


def audit(raw, **more):
    return reaudit.audit(io.BytesIO(raw), **more)


def reasons(raw):
    return [item.reasons for item in audit(raw).items]


@forms
def test_what_says_all_that_a_proof_would_have_had(form):
    report = audit(FORMS[form](record(), record(diff_sha="d2", verdict="fail", blocking=2)))
    assert (report.form, report.records, report.listed, report.items) == (form, 2, 0, [])


REASONS = {
    "repaired": [record(source="repaired"), record(source="json-repair"), record(repaired="true"), record(partial="1")],
    "blocking-pass": [record(blocking=1), record(blocking="3")],
    "other-diff": [record(verdict_diff_sha="d9")],
    "unknown-verdict": [
        record(verdict=word) for word in ("PASS", "Pass", "approved", "passed", "not pass", "p\u0430ss", "true", "1")
    ],
    "no-diff": [record("diff_sha")],
    "no-length": [record("expected_bytes"), record(expected_bytes="unknown"), record(expected_bytes=0)],
    "length-mismatch": [record(received_bytes=511)],
    "no-digest": [record("body_sha256")],
    "bad-digest": [record(body_sha256="abc"), record(body_sha256=SHA.upper())],
    "no-end": [record("sentinel")],
    "bad-end": [record(sentinel="false"), record("sentinel", finish_reason="length"), record(sentinel="missing")],
}


@forms
@pytest.mark.parametrize("reason", REASONS)
def test_each_reason_alone(form, reason):
    for one in REASONS[reason]:
        assert reasons(FORMS[form](one)) == [(reason,)], one


def test_reasons_of_what_only_json_can_say():
    for one, reason in (
        (record(findings=[{"severity": "blocking"}], blocking=None), "blocking-pass"),
        (record(verdict=["pass"]), "unknown-verdict"),
        (record(verdict=True), "unknown-verdict"),
        (record(verdict={"verdict": "PASS"}), "unknown-verdict"),
        (record(reply={"verdict": "fail"}), "ambiguous"),
        (record(decision="fail"), "ambiguous"),
        (record(body={"diff_sha": "d2"}), "ambiguous"),
        (record(sentinel=False), "bad-end"),
        (record(repaired=True), "repaired"),
    ):
        assert reasons(as_json(one)) == [(reason,)], one
    assert reasons(as_json(record(repaired=False, partial=None, meta={"verdict": "pass"}))) == []


@forms
def test_two_that_contradict_each_other_are_both_listed(form):
    records = [record(attempt_id="a"), record(diff_sha="d2"), record(attempt_id="b", verdict="fail")]
    items = audit(FORMS[form](*records)).items
    assert [(item.id, item.reasons, item.kind, item.priority) for item in items] == [
        ("a", ("contradicted",), "contradicts", 1),
        ("b", ("contradicted",), "contradicts", 3),
    ]
    assert reasons(FORMS[form](record(), record())) == [], "twice the same is no contradiction"


def test_the_incident():
    """The stream was cut, a brace was put behind it, the patch was merged; nineteen days later a replay said fail."""
    merged = {"ts": "2026-07-01", "diff": "d1", "verdict": "pass", "source": "repaired", "bytes": 1882}
    replay = {"ts": "2026-07-20", "diff": "d1", "verdict": "fail", "source": "strict", "blocking": 2}
    first, second = audit(as_json(merged, replay)).items
    assert first.priority == 1
    assert first.reasons == ("repaired", "contradicted", "no-length", "no-digest", "no-end")
    assert (first.logged_verdict, second.logged_verdict) == ("pass", "fail")


# --- what cannot be read


def test_damaged_lines_are_listed_with_their_numbers():
    whole = as_json(record()).rstrip()
    raw = b"\n".join(
        [whole, whole[:-5], b"words", b"", whole + b"}", b"\xff\xfe", whole, whole.replace(b'"r1"', b"NaN")]
    )
    report = audit(raw + b"\n")
    assert (report.records, report.unreadable, report.others) == (2, 5, 1)
    assert [(item.line, item.kind) for item in report.items] == [(n, "unreadable") for n in (2, 3, 5, 6, 8)]
    assert "ended early" in report.items[0].what_to_do


@given(st.binary(max_size=300), st.sampled_from(oldlog.FORMS))
def test_any_bytes(raw, form):
    try:
        report = audit(raw, form=form)
    except CannotTry:
        return
    assert all(item.what_to_do.isprintable() for item in report.items)


@forms
def test_no_cut_of_a_log_gets_better(form):
    """Cut anywhere, a log never has more records without a reason than the whole; a cut line is never one of them."""
    raw = FORMS[form](record(), record(diff_sha="d2"))
    ends = [at + 1 for at, byte in enumerate(raw) if byte == 10]
    for at in range(len(raw)):
        try:
            report = audit(raw[:at], form=form)
        except CannotTry:
            continue
        whole = sum(end <= at for end in ends) - (form == "csv")
        assert report.records - sum(item.kind != "unreadable" for item in report.items) <= max(0, whole) + (
            form == "json" and raw[at : at + 1] == b"\n"
        )


def test_a_long_line_is_unreadable_and_the_next_is_read():
    long = b'{"verdict":"pass","x":"' + b"x" * oldlog.MOST_LINE + b'"}\n'
    for raw, form in ((long, "json"), (long * 2, "json"), (b"verdict=pass " + long, "text")):
        report = audit(raw + (as_json if form == "json" else as_text)(record()), form=form)
        assert (report.records, report.listed) == (1, report.unreadable)
        assert "over 1,048,576 bytes" in report.items[0].what_to_do
    rows = as_csv(record(), record(diff_sha="d2")).splitlines(True)
    report = audit(rows[0] + rows[1] + b"x" * (oldlog.MOST_LINE + 5) + b"\n" + rows[2])
    assert (report.records, report.unreadable) == (2, 1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"id,verdict\n1,pass,x\n2,pass\n", "3 columns stand where the header has 2"),
        (b'id,verdict\n1,"pass\n2,pass\n', "no CSV"),
        (b'id,verdict\n"1"x,pass\n', "no CSV"),
        (b"id,verdict\n\xff,pass\n", "not UTF-8"),
        (b"verdict,verdict\npass,fail\n", "stands twice"),
    ],
)
def test_csv_that_is_damaged(text, says):
    report = audit(text)
    assert report.form == "csv"
    assert any(says in item.what_to_do for item in report.items if item.kind == "unreadable")


def test_csv_with_quotes_over_lines_and_other_delimiters():
    raw = b'id;verdict;note\n1;PASS;"a\nb;c"\n2;fail;""\n'
    report = audit(raw)
    assert [(item.line, item.id, item.logged_verdict) for item in report.items] == [(2, "1", "PASS"), (4, "2", "fail")]


def test_a_text_line_cut_at_the_end_of_the_log():
    raw = as_text(record()).rstrip()
    assert reasons(raw) == [("cut-line",)]
    assert reasons(raw + b"\n") == []
    assert audit(as_text(record(note="x y")).rstrip()[:-1]).items[0].kind == "unreadable"


@pytest.mark.parametrize("raw", [b"", b"\n\n", b"hello\nworld\n", b'{"event":"start"}\n', b"a=1\n", b"id,name\n1,x\n"])
def test_a_log_without_a_verdict_says_so(raw):
    with pytest.raises(CannotTry, match="no record that names a verdict"):
        audit(raw)


# --- the worklist


HOSTILE = "=cmd()\x1b[2J\u202e,\"'\n"


@forms
def test_the_worklist_is_written_whole_and_safe(form, tmp_path):
    raw = FORMS[form](record(), record("sentinel", diff_sha="=d2\u202e", attempt_id="-1+1"), record(verdict="PASS"))
    report = audit(raw, worklist=tmp_path / "out")
    assert report.worklist == (str(tmp_path / "out.csv"), str(tmp_path / "out.json"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.csv", "out.json"]
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    document = strictjson.loads((tmp_path / "out.json").read_bytes())
    assert [int(row["line"]) for row in rows] == [item["line"] for item in document["items"]]
    assert len(rows) == report.listed == 2
    assert document["log_sha256"] == report.sha256
    assert rows[0]["diff"] == "'=d2\\u202e"
    assert rows[0]["id"] == "'-1+1"
    assert rows[0]["reasons"] == "no-end"
    assert {row["class"] for row in rows} <= {"proves-nothing", "contradicts", "unreadable"}
    for path in tmp_path.iterdir():
        assert path.read_bytes().isascii()


def test_hostile_fields_are_safe_everywhere(tmp_path):
    audit(
        as_json(record(**dict.fromkeys(("attempt_id", "at", "diff_sha", "verdict"), HOSTILE))),
        worklist=tmp_path / "o",
    )
    for path in tmp_path.iterdir():
        raw = path.read_bytes()
        assert raw.isascii()
        assert b"\x1b" not in raw
    (row,) = csv.DictReader((tmp_path / "o.csv").read_text().splitlines())
    assert row["id"].startswith("'=cmd()\\x1b")


def test_no_file_is_overwritten_and_none_is_left(tmp_path):
    raw = as_json(record(verdict="PASS"))
    for name in ("out.csv", "out.json", "out.json.part"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(CannotTry, match="could not be written"):
            audit(raw, worklist=tmp_path / "out")
        assert (tmp_path / name).read_text() == "mine" or name.endswith(".part")
        for path in tmp_path.iterdir():
            path.unlink()
    with pytest.raises(CannotTry, match="could not be written"):
        audit(raw, worklist=tmp_path / "no" / "out")
    audit(as_json(record()), worklist=tmp_path / "out")
    assert list(tmp_path.iterdir()) == [], "nothing to look at, nothing written"


class Changing(io.BytesIO):
    """A log that another process writes to between the two readings."""

    seeks = 0

    def seek(self, at, whence=0):
        self.seeks += 1
        if self.seeks == 4:
            raw = self.getvalue()
            super().seek(0)
            self.write(raw.replace(b"fail", b"pass"))
        return super().seek(at, whence)


def test_a_log_that_changes_meanwhile(tmp_path):
    raw = as_json(record(verdict="fail"), record("sentinel", diff_sha="d2"))
    with pytest.raises(CannotTry, match="changed while it was read"):
        reaudit.audit(Changing(raw), worklist=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


# --- size

GROWN = """
import resource, sys
from endmark import reaudit
with open(sys.argv[1], "rb") as log:
    report = reaudit.audit(log, worklist=None)
print(report.records, report.listed, len(report.items), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def measured(path, count):
    with path.open("wb") as log:
        for n in range(count):
            log.write(as_json(record("sentinel", diff_sha=f"{n:064x}", attempt_id=f"r{n}")))
    done = subprocess.run([sys.executable, "-c", GROWN, str(path)], capture_output=True, text=True, check=True)
    records, listed, shown, peak = map(int, done.stdout.split())
    assert (records, listed, shown) == (count, count, min(count, reaudit.MOST_SHOWN))
    return peak * (1 if sys.platform == "darwin" else 1024)


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_memory_does_not_grow_with_the_log(tmp_path, count):
    assert resource.RLIM_INFINITY  # what is measured here exists
    small, large = measured(tmp_path / "small", 2_000), measured(tmp_path / "large", count)
    assert large - small < 12_000_000, (small, large)


def test_progress_is_told_of_both_readings():
    told = []
    raw = as_json(*(record(diff_sha=str(n)) for n in range(5_000)))
    audit(raw, progress=lambda done, total: told.append((done, total)))
    assert {total for _, total in told} == {len(raw)}
    assert [done for done, _ in told].count(len(raw)) == 2
    assert len(told) > 4


def test_the_page_names_every_reason():
    from pathlib import Path

    page = (Path(__file__).parents[2] / "docs" / "reaudit.md").read_text()
    for reason in doubts.REASONS:
        assert f"| `{reason.word}` | {reason.means} | {reason.do} |" in page
