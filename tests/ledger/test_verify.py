"""The audit finds whatever a person with the file in hand changed, and names the row."""

import sqlite3
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ledger.plans import AT, NOW, ROADS, book_with, dump, failure_of, open_book, raw, write_event

from endmark.core.states import State
from endmark.ledger import schema, verify
from endmark.ledger.chain import ZERO, event_hash
from endmark.ledger.entry import COLUMNS
from endmark.ledger.sqlite_store import rules_of

STATES = [state for state in ROADS if state is not State.RECEIVED]


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """An attempt in every state three times over, a checkpoint after each, and a tail that no checkpoint covers."""
    path = tmp_path_factory.mktemp("filled") / "ledger.db"
    with open_book(path) as ledger:
        for turn in range(3):
            for state in STATES:
                book_with(ledger, state, target="orders", job_id=f"{state}-{turn}")
            ledger.checkpoint(NOW)
        book_with(ledger, State.PARTIAL)
        book_with(ledger, State.APPLIED)
    return path.read_bytes()


@pytest.fixture
def path(tmp_path, filled):
    path = tmp_path / "ledger.db"
    path.write_bytes(filled)
    return path


def audit(path):
    with open_book(path) as ledger:
        return ledger.verify()


def tamper(path, *statements, rules=False):
    """Change the book with the triggers out of the way; they are back afterwards, as an attacker would leave it."""
    with closing(raw(path)) as connection:
        triggers = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'trigger'").fetchall()
        connection.execute("PRAGMA ignore_check_constraints=ON")
        if not rules:
            for name, _ in triggers:
                connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            if callable(statement):
                statement(connection)
            else:
                connection.execute(statement)
        if not rules:
            for _, sql in triggers:
                connection.execute(sql)


def test_a_whole_book(path):
    before = dump(path)
    calls = []
    with open_book(path) as ledger:
        report = ledger.verify(lambda done, total: calls.append((done, total)))
    assert report.ok
    assert report.problems == ()
    assert (report.attempts, report.checkpoints) == (3 * len(STATES) + 2, 3)
    assert calls[-1] == (report.attempts + 2 * report.events,) * 2
    assert dump(path) == before


def test_an_empty_book(tmp_path):
    report = audit(tmp_path / "ledger.db")
    assert (report.ok, report.attempts, report.events, report.checkpoint) == (True, 0, 0, None)


