"""The rules that stand in PostgreSQL itself: whoever goes around the code obeys them too, and so does its owner."""

import hashlib
import uuid
from contextlib import contextmanager
from urllib.parse import urlsplit

import psycopg
import pytest
from psycopg import errors
from tests.ledger.plans import AT, BODY, DIGEST, NOW, ROADS, a_plan, a_refusal, book_with
from tests.ledger.test_patches import FAIL, NEW, passed, review
from tests.support import ledgers

from endmark.core.refusal import CannotTry, Signal
from endmark.core.states import MOVES, Decision, State
from endmark.ledger import schema as sqlite_schema
from endmark.ledger.book import Ledger
from endmark.ledger.chain import event_hash
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.postgres import schema, tables

ZEROS = bytes(32)
ROW = {
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
    "evidence": "",
    "detail": "",
    "received_at": AT,
    "changed_at": AT,
    "events": 1,
    "head": ZEROS,
}
REFUSED = (psycopg.IntegrityError, errors.GeneratedAlways, psycopg.DataError)


@pytest.fixture
def ledger(url):
    with Ledger.open(url, create=False) as ledger:
        yield ledger


@pytest.fixture
def stranger(ledger, url):
    with ledgers.stranger(url) as connection:
        yield connection


def insert(connection, **values):
    row = ROW | values
    names, marks = ", ".join(row), ", ".join(["%s"] * len(row))
    return connection.execute(
        f"INSERT INTO attempts ({names}) VALUES ({marks}) RETURNING n", (*row.values(),)
    ).fetchone()[0]


def write_event(connection, attempt_id, event, before, after):
    """Append a well-made event; returns what the row must then say."""
    n, seq, head = connection.execute(
        "SELECT n, events, head FROM attempts WHERE attempt_id = %s", (attempt_id,)
    ).fetchone()
    digest = event_hash(head, attempt_id, seq + 1, AT, event, before, after, b"{}")
    connection.execute(
        "INSERT INTO events (attempt, seq, hash, at, event, from_state, to_state, data) "
        "VALUES (%s, %s, %s, %s, %s, %s, %s, '{}')",
        (n, seq + 1, digest, AT, event, before, after),
    )
    return seq + 1, digest, n


def received(connection, attempt_id, **values):
    """An attempt left in the state `received`, which only a stranger can do."""
    n = insert(connection, attempt_id=attempt_id, job_id=attempt_id, **values)
    connection.execute(
        "INSERT INTO events (attempt, seq, hash, at, event, to_state, data) "
        "VALUES (%s, 1, %s, %s, 'received', 'received', '')",
        (n, ZEROS, AT),
    )
    return attempt_id


@contextmanager
def refused(connection, says=None):
    """What is tried inside is refused, and leaves nothing."""
    with pytest.raises(REFUSED, match=says), connection.transaction():
        yield


def change(connection, columns, values, chain):
    sets = ", ".join(f"{column} = %s" for column in columns)
    connection.execute(f"UPDATE attempts SET {sets}, events = %s, head = %s WHERE n = %s", (*values, *chain))


@pytest.mark.parametrize("before", State)
def test_every_move_that_is_not_in_the_table_is_refused(ledger, stranger, before):
    for after in State:
        if before is State.RECEIVED:
            attempt_id = received(stranger, f"att_{after}")
        else:
            attempt_id = book_with(ledger, before).attempt_id
        if after in MOVES[before]:
            change(stranger, ["state"], [after], write_event(stranger, attempt_id, "moved", before, after))
        else:
            with refused(stranger, "not a legal move"):
                chain = write_event(stranger, attempt_id, "moved", before, after)
                change(stranger, ["state", "detail"], [after, "x"], chain)


@pytest.mark.parametrize("word", ["applied ", "APPLIED", "", "staged|applied", "nonsense", None])
def test_an_unknown_state_is_refused(ledger, stranger, word):
    attempt_id = book_with(ledger, State.APPLYING).attempt_id
    with refused(stranger):
        change(stranger, ["state"], [word], write_event(stranger, attempt_id, "moved", "applying", word))


@pytest.mark.parametrize("state", [State.STAGED, State.APPLIED, State.TRUNCATED])
def test_facts_and_identity_stay(ledger, stranger, state):
    entry = book_with(ledger, state)
    facts = {*sqlite_schema.FACTS.split(", ")} - {"state"}
    for column in sorted(facts | {*sqlite_schema.IDENTITY.split(", ")}):
        number = tables.TABLES["attempts"][column].startswith("bigint")
        value = 12345 if number else "lost" if column == "signal" else "x"
        says = "not a legal move" if column in facts else "never changes|can only be updated to DEFAULT"
        with refused(stranger, says):
            change(stranger, [column], [value], write_event(stranger, entry.attempt_id, "noted", None, None))
    assert ledger.get(entry.attempt_id) == entry


