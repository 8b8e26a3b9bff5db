"""How many there are of what, on PostgreSQL: a line more or less for each move, folded into one by every checkpoint.

A row that all writers had to change would make them wait for each other. See `endmark.ledger.counting`.
"""

from endmark.ledger import counting
from endmark.ledger.postgres.tables import NUMBER_NEEDED, TEXT_NEEDED

TABLE = "counts"
COLUMNS = {"kind": TEXT_NEEDED, "about": TEXT_NEEDED, "state": TEXT_NEEDED, "number": NUMBER_NEEDED}

# Spelled as the catalogue spells them, so that an audit can compare.
INDEXES = (
    "CREATE INDEX attempts_by_target ON @.attempts USING btree (target, state, n) WHERE (target IS NOT NULL)",
    "CREATE INDEX attempts_by_job ON @.attempts USING btree (job_id) WHERE ((owner = 0) AND (job_id IS NOT NULL))",
)

_ADD = "INSERT INTO @.counts (kind, about, state, number) VALUES ('{0}', {1}, {2}.state, {3});\n"


def _counts(kind: str, about: str, first: str) -> str:
    """`first`: the condition under which there is no former state to take away."""
    more = _ADD.format(kind, about.format("NEW"), "NEW", "1")
    fewer = _ADD.format(kind, about.format("OLD"), "OLD", "-1")
    return f"BEGIN\nIF {first} THEN\n{more}ELSIF NEW.state <> OLD.state THEN\n{more}{fewer}END IF;\nRETURN NULL;\nEND"


FUNCTIONS = {
    "attempts_are_counted": _counts(
        "attempt", "coalesce({0}.target, '')", "OLD.state = 'received' AND NEW.state <> 'received'"
    ),
    "decisions_are_counted": _counts("decision", "{0}.ref", "TG_OP = 'INSERT'"),
}

AFTER_UPDATE = ("AFTER UPDATE", "ROW", 17)
AFTER_CHANGES = ("AFTER INSERT OR UPDATE", "ROW", 21)
TRIGGERS = (
    ("attempts", "attempts_are_counted", AFTER_UPDATE),
    ("decisions", "decisions_are_counted", AFTER_CHANGES),
)

COUNTED = f"INSERT INTO @.counts (kind, about, state, number) {counting.COUNTED}".replace(  # our own
    "FROM attempts", "FROM @.attempts"
).replace("FROM decisions", "FROM @.decisions")

# Lines that others add meanwhile are not seen, and stay.
FOLD = """\
WITH gone AS (DELETE FROM counts RETURNING kind, about, state, number)
INSERT INTO counts (kind, about, state, number)
SELECT kind, about, state, sum(number) FROM gone GROUP BY kind, about, state HAVING sum(number) <> 0"""
