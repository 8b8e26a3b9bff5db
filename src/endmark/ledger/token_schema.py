"""The table of the service's tokens on SQLite, and its rules. A token itself is nowhere in it, only its SHA-256."""

from endmark.ledger.rules import rule

IDENTITY = "n, name, sha256, scopes, targets, branches, created_by, created_at, expires_at"

TABLES = (
    """\
CREATE TABLE tokens (
    n INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE CHECK (name <> ''),
    sha256 TEXT NOT NULL UNIQUE CHECK (length(sha256) = 64),
    scopes TEXT NOT NULL CHECK (scopes <> ''),
    targets TEXT CHECK (targets <> ''),
    branches TEXT CHECK (branches <> ''),
    created_by TEXT NOT NULL,
    created_at TEXT NOT NULL,
    expires_at TEXT,
    revoked_at TEXT
)""",
)

TRIGGERS = (
    rule(
        "tokens_are_not_overwritten",
        "a token has a name of its own, and begins unrevoked",
        "BEFORE INSERT ON tokens",
        "NEW.revoked_at IS NOT NULL OR EXISTS (\n"
        "    SELECT 1 FROM tokens WHERE name = NEW.name OR sha256 = NEW.sha256 OR n = NEW.n)",
    ),
    rule("tokens_stay", "a token is revoked, never deleted", "BEFORE DELETE ON tokens"),
    rule("tokens_never_change", "what a token may do never changes", f"BEFORE UPDATE OF {IDENTITY} ON tokens"),
    rule(
        "tokens_are_revoked_once",
        "a revoked token stays revoked",
        "BEFORE UPDATE OF revoked_at ON tokens",
        "OLD.revoked_at IS NOT NULL OR NEW.revoked_at IS NULL",
    ),
)
