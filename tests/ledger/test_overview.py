"""What people ask of a full book: counts that triggers keep, names that begin so, and the first version brought up."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from tests.ledger.plans import NOW, ROADS, a_refusal, book_with, open_book, raw
from tests.ledger.test_patches import DIFF, NEW, merged, passed
from tests.support import ledgers

from endmark.core.states import Decision, State
from endmark.ledger import schema
from endmark.ledger.book import Ledger
from endmark.ledger.entry import COLUMNS, Entry
from endmark.ledger.overview import attempts_named, counts, decisions_named, oldest, oldest_decisions
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.postgres import schema as postgres_schema

FIRST = Path(__file__).resolve().parent.parent / "vectors" / "ledger" / "version-1.sql"
STAND = sorted(set(ROADS) - {State.RECEIVED})


@pytest.fixture
def ledger(path):
    with open_book(path) as ledger:
        yield ledger
        assert ledger.verify().problems == ()


def counted(ledger, kind="attempt"):
    return {(row.about, row.state): row.number for row in counts(ledger) if row.kind == kind}


def test_an_empty_book(ledger):
    assert counts(ledger) == []
    assert attempts_named(ledger, "", 10) == []
    assert decisions_named(ledger, "", 10) == []


def test_every_attempt_is_counted_where_it_stands(ledger):
    for state in STAND:
        for target in ("shop", "orders", "orders"):
            book_with(ledger, state, target=target)
    ledger.record(a_refusal(), NOW, body=None)
    told = {(target, state.value): 1 + (target == "orders") for target in ("orders", "shop") for state in STAND}
    assert counted(ledger) == told | {("", "truncated"): 1}
    ledger.checkpoint(NOW)  # folds them, where they are many lines
    assert counted(ledger) == told | {("", "truncated"): 1}


def test_a_target_that_is_known_later_is_counted_there(ledger):
    entry = book_with(ledger, State.STAGED)
    assert counted(ledger) == {("", "staged"): 1}
    ledger.move(entry.attempt_id, State.STAGED, State.APPROVED, NOW, target="shop")
    assert counted(ledger) == {("shop", "approved"): 1}


def test_decisions_are_counted_by_branch(ledger):
    book = PatchBook(ledger)
    merged(book)
    assert counted(ledger, "decision") == {("refs/heads/main", "merged"): 1}
    passed(book)
    assert counted(ledger, "decision") == {("refs/heads/main", "merged"): 1, ("refs/heads/main", "pass"): 1}


def test_a_wrong_count_is_found(path):
    with open_book(path) as ledger:
        book_with(ledger, State.STAGED, target="shop")
        with closing(raw(path)) if isinstance(path, Path) else ledgers.stranger(path) as stranger:
            stranger.execute("UPDATE counts SET number = 7")
        assert ledger.verify().problems == ("1 attempts for shop are staged, 7 are counted",)


def test_the_pages_of_a_target_are_the_pages_of_all(ledger):
    for number in range(40):
        book_with(ledger, STAND[number % len(STAND)], target="ab"[number % 3 == 0])
    for target in "ab":
        every = [entry for entry in ledger.page(100) if entry.target == target]
        seen: list[Entry] = []
        before = None
        while found := ledger.page(7, before=before, target=target):
            assert len(found) == min(7, len(every) - len(seen))
            seen, before = seen + found, found[-1].attempt_id
        assert seen == every
    assert ledger.page(7, before="att_unknown", target="a") == []


def test_every_attempt_that_named_a_job_is_found(ledger):
    owner = book_with(ledger, State.APPLIED, job_id="billing-1")
    other = book_with(ledger, State.STAGED, job_id="billing-10")
    cut = book_with(ledger, State.TRUNCATED, job_id="billing-1", owner=False)
    book_with(ledger, State.STAGED, job_id="shipping-1")
    names = [entry.attempt_id for entry in attempts_named(ledger, "billing-1", 10)]
    assert sorted(names) == sorted([owner.attempt_id, other.attempt_id, cut.attempt_id])
    assert len(attempts_named(ledger, "billing-1", 2)) == 2
    assert attempts_named(ledger, owner.attempt_id, 10) == [owner]
    assert attempts_named(ledger, "billing_", 10) == attempts_named(ledger, "%", 10) == []


def test_a_decision_is_found_by_its_id_or_its_diff(ledger):
    done = merged(PatchBook(ledger))
    assert decisions_named(ledger, done.decision_id[:8], 10) == [done]
    assert decisions_named(ledger, DIFF[:12], 10) == [done]
    assert decisions_named(ledger, "zzz", 10) == []


def test_the_oldest_come_first_and_no_more_than_asked_for(ledger):
    entries = [book_with(ledger, State.STAGED, target="shop") for _ in range(3)]
    book_with(ledger, State.STAGED, target="other"), book_with(ledger, State.FAILED, target="shop")
    assert oldest(ledger, State.STAGED, "shop", 10) == entries
    assert oldest(ledger, State.STAGED, "shop", 2) == entries[:2]
    assert oldest(ledger, State.APPLIED, "shop", 2) == []
    found = [passed(PatchBook(ledger)) for _ in range(2)]
    assert oldest_decisions(ledger, Decision.PASS, 10) == found
    assert oldest_decisions(ledger, Decision.PASS, 1) == found[:1]
    assert oldest_decisions(ledger, Decision.FAIL, 1) == []


@pytest.mark.parametrize("name", ["ärger-1", "z\u0301", "\U0001f600-1", "a%b_c", "'; --"])
def test_names_in_any_script(ledger, name):
    entry = book_with(ledger, State.STAGED, job_id=name)
    for begins in (name[:1], name):
        assert attempts_named(ledger, begins, 5) == [entry]


def test_no_question_reads_the_book_through(ledger):
    """On SQLite, which says how it would answer."""
    if not isinstance(ledger.place, Path):
        return
    asked: list[str] = []
    ledger.store.connection.set_trace_callback(asked.append)
    counts(ledger), attempts_named(ledger, "b", 5), decisions_named(ledger, "b", 5), ledger.page(5, target="shop")
    ledger.store.connection.set_trace_callback(None)
    for sql in asked:
        for row in ledger.store.connection.execute(f"EXPLAIN QUERY PLAN {sql}"):
            assert not row[3].startswith(("SCAN attempts", "SCAN decisions")), (sql, row[3])


# --- the first version


def test_the_first_version_is_brought_up(tmp_path):
    path = tmp_path / "old.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript(FIRST.read_text())
        connection.execute("PRAGMA journal_mode=WAL")
        before = connection.execute(f"SELECT {', '.join(COLUMNS)} FROM attempts ORDER BY n").fetchall()
    with Ledger.open(path, create=False) as ledger:
        assert ledger.verify().problems == ()
        assert ledger.store.connection.execute("PRAGMA user_version").fetchone() == (schema.MIGRATIONS[-1][0],)
        assert ledger.store.ask(f"SELECT {', '.join(COLUMNS)} FROM attempts ORDER BY n") == before
        assert {key[1] for key in counted(ledger)} == {state.value for state in STAND}
        assert set(counted(ledger).values()) == {1}
        assert counted(ledger, "decision") == {("refs/heads/main", "merged"): 1}
        assert [entry.state for entry in attempts_named(ledger, "old-applied", 9)] == [State.APPLIED]
        book_with(ledger, State.APPLIED, job_id="new-1")
        assert ledger.verify().problems == ()


def test_the_first_version_is_brought_up_on_a_server(url, monkeypatch):
    place = f"{url}?schema=first"
    monkeypatch.setattr(postgres_schema, "MIGRATIONS", postgres_schema.MIGRATIONS[:1])
    with Ledger.open(place, create=True) as ledger:
        for state in STAND:
            book_with(ledger, state, target="shop")
        merged(PatchBook(ledger))
        before = ledger.page(100)
    monkeypatch.undo()
    with Ledger.open(place, create=False) as ledger:
        assert ledger.verify().problems == ()
        assert ledger.page(100) == before
        assert counted(ledger) == {("shop", state.value): 1 for state in STAND}
        assert counted(ledger, "decision") == {("refs/heads/main", "merged"): 1}


def test_pages_of_the_decisions_of_some_places(path):
    """Of a repository, a branch, both, any of several, and of none."""
    main, onward = "refs/heads/main", "refs/heads/next"
    wanted = [("a", main), ("a", onward), ("b", main)]
    with open_book(path) as ledger:
        book = PatchBook(ledger)
        for repository, branch in wanted:
            book.open(msgspec.structs.replace(NEW, repository=repository, ref=branch), NOW)

        def found(places, **more):
            return [(one.repository, one.ref) for one in book.page(10, places=places, **more)][::-1]

        assert found(None) == found([(None, None)]) == wanted
        assert found([]) == []
        assert found([("a", None)]) == wanted[:2]
        assert found([(None, main)]) == [wanted[0], wanted[2]]
        assert found([("b", main), ("a", onward)], state=Decision.PENDING) == wanted[1:]
        assert found([("b", onward)]) == found([("a", None)], state=Decision.PASS) == []


def test_no_page_of_some_places_reads_every_decision(tmp_path):
    with open_book(tmp_path / "asked.db") as ledger:
        book = PatchBook(ledger)
        before = book.open(NEW, NOW).decision_id
        asked: list[str] = []
        ledger.store.connection.set_trace_callback(asked.append)
        for place in ((NEW.repository, NEW.ref), (NEW.repository, None), (None, NEW.ref)):
            for state in (None, Decision.PENDING):
                book.page(10, places=[place], state=state)
                book.page(10, before, places=[place, ("other", None)], state=state)
        book.on_head(NEW.repository, NEW.ref, NEW.head)
        book.merged_by("0" * 40)
        ledger.store.connection.set_trace_callback(None)
        assert len(asked) == 14
        for sql in asked:
            steps = [row[3] for row in ledger.store.connection.execute(f"EXPLAIN QUERY PLAN {sql}")]
            assert not any(step.startswith("SCAN decisions") for step in steps), (sql, steps)
            assert not any("decisions_by_state" in step for step in steps), (sql, steps)
            if "UNION ALL" in sql or "AS part0" in sql:
                assert all("TEMP B-TREE" not in step for step in steps[1:]), (sql, steps)
