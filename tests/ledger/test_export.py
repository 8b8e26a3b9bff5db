"""Exports and backups of the book: what is in them, what becomes of cut and changed ones, and what stands after."""

import hashlib
import os
import sqlite3
import tracemalloc
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.ledger.plans import BODY, NOW, ROADS, a_refusal, book_with, open_book, raw
from tests.ledger.test_patches import merged

from endmark.core import strictjson
from endmark.core.refusal import CannotTry, Refused
from endmark.core.states import State
from endmark.ledger import backup, export, verify
from endmark.ledger.backup import back_up
from endmark.ledger.entry import stamp
from endmark.ledger.patch_book import PatchBook

STAND = sorted(set(ROADS) - {State.RECEIVED})


def filled(path):
    """A book with an attempt in every state, one with bytes that are no text, and a merged decision."""
    with open_book(path) as ledger:
        for state in STAND:
            book_with(ledger, state, target="shop")
        ledger.record(
            a_refusal(received_bytes=4, body_sha256=hashlib.sha256(b"\xff\x00\n{").hexdigest()),
            NOW,
            body=b"\xff\x00\n{",
        )
        merged(PatchBook(ledger))
        ledger.checkpoint(NOW)
    return path


def exported(path, **limits):
    """(the lines, what was told of progress)."""
    told = []
    with open_book(path) as ledger, ledger.store.audited() as source:
        how = {"bodies": True, "since": None, "until": None} | limits
        header = export.Header(
            format=export.FORMAT, endmark="x", at=stamp(NOW), ledger="here", gapless=source.gapless, **how
        )
        found = list(export.lines(source, header, lambda done, total: told.append((done, total))))
    return found, told


def audited(lines):
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as book:
        header, trailer = export.load(lines, book)
        return verify.audit(export.LoadedSource(book, header)), trailer


def test_an_export_is_the_whole_book_and_its_audit_is_the_books(path):
    """On both engines."""
    filled(path)
    lines, told = exported(path)
    report, trailer = audited(lines)
    with open_book(path) as ledger:
        assert report == ledger.verify()
        kept = [row[0] for row in ledger.store.ask("SELECT body FROM bodies")]
    rows = [strictjson.loads(line) for line in lines[1:-1]]
    assert sorted(bytes.fromhex(row["body"]) for row in rows if row["table"] == "bodies") == sorted(map(bytes, kept))
    assert BODY in map(bytes, kept)
    assert sum(trailer.rows.values()) == len(rows)
    assert trailer.sha256 == hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    assert told[-1] == (len(rows), len(rows))
    assert not any(row["table"] == "tokens" for row in rows)


@pytest.mark.parametrize(
    "limits", [{"bodies": False}, {"since": stamp(NOW)}, {"until": stamp(NOW + timedelta(days=1))}]
)
def test_a_part_is_audited_as_a_part(path, limits):
    filled(path)
    report, _ = audited(exported(path, **limits)[0])
    assert report.problems == ()
    assert (report.attempts, report.decisions, report.reviews) == (len(STAND) + 1, 1, 2)


def test_times_choose_what_came_then(path):
    with open_book(path) as ledger:
        for days in range(3):
            ledger.record(a_refusal(), NOW + timedelta(days=days), body=None)
    since, until = stamp(NOW + timedelta(days=1)), stamp(NOW + timedelta(days=2))
    for limits, number in (({"since": since}, 2), ({"until": since}, 1), ({"since": since, "until": until}, 1)):
        report, trailer = audited(exported(path, **limits)[0])
        assert (report.problems, report.attempts, trailer.rows["events"]) == ((), number, 2 * number)


