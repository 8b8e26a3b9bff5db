"""The rules of the book on PostgreSQL: the same as on SQLite, from the same tables of moves and signals.

Each table has one function that judges its rows, and one trigger that says what never happens to it at all. All checks
stand in functions, not in constraints, as the catalogue keeps the text of a function letter by letter: an audit can
compare. A function looks up nothing outside its own schema and `pg_catalog`, whatever the session's path says.
"""

from typing import NamedTuple

from endmark.core.states import DECISION_MOVES, MOVES, REVIEW_MOVES, Decision, Review, State
from endmark.ledger.entry import RECEIVED_COLUMNS
from endmark.ledger.patch_schema import DECISION_FACTS, DECISION_IDENTITY, REVIEW_FACTS, REVIEW_IDENTITY
from endmark.ledger.postgres.tables import SINCE, TABLES
from endmark.ledger.rules import UNKNOWN_SIGNAL, illegal, words
from endmark.ledger.schema import FACTS, IDENTITY
from endmark.ledger.token_schema import IDENTITY as TOKEN_IDENTITY

PATH = "pg_catalog, pg_temp"

# What pg_trigger.tgtype says: row 1, before 2, insert 4, delete 8, update 16, truncate 32.
JUDGES_INSERTS = ("BEFORE INSERT", "ROW", 7)
JUDGES = ("BEFORE INSERT OR UPDATE", "ROW", 23)
STAYS = ("BEFORE DELETE OR TRUNCATE", "STATEMENT", 42)
NEVER_CHANGES = ("BEFORE UPDATE OR DELETE OR TRUNCATE", "STATEMENT", 58)

_UNPROVEN = words(State.RECEIVED, *(state for state in MOVES[State.RECEIVED] if state is not State.STAGED))
_ALONE = (
    "PERFORM pg_advisory_xact_lock(hashtextextended('endmark ' || {0}.diff_sha || ' ' || {0}.policy_sha256, 0));\n"
    "IF current_setting('transaction_isolation') <> 'read committed' THEN\n"
    "    RAISE EXCEPTION USING ERRCODE = '23514', MESSAGE = 'a pass and a fail are judged in READ COMMITTED only';\n"
    "END IF;\n"
)


class Trigger(NamedTuple):
    """A trigger of the same name as its function; `when` is one of the four above."""

    table: str
    name: str
    when: tuple[str, str, int]


def _differ(columns: str) -> str:
    """The condition that any of the columns changes."""
    names = columns.split(", ")
    new, old = (", ".join(f"{row}.{name}" for name in names) for row in ("NEW", "OLD"))
    return f"ROW({new}) IS DISTINCT FROM ROW({old})"


def _refuse(condition: str, says: str) -> str:
    return (
        f"IF ({condition}) THEN\n    RAISE EXCEPTION USING ERRCODE = '23514', MESSAGE = '{says}', "
        f"TABLE = TG_TABLE_NAME;\nEND IF;\n"
    )


def _body(*parts: str) -> str:
    return f"BEGIN\n{''.join(parts)}RETURN NEW;\nEND"


def _on(operation: str, *parts: str) -> str:
    return f"IF TG_OP = '{operation}' THEN\n{''.join(parts)}END IF;\n"


def _unless(*conditions: str) -> str:
    """True unless each condition holds; one that is unknown does not."""
    return f"(({') AND ('.join(conditions)})) IS NOT TRUE"


def _at_least(number: int, *columns: str) -> str:
    return " AND ".join(f"(NEW.{name} IS NULL OR NEW.{name} >= {number})" for name in columns)


def _digest(*columns: str) -> str:
    return " AND ".join(f"(NEW.{name} IS NULL OR length(NEW.{name}) = 64)" for name in columns)


