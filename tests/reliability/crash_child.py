"""What is traced: `python -m tests.reliability.crash_child FOLDER VERB [SYNCHRONOUS]`.

It says one word once the gate has made a promise: from there on no crash may take that back. SYNCHRONOUS, FULL or OFF,
stands in the place of what the gate asks of SQLite for the target: a gate that has to be
caught.
"""

import sqlite3
import sys
from pathlib import Path

from tests.support.world import PATIENT, World, plan_bytes

from endmark.apply_gate import Options
from endmark.ledger.book import Ledger

JOB = "j1"
ROWS = (
    "CREATE TABLE t (n INTEGER PRIMARY KEY, filler BLOB)",
    "INSERT INTO t SELECT id, randomblob(3000) FROM users",
    "CREATE INDEX by_filler ON t (filler)",
    "UPDATE users SET name = upper(name)",
    "DELETE FROM users WHERE id = 2",
)
MANY = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 900)"
# More than SQLite keeps in memory: pages are written before the commit, under a journal that is flushed in pieces.
SPILLED = (
    "CREATE TABLE t (n INTEGER PRIMARY KEY, filler BLOB)",
    f"INSERT INTO t {MANY} SELECT n, zeroblob(2800) FROM c",
    "UPDATE users SET name = upper(name)",
    "UPDATE t SET filler = zeroblob(2801)",
)
FAILS = (*ROWS, "INSERT INTO users VALUES (1, 'again')")


def careless(synchronous):
    """Make every connection to the target flush like this."""

    class Careless(sqlite3.Connection):
        def execute(self, sql, *args):
            return super().execute("PRAGMA synchronous = " + synchronous if sql.endswith("= EXTRA") else sql, *args)

    real = sqlite3.connect
    sqlite3.connect = lambda *args, **more: real(*args, **{"factory": Careless, **more})


def main(folder, verb, *synchronous):
    for word in synchronous:
        careless(word)
    world = World(Path(folder))
    if verb == "reconcile":
        states = [outcome.state for outcome in world.reconcile().settled]
        print("settled" if states else "nothing", flush=True)
        return
    options = PATIENT
    if verb == "first":
        Ledger.open(world.ledger, create=True).close()
        options = Options(lock_timeout=60, statement_timeout=60, backups=world.folder / "backups")
    statements = {"spilled": SPILLED, "fails": FAILS}.get(verb, ROWS)
    outcome = world.deliver(plan_bytes(JOB, statements), options=options)
    print(outcome.state, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