# Of the 41 attempts the last two, and their events from id 133 to id 142, lie behind the last checkpoint.
NAMED = {
    "an event's data": (
        """UPDATE events SET data = '{"set":{}}' WHERE id = 3""",
        ["(row 2), event 1 (id 3): its hash does not match"],
    ),
    "an event's time": (
        "UPDATE events SET at = '2026' WHERE id = 4",
        ["(row 2), event 2 (id 4): its hash does not match"],
    ),
    "an event's name": ("UPDATE events SET event = 'noted' WHERE id = 4", ["event 2 (id 4)"]),
    "an event's hash": (
        "UPDATE events SET hash = zeroblob(32) WHERE id = 3",
        ["(row 2), event 1 (id 3): its hash", "(row 2), event 2 (id 4): its hash", "checkpoint 1 does not match"],
    ),
    "an event is gone": (
        "DELETE FROM events WHERE id = 4",
        ["event 4 is missing", "attempt att_", "(row 2): events is 2, its events say 1"],
    ),
    "a first event is gone": (
        "DELETE FROM events WHERE id = 3",
        ["event 3 is missing", "(row 2), event 2 (id 4): event 1 was expected, it is missing"],
    ),
    "two events have changed places": (
        (
            "UPDATE events SET id = -1 WHERE id = 3",
            "UPDATE events SET id = 3 WHERE id = 4",
            "UPDATE events SET id = 4 WHERE id = -1",
        ),
        ["(row 2), event 2 (id 3): it stands before event 1 in the book", "checkpoint 1 does not match"],
    ),
    "two events have changed seq": (
        (
            "UPDATE events SET seq = -1 WHERE id = 3",
            "UPDATE events SET seq = 1 WHERE id = 4",
            "UPDATE events SET seq = 2 WHERE id = 3",
        ),
        ["(row 2), event 1 (id 4): its hash", "(row 2), event 2 (id 3): its hash"],
    ),
    "an event went to another attempt": (
        "UPDATE events SET attempt = 1, seq = 3 WHERE id = 4",
        ["(row 1), event 3 (id 4): its hash", "(row 2): events is 2, its events say 1"],
    ),
    "a state": (
        "UPDATE attempts SET state = 'applied' WHERE n = 5",
        ["(row 5): state is 'applied', its events say 'staged'"],
    ),
    "a digest": (
        "UPDATE attempts SET sha256 = replace(sha256, substr(sha256, 1, 1), 'x') WHERE n = 5",
        ["(row 5): sha256 is 'x"],
    ),
    "a count": ("UPDATE attempts SET stmt_count = 4 WHERE n = 5", ["(row 5): stmt_count is 4, its events say 3"]),
    "a count of bytes": ("UPDATE attempts SET received_bytes = 9 WHERE n = 1", ["(row 1): received_bytes is 9"]),
    "an owner": ("UPDATE attempts SET owner = 0 WHERE n = 5", ["(row 5): owner is 0, its events say 1"]),
    "a type": ("UPDATE attempts SET approver = 1.0 WHERE n = 5", ["(row 5): approver is '1.0', its events say None"]),
    "the name of an attempt": (
        "UPDATE attempts SET attempt_id = 'att_x' WHERE n = 5",
        ["attempt att_x (row 5), event 1"],
    ),
    "the head of a chain": ("UPDATE attempts SET head = zeroblob(32) WHERE n = 5", ["(row 5): head is 00000"]),
    "an attempt is gone": (
        "DELETE FROM attempts WHERE n = 5",
        ["attempt row 5 is missing", "attempt row 5 is missing, 2 of its events are still there"],
    ),
    "an attempt and its events are gone": (
        (
            "DELETE FROM attempts WHERE n = 5",
            "DELETE FROM events WHERE attempt = 5",
            "DELETE FROM bodies WHERE attempt = 5",
        ),
        ["attempt row 5 is missing", "events 9 to 10 are missing", "checkpoint 1 does not match"],
    ),
    "the events of an attempt are gone": (
        "DELETE FROM events WHERE attempt = 5",
        ["(row 5): all its events are missing", "events 9 to 10 are missing"],
    ),
    "the tail is gone": (
        (
            "DELETE FROM events WHERE attempt >= 40",
            "DELETE FROM attempts WHERE n >= 40",
            "DELETE FROM bodies WHERE attempt >= 40",
        ),
        ["attempt rows 40 to 41 are missing", "events 133 to 142 are missing"],
    ),
    "the last event is gone and the row fits": (
        (
            "DELETE FROM events WHERE id = (SELECT max(id) FROM events)",
            """UPDATE attempts SET state = 'applying', events = events - 1,
            head = (SELECT hash FROM events WHERE id = 141) WHERE n = 41""",
        ),
        ["event 142 is missing"],
    ),
    "the tail is gone and the numbering fits": (
        (
            "DELETE FROM events WHERE attempt >= 39",
            "DELETE FROM attempts WHERE n >= 39",
            "DELETE FROM bodies WHERE attempt >= 39",
            "UPDATE sqlite_sequence SET seq = (SELECT max(n) FROM attempts) WHERE name = 'attempts'",
            "UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM events) WHERE name = 'events'",
        ),
        ["events 127 to 132 are missing", "checkpoint 3 does not match"],
    ),
    "the numbering": (
        "UPDATE sqlite_sequence SET seq = 3 WHERE name = 'attempts'",
        ["the numbering of attempts was changed: 3 is the last, 41 is there"],
    ),
    "no numbering": ("DELETE FROM sqlite_sequence", ["the numbering of events was changed: 0 is the last"]),
    "a numbering that is no number": (
        "UPDATE sqlite_sequence SET seq = 'x'",
        ["the numbering of checkpoints was changed: 'x'"],
    ),
    "a checkpoint's hash": (
        "UPDATE checkpoints SET hash = zeroblob(32) WHERE n = 2",
        ["checkpoint 2 does not match", "checkpoint 3 does not match"],
    ),
    "a checkpoint's time": ("UPDATE checkpoints SET at = '2026' WHERE n = 2", ["checkpoint 2 does not match"]),
    "a checkpoint's end": (
        "UPDATE checkpoints SET last_event = last_event + 1 WHERE n = 2",
        ["checkpoint 2 does not match", "checkpoint 3 was changed: it covers events"],
    ),
    "a checkpoint's kind": ("UPDATE checkpoints SET last_event = 'x' WHERE n = 2", ["checkpoint 2 was changed"]),
    "a checkpoint is gone": ("DELETE FROM checkpoints WHERE n = 2", ["checkpoint 2 is missing"]),
    "the last checkpoint is gone": ("DELETE FROM checkpoints WHERE n = 3", ["checkpoint 3 is missing"]),
    "bytes": ("UPDATE bodies SET body = x'00' WHERE attempt = 5", ["(row 5): its kept bytes were changed"]),
    "bytes that are text": ("UPDATE bodies SET body = 'x' WHERE attempt = 5", ["(row 5): its kept bytes were changed"]),
    "bytes are gone": ("DELETE FROM bodies WHERE attempt = 5", ["(row 5): its kept bytes are missing"]),
    "bytes of nobody": ("INSERT INTO bodies VALUES (77, x'00')", ["attempt row 77 is missing, its kept bytes"]),
    "an event of nobody": ("UPDATE events SET attempt = 'x' WHERE id = 3", ["event 3 belongs to no attempt"]),
    "an event beyond the last attempt": (
        "UPDATE events SET attempt = 99 WHERE id = 3",
        ["attempt row 99 is missing, 1 of its events are still there"],
    ),
    "text that is no text": ("UPDATE events SET event = x'ff' WHERE id = 3", ["event 1 (id 3)"]),
    "text that is no UTF-8": ("UPDATE events SET at = CAST(x'ff' AS TEXT) WHERE id = 3", ["event 1 (id 3)"]),
    "data that is no JSON": ("UPDATE events SET data = '{' WHERE id = 3", ["event 1 (id 3): its data cannot be read"]),
    "data that is a list": ("""UPDATE events SET data = '{"set":[]}' WHERE id = 3""", ["event 1 (id 3): its hash"]),
}