_ATTEMPTS = _body(
    _on(
        "INSERT",
        _refuse(
            f"NEW.state IS DISTINCT FROM 'received' OR NEW.events IS DISTINCT FROM 1 OR {UNKNOWN_SIGNAL} = 1",
            "an attempt begins as received, with one event and a known signal",
        ),
        _refuse(
            _unless(
                "NEW.attempt_id ^@ 'att_' AND length(NEW.attempt_id) > 4",
                "NEW.job_id IS NULL OR NEW.job_id <> ''",
                "NEW.owner IN (0, 1)",
                "NEW.kind IN ('plan', 'revert')",
                "NEW.received_bytes >= 0",
                _at_least(0, "expected_bytes"),
                _at_least(1, "stmt_count"),
                "length(NEW.body_sha256) = 64",
                _digest("sha256"),
                "length(NEW.head) = 32",
            ),
            "an attempt has an id, a kind, counts and digests",
        ),
    ),
    _on(
        "UPDATE",
        _refuse(_differ(IDENTITY), "what identifies an attempt never changes"),
        _refuse(
            f"{_differ(FACTS)} AND {illegal(MOVES)} = 1",
            "not a legal move; a finished attempt never moves, and facts change only with a move",
        ),
        _refuse(f"{UNKNOWN_SIGNAL} = 1", "not a known signal"),
        _refuse("OLD.target IS NOT NULL AND NEW.target IS DISTINCT FROM OLD.target", "a target never changes"),
        _refuse(
            "NEW.events IS DISTINCT FROM OLD.events + 1 OR NOT EXISTS (\n"
            "    SELECT 1 FROM @.events WHERE attempt = NEW.n AND seq = NEW.events AND hash = NEW.head\n"
            "    AND coalesce(from_state, OLD.state) = OLD.state AND coalesce(to_state, OLD.state) = NEW.state)",
            "every change of an attempt has its event",
        ),
        _refuse(_unless(_at_least(0, "statements_run"), "length(NEW.head) = 32"), "a count is a number, a head a hash"),
    ),
    _refuse(
        f"(NEW.sha256 IS NULL OR NEW.stmt_count IS NULL) AND NEW.state NOT IN ({_UNPROVEN})",
        "only what was proven goes on: proven means a digest and a count",
    ),
)

_EVENTS = _body(
    _refuse(
        _unless("(NEW.attempt IS NULL) <> (NEW.decision IS NULL)", "length(NEW.hash) = 32", "NEW.event ~ '^[a-z]'"),
        "an event is of one chain, and has a name and a hash",
    ),
    _refuse(
        "NEW.attempt IS NOT NULL AND (\n"
        "    NEW.seq = 1 AND NOT EXISTS (SELECT 1 FROM @.attempts WHERE n = NEW.attempt)\n"
        "    OR NEW.seq IS DISTINCT FROM 1 + coalesce((SELECT max(seq) FROM @.events WHERE attempt = NEW.attempt), 0))",
        "an event continues the chain of its attempt and is never overwritten",
    ),
    _refuse(
        "NEW.decision IS NOT NULL AND (\n"
        "    NEW.seq = 1 AND NOT EXISTS (SELECT 1 FROM @.decisions WHERE n = NEW.decision)\n"
        "    OR NEW.seq IS DISTINCT FROM\n"
        "        1 + coalesce((SELECT max(seq) FROM @.events WHERE decision = NEW.decision), 0))",
        "an event continues the chain of its decision",
    ),
)

_BODIES = _body(
    _refuse(
        "NOT EXISTS (SELECT 1 FROM @.attempts WHERE n = NEW.attempt AND state = 'received')",
        "bytes are kept while an attempt is recorded, once",
    )
)

_CHECKPOINTS = _body(
    _refuse(
        _unless(
            "NEW.n = 1 + coalesce((SELECT max(n) FROM @.checkpoints), 0)",
            "NEW.first_event = 1 + coalesce((SELECT last_event FROM @.checkpoints ORDER BY n DESC LIMIT 1), 0)",
            "NEW.last_event >= NEW.first_event",
            "EXISTS (SELECT 1 FROM @.events WHERE id = NEW.last_event)",
            "length(NEW.hash) = 32",
        ),
        "a checkpoint continues the one before",
    )
)

