"""The audit on PostgreSQL: numbers may have gaps there, so what is gone is found by chains and by checkpoints."""

import pytest
from tests.ledger.plans import NOW, ROADS, a_plan, book_with, checkpoint_of, open_book
from tests.support import ledgers

from endmark.core.refusal import CannotTry
from endmark.core.states import State
from endmark.ledger import verify
from endmark.ledger.book import Ledger
from endmark.ledger.chain import ZERO, event_hash
from endmark.ledger.postgres import schema
from endmark.ledger.postgres.audit import PostgresSource

STATES = [state for state in ROADS if state is not State.RECEIVED]


@pytest.fixture
def filled(url):
    """An attempt in every state, a checkpoint, and two attempts that no checkpoint covers: rows 14 and 15."""
    with open_book(url) as ledger:
        for state in STATES:
            book_with(ledger, state, target="orders", job_id=f"{state}-0")
        ledger.checkpoint(NOW)
        book_with(ledger, State.PARTIAL)
        book_with(ledger, State.APPLIED)
    return url


def audit(url):
    with Ledger.open(url, create=False) as ledger:
        return ledger.verify()


def test_a_whole_book(filled):
    before, calls = ledgers.rows(filled), []
    with Ledger.open(filled, create=False) as ledger:
        report = ledger.verify(lambda done, total: calls.append((done, total)))
    assert (report.problems, report.attempts, report.checkpoints) == ((), len(STATES) + 2, 1)
    assert calls[-1] == (report.attempts + 2 * report.events,) * 2
    assert ledgers.rows(filled) == before


def test_gaps_are_no_loss(url):
    """A rolled back transaction takes its numbers with it; checkpoints know how many events they cover."""
    with Ledger.open(url, create=False) as ledger, ledgers.stranger(url) as other:
        for _ in range(3):
            entry = book_with(ledger, State.STAGED)
            with pytest.raises(CannotTry, match="an event is of one chain, and has a name"):
                ledger.note(entry.attempt_id, "Gone", NOW, {})  # numbered, refused, rolled back
            ledger.record(a_plan(job_id=entry.job_id), NOW, body=None)  # its job has an owner: a number is used up
            ledger.checkpoint(NOW)
        numbers = [row[0] for row in other.execute("SELECT id FROM events ORDER BY id").fetchall()]
        assert numbers == [1, 2, 4, 5, 7, 8]
        assert [row[0] for row in other.execute("SELECT n FROM attempts ORDER BY n").fetchall()] == [1, 3, 5]
        assert (ledger.verify().problems, checkpoint_of(ledger)) == ((), (3, 8))