def test_a_move_without_its_event_is_refused(ledger, stranger):
    entry = book_with(ledger, State.STAGED)
    for sets in (
        "state = 'approved'",
        "state = 'approved', events = 3",
        "state = 'approved', events = 3, head = decode(repeat('00', 32), 'hex')",
        "events = events + 1",
        "head = decode(repeat('00', 32), 'hex')",
    ):
        with refused(stranger, "every change of an attempt has its event"):
            stranger.execute(f"UPDATE attempts SET {sets} WHERE attempt_id = %s", (entry.attempt_id,))
    with refused(stranger, "every change of an attempt has its event"):  # the event of another move
        chain = write_event(stranger, entry.attempt_id, "moved", "staged", "declined")
        change(stranger, ["state"], ["approved"], chain)
    with refused(stranger, "every change of an attempt has its event"):  # an event passed over
        n = write_event(stranger, entry.attempt_id, "noted", None, None)[2]
        stranger.execute(
            "INSERT INTO events (attempt, seq, hash, at, event, from_state, to_state, data) "
            "VALUES (%s, 4, %s, '', 'moved', 'staged', 'declined', '{}')",
            (n, ZEROS),
        )
        change(stranger, ["state"], ["declined"], (4, ZEROS, n))


def test_a_target_is_set_once_and_signals_are_known(ledger, stranger):
    entry = book_with(ledger, State.STAGED, target="orders")
    for target in ("other", None):
        with refused(stranger, "a target never changes"):
            chain = write_event(stranger, entry.attempt_id, "moved", "staged", "approved")
            change(stranger, ["state", "target"], ["approved", target], chain)
    for signal in ("nonsense", "", None):
        with refused(stranger):
            insert(stranger, signal=signal)
        with refused(stranger):
            chain = write_event(stranger, entry.attempt_id, "moved", "staged", "approved")
            change(stranger, ["state", "signal"], ["approved", signal], chain)


def test_every_signal_can_be_recorded(ledger):
    for signal in Signal:
        entry, _ = ledger.record(a_refusal(signal=signal), NOW, body=None)
        assert ledger.get(entry.attempt_id).signal is signal


@pytest.mark.parametrize(
    "strange",
    [
        *({"state": state.value} for state in State if state is not State.RECEIVED),
        {"attempt_id": None},
        {"attempt_id": "x"},
        {"attempt_id": "att_"},
        {"job_id": ""},
        {"owner": 2},
        {"owner": None},
        {"kind": "other"},
        {"received_bytes": -1},
        {"received_bytes": None},
        {"body_sha256": None},
        {"body_sha256": DIGEST[1:]},
        {"sha256": "abc"},
        {"stmt_count": 0},
        {"expected_bytes": -1},
        {"events": 0},
        {"events": 2},
        {"head": b""},
        {"n": 77},
    ],
)
def test_a_strange_attempt_is_refused(stranger, strange):
    with refused(stranger):
        insert(stranger, **strange)
    assert stranger.execute("SELECT count(*) FROM attempts").fetchone() == (0,)


@pytest.mark.parametrize("missing", ["sha256", "stmt_count"])
def test_what_is_staged_was_proven(stranger, missing):
    attempt_id = received(stranger, "att_x", **{missing: None})
    with refused(stranger, "proven"):
        change(stranger, ["state"], ["staged"], write_event(stranger, attempt_id, "moved", "received", "staged"))


def test_nothing_is_overwritten(ledger, stranger):
    entry = book_with(ledger, State.STAGED, job_id="one")
    for row in ({"attempt_id": entry.attempt_id}, {"job_id": "one"}):
        with refused(stranger, "duplicate key"):
            insert(stranger, **row)
    insert(stranger, job_id="one", owner=0)
    with refused(stranger, "what identifies an attempt never changes"):
        stranger.execute(
            f"INSERT INTO attempts ({', '.join(ROW)}) VALUES ({', '.join(['%s'] * len(ROW))}) "
            "ON CONFLICT (attempt_id) DO UPDATE SET job_id = 'mine'",
            (*(ROW | {"attempt_id": entry.attempt_id, "job_id": None}).values(),),
        )
    for attempt, seq in ((1, 1), (1, 2), (1, 4), (99, 1), (None, 1)):
        with refused(stranger):
            stranger.execute(
                "INSERT INTO events (attempt, seq, hash, at, event, data) VALUES (%s, %s, %s, '', 'noted', '{}')",
                (attempt, seq, ZEROS),
            )
    for n in (1, 99):  # recorded; not there
        with refused(stranger, "while an attempt is recorded"):
            stranger.execute("INSERT INTO bodies VALUES (%s, '')", (n,))
    assert ledger.by_job("one") == entry


@pytest.mark.parametrize("table", sorted({*ledgers.TABLES} - {"counts"}))  # those are no evidence
def test_nothing_is_taken_away(ledger, stranger, table):
    for sql in (f"DELETE FROM {table}", f"TRUNCATE {table} CASCADE"):
        with refused(stranger, "never deleted"):
            stranger.execute(sql)
    if table in ("events", "checkpoints", "bodies", "answers"):
        with refused(stranger, "never changes"):
            stranger.execute(f"UPDATE {table} SET {'at' if table in ('events', 'checkpoints') else 'body'} = ''")


