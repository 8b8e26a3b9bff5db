"""The tables and indexes of the book on PostgreSQL, as data: what makes them and what an audit compares with.

`@` stands for the schema. Numbers are identities: they rise, and a rolled back transaction leaves a gap.
"""

KEY = "bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY"
OWN = "bigint PRIMARY KEY"
TEXT = 'text COLLATE "C"'
TEXT_NEEDED = 'text COLLATE "C" NOT NULL'
NUMBER = "bigint"
NUMBER_NEEDED = "bigint NOT NULL"
BYTES_NEEDED = "bytea NOT NULL"

# What the catalogue says of each kind: (type, not null, identity).
KINDS = {
    KEY: ("bigint", True, "a"),
    OWN: ("bigint", True, ""),
    TEXT: ("text", False, ""),
    TEXT_NEEDED: ("text", True, ""),
    NUMBER: ("bigint", False, ""),
    NUMBER_NEEDED: ("bigint", True, ""),
    BYTES_NEEDED: ("bytea", True, ""),
}

ABOUT = "ledger_version"

TABLES: dict[str, dict[str, str]] = {
    ABOUT: {"application": TEXT_NEEDED, "version": NUMBER_NEEDED},
    "attempts": {
        "n": KEY,
        "attempt_id": TEXT_NEEDED,
        "job_id": TEXT,
        "owner": NUMBER_NEEDED,
        "kind": TEXT_NEEDED,
        "state": TEXT_NEEDED,
        "signal": TEXT_NEEDED,
        "received_bytes": NUMBER_NEEDED,
        "expected_bytes": NUMBER,
        "body_sha256": TEXT_NEEDED,
        "sha256": TEXT,
        "stmt_count": NUMBER,
        "level": TEXT,
        "submitter": TEXT,
        "target": TEXT,
        "evidence": TEXT_NEEDED,
        "detail": TEXT_NEEDED,
        "statements_run": NUMBER,
        "approver": TEXT,
        "approved_fingerprint": TEXT,
        "fingerprint_before": TEXT,
        "fingerprint_after": TEXT,
        "backup": TEXT,
        "statement_rows": TEXT,
        "received_at": TEXT_NEEDED,
        "changed_at": TEXT_NEEDED,
        "events": NUMBER_NEEDED,
        "head": BYTES_NEEDED,
    },
    "decisions": {
        "n": KEY,
        "decision_id": TEXT_NEEDED,
        "repository": TEXT_NEEDED,
        "ref": TEXT_NEEDED,
        "base": TEXT_NEEDED,
        "head": TEXT_NEEDED,
        "merge_tree": TEXT,
        "records_sha": TEXT,
        "diff_sha": TEXT,
        "policy_version": TEXT_NEEDED,
        "policy_sha256": TEXT_NEEDED,
        "required": TEXT_NEEDED,
        "submitter": TEXT,
        "opened_at": TEXT_NEEDED,
        "state": TEXT_NEEDED,
        "signal": TEXT_NEEDED,
        "evidence": TEXT_NEEDED,
        "detail": TEXT_NEEDED,
        "merged": TEXT,
        "approver": TEXT,
        "changed_at": TEXT_NEEDED,
        "events": NUMBER_NEEDED,
        "chain": BYTES_NEEDED,
    },
    "events": {
        "id": KEY,
        "attempt": NUMBER,
        "decision": NUMBER,
        "seq": NUMBER_NEEDED,
        "hash": BYTES_NEEDED,
        "at": TEXT_NEEDED,
        "event": TEXT_NEEDED,
        "from_state": TEXT,
        "to_state": TEXT,
        "data": TEXT_NEEDED,
    },
    "bodies": {"attempt": OWN, "body": BYTES_NEEDED},
    "checkpoints": {
        "n": OWN,
        "first_event": NUMBER_NEEDED,
        "last_event": NUMBER_NEEDED,
        "at": TEXT_NEEDED,
        "hash": BYTES_NEEDED,
    },
    "reviews": {
        "n": KEY,
        "review_id": TEXT_NEEDED,
        "decision": NUMBER_NEEDED,
        "reviewer": TEXT_NEEDED,
        "purpose": TEXT_NEEDED,
        "model": TEXT,
        "prompt_sha256": TEXT,
        "shown_sha256": TEXT,
        "asked_at": TEXT_NEEDED,
        "state": TEXT_NEEDED,
        "signal": TEXT,
        "received_bytes": NUMBER,
        "expected_bytes": NUMBER,
        "body_sha256": TEXT,
        "level": TEXT,
        "evidence": TEXT_NEEDED,
        "detail": TEXT_NEEDED,
        "blocking": NUMBER,
        "advisory": NUMBER,
        "answered_at": TEXT,
    },
    "answers": {"review": OWN, "body": BYTES_NEEDED},
    "tokens": {
        "n": KEY,
        "name": TEXT_NEEDED,
        "sha256": TEXT_NEEDED,
        "scopes": TEXT_NEEDED,
        "targets": TEXT,
        "branches": TEXT,
        "created_by": TEXT_NEEDED,
        "created_at": TEXT_NEEDED,
        "expires_at": TEXT,
        "revoked_at": TEXT,
    },
}
# What came with a later version of the book; everything else was there from the first.
SINCE = {"tokens": 3}

_ONE_OWNER = "WHERE ((owner = 1) AND (job_id IS NOT NULL))"

# Spelled as the catalogue spells them, so that an audit can compare.
INDEXES = (
    "CREATE UNIQUE INDEX attempts_by_id ON @.attempts USING btree (attempt_id)",
    f"CREATE UNIQUE INDEX one_owner_a_job ON @.attempts USING btree (job_id) {_ONE_OWNER}",
    "CREATE INDEX attempts_by_state ON @.attempts USING btree (state, n) WHERE (state <> 'received'::text)",
    "CREATE UNIQUE INDEX events_of_attempts ON @.events USING btree (attempt, seq) WHERE (attempt IS NOT NULL)",
    "CREATE UNIQUE INDEX events_of_decisions ON @.events USING btree (decision, seq) WHERE (decision IS NOT NULL)",
    "CREATE UNIQUE INDEX decisions_by_id ON @.decisions USING btree (decision_id)",
    "CREATE INDEX decisions_by_diff ON @.decisions USING btree (diff_sha, policy_sha256)",
    "CREATE INDEX decisions_by_state ON @.decisions USING btree (state, n)",
    "CREATE INDEX decisions_by_time ON @.decisions USING btree (changed_at)",
    "CREATE UNIQUE INDEX reviews_by_id ON @.reviews USING btree (review_id)",
    "CREATE INDEX reviews_by_decision ON @.reviews USING btree (decision, n)",
    "CREATE UNIQUE INDEX tokens_by_name ON @.tokens USING btree (name)",
    "CREATE UNIQUE INDEX tokens_by_sha256 ON @.tokens USING btree (sha256)",
)


def made(version: int = 1) -> tuple[str, ...]:
    """The statements that make the tables and indexes of this file which came with this version."""
    tables = (table(name, columns) for name, columns in TABLES.items() if SINCE.get(name, 1) == version)
    return (*tables, *(text for text in INDEXES if SINCE.get(_table_of(text), 1) == version))


def table(name: str, columns: dict[str, str]) -> str:
    """The statement that makes one table."""
    return f"CREATE TABLE @.{name} ({', '.join(f'{column} {kind}' for column, kind in columns.items())})"


def _table_of(index: str) -> str:
    return index.partition(" ON @.")[2].partition(" ")[0]