FORGED = (
    "INSERT INTO events (attempt, seq, hash, at, event, from_state, to_state, data) "
    "SELECT 15, 1 + max(seq), '{hash}', '{at}', 'moved', 'applied', 'failed', '{{}}' FROM events WHERE attempt = 15"
)
HEAD = "(SELECT hash FROM events WHERE attempt = 15 ORDER BY seq DESC LIMIT 1)"
NAMED = {
    "an event's data": (["UPDATE events SET data = '{}' WHERE id = 3"], ["(row 2), event 1 (id 3): its hash"]),
    "an event's time": (["UPDATE events SET at = '2026' WHERE id = 4"], ["(row 2), event 2 (id 4): its hash"]),
    "an event's hash": (
        ["UPDATE events SET hash = '' WHERE id = 3"],
        ["(row 2), event 1 (id 3): its hash", "(row 2), event 2 (id 4): its hash", "checkpoint 1 does not match"],
    ),
    "an event is gone": (
        ["DELETE FROM events WHERE id = 4"],
        ["checkpoint 1 does not match", "(row 2): events is 2, its events say 1"],
    ),
    "a first event is gone": (
        ["DELETE FROM events WHERE id = 3"],
        ["checkpoint 1 does not match", "(row 2), event 2 (id 4): event 1 was expected, it is missing"],
    ),
    "an event went to another attempt": (
        ["UPDATE events SET attempt = 1, seq = 3 WHERE id = 4"],
        ["(row 1), event 3 (id 4): its hash", "(row 2): events is 2, its events say 1"],
    ),
    "a state": (["UPDATE attempts SET state = 'applied' WHERE n = 5"], ["(row 5): state is 'applied', its events say"]),
    "a digest": (["UPDATE attempts SET sha256 = 'x' WHERE n = 5"], ["(row 5): sha256 is 'x'"]),
    "a count": (["UPDATE attempts SET stmt_count = 4 WHERE n = 5"], ["(row 5): stmt_count is 4, its events say 3"]),
    "an owner": (["UPDATE attempts SET owner = 0 WHERE n = 5"], ["(row 5): owner is 0, its events say 1"]),
    "a name": (["UPDATE attempts SET attempt_id = 'att_x' WHERE n = 5"], ["attempt att_x (row 5), event 1"]),
    "a head": (["UPDATE attempts SET head = '' WHERE n = 5"], ["(row 5): head is "]),
    "an attempt is gone": (["DELETE FROM attempts WHERE n = 5"], ["attempt row 5 is missing, 2 of its events"]),
    "an attempt and all of it is gone": (
        [f"DELETE FROM {table} WHERE {column} = 5" for table, column in (("attempts", "n"), ("events", "attempt"))],
        ["checkpoint 1 does not match", "attempt row 5 is missing, its kept bytes are still there"],
    ),
    "the events of an attempt are gone": (
        ["DELETE FROM events WHERE attempt = 15"],
        ["(row 15): all its events are missing"],
    ),
    "a checkpoint's hash": (["UPDATE checkpoints SET hash = ''"], ["checkpoint 1 does not match"]),
    "a checkpoint's end": (["UPDATE checkpoints SET last_event = 3"], ["checkpoint 1 does not match"]),
    "a checkpoint's start": (["UPDATE checkpoints SET first_event = 2"], ["checkpoint 1 was changed"]),
    "a checkpoint's number": (["UPDATE checkpoints SET n = 2"], ["checkpoint 1 is missing"]),
    "bytes": (["UPDATE bodies SET body = '' WHERE attempt = 5"], ["(row 5): its kept bytes were changed"]),
    "bytes are gone": (["DELETE FROM bodies WHERE attempt = 5"], ["(row 5): its kept bytes are missing"]),
    "bytes of nobody": (["INSERT INTO bodies VALUES (77, '')"], ["attempt row 77 is missing, its kept bytes"]),
    "an event of nobody": (
        ["UPDATE events SET attempt = NULL WHERE id = 3"],
        ["event 3 belongs to no attempt and to no decision"],
    ),
    "data that is no JSON": (
        ["UPDATE events SET data = '{' WHERE id = 3"],
        ["event 1 (id 3): its data cannot be read"],
    ),
    "an illegal move, hashed well": (
        [
            FORGED,
            f"UPDATE attempts SET state = 'failed', events = events + 1, head = {HEAD} WHERE n = 15",
        ],
        ["moved applied > failed is not legal after applied"],
    ),
}


@pytest.mark.parametrize("change", NAMED)
def test_a_change_is_found_and_named(filled, change):
    statements, expected = NAMED[change]
    with ledgers.without_rules(filled) as connection:
        attempt_id, seq, head, at = connection.execute(
            "SELECT attempt_id, events, head, changed_at FROM attempts WHERE n = 15"
        ).fetchone()
        digest = event_hash(head, attempt_id, seq + 1, at, "moved", "applied", "failed", b"{}").hex()
        for statement in statements:
            connection.execute(statement.format(hash=f"\\x{digest}", at=at) if "{hash}" in statement else statement)
    report = audit(filled)
    for sentence in expected:
        assert any(sentence in problem for problem in report.problems), report.problems
    assert 1 <= report.problem_count == len(report.problems) <= 12