_FAILED = (
    "EXISTS (SELECT 1 FROM @.decisions d JOIN @.reviews r ON r.decision = d.n\n"
    f"    WHERE d.diff_sha = NEW.diff_sha AND d.policy_sha256 = NEW.policy_sha256 AND r.state = '{Review.FAIL}'\n"
    "    AND r.purpose <> 'advice')"
)
_UNPASSED = (
    "EXISTS (SELECT 1 FROM json_array_elements_text(NEW.required::json) AS wanted(name) WHERE NOT EXISTS (\n"
    "    SELECT 1 FROM @.reviews r\n"
    f"    WHERE r.decision = NEW.n AND r.reviewer = wanted.name AND r.state = '{Review.PASS}'\n"
    "    AND r.purpose <> 'advice'))"
)

_DECISIONS = _body(
    _on(
        "INSERT",
        _refuse(
            f"NEW.state IS DISTINCT FROM '{Decision.PENDING}' OR NEW.events IS DISTINCT FROM 1 OR {UNKNOWN_SIGNAL} = 1",
            "a decision begins as pending, with one event and a known signal",
        ),
        _refuse(
            _unless(
                "NEW.decision_id ^@ 'dec_' AND length(NEW.decision_id) > 4",
                "NEW.ref ^@ 'refs/' AND length(NEW.ref) > 5",
                "NEW.repository <> '' AND NEW.base <> '' AND NEW.head <> '' AND NEW.policy_version <> ''",
                _digest("records_sha", "diff_sha"),
                "length(NEW.policy_sha256) = 64",
                "json_array_length(NEW.required::json) > 0",
                "length(NEW.chain) = 32",
            ),
            "a decision has an id, a place, digests and reviewers",
        ),
    ),
    _on(
        "UPDATE",
        _refuse(_differ(DECISION_IDENTITY), "what a decision is about never changes"),
        _refuse(
            f"{_differ(DECISION_FACTS)} AND {illegal(DECISION_MOVES)} = 1",
            "not a legal move of a decision; facts change only with a move",
        ),
        _refuse(f"{UNKNOWN_SIGNAL} = 1", "not a known signal"),
        f"IF NEW.state <> OLD.state AND NEW.state IN ({words(Decision.PASS, Decision.MERGED)}) THEN\n",
        _refuse("NEW.diff_sha IS NULL", "only what is bound to a diff can pass"),
        _ALONE.format("NEW"),
        _refuse(
            f"{_FAILED}\n    OR {_UNPASSED}",
            "every required reviewer must have passed it, and no complete review of the same diff may have failed it",
        ),
        "END IF;\n",
        _refuse(
            "NEW.events IS DISTINCT FROM OLD.events + 1 OR NOT EXISTS (\n"
            "    SELECT 1 FROM @.events WHERE decision = NEW.n AND seq = NEW.events AND hash = NEW.chain)",
            "every change of a decision has its event",
        ),
    ),
    _refuse(
        _unless(
            "(NEW.diff_sha IS NOT NULL AND NEW.merge_tree IS NOT NULL AND NEW.records_sha IS NOT NULL) "
            f"OR NEW.state IN ({words(Decision.PENDING, Decision.INCOMPLETE)})",
            f"(NEW.merged IS NOT NULL) = (NEW.state = '{Decision.MERGED}') AND coalesce(NEW.merged, '-') <> ''",
        ),
        "a decision is bound to its diff, and a merge names its commit",
    ),
)

