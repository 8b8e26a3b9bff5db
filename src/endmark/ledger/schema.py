"""The tables of the book and the rules they enforce by themselves.

Every rule is a trigger or a CHECK: a second process, a shell or next year's code obeys it too. What a person with the
file in hand can still do (drop a trigger, then write) is found by `verify`.
"""

from endmark.core.states import MOVES, State
from endmark.ledger import counting, patch_schema, search_schema, token_schema
from endmark.ledger.rules import UNKNOWN_SIGNAL, illegal, rule, words

APPLICATION_ID = int.from_bytes(b"endm", "big")

# Identity: what an attempt is. Written once, when it is recorded.
IDENTITY = (
    "n, attempt_id, job_id, owner, kind, received_bytes, expected_bytes, body_sha256, sha256, stmt_count, level, "
    "submitter, received_at"
)
# Facts: what became of it. Written only together with a move.
FACTS = (
    "state, signal, target, evidence, detail, statements_run, approver, approved_fingerprint, fingerprint_before, "
    "fingerprint_after, backup, statement_rows, changed_at"
)


_ILLEGAL = illegal(MOVES)
_UNPROVEN = words(State.RECEIVED, *(state for state in MOVES[State.RECEIVED] if state is not State.STAGED))

TABLES = (
    f"""\
CREATE TABLE attempts (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    attempt_id TEXT NOT NULL UNIQUE CHECK (attempt_id GLOB 'att_?*'),
    job_id TEXT CHECK (job_id <> ''),
    owner INTEGER NOT NULL CHECK (owner IN (0, 1)),
    kind TEXT NOT NULL CHECK (kind IN ('plan', 'revert')),
    state TEXT NOT NULL CHECK (typeof(state) = 'text'),
    signal TEXT NOT NULL,
    received_bytes INTEGER NOT NULL CHECK (typeof(received_bytes) = 'integer' AND received_bytes >= 0),
    expected_bytes INTEGER CHECK (expected_bytes >= 0),
    body_sha256 TEXT NOT NULL CHECK (length(body_sha256) = 64),
    sha256 TEXT CHECK (length(sha256) = 64),
    stmt_count INTEGER CHECK (stmt_count IS NULL OR (typeof(stmt_count) = 'integer' AND stmt_count > 0)),
    level TEXT,
    submitter TEXT,
    target TEXT,
    evidence TEXT NOT NULL,
    detail TEXT NOT NULL,
    statements_run INTEGER
        CHECK (statements_run IS NULL OR (typeof(statements_run) = 'integer' AND statements_run >= 0)),
    approver TEXT,
    approved_fingerprint TEXT,
    fingerprint_before TEXT,
    fingerprint_after TEXT,
    backup TEXT,
    statement_rows TEXT,
    received_at TEXT NOT NULL,
    changed_at TEXT NOT NULL,
    events INTEGER NOT NULL,
    head BLOB NOT NULL CHECK (typeof(head) = 'blob' AND length(head) = 32),
    CONSTRAINT proven CHECK ((sha256 IS NOT NULL AND stmt_count IS NOT NULL) OR state IN ({_UNPROVEN}))
)""",
    "CREATE UNIQUE INDEX one_owner_a_job ON attempts (job_id) WHERE owner = 1 AND job_id IS NOT NULL",
    # No row stays `received`, so leaving that state out saves an insertion and a deletion for each attempt.
    "CREATE INDEX attempts_by_state ON attempts (state) WHERE state <> 'received'",
    """\
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    attempt INTEGER REFERENCES attempts (n),
    decision INTEGER REFERENCES decisions (n),
    seq INTEGER NOT NULL,
    hash BLOB NOT NULL CHECK (typeof(hash) = 'blob' AND length(hash) = 32),
    at TEXT NOT NULL,
    event TEXT NOT NULL CHECK (event GLOB '[a-z]*'),
    from_state TEXT,
    to_state TEXT,
    data TEXT NOT NULL CHECK (typeof(data) = 'text'),
    UNIQUE (attempt, seq),
    CONSTRAINT of_one CHECK ((attempt IS NULL) <> (decision IS NULL))
)""",
    "CREATE TABLE bodies (attempt INTEGER PRIMARY KEY REFERENCES attempts (n), body BLOB NOT NULL)",
    """\
CREATE TABLE checkpoints (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    first_event INTEGER NOT NULL,
    last_event INTEGER NOT NULL CHECK (last_event >= first_event),
    at TEXT NOT NULL,
    hash BLOB NOT NULL CHECK (typeof(hash) = 'blob' AND length(hash) = 32)
)""",
)