def test_a_chain_made_anew_breaks_its_checkpoint(filled):
    with ledgers.without_rules(filled) as connection:
        rows = connection.execute(
            "SELECT id, attempt_id, seq, at, event, from_state, to_state, data FROM events JOIN attempts "
            "ON attempt = n WHERE n = 5 ORDER BY seq"
        ).fetchall()
        head = ZERO
        for number, attempt_id, seq, at, event, before, after, data in rows:
            forged = data.replace('"stmt_count":3', '"stmt_count":4')
            head = event_hash(head, attempt_id, seq, at, event, before, after, forged.encode())
            connection.execute("UPDATE events SET data = %s, hash = %s WHERE id = %s", (forged, head, number))
        connection.execute("UPDATE attempts SET stmt_count = 4, head = %s WHERE n = 5", (head,))
    (problem,) = audit(filled).problems
    assert problem.startswith("checkpoint 1 does not match: it or one of the events 1 to ")


WITH_CONDITION = (
    "CREATE OR REPLACE TRIGGER bodies_are_judged BEFORE INSERT ON bodies FOR EACH ROW WHEN (NEW.attempt > 9) "
    "EXECUTE FUNCTION bodies_are_judged()"
)
RULES = {
    "a trigger is off": ("ALTER TABLE events DISABLE TRIGGER events_are_judged", "trigger events_are_judged on events"),
    "a trigger is gone": ("DROP TRIGGER rows_stay ON attempts", "the trigger rows_stay on attempts is missing"),
    "a trigger fires less": (
        "CREATE OR REPLACE TRIGGER rows_stay BEFORE DELETE ON reviews EXECUTE FUNCTION rows_stay()",
        "the trigger rows_stay on reviews was changed",
    ),
    "a trigger has a condition": (
        WITH_CONDITION,
        "the trigger bodies_are_judged on bodies was changed",
    ),
    "a function was changed": (
        "CREATE OR REPLACE FUNCTION answers_are_judged() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "the function answers_are_judged was changed",
    ),
    "a function looks elsewhere": (
        "ALTER FUNCTION rows_stay() SET search_path = public",
        "the function rows_stay was changed",
    ),
    "an index is gone": ("DROP INDEX one_owner_a_job", "the index one_owner_a_job is missing"),
    "an index is another": (
        "DROP INDEX reviews_by_id; CREATE INDEX reviews_by_id ON reviews (review_id)",
        "the index reviews_by_id was changed",
    ),
    "something was added": ("CREATE TABLE mine (x int)", "the table mine is not ours"),
    "a view was added": ("CREATE VIEW shown AS SELECT 1 AS x", "the relation shown is not ours"),
    "a table was changed": ("ALTER TABLE bodies ADD COLUMN x int", "the table bodies was changed"),
    "a column may be empty": ("ALTER TABLE attempts ALTER detail DROP NOT NULL", "the table attempts was changed"),
    "a rule was added": ("CREATE RULE nothing AS ON DELETE TO answers DO INSTEAD NOTHING", "rule nothing on answers"),
}


def test_a_changed_rule_is_found(postgres_book):
    """One book of its own, changed one way after the other; each finding stays while the next comes."""
    place = f"{postgres_book}?schema=changed"
    Ledger.open(place, create=True).close()
    assert audit(place).problems == ()
    seen: set[str] = set()
    for change, (sql, expected) in RULES.items():
        with ledgers.stranger(place) as connection:
            connection.execute(sql)
        problems = set(audit(place).problems)
        assert any(expected in problem for problem in problems - seen), (change, problems - seen)
        seen = problems


def test_the_rules_made_are_the_rules_found(url):
    with Ledger.open(url, create=False) as ledger, ledger.store.audited() as source:
        assert isinstance(source, PostgresSource)
        steps = [step for _, statements in schema.MIGRATIONS for step in statements]
        made = [step for step in steps if step.startswith("CREATE")]
        assert len(source._found()) == len(made) + sum("PRIMARY KEY" in step for step in made)


def test_writers_go_on_meanwhile(filled, monkeypatch):
    monkeypatch.setattr(verify, "_STEP", 10)
    with Ledger.open(filled, create=False) as ledger, Ledger.open(filled, create=False) as other:
        calls = []

        def write(*progress):
            calls.append(progress)
            book_with(other, State.APPLIED)

        report = ledger.verify(write)
        assert len(calls) > 3
        assert (report.problems, report.attempts) == ((), len(STATES) + 2)
        assert ledger.verify().attempts == report.attempts + len(calls)
