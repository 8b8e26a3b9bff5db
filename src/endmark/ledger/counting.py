"""How many there are of what, kept by triggers: nobody who wants a number reads a million rows for it.

The second version of the book. A count is a convenience and never evidence; an audit counts again. `about` is the
target of an attempt ('' where it has none) and the branch of a decision.
"""

TABLES = (
    """\
CREATE TABLE counts (
    kind TEXT NOT NULL CHECK (kind IN ('attempt', 'decision')),
    about TEXT NOT NULL,
    state TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (typeof(number) = 'integer' AND number >= 0),
    PRIMARY KEY (kind, about, state)
) WITHOUT ROWID""",
    "CREATE INDEX attempts_by_target ON attempts (target, state) WHERE target IS NOT NULL",
    # The index of owners has the rest: together they find every attempt that named a job.
    "CREATE INDEX attempts_by_job ON attempts (job_id) WHERE owner = 0 AND job_id IS NOT NULL",
)

COUNTED = """\
SELECT 'attempt' AS kind, coalesce(target, '') AS about, state, count(*) AS number
FROM attempts WHERE state <> 'received' GROUP BY coalesce(target, ''), state
UNION ALL
SELECT 'decision', ref, state, count(*) FROM decisions GROUP BY ref, state"""
"""What the counts must be, from the rows themselves."""
COUNTS = "SELECT kind, about, state, sum(number) FROM counts GROUP BY kind, about, state"
"""What is kept."""


def _more(kind: str, about: str) -> str:
    return (
        f"    INSERT INTO counts (kind, about, state, number) VALUES ('{kind}', {about}, NEW.state, 1)\n"  # noqa: S608
        "        ON CONFLICT DO UPDATE SET number = number + 1;\n"
    )


def _fewer(kind: str, about: str) -> str:
    return (
        f"    UPDATE counts SET number = number - 1 WHERE kind = '{kind}' AND about = {about} AND state = OLD.state;\n"  # noqa: S608
    )


_BEFORE, _NOW = "coalesce(OLD.target, '')", "coalesce(NEW.target, '')"
_AFTER_MOVE = "AFTER UPDATE OF state ON {} WHEN NEW.state IS NOT OLD.state"


def _trigger(name: str, when: str, *steps: str) -> str:
    return f"CREATE TRIGGER {name} {when} BEGIN\n{''.join(steps)}END"


# No attempt is counted while it is `received`: no row stays so.
TRIGGERS = (
    _trigger(
        "attempts_are_counted",
        _AFTER_MOVE.format("attempts"),
        _more("attempt", _NOW),
        _fewer("attempt", _BEFORE),
    ),
    _trigger("new_decisions_are_counted", "AFTER INSERT ON decisions", _more("decision", "NEW.ref")),
    _trigger(
        "decisions_are_counted",
        _AFTER_MOVE.format("decisions"),
        _more("decision", "NEW.ref"),
        _fewer("decision", "OLD.ref"),
    ),
)

STEPS = (*TABLES, f"INSERT INTO counts (kind, about, state, number) {COUNTED}", *TRIGGERS)  # our own