def test_no_cut_export_is_taken(tmp_path):
    whole = b"".join(exported(filled(tmp_path / "l.db"), bodies=False)[0])
    step = max(1, len(whole) // 400)
    for size in (*range(0, len(whole), step), *range(len(whole) - 40, len(whole))):
        with pytest.raises(Refused) as refused:
            audited(whole[:size].splitlines(keepends=True))
        assert refused.value.received_bytes <= size


def test_no_flipped_bit_is_taken(tmp_path):
    whole = b"".join(exported(filled(tmp_path / "l.db"), bodies=False)[0])
    for place in (*range(0, len(whole), max(1, len(whole) // 300)), *range(len(whole) - 250, len(whole))):
        other = whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :]
        with pytest.raises(Refused):
            audited(other.splitlines(keepends=True))
    for more in (b"\n", b"{}\n", whole):
        with pytest.raises(Refused):
            audited((whole + more).splitlines(keepends=True))


def test_an_export_of_a_book_that_was_changed_is_not_sound(tmp_path):
    """Its digest is right, for it was exported so; the chains tell."""
    filled(tmp_path / "l.db")
    with closing(raw(tmp_path / "l.db")) as stranger:
        stranger.execute("DROP TRIGGER identity_stays")
        stranger.execute("DROP TRIGGER changes_have_their_event")
        stranger.execute("UPDATE attempts SET submitter = 'mallory' WHERE n = 2")
    report, _ = audited(exported(tmp_path / "l.db")[0])
    assert "mallory" in report.problems[0]


def test_memory_does_not_grow_with_the_book(tmp_path):
    peaks = []
    for number in (100, 1000):
        path = tmp_path / f"{number}.db"
        with open_book(path) as ledger, ledger.batch(lambda: NOW, durable=False):
            for _ in range(number):
                ledger.record(a_refusal(), NOW, body=None)
        with open_book(path) as ledger, ledger.store.audited() as source:
            header = export.Header(
                format=export.FORMAT, endmark="x", at="", ledger="", gapless=True, bodies=True, since=None, until=None
            )
            export.columns("events")
            tracemalloc.start()
            try:
                for _ in export.lines(source, header, lambda _done, _total: None):
                    pass
                peaks.append(tracemalloc.get_traced_memory()[1])
            finally:
                tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + 100_000


# --- backups


def test_a_backup_is_the_book_as_it_was(tmp_path):
    filled(tmp_path / "l.db")
    told = []
    done = back_up(tmp_path / "l.db", tmp_path / "copy.db", lambda *how: told.append(how))
    assert done.report.ok
    assert done.size == (tmp_path / "copy.db").stat().st_size
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    assert told
    assert sorted(name for name in os.listdir(tmp_path) if "copy" in name) == ["copy.db"]
    with open_book(tmp_path / "l.db") as ledger, open_book(tmp_path / "copy.db") as copy:
        assert copy.page(100) == ledger.page(100)
        assert copy.verify() == ledger.verify()
        book_with(copy, State.APPLIED, job_id="after")  # it goes on as a ledger
        assert copy.verify().ok


def test_a_backup_of_a_moment_while_another_writes(tmp_path, monkeypatch):
    filled(tmp_path / "l.db")
    monkeypatch.setattr(backup, "_PAGES", 1)
    with open_book(tmp_path / "l.db") as ledger:
        before = ledger.page(100)
        done = back_up(tmp_path / "l.db", tmp_path / "copy.db", lambda *_: book_with(ledger, State.STAGED))
        assert len(ledger.page(1000)) > len(before)
    assert done.report.attempts == len(before)


def _taken(folder):
    (folder / "copy.db").write_bytes(b"mine")


def _dangling(folder):
    (folder / "copy.db").symlink_to(folder / "nowhere")


def _changed(folder):
    with closing(raw(folder / "l.db")) as stranger:
        stranger.execute("DROP TRIGGER attempts_stay")


def _no_folder(folder):
    return folder / "none" / "copy.db"


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (_taken, "is there already"),
        (_dangling, "is there already"),
        (_changed, "the trigger attempts_stay is missing"),
        (_no_folder, "cannot be written"),
    ],
)
def test_what_cannot_be_backed_up_leaves_nothing(tmp_path, spoil, why):
    filled(tmp_path / "l.db")
    to = spoil(tmp_path) or tmp_path / "copy.db"
    before = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path) if (tmp_path / name).is_file()}
    with pytest.raises(CannotTry, match=why):
        back_up(tmp_path / "l.db", to)
    after = {name: (tmp_path / name).read_bytes() for name in os.listdir(tmp_path) if (tmp_path / name).is_file()}
    assert {n: r for n, r in after.items() if "-" not in n} == {n: r for n, r in before.items() if "-" not in n}


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    filled(tmp_path / "l.db")

    def full(_path: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(backup, "_flush", full)
    with pytest.raises(CannotTry, match="No space left"):
        back_up(tmp_path / "l.db", tmp_path / "copy.db")
    assert not [name for name in os.listdir(tmp_path) if "copy" in name]