@pytest.mark.parametrize("change", NAMED)
def test_a_change_is_found_and_named(path, change):
    statements, expected = NAMED[change]
    tamper(path, *([statements] if isinstance(statements, str) else statements))
    report = audit(path)
    assert not report.ok
    for sentence in expected:
        assert any(sentence in problem for problem in report.problems), report.problems
    assert report.problem_count == len(report.problems) <= 12, report.problems


RULES = {
    "a trigger is gone": ("DROP TRIGGER events_stay", "the trigger events_stay is missing"),
    "an index is gone": ("DROP INDEX one_owner_a_job", "the index one_owner_a_job is missing"),
    "something was added": ("CREATE TABLE mine (x)", "the table mine is not ours"),
    "a table was changed": ("ALTER TABLE bodies ADD COLUMN x", "the table bodies was changed"),
}


@pytest.mark.parametrize("change", RULES)
def test_a_changed_rule_is_found(path, change):
    statement, expected = RULES[change]
    tamper(path, statement, rules=True)
    assert audit(path).problems == (expected,)


def test_statistics_are_not_a_change(path):
    tamper(path, "ANALYZE", rules=True)
    assert audit(path).ok


# --- somebody who knows the layout


def forge(*events, row=None):
    """Append events with good hashes to row 41, and make the row fit the last of them."""

    def write(connection):
        (attempt_id,) = connection.execute("SELECT attempt_id FROM attempts WHERE n = 41").fetchone()
        for event in events:
            _, seq, digest = write_event(connection, attempt_id, *event)
            connection.execute("UPDATE attempts SET events = ?, head = ? WHERE n = 41", (seq, digest))
        for column, value in (row or {}).items():
            connection.execute(f"UPDATE attempts SET {column} = ? WHERE n = 41", (value,))

    return write


