"""What an audit reads on PostgreSQL: one snapshot, and the catalogue's word on the rules."""

import itertools
from collections.abc import Iterator
from typing import Any

import psycopg

from endmark.ledger.postgres import counting, rules, searching, tables
from endmark.ledger.postgres.schema import within

_COLUMNS = """\
SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity::text
FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r' AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY c.relname, a.attnum"""
_KINDS = """\
SELECT c.relname, c.relkind::text FROM pg_class c
WHERE c.relnamespace = %s::regnamespace AND c.relkind NOT IN ('i', 'S', 't')"""
_INDEXES = """\
SELECT c.relname, pg_get_indexdef(c.oid), i.indisvalid AND i.indisready
FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
WHERE c.relnamespace = %s::regnamespace"""
_TRIGGERS = """\
SELECT c.relname, t.tgname, t.tgtype, p.proname, p.pronamespace = %s::regnamespace, t.tgenabled::text,
    t.tgqual IS NULL AND cardinality(t.tgattr::int2[]) = 0
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
WHERE c.relnamespace = %s::regnamespace AND NOT t.tgisinternal"""
_FUNCTIONS = """\
SELECT p.proname, p.prosrc, l.lanname, p.prosecdef, p.proconfig FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
WHERE p.pronamespace = %s::regnamespace"""
_REWRITES = """\
SELECT c.relname, r.rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class
WHERE c.relnamespace = %s::regnamespace AND c.relkind = 'r'"""


class PostgresSource:
    """A schema in one read transaction."""

    errors: tuple[type[Exception], ...] = (psycopg.Error,)
    gapless = False
    bodies = True

    def __init__(self, connection: psycopg.Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._names = itertools.count()

    def rows(self, sql: str, *values: Any) -> Iterator[tuple[Any, ...]]:
        with self._connection.cursor(f"audit_{next(self._names)}") as cursor:
            cursor.itersize = 2000
            yield from cursor.execute(sql.replace("?", "%s").encode(), values)

    def is_number(self, column: str) -> str:
        return f"{column} IS NOT NULL"

    def damage(self) -> Iterator[str]:
        """Its pages are the server's to look after (data_checksums, pg_amcheck)."""
        yield from ()

    def given(self) -> dict[str, Any]:
        return {}

    def rules(self) -> Iterator[str]:
        expected, found = self._expected(), self._found()
        for name, text in expected.items():
            if name not in found:
                yield f"the {name} is missing"
            elif found[name] != text:
                yield f"the {name} was changed"
        for name in found.keys() - expected.keys():
            yield f"the {name} is not ours"

    def _expected(self) -> dict[str, Any]:
        schema = self._schema
        things: dict[str, Any] = {
            f"table {table}": [(name, *tables.KINDS[kind]) for name, kind in columns.items()]
            for table, columns in (tables.TABLES | {counting.TABLE: counting.COLUMNS}).items()
        }
        for statement in (*tables.INDEXES, *counting.INDEXES, *searching.INDEXES):
            name = statement.partition(" ON ")[0].rpartition(" ")[2]
            things[f"index {name}"] = within(schema, statement)
        for table, columns in tables.TABLES.items():
            for column, kind in columns.items():
                if kind in (tables.KEY, tables.OWN):
                    made = f"CREATE UNIQUE INDEX {table}_pkey ON {schema}.{table} USING btree ({column})"
                    things[f"index {table}_pkey"] = made
        path = [f"search_path={rules.PATH}"]
        for name, text in (rules.FUNCTIONS | counting.FUNCTIONS).items():
            things[f"function {name}"] = (within(schema, rules.source(text)), "plpgsql", False, path)
        for table, name, (_, _, code) in (*rules.TRIGGERS, *counting.TRIGGERS):
            things[f"trigger {name} on {table}"] = (code, name, True, "O", True)
        return things

    def _found(self) -> dict[str, Any]:
        things: dict[str, Any] = {
            f"{'table' if kind == 'r' else 'relation'} {name}": [] for name, kind in self._all(_KINDS)
        }
        for table, *column in self._all(_COLUMNS):
            things[f"table {table}"].append(tuple(column))
        for name, made, valid in self._all(_INDEXES):
            things[f"index {name}"] = made if valid else "not valid"
        for table, name, *how in self._all(_TRIGGERS, 2):
            things[f"trigger {name} on {table}"] = tuple(how)
        for name, *how in self._all(_FUNCTIONS):
            key = f"function {name}"
            things[key if key not in things else f"second function {name}"] = tuple(how)
        for table, name in self._all(_REWRITES):
            things[f"rule {name} on {table}"] = ""
        return things

    def _all(self, sql: str, times: int = 1) -> list[tuple[Any, ...]]:
        return self._connection.execute(sql.encode(), (self._schema,) * times).fetchall()
