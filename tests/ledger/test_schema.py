"""The rules of the SQL itself, tried with plain sqlite3: whoever goes around the code obeys them too."""

import hashlib
import sqlite3
from contextlib import closing

import pytest
from tests.ledger.plans import AT, BODY, DIGEST, NOW, ROADS, a_plan, a_refusal, book_with, open_book, raw, write_event

from endmark.core.refusal import Signal
from endmark.core.states import FINISHED, MOVES, State
from endmark.ledger import schema

INSERT = (
    "INSERT {} INTO attempts (n, attempt_id, job_id, owner, kind, state, signal, received_bytes, body_sha256, sha256, "
    "stmt_count, evidence, detail, received_at, changed_at, events, head) "
    "VALUES (:n, :attempt_id, :job_id, :owner, :kind, :state, :signal, :received_bytes, :body_sha256, :sha256, "
    ":stmt_count, '', '', :at, :at, :events, zeroblob(32))"
)
ROW = {
    "n": None,
    "attempt_id": "att_raw",
    "job_id": "raw",
    "owner": 1,
    "kind": "plan",
    "state": "received",
    "signal": "complete",
    "received_bytes": 3,
    "body_sha256": DIGEST,
    "sha256": DIGEST,
    "stmt_count": 1,
    "at": AT,
    "events": 1,
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(path):
    with open_book(path) as ledger:
        yield ledger


@pytest.fixture
def stranger(ledger, path):
    with closing(raw(path)) as connection:
        yield connection


def insert(connection, how="", **values):
    return connection.execute(INSERT.format(how), ROW | values).lastrowid


def received(connection, attempt_id="att_raw", **values):
    """An attempt left in the state `received`, which only a stranger can do."""
    insert(connection, attempt_id=attempt_id, job_id=attempt_id, events=0 + 1, **values)
    connection.execute(
        "INSERT INTO events (attempt, seq, hash, at, event, to_state, data) "
        "SELECT n, 1, zeroblob(32), ?, 'received', 'received', '{}' FROM attempts WHERE attempt_id = ?",
        (AT, attempt_id),
    )
    return attempt_id


def move(connection, attempt_id, before, after):
    """Everything right but, perhaps, the move itself."""
    n, seq, digest = write_event(connection, attempt_id, "moved", before, after)
    connection.execute(
        "UPDATE attempts SET state = ?, changed_at = ?, events = ?, head = ? WHERE n = ?", (after, AT, seq, digest, n)
    )


def standing(connection, attempt_id):
    return connection.execute("SELECT state FROM attempts WHERE attempt_id = ?", (attempt_id,)).fetchone()[0]


@pytest.mark.parametrize("before", State)
def test_every_move_that_is_not_in_the_table_is_refused(ledger, stranger, before):
    for after in State:
        if before is State.RECEIVED:
            attempt_id = received(stranger, f"att_{after}")
        else:
            attempt_id = book_with(ledger, before).attempt_id
        if after in MOVES[before]:
            move(stranger, attempt_id, before.value, after.value)
            assert standing(stranger, attempt_id) == after
        else:
            with pytest.raises(sqlite3.IntegrityError, match="not a legal move"):
                move(stranger, attempt_id, before.value, after.value)
            assert standing(stranger, attempt_id) == before


def test_the_trigger_names_every_legal_move(stranger):
    (sql,) = stranger.execute("SELECT sql FROM sqlite_master WHERE name = 'moves_are_legal'").fetchone()
    for before, legal in MOVES.items():
        for after in legal:
            assert f"'{before}>{after}'" in sql
    assert sql.count(">") == sum(map(len, MOVES.values())) + 1  # and the one that joins the two


@pytest.mark.parametrize("word", ["applied ", "APPLIED", "", "staged|applied", "received>staged", "nonsense"])
def test_an_unknown_state_is_refused(ledger, stranger, word):
    attempt_id = book_with(ledger, State.APPLYING).attempt_id
    with pytest.raises(sqlite3.IntegrityError, match="not a legal move"):
        move(stranger, attempt_id, "applying", word)


@pytest.mark.parametrize("word", [None, b"applied", 1])
def test_a_state_that_is_no_text_is_refused(ledger, stranger, word):
    attempt_id = book_with(ledger, State.APPLYING).attempt_id
    n, seq, digest = write_event(stranger, attempt_id, "moved", "applying", "applied")
    with pytest.raises(sqlite3.IntegrityError):
        stranger.execute("UPDATE attempts SET state = ?, events = ?, head = ? WHERE n = ?", (word, seq, digest, n))


@pytest.mark.parametrize("state", sorted(set(ROADS) - {State.RECEIVED}))
def test_facts_change_only_with_a_move(ledger, stranger, state):
    entry = book_with(ledger, state)
    n, seq, digest = write_event(stranger, entry.attempt_id, "noted", None, None)
    for column in set(map(str.strip, schema.FACTS.split(","))) - {"state"}:
        value = "lost" if column == "signal" else "x"
        with pytest.raises(sqlite3.IntegrityError, match="not a legal move"):
            stranger.execute(
                f"UPDATE attempts SET {column} = ?, events = ?, head = ? WHERE n = ?", (value, seq, digest, n)
            )
    assert ledger.get(entry.attempt_id) == entry


def test_every_finished_state_was_tried():
    assert set(ROADS) > FINISHED


def test_a_move_without_its_event_is_refused(ledger, stranger):
    entry = book_with(ledger, State.STAGED)
    for sql in (
        "UPDATE attempts SET state = 'approved' WHERE attempt_id = ?",
        "UPDATE attempts SET state = 'approved', events = 3 WHERE attempt_id = ?",
        "UPDATE attempts SET state = 'approved', events = 3, head = zeroblob(32) WHERE attempt_id = ?",
        "UPDATE attempts SET state = 'approved', events = 2 WHERE attempt_id = ?",
        "UPDATE OR REPLACE attempts SET state = 'approved' WHERE attempt_id = ?",
        "UPDATE OR IGNORE attempts SET state = 'approved' WHERE attempt_id = ?",
        "UPDATE attempts SET events = events + 1 WHERE attempt_id = ?",
        "UPDATE attempts SET events = NULL WHERE attempt_id = ?",
        "UPDATE attempts SET head = zeroblob(32) WHERE attempt_id = ?",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="every change of an attempt has its event"):
            stranger.execute(sql, (entry.attempt_id,))


def test_a_move_with_the_event_of_another_is_refused(ledger, stranger):
    entry = book_with(ledger, State.STAGED)
    n, seq, digest = write_event(stranger, entry.attempt_id, "moved", "staged", "declined")
    for state, head in (("approved", digest), ("declined", bytes(32)), ("declined", digest[::-1])):
        with pytest.raises(sqlite3.IntegrityError, match="every change of an attempt has its event"):
            stranger.execute("UPDATE attempts SET state = ?, events = ?, head = ? WHERE n = ?", (state, seq, head, n))
    stranger.execute("UPDATE attempts SET state = 'declined', events = ?, head = ? WHERE n = ?", (seq, digest, n))


def test_no_event_is_passed_over(ledger, stranger):
    entry = book_with(ledger, State.STAGED)
    n, seq, _ = write_event(stranger, entry.attempt_id, "noted", None, None)
    digest = bytes(range(32))
    stranger.execute(
        "INSERT INTO events (attempt, seq, hash, at, event, from_state, to_state, data) "
        "VALUES (?, ?, ?, '', 'moved', 'staged', 'declined', '{}')",
        (n, seq + 1, digest),
    )
    with pytest.raises(sqlite3.IntegrityError, match="every change of an attempt has its event"):
        stranger.execute(
            "UPDATE attempts SET state = 'declined', events = ?, head = ? WHERE n = ?", (seq + 1, digest, n)
        )


@pytest.mark.parametrize("state", [State.STAGED, State.APPLIED, State.TRUNCATED])
def test_identity_never_changes(ledger, stranger, state):
    entry = book_with(ledger, state)
    n, seq, digest = write_event(stranger, entry.attempt_id, "noted", None, None)
    change = "UPDATE attempts SET {} = ?, events = ?, head = ? WHERE n = ?"
    for column in set(map(str.strip, schema.IDENTITY.split(","))) - {"n"}:
        with pytest.raises(sqlite3.IntegrityError, match="what identifies an attempt never changes"):
            stranger.execute(change.format(column), ("12345", seq, digest, n))
    for alias in ("n", "rowid", "oid", "_rowid_"):
        with pytest.raises(sqlite3.IntegrityError, match="every change of an attempt has its event"):
            stranger.execute(change.format(alias), (12345, seq, digest, n))


def test_every_column_is_identity_or_fact_or_chain(stranger):
    columns = {row[1] for row in stranger.execute("PRAGMA table_info(attempts)")}
    assert columns == set(f"{schema.IDENTITY}, {schema.FACTS}, events, head".split(", "))


def test_a_target_is_set_once(ledger, stranger):
    entry = book_with(ledger, State.STAGED, target="orders")
    n, seq, digest = write_event(stranger, entry.attempt_id, "moved", "staged", "approved")
    for target in ("other", None):
        with pytest.raises(sqlite3.IntegrityError, match="a target never changes"):
            stranger.execute(
                "UPDATE attempts SET state = 'approved', target = ?, events = ?, head = ? WHERE n = ?",
                (target, seq, digest, n),
            )
    stranger.execute(
        "UPDATE attempts SET state = 'approved', target = 'orders', events = ?, head = ? WHERE n = ?", (seq, digest, n)
    )


def test_an_unknown_signal_is_refused(ledger, stranger):
    for signal in ("nonsense", "", None, b"complete"):
        with pytest.raises(sqlite3.IntegrityError):
            insert(stranger, signal=signal)
    entry = book_with(ledger, State.APPLYING)
    n, seq, digest = write_event(stranger, entry.attempt_id, "moved", "applying", "failed")
    for signal in ("nonsense", None):
        with pytest.raises(sqlite3.IntegrityError, match="signal"):
            stranger.execute(
                "UPDATE attempts SET state = 'failed', signal = ?, events = ?, head = ? WHERE n = ?",
                (signal, seq, digest, n),
            )


@pytest.mark.parametrize("signal", Signal)
def test_every_signal_can_be_recorded(ledger, signal):
    entry, _ = ledger.record(a_refusal(signal=signal), NOW, body=None)
    assert ledger.get(entry.attempt_id).signal is signal


@pytest.mark.parametrize("state", sorted(set(State) - {State.RECEIVED}))
def test_an_attempt_begins_as_received(stranger, state):
    for how in ("", "OR REPLACE", "OR IGNORE"):
        with pytest.raises(sqlite3.IntegrityError, match="begins as received"):
            insert(stranger, how, state=state.value)


@pytest.mark.parametrize("state", [state for state in State if State.STAGED in ROADS[state]])
def test_what_is_staged_or_later_was_proven(stranger, state):
    assert state not in MOVES[State.RECEIVED] or state is State.STAGED
    attempt_id = received(stranger, sha256=None)
    with pytest.raises(sqlite3.IntegrityError, match="proven"):
        move(stranger, attempt_id, "received", "staged")
    attempt_id = received(stranger, "att_uncounted", stmt_count=None)
    with pytest.raises(sqlite3.IntegrityError, match="proven"):
        move(stranger, attempt_id, "received", "staged")


@pytest.mark.parametrize(
    "strange",
    [
        {"attempt_id": None},
        {"attempt_id": "x"},
        {"attempt_id": "att_"},
        {"job_id": ""},
        {"owner": 2},
        {"owner": None},
        {"kind": "other"},
        {"received_bytes": -1},
        {"received_bytes": None},
        {"received_bytes": "many"},
        {"received_bytes": 1.5},
        {"body_sha256": None},
        {"body_sha256": DIGEST[1:]},
        {"sha256": "abc"},
        {"stmt_count": 0},
        {"stmt_count": "three"},
        {"events": 0},
        {"events": 2},
        {"n": 77},
    ],
)
def test_a_strange_attempt_is_refused(stranger, strange):
    for how in ("", "OR REPLACE"):
        with pytest.raises(sqlite3.IntegrityError):
            insert(stranger, how, **strange)
    assert stranger.execute("SELECT count(*) FROM attempts").fetchone() == (0,)


def test_a_job_has_one_owner(ledger, stranger):
    entry = book_with(ledger, State.STAGED, job_id="one")
    for how in ("", "OR REPLACE", "OR IGNORE"):
        with pytest.raises(sqlite3.IntegrityError):
            insert(stranger, how, job_id="one")
    insert(stranger, job_id="one", owner=0)
    assert ledger.by_job("one") == entry


def test_one_owner_is_also_an_index(stranger):
    stranger.execute("DROP TRIGGER attempts_are_not_overwritten")
    insert(stranger)
    with pytest.raises(sqlite3.IntegrityError, match="UNIQUE"):
        insert(stranger, attempt_id="att_second")


def test_nothing_is_overwritten(ledger, stranger):
    entry = book_with(ledger, State.STAGED)
    for how in ("OR REPLACE", "OR IGNORE", "OR FAIL", ""):
        with pytest.raises(sqlite3.IntegrityError):
            insert(stranger, how, n=1)
        with pytest.raises(sqlite3.IntegrityError):
            insert(stranger, how, attempt_id=entry.attempt_id)
        with pytest.raises(sqlite3.IntegrityError):
            stranger.execute(f"INSERT {how} INTO bodies VALUES (1, x'00')")
        for number, seq in ((1, 3), (None, 1), (None, 2), (None, 4), (77, 3)):
            with pytest.raises(sqlite3.IntegrityError):
                stranger.execute(
                    f"INSERT {how} INTO events (id, attempt, seq, hash, at, event, data) "
                    "VALUES (?, 1, ?, zeroblob(32), '', 'noted', '{}')",
                    (number, seq),
                )
    assert ledger.verify().ok


def test_an_event_belongs_to_an_attempt(stranger):
    with pytest.raises(sqlite3.IntegrityError, match="continues the chain"):
        stranger.execute(
            "INSERT INTO events (attempt, seq, hash, at, event, data) VALUES (9, 1, zeroblob(32), '', 'noted', '{}')"
        )


def test_bytes_are_kept_with_the_attempt_or_never(ledger, stranger):
    entry, _ = ledger.record(a_plan(), NOW, body=None)
    assert ledger.body(entry.attempt_id) is None
    for n in (1, 2):  # recorded without; not there at all
        with pytest.raises(sqlite3.IntegrityError, match="while an attempt is recorded"):
            stranger.execute("INSERT OR REPLACE INTO bodies VALUES (?, x'00')", (n,))


@pytest.mark.parametrize("table", ["attempts", "events", "checkpoints", "bodies"])
def test_nothing_is_deleted(ledger, stranger, table):
    book_with(ledger, State.STAGED)
    ledger.checkpoint(NOW)
    assert stranger.execute(f"SELECT count(*) FROM {table}").fetchone()[0] >= 1
    with pytest.raises(sqlite3.IntegrityError, match="never deleted"):
        stranger.execute(f"DELETE FROM {table}")


@pytest.mark.parametrize(
    ("table", "columns"),
    [
        ("events", "id attempt seq hash at event from_state to_state data rowid"),
        ("checkpoints", "n first_event last_event at hash rowid"),
        ("bodies", "attempt body rowid"),
    ],
)
def test_what_is_written_never_changes(ledger, stranger, table, columns):
    book_with(ledger, State.STAGED)
    ledger.checkpoint(NOW)
    for column in columns.split():
        with pytest.raises(sqlite3.IntegrityError, match="never change"):
            stranger.execute(f"UPDATE {table} SET {column} = {column}")


def test_a_checkpoint_continues_the_one_before(ledger, stranger):
    book_with(ledger, State.STAGED)
    ledger.checkpoint(NOW)
    book_with(ledger, State.STAGED)
    add = "INSERT OR REPLACE INTO checkpoints (n, first_event, last_event, at, hash) VALUES (?, ?, ?, '', zeroblob(32))"
    for values in ((1, 3, 4), (None, 1, 4), (None, 4, 4), (None, 3, 5), (None, 3, 2)):
        with pytest.raises(sqlite3.IntegrityError):
            stranger.execute(add, values)
    stranger.execute(add, (None, 3, 4))


def test_few_indexes(stranger):
    """Each one is paid for by every submission."""
    tables = "'attempts', 'events', 'bodies'"
    on = f"SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name IN ({tables}) ORDER BY 1"
    assert [row[0] for row in stranger.execute(on)] == [
        "attempts_by_job",  # holds none of an owner's
        "attempts_by_state",
        "attempts_by_target",
        "events_of_decisions",  # holds none of an attempt's
        "one_owner_a_job",
        "sqlite_autoindex_attempts_1",
        "sqlite_autoindex_events_1",
    ]


def test_questions_go_through_an_index(ledger, stranger):
    asked: list[str] = []
    ledger.store.connection.set_trace_callback(asked.append)
    entry = book_with(ledger, State.STAGED)
    asked.clear()
    ledger.get(entry.attempt_id)
    ledger.by_job("x")
    ledger.body(entry.attempt_id)
    ledger.events(entry.attempt_id)
    ledger.in_state(State.STAGED)
    ledger.in_state(State.APPLYING, "orders")
    ledger.page(10)
    ledger.page(10, before=entry.attempt_id, state=State.FAILED)
    assert len(asked) == 9  # the place of a page, then the page
    for sql in asked:
        plan = [row[3] for row in stranger.execute(f"EXPLAIN QUERY PLAN {sql}")]
        assert not any("TEMP B-TREE" in step for step in plan), plan
        assert all("SEARCH" in step or "SCALAR" in step for step in plan) or sql.endswith("LIMIT 10"), plan


def test_the_schema_of_each_version():
    """One that is out stays as it is. A change, perhaps because MOVES or Signal did, is a new version with its line."""
    assert {n: hashlib.sha256("\n".join(steps).encode()).hexdigest() for n, steps in schema.MIGRATIONS} == {
        1: "0bf0c802f94175a84a9c0fa0829667c66309147cbee492cc111194de168d7dc3",
        2: "d883111b8efdaa81c9d2305176cb5ad286e0e6c9f12434a59878d1e2793934e0",
        3: "1d27fb461323dfec252feb1139dcea0b253d8d4d37754d9a62e5563964cca20c",
        4: "0d4c70c21f6079b3e77b884e65b9205a0c40fd9c949c17d064dc06e80bddec51",
    }


def test_bytes_come_back_as_they_were(ledger):
    entry = book_with(ledger, State.QUARANTINED)
    assert ledger.body(entry.attempt_id) == BODY