@pytest.mark.parametrize(
    ("events", "row", "expected"),
    [
        ([("moved", "applied", "failed")], {"state": "failed"}, "moved applied > failed is not legal after applied"),
        ([("moved", "staged", "declined")], {"state": "declined"}, "is not legal after applied"),
        ([("noted", "applied", "failed")], {"state": "failed"}, "is not legal after applied"),
        ([("received", None, "received")], {"state": "received"}, "is not legal after applied"),
        ([("noted", None, None, '{"set":{"detail":"x"}}')], {"detail": "x"}, "is not legal after applied"),
        ([("noted", None, None, "[]")], {}, "its data cannot be read"),
        ([("noted", None, None, '{"set":{"nonsense":1}}')], {}, "its data cannot be read"),
        ([("noted", None, None, '{"set":{"owner":"x"}}')], {}, "its data cannot be read"),
        ([("noted", None, None, '{"a":1,"a":2}')], {}, "its data cannot be read"),
        ([("noted", None, None)], {"detail": "x"}, "detail is 'x', its events say ''"),
    ],
)
def test_a_forged_event_is_found(path, events, row, expected):
    tamper(path, forge(*events, row=row))
    (problem,) = audit(path).problems
    assert expected in problem
    assert "(row 41)" in problem


def test_an_attempt_that_never_left_received_is_found(path):

    def write(connection):
        first = "SELECT attempt_id, data FROM events JOIN attempts ON attempt = n WHERE n = 41 AND seq = 1"
        attempt_id, data = connection.execute(first).fetchone()
        head = event_hash(ZERO, attempt_id, 1, AT, "received", None, "received", data.encode())
        connection.execute("DELETE FROM events WHERE attempt = 41 AND seq > 1")
        connection.execute("UPDATE attempts SET state = 'received', events = 1, head = ? WHERE n = 41", (head,))
        connection.execute("UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM events) WHERE name = 'events'")

    tamper(path, write)
    (problem,) = audit(path).problems
    assert "(row 41)" in problem
    assert "nothing stays received" in problem


def test_a_chain_made_anew_breaks_its_checkpoint(path):
    """Row and hashes fit each other: only the order fixed since then tells."""

    def write(connection):
        rows = connection.execute(
            "SELECT id, attempt_id, seq, at, event, from_state, to_state, data FROM events JOIN attempts "
            "ON attempt = n WHERE n = 5 ORDER BY seq"
        ).fetchall()
        head = ZERO
        for number, attempt_id, seq, at, event, before, after, data in rows:
            forged = data.replace('"stmt_count":3', '"stmt_count":4')
            head = event_hash(head, attempt_id, seq, at, event, before, after, forged.encode())
            connection.execute("UPDATE events SET data = ?, hash = ? WHERE id = ?", (forged, head, number))
        connection.execute("UPDATE attempts SET stmt_count = 4, head = ? WHERE n = 5", (head,))

    tamper(path, write)
    (problem,) = audit(path).problems
    assert problem.startswith("checkpoint 1 does not match: it or one of the events 1 to ")


# --- anything at all


VALUES = st.one_of(
    st.none(),
    st.integers(-3, 300),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=40),
    st.text(max_size=40),
    st.sampled_from([*State, "moved", "received", "{}", '{"set":{}}', bytes(32)]).map(
        lambda v: v if isinstance(v, bytes) else str(v)
    ),
)
CELLS = [
    *(("attempts", column) for column in [*COLUMNS, "n", "events", "head"]),
    *(("events", name) for name in ("id", "attempt", "seq", "hash", "at", "event", "from_state", "to_state", "data")),
    *(("checkpoints", name) for name in ("n", "first_event", "last_event", "at", "hash")),
    *(("bodies", name) for name in ("attempt", "body")),
    ("sqlite_sequence", "seq"),
]


