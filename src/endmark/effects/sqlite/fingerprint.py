"""The schema's fingerprint (spec/plan.md): equal for two databases exactly when their schemas are spelled alike."""

import hashlib
import sqlite3

from endmark.effects.sqlite.guard import OURS

_FIELDS = ("type", "name", "tbl_name", "coalesce(sql, '')")
_ROWS = " AND ".join(
    ["FROM main.sqlite_master WHERE substr(name, 1, 7) <> 'sqlite_'"]
    + [f"lower({column}) <> '{ours}'" for column in ("name", "tbl_name") for ours in sorted(OURS)]
)
# Each row as four netstrings; SQLite spells them, so that a schema of thousands of tables costs little.
_NETSTRINGS = "SELECT {} {} ORDER BY type, name".format(
    " || ".join(f"length(CAST({field} AS BLOB)) || ':' || {field} || ','" for field in _FIELDS), _ROWS
)


def fingerprint(conn: sqlite3.Connection) -> str:
    """64 lower-case hex over main's schema rows, SQLite's own and our tables left out. Raises sqlite3.Error."""
    sha = hashlib.sha256(b"endmark-fingerprint-sqlite-1\n")
    if conn.execute("PRAGMA main.encoding").fetchone() == ("UTF-8",):
        for (text,) in conn.execute(_NETSTRINGS):
            sha.update(text.encode())
    else:  # SQLite would count and sort the bytes of UTF-16
        for row in sorted(conn.execute(f"SELECT {', '.join(_FIELDS)} {_ROWS}")):
            for encoded in map(str.encode, row):
                sha.update(b"%d:%s," % (len(encoded), encoded))
    return sha.hexdigest()