# INSERT OR REPLACE deletes without firing a DELETE trigger; the `overwritten` rules stand in its way. Before an INSERT
# without an explicit number SQLite shows -1 as its NEW.n or NEW.id, hence `> 0`: nothing need be looked up then.
TRIGGERS = (
    rule(
        "attempts_begin_received",
        "an attempt begins as received, with one event and a known signal",
        "BEFORE INSERT ON attempts",
        f"NEW.state IS NOT 'received' OR NEW.events IS NOT 1 OR {UNKNOWN_SIGNAL}",
    ),
    rule(
        "attempts_are_not_overwritten",
        "an attempt is never overwritten, and a job has one owner",
        "BEFORE INSERT ON attempts",
        "NEW.n > 0 AND EXISTS (SELECT 1 FROM attempts WHERE n = NEW.n)\n"
        "    OR EXISTS (SELECT 1 FROM attempts WHERE attempt_id = NEW.attempt_id)\n"
        "    OR NEW.owner AND EXISTS (SELECT 1 FROM attempts WHERE job_id = NEW.job_id AND owner = 1)",
    ),
    rule(
        "attempts_are_numbered",
        "attempts are numbered without a gap",
        "AFTER INSERT ON attempts",
        "NEW.n IS NOT 1 AND NOT EXISTS (SELECT 1 FROM attempts WHERE n = NEW.n - 1)",
    ),
    rule("attempts_stay", "an attempt is never deleted", "BEFORE DELETE ON attempts"),
    rule("identity_stays", "what identifies an attempt never changes", f"BEFORE UPDATE OF {IDENTITY} ON attempts"),
    rule(
        "moves_are_legal",
        "not a legal move; a finished attempt never moves, and facts change only with a move",
        f"BEFORE UPDATE OF {FACTS} ON attempts",
        _ILLEGAL,
    ),
    rule(
        "signals_are_known",
        "not a known signal",
        "BEFORE UPDATE OF signal ON attempts",
        UNKNOWN_SIGNAL,
    ),
    rule(
        "target_stays",
        "a target never changes",
        "BEFORE UPDATE OF target ON attempts",
        "OLD.target IS NOT NULL AND NEW.target IS NOT OLD.target",
    ),
    rule(
        "changes_have_their_event",
        "every change of an attempt has its event",
        "BEFORE UPDATE ON attempts",
        "NEW.n IS NOT OLD.n OR NEW.events IS NOT OLD.events + 1 OR NOT EXISTS (\n"
        "    SELECT 1 FROM events WHERE attempt = NEW.n AND seq = NEW.events AND hash = NEW.head\n"
        "    AND coalesce(from_state, OLD.state) = OLD.state AND coalesce(to_state, OLD.state) = NEW.state)",
    ),
    rule(
        "events_are_not_overwritten",
        "an event continues the chain of its attempt and is never overwritten",
        "BEFORE INSERT ON events",
        "NEW.id > 0 AND EXISTS (SELECT 1 FROM events WHERE id = NEW.id)\n"
        "    OR NEW.attempt IS NOT NULL AND (\n"
        "        NEW.seq = 1 AND NOT EXISTS (SELECT 1 FROM attempts WHERE n = NEW.attempt)\n"
        "        OR NEW.seq IS NOT 1 + coalesce((SELECT max(seq) FROM events WHERE attempt = NEW.attempt), 0))",
    ),
    rule(
        "events_are_numbered",
        "events are numbered without a gap",
        "AFTER INSERT ON events",
        "NEW.id IS NOT 1 AND NOT EXISTS (SELECT 1 FROM events WHERE id = NEW.id - 1)",
    ),
    rule("events_stay", "an event is never deleted", "BEFORE DELETE ON events"),
    rule("events_never_change", "an event never changes", "BEFORE UPDATE ON events"),
    rule(
        "bodies_come_with_the_attempt",
        "bytes are kept while an attempt is recorded, once",
        "BEFORE INSERT ON bodies",
        "EXISTS (SELECT 1 FROM bodies WHERE attempt = NEW.attempt)\n"
        "    OR NOT EXISTS (SELECT 1 FROM attempts WHERE n = NEW.attempt AND state = 'received')",
    ),
    rule("bodies_stay", "kept bytes are never deleted", "BEFORE DELETE ON bodies"),
    rule("bodies_never_change", "kept bytes never change", "BEFORE UPDATE ON bodies"),
    rule(
        "checkpoints_continue",
        "a checkpoint continues the one before",
        "BEFORE INSERT ON checkpoints",
        "EXISTS (SELECT 1 FROM checkpoints WHERE n = NEW.n)\n"
        "    OR NEW.first_event IS NOT 1 + coalesce((SELECT last_event FROM checkpoints ORDER BY n DESC LIMIT 1), 0)\n"
        "    OR NOT EXISTS (SELECT 1 FROM events WHERE id = NEW.last_event)",
    ),
    rule("checkpoints_stay", "a checkpoint is never deleted", "BEFORE DELETE ON checkpoints"),
    rule("checkpoints_never_change", "a checkpoint never changes", "BEFORE UPDATE ON checkpoints"),
)

# Version -> the statements that lead to it from the one before. A file is brought up in one transaction.
# A change of MOVES or Signal changes triggers: it needs a version that drops and creates those again.
MIGRATIONS: list[tuple[int, tuple[str, ...]]] = [
    (1, (*TABLES, *patch_schema.TABLES, *TRIGGERS, *patch_schema.TRIGGERS)),
    (2, counting.STEPS),
    (3, (*token_schema.TABLES, *token_schema.TRIGGERS)),
    (4, search_schema.INDEXES),
]