@given(st.data())
@settings(max_examples=settings().max_examples // 2)
def test_any_change_of_any_cell_is_found(tmp_path_factory, filled, data):
    path = tmp_path_factory.mktemp("any") / "ledger.db"
    path.write_bytes(filled)
    table, column = data.draw(st.sampled_from(CELLS))
    value = data.draw(VALUES)
    pick = data.draw(st.integers(0, 9_999))
    changed = []

    def write(connection):
        rows = [row for (row,) in connection.execute(f"SELECT rowid FROM {table} ORDER BY rowid")]
        row = rows[pick % len(rows)]
        show = f"SELECT {column}, typeof({column}) FROM {table}"
        before = connection.execute(f"{show} ORDER BY rowid").fetchall()
        try:
            connection.execute(f"UPDATE {table} SET {column} = ? WHERE rowid = ?", (value, row))
        except sqlite3.Error:
            return  # a UNIQUE or NOT NULL stood in the way
        changed.append(connection.execute(f"{show} ORDER BY rowid").fetchall() != before)

    tamper(path, write)
    report = audit(path)
    assert report.ok is (changed != [True]), (table, column, value, report.problems)
    assert report.problem_count >= len(report.problems)


@given(st.data())
@settings(max_examples=settings().max_examples // 2)
def test_damaged_pages_never_surprise(tmp_path_factory, filled, data):
    """Whatever the disk does to the file: it opens or it cannot be tried, and the audit ends with a report."""
    path = tmp_path_factory.mktemp("any") / "ledger.db"
    broken = bytearray(filled)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(broken) - 1))
        size = data.draw(st.sampled_from([1, 16, 4096]))
        broken[start : start + size] = data.draw(st.binary(min_size=1, max_size=1)) * len(broken[start : start + size])
    path.write_bytes(broken[: data.draw(st.sampled_from([len(broken), len(broken) // 2, 4096, 600]))])

    def use():
        with open_book(path) as ledger:
            ledger.verify()
            for state in State:
                ledger.in_state(state)
            for entry in ledger.page(1000):
                ledger.events(entry.attempt_id)
                ledger.body(entry.attempt_id)
            book_with(ledger, State.APPLIED)

    failure = failure_of(use)
    assert failure is None or "nothing was changed" in failure.detail


def test_a_damaged_page_that_no_question_touches_is_found(path):
    with closing(raw(path)) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'one_owner_a_job'").fetchone()
    broken = bytearray(path.read_bytes())
    broken[(page - 1) * 4096 : page * 4096] = bytes(4096)
    path.write_bytes(broken)
    assert any(problem.startswith("the file is damaged: ") for problem in audit(path).problems)


def test_many_problems_are_counted_not_kept(path, monkeypatch):
    monkeypatch.setattr(verify, "LISTED", 5)
    tamper(path, "UPDATE attempts SET detail = 'x'")
    report = audit(path)
    assert (len(report.problems), report.problem_count) == (5, 41)


def test_writers_go_on_meanwhile(path):
    """The audit sees one moment; what comes during it is neither missing nor too much."""
    with open_book(path) as ledger, open_book(path) as other:
        calls = []

        def write(*progress):
            calls.append(progress)
            book_with(other, State.APPLIED)

        original = verify._STEP
        verify._STEP = 10
        try:
            report = ledger.verify(write)
        finally:
            verify._STEP = original
        assert len(calls) > 10
        assert report.problems == ()
        assert (report.attempts, ledger.verify().attempts) == (41, 41 + len(calls))


def test_the_rules_made_are_the_rules_found(path):
    with closing(raw(path)) as connection:
        steps = [step for _, statements in schema.MIGRATIONS for step in statements]
        made = sum(step.startswith("CREATE") for step in steps)
        assert len(rules_of(connection)) == made