_REVIEWS = _body(
    _on(
        "INSERT",
        _refuse(
            f"NEW.state IS DISTINCT FROM '{Review.ASKED}' "
            "OR NOT EXISTS (SELECT 1 FROM @.decisions WHERE n = NEW.decision)",
            "a review begins as asked, and is never overwritten",
        ),
        _refuse(
            _unless(
                "NEW.review_id <> '' AND NEW.reviewer <> ''",
                "NEW.purpose IN ('review', 'elsewhere', 'carried', 'replay', 'advice')",
                _digest("prompt_sha256", "shown_sha256"),
            ),
            "a review has an id, a reviewer and a purpose",
        ),
    ),
    _on(
        "UPDATE",
        _refuse(_differ(REVIEW_IDENTITY), "how a reviewer was asked never changes"),
        _refuse(
            f"{illegal(REVIEW_MOVES)} = 1 OR {UNKNOWN_SIGNAL} = 1",
            "not a legal move of a review; a finished review never moves",
        ),
        f"IF NEW.state = '{Review.FAIL}' AND NEW.purpose <> 'advice' THEN\n    DECLARE\n    about record;\nBEGIN\n"
        "SELECT diff_sha, policy_sha256 INTO about FROM @.decisions WHERE n = NEW.decision;\n"
        "IF about.diff_sha IS NOT NULL THEN\n",
        _ALONE.format("about"),
        "END IF;\nEND;\nEND IF;\n",
    ),
    _refuse(
        _unless(
            f"CASE WHEN NEW.state = '{Review.ASKED}' THEN NEW.signal IS NULL AND NEW.answered_at IS NULL\n"
            "    ELSE NEW.signal IS NOT NULL AND NEW.answered_at IS NOT NULL AND NEW.received_bytes IS NOT NULL END",
            f"NEW.state NOT IN ({words(Review.PASS, Review.FAIL)}) "
            "OR (NEW.signal = 'complete' AND NEW.body_sha256 IS NOT NULL)",
            f"NEW.state <> '{Review.PASS}' OR coalesce(NEW.blocking, 0) = 0",
            _at_least(0, "received_bytes", "expected_bytes", "blocking", "advisory"),
            _digest("body_sha256"),
        ),
        "a review says what came of it: proven, counted, and no pass beside a blocking finding",
    ),
)

_ANSWERS = _body(
    _refuse(
        f"NOT EXISTS (SELECT 1 FROM @.reviews WHERE n = NEW.review AND state = '{Review.ASKED}')",
        "an answer is kept while its review is asked, once",
    )
)


_TOKENS = _body(
    _on(
        "INSERT",
        _refuse(
            _unless("NEW.name <> ''", "length(NEW.sha256) = 64", "NEW.scopes <> ''", "NEW.revoked_at IS NULL"),
            "a token has a name, a digest and a scope, and begins unrevoked",
        ),
    ),
    _on(
        "UPDATE",
        _refuse(_differ(TOKEN_IDENTITY), "what a token may do never changes"),
        _refuse("OLD.revoked_at IS NOT NULL OR NEW.revoked_at IS NULL", "a revoked token stays revoked"),
    ),
)


def _never(says: str) -> str:
    return (
        f"BEGIN\nRAISE EXCEPTION USING ERRCODE = '23514', MESSAGE = '{says}', TABLE = TG_TABLE_NAME;\nRETURN NULL;\nEND"
    )


_STAY = _never("what the book holds is never deleted")
_NEVER_CHANGE = _never("what is written never changes and is never deleted")

# Writes an attempt in one call. The second time, after an answer was lost, it finds what the first time wrote: the
# unique index makes it wait for a transaction that is still on its way.
_COLUMNS = {name: TABLES["attempts"][name].split()[0] for name in RECEIVED_COLUMNS}
RECORD_ARGUMENTS = {
    **_COLUMNS,
    "event_data": "text",
    "next_state": "text",
    "next_head": "bytea",
    "kept": "bytea",
    "flush": "boolean",
}
_RECORD = f"""\
DECLARE
    made bigint;
BEGIN
IF NOT a_flush THEN
    PERFORM set_config('synchronous_commit', 'off', true);
END IF;
INSERT INTO @.attempts ({", ".join(RECEIVED_COLUMNS)})
    VALUES ({", ".join(f"a_{name}" for name in RECEIVED_COLUMNS)})
    ON CONFLICT DO NOTHING RETURNING n INTO made;
IF made IS NULL THEN
    last_event := 0;
    SELECT attempt_id INTO owner_id FROM @.attempts WHERE attempt_id = a_attempt_id;
    IF owner_id IS NULL THEN
        SELECT attempt_id INTO owner_id FROM @.attempts WHERE job_id = a_job_id AND owner = 1;
    END IF;
    RETURN;
END IF;
INSERT INTO @.events (attempt, seq, hash, at, event, to_state, data)
    VALUES (made, 1, a_head, a_received_at, 'received', 'received', a_event_data);
IF a_kept IS NOT NULL THEN
    INSERT INTO @.bodies (attempt, body) VALUES (made, a_kept);
END IF;
INSERT INTO @.events (attempt, seq, hash, at, event, from_state, to_state, data)
    VALUES (made, 2, a_next_head, a_received_at, 'moved', 'received', a_next_state, '{{}}')
    RETURNING id INTO last_event;
UPDATE @.attempts SET state = a_next_state, changed_at = a_received_at, events = 2, head = a_next_head WHERE n = made;
END"""

