"""Making the book in a schema of its own, and saying what an administrator has to run for it."""

from endmark.ledger.postgres import counting, rules, searching, tables
from endmark.ledger.postgres.tables import ABOUT, TABLES
from endmark.ledger.schema import FACTS

APPLICATION = "endmark ledger"

# Version -> the statements that lead to it from the one before; all of them run in one transaction.
# A change of MOVES or Signal changes functions: it needs a version that replaces those.
MIGRATIONS: list[tuple[int, tuple[str, ...]]] = [
    (
        1,
        (
            *tables.made(),
            *rules.made(),
            f"INSERT INTO @.{ABOUT} (application, version) VALUES ('{APPLICATION}', 1)",  # noqa: S608  # our own words
        ),
    ),
    (
        2,
        (
            tables.table(counting.TABLE, counting.COLUMNS),
            *counting.INDEXES,
            counting.COUNTED,
            *(rules.function(name, text) for name, text in counting.FUNCTIONS.items()),
            *(rules.trigger(rules.Trigger(*made)) for made in counting.TRIGGERS),
        ),
    ),
    (3, (*tables.made(3), *rules.made(3))),
    (4, searching.INDEXES),
]

# What a gate's own role needs, and nothing beyond: it can add and move on, under the rules, and take nothing away.
_CHANGED = {
    "attempts": f"{FACTS}, events, head",
    "decisions": "state, signal, evidence, detail, merged, approver, changed_at, events, chain",
    "reviews": (
        "state, signal, received_bytes, expected_bytes, body_sha256, level, evidence, detail, blocking, advisory, "
        "answered_at"
    ),
    "tokens": "revoked_at",
}


def within(schema: str, statement: str) -> str:
    """The statement for this schema, whose name is a plain one."""
    return statement.replace("@.", f"{schema}.")


def statements(schema: str, after: int = 0) -> list[str]:
    """What brings a book from version `after` (0: none is there) to the newest."""
    found = [] if after else [f"CREATE SCHEMA {schema}"]
    for version, steps in MIGRATIONS:
        if version > after:
            found += [within(schema, step) for step in steps]
            if version > 1:
                found.append(f"UPDATE {schema}.{ABOUT} SET version = {version:d}")  # noqa: S608  # a number
    return found


def grants(schema: str, role: str) -> list[str]:
    """What lets `role` keep the book: to read, to add, and to change the columns that a move changes."""
    quoted = '"' + role.replace('"', '""') + '"'
    found = [f"GRANT USAGE ON SCHEMA {schema} TO {quoted}"]
    for table, columns in TABLES.items():
        found.append(f"GRANT SELECT ON {schema}.{table} TO {quoted}")
        if table != ABOUT:
            given = ", ".join(name for name, kind in columns.items() if kind is not tables.KEY)
            found.append(f"GRANT INSERT ({given}) ON {schema}.{table} TO {quoted}")
        if table in _CHANGED:
            found.append(f"GRANT UPDATE ({_CHANGED[table]}) ON {schema}.{table} TO {quoted}")
    found.append(f"GRANT SELECT, INSERT, DELETE ON {schema}.{counting.TABLE} TO {quoted}")  # no evidence; it is folded
    return found


def script(schema: str, role: str | None) -> str:
    """The SQL for an administrator: run by the role that is to own the book, in its database."""
    lines = statements(schema) + ([] if role is None else grants(schema, role))
    return "BEGIN;\n\n" + "".join(f"{line};\n\n" for line in lines) + "COMMIT;\n"