def test_a_checkpoint_continues_the_one_before(ledger, stranger):
    book_with(ledger, State.STAGED)
    ledger.checkpoint(NOW)
    book_with(ledger, State.STAGED)
    add = "INSERT INTO checkpoints (n, first_event, last_event, at, hash) VALUES (%s, %s, %s, '', %s)"
    for values in (
        (1, 3, 4, ZEROS),
        (2, 1, 4, ZEROS),
        (2, 4, 4, ZEROS),
        (2, 3, 5, ZEROS),
        (3, 3, 4, ZEROS),
        (2, 3, 4, b""),
    ):
        with refused(stranger):
            stranger.execute(add, values)
    stranger.execute(add, (2, 3, 4, ZEROS))


def test_a_path_of_ones_own_bends_no_rule(ledger, url):
    """A session that puts operators of its own before the real ones changes nothing of what the rules find."""
    entry = book_with(ledger, State.STAGED)
    with ledgers.stranger(url) as connection:
        connection.execute("CREATE SCHEMA evil")
        try:
            connection.execute("CREATE FUNCTION evil.yes(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true'")
            connection.execute("CREATE OPERATOR evil.= (FUNCTION = evil.yes, LEFTARG = text, RIGHTARG = text)")
            connection.execute("SET search_path = evil, endmark, pg_catalog")
            with refused(connection, "not a legal move"):
                chain = write_event(connection, entry.attempt_id, "moved", "staged", "applied")
                change(connection, ["state"], ["applied"], chain)
        finally:
            connection.execute("DROP SCHEMA evil CASCADE")


# --- the roles


@pytest.fixture
def gate_url():
    """A book made by an administrator from what `init --print` prints, and the URL of a role that may keep it."""
    role = f"endmark_gate_{uuid.uuid4().hex[:8]}"
    with ledgers.new_database() as url, psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN")
        try:
            admin.execute(schema.script("endmark", role))
            parts = urlsplit(url)
            yield parts._replace(netloc=f"{role}@{parts.netloc.rpartition('@')[2]}").geturl()
        finally:
            admin.execute(f"DROP OWNED BY {role}")
            admin.execute(f"DROP ROLE {role}")


def test_a_gate_keeps_the_book_with_few_rights(gate_url):
    with Ledger.open(gate_url, create=True) as ledger:
        entry = book_with(ledger, State.APPLIED)
        ledger.note(entry.attempt_id, "alarm", NOW, {})
        ledger.record(a_plan(), NOW, body=BODY, durable=False)
        book = PatchBook(ledger)
        done = passed(book)
        book.move(done.decision_id, Decision.PASS, Decision.MERGED, NOW, merged="5" * 40)
        review(book, book.open(NEW, NOW), "sec", FAIL)
        ledger.checkpoint(NOW)
        report = ledger.verify()
        assert (report.problems, report.checkpoints) == ((), 1)
        assert ledger.in_state(State.APPLIED) == [entry]
    with psycopg.connect(gate_url, autocommit=True) as connection:
        connection.execute("SET search_path = endmark")
        for sql in (
            "DELETE FROM attempts",
            "TRUNCATE events",
            "UPDATE events SET data = ''",
            "UPDATE attempts SET job_id = 'mine'",
            "UPDATE decisions SET required = '[]'",
            "UPDATE ledger_version SET version = 2",
            "INSERT INTO events (id, seq, hash, at, event, data) OVERRIDING SYSTEM VALUE VALUES (1, 1, '', '', '', '')",
            "SELECT setval('events_id_seq', 1)",
            "ALTER TABLE attempts DISABLE TRIGGER ALL",
            "DROP TRIGGER rows_stay ON attempts",
            "CREATE TABLE endmark.mine (x int)",
            "CREATE OR REPLACE FUNCTION rows_stay() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "SET session_replication_role = replica",
        ):
            with pytest.raises(errors.InsufficientPrivilege):
                connection.execute(sql)


def test_a_role_without_rights_is_told_what_to_do(gate_url):
    with pytest.raises(CannotTry, match=r"this role may not do that; .* nothing was changed; let an administrator run"):
        Ledger.open(f"{gate_url}?schema=other", create=True)


def test_the_schema_of_each_version():
    """One that is out stays as it is. A change, perhaps because MOVES or Signal did, is a new version with its line."""
    assert {n: hashlib.sha256("\n".join(steps).encode()).hexdigest() for n, steps in schema.MIGRATIONS} == {
        1: "d8697c7cf6ed08220e2a97f0fc82ccd10b56bec7d449e79a955074b4ffe4effa",
        2: "fd46fc828f009d5a44d6abdfde8de40177efeb239b78902235d7bbfd28603aee",
        3: "05bf993f388b06c9f68ce80a988a4f65bfae9a4985a1650afa29205d1f5d3858",
        4: "43ffa9386c366a87a8c9eccb17bdcad126362d6f9b29f91eb3fa0c688d105981",
    }


def test_every_column_is_the_one_sqlite_has():
    assert {*tables.TABLES["attempts"]} == {
        *f"{sqlite_schema.IDENTITY}, {sqlite_schema.FACTS}, events, head".split(", ")
    }
    assert set(ROADS) == set(State)