FUNCTIONS: dict[str, str] = {
    "attempts_are_judged": _ATTEMPTS,
    "events_are_judged": _EVENTS,
    "bodies_are_judged": _BODIES,
    "checkpoints_are_judged": _CHECKPOINTS,
    "decisions_are_judged": _DECISIONS,
    "reviews_are_judged": _REVIEWS,
    "answers_are_judged": _ANSWERS,
    "tokens_are_judged": _TOKENS,
    "rows_stay": _STAY,
    "rows_never_change": _NEVER_CHANGE,
    "record": _RECORD,
}

TRIGGERS = (
    Trigger("attempts", "attempts_are_judged", JUDGES),
    Trigger("events", "events_are_judged", JUDGES_INSERTS),
    Trigger("bodies", "bodies_are_judged", JUDGES_INSERTS),
    Trigger("checkpoints", "checkpoints_are_judged", JUDGES_INSERTS),
    Trigger("decisions", "decisions_are_judged", JUDGES),
    Trigger("reviews", "reviews_are_judged", JUDGES),
    Trigger("answers", "answers_are_judged", JUDGES_INSERTS),
    Trigger("tokens", "tokens_are_judged", JUDGES),
    Trigger("tokens", "rows_stay", STAYS),
    Trigger("attempts", "rows_stay", STAYS),
    Trigger("decisions", "rows_stay", STAYS),
    Trigger("reviews", "rows_stay", STAYS),
    Trigger("events", "rows_never_change", NEVER_CHANGES),
    Trigger("bodies", "rows_never_change", NEVER_CHANGES),
    Trigger("checkpoints", "rows_never_change", NEVER_CHANGES),
    Trigger("answers", "rows_never_change", NEVER_CHANGES),
)


def made(version: int = 1) -> tuple[str, ...]:
    """The statements that make the functions and triggers of this file which came with this version."""
    new = {name for table, name, _ in TRIGGERS if SINCE.get(table, 1) == version}
    old = {name for table, name, _ in TRIGGERS if SINCE.get(table, 1) < version}
    functions = (
        function(name, text)
        for name, text in FUNCTIONS.items()
        if name in new - old or (name == "record" and version == 1)
    )
    return (*functions, *(trigger(each) for each in TRIGGERS if SINCE.get(each.table, 1) == version))


def function(name: str, text: str) -> str:
    """The statement that makes one function."""
    return (
        f"CREATE FUNCTION @.{name}({_arguments(name)}) RETURNS {_returns(name)} LANGUAGE plpgsql\n"
        f"SET search_path = {PATH} AS $rule$\n{text}\n$rule$"
    )


def trigger(made: Trigger) -> str:
    """The statement that makes one trigger."""
    when, each, _ = made.when
    return f"CREATE TRIGGER {made.name} {when} ON @.{made.table} FOR EACH {each} EXECUTE FUNCTION @.{made.name}()"


def source(text: str) -> str:
    """The text of a function as the catalogue keeps it."""
    return f"\n{text}\n"


def _arguments(name: str) -> str:
    if name != "record":
        return ""
    given = ", ".join(f"a_{argument} {kind}" for argument, kind in RECORD_ARGUMENTS.items())
    return f"{given}, OUT owner_id text, OUT last_event bigint"


def _returns(name: str) -> str:
    return "record" if name == "record" else "trigger"


__all__ = [
    "FACTS",
    "FUNCTIONS",
    "RECORD_ARGUMENTS",
    "REVIEW_FACTS",
    "TRIGGERS",
    "Trigger",
    "function",
    "made",
    "source",
    "trigger",
]
