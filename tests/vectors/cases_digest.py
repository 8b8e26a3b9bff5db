"""Vectors of the digest and of the fingerprint (spec/plan.md)."""

from tests.vectors.parts import TWO, case, digest, dump, sha


def digests():
    for name, statements, comment in (
        ("two", TWO, "the example of P17"),
        ("one", ["SELECT 1"], "one statement: nothing is joined"),
        ("unicode", ["é", "e\u0301", "😀"], "UTF-8, not normalized"),
        ("newline_at_end", ["SELECT 1\n"], "a newline of the statement's own"),
        ("boundary_here", ["a\nb", "c"], "shares its digest with boundary_there"),
        ("boundary_there", ["a", "b\nc"], "shares its digest with boundary_here"),
        ("empty_ends", ["", ""], "the digest itself judges nothing"),
    ):
        raw = dump(statements)
        case(f"digest/{name}", "digest", raw, comment, "P17", as_="statements", sha256=digest(statements))


def fingerprint(rows):
    """P22 once more, in other words."""
    ours = {"schema_jobs", "endmark_receipts"}
    kept = [
        [field or "" for field in row]
        for row in rows
        if not row[1].startswith("sqlite_") and row[1].lower() not in ours and row[2].lower() not in ours
    ]
    out = b"endmark-fingerprint-sqlite-1\n"
    for row in sorted(kept, key=lambda row: (row[0].encode(), row[1].encode())):
        for field in row:
            out += str(len(field.encode())).encode() + b":" + field.encode() + b","
    return sha(out)


def fingerprints():
    table = "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)"
    index = "CREATE INDEX customers_name ON customers (name)"
    both = [["table", "customers", "customers", table], ["index", "customers_name", "customers", index]]
    auto = ["index", "sqlite_autoindex_t_1", "t", None]
    jobs = "CREATE TABLE schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)"
    ours = [
        ["table", "Schema_Jobs", "Schema_Jobs", jobs.replace("schema_jobs", "Schema_Jobs")],
        ["index", "sqlite_autoindex_Schema_Jobs_1", "Schema_Jobs", None],
        ["index", "by_status", "Schema_Jobs", "CREATE INDEX by_status ON Schema_Jobs (status)"],
        ["table", "endmark_receipts", "endmark_receipts", "CREATE TABLE endmark_receipts (job_id TEXT)"],
    ]
    accents = [
        ["table", "é", "é", 'CREATE TABLE "é" (a)'],
        ["table", "z", "z", "CREATE TABLE z (a)"],
        ["table", "\uffee", "\uffee", 'CREATE TABLE "\uffee" (a)'],
        ["table", "😀", "😀", 'CREATE TABLE "😀" (a)'],
    ]
    for name, rows, comment in (
        ("empty", [], "nothing but the first line"),
        ("two_rows", both, "the example of P22"),
        ("order", both[::-1], "the same rows in another order"),
        ("our_own", both + ours, "our own tables, and what hangs on them, are left out"),
        ("automatic", [["table", "t", "t", "CREATE TABLE t (a UNIQUE)"], auto], "SQLite's own rows are left out"),
        ("by_bytes", accents, "names are sorted as UTF-8 bytes: an astral one after U+FFEE"),
        ("no_sql", [["table", "t", "t", None]], "NULL is hashed as the empty string"),
    ):
        raw = dump(rows)
        case(f"fingerprint/{name}", "digest", raw, comment, "P22", as_="schema-rows", sha256=fingerprint(rows))
    view = "CREATE VIEW names AS SELECT name FROM customers"
    trigger = "CREATE TRIGGER keep BEFORE DELETE ON customers BEGIN SELECT RAISE(ABORT, 'kept'); END"
    more = [["view", "names", "names", view], ["trigger", "keep", "customers", trigger]]
    unique = "CREATE TABLE t (a UNIQUE)"
    for name, statements, rows, comment in (
        ("sql_two", [table, index], both, "the example of P22, from its statements"),
        ("sql_kinds", [table, index, view, trigger], both + more, "all four kinds of row"),
        ("sql_our_own", [jobs, table, index], both, "a table of ours changes nothing"),
        ("sql_automatic", [unique], [["table", "t", "t", unique]], "SQLite's own index changes nothing"),
        ("sql_by_bytes", [row[3] for row in reversed(accents)], accents, "sorted as UTF-8 bytes"),
        (
            "sql_lower_case",
            ["create  table customers (id INTEGER PRIMARY KEY, name TEXT)"],
            both[:1],
            "SQLite itself spells the first words alike",
        ),
    ):
        raw = dump(statements)
        case(f"fingerprint/{name}", "digest", raw, comment, "P22", as_="schema-sql", sha256=fingerprint(rows))
