"""Foreign keys: what the plan breaks is refused, what was broken before is not its fault."""

import pytest
from tests.support.world import MODES, SEED, dump, files, make_database, query, run

from endmark.core.refusal import Signal
from endmark.effects.target import Failed

PARENT = "CREATE TABLE parent (id INTEGER PRIMARY KEY)"
CHILD = "CREATE TABLE child (p REFERENCES parent (id))"
NARROW = "CREATE TABLE child (id TEXT PRIMARY KEY, p REFERENCES parent (id)) WITHOUT ROWID"
ROWS = ("INSERT INTO parent VALUES (1), (2)", "INSERT INTO child (p) VALUES (1), (NULL)")
BROKEN = "INSERT INTO child (p) VALUES (77)"
MISMATCH = ("CREATE TABLE loose (id)", "CREATE TABLE pointer (p REFERENCES loose (id))")
COUNT = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 4000)"
BIG = ("CREATE TABLE big (x)", f"INSERT INTO big {COUNT} SELECT randomblob(1000) FROM c")  # more than the cache holds

# what stands before -> what the plan does
REFUSED = {
    "a new row points nowhere": ((PARENT, CHILD, *ROWS), [BROKEN]),
    "a parent goes": ((PARENT, CHILD, *ROWS), ["DELETE FROM parent WHERE id = 1"]),
    "the parents' table goes": ((PARENT, CHILD, *ROWS), ["DROP TABLE parent"]),
    "a parent changes": ((PARENT, CHILD, *ROWS), ["UPDATE parent SET id = 9 WHERE id = 1"]),
    "a new table, broken from the start": ((PARENT,), [CHILD, BROKEN]),
    "one more beside an old one": ((PARENT, CHILD, BROKEN), ["INSERT INTO child (p) VALUES (78)"]),
    "the same value once more": ((PARENT, CHILD, BROKEN), [BROKEN]),
    "rows without rowid": ((PARENT, NARROW), ["INSERT INTO child VALUES ('a', 5)"]),
    "one more without rowid": (
        (PARENT, NARROW, "INSERT INTO child VALUES ('a', 5)"),
        ["INSERT INTO child VALUES ('b', 5)"],
    ),
    "a key that cannot be checked": ((), list(MISMATCH)),
    "a key that cannot be checked any more": (
        ("CREATE TABLE loose (id UNIQUE)", "CREATE TABLE pointer (p REFERENCES loose (id))"),
        ["CREATE TABLE new (id)", "DROP TABLE loose", "ALTER TABLE new RENAME TO loose"],
    ),
    "a new break beside a key that could not be checked before": ((*MISMATCH, PARENT, CHILD), [BROKEN]),
    "broken in a large plan": ((PARENT, CHILD, *ROWS), [*BIG, BROKEN]),
    "one more in a large plan": ((PARENT, CHILD, BROKEN), [*BIG, "INSERT INTO child (p) VALUES (78)"]),
}
ACCEPTED = {
    "nothing is broken": ((PARENT, CHILD, *ROWS), ["INSERT INTO child (p) VALUES (2)"]),
    "an old break stays": ((PARENT, CHILD, BROKEN), ["CREATE TABLE a (x)"]),
    "an old break without rowid stays": (
        (PARENT, NARROW, "INSERT INTO child VALUES ('a', 5)"),
        ["CREATE TABLE a (x)"],
    ),
    "an old break is mended": ((PARENT, CHILD, BROKEN), ["INSERT INTO parent VALUES (77)"]),
    "one of two old breaks is mended": (
        (PARENT, CHILD, BROKEN, "INSERT INTO child (p) VALUES (78)"),
        ["INSERT INTO parent VALUES (77)"],
    ),
    "a table with an old break gets one more key": (
        (PARENT, CHILD, BROKEN),
        ["ALTER TABLE child ADD COLUMN q REFERENCES parent (id)"],
    ),
    "a key that could not be checked before": (MISMATCH, ["CREATE TABLE a (x)"]),
    "a key that could not be checked is mended": (MISMATCH, ["CREATE UNIQUE INDEX u ON loose (id)"]),
    "broken and mended on the way": ((PARENT, CHILD), [BROKEN, "INSERT INTO parent VALUES (77)"]),
    "the table is rebuilt under the same name": (
        (PARENT, CHILD, *ROWS),
        [
            "CREATE TABLE new (id INTEGER PRIMARY KEY, name TEXT)",
            "INSERT INTO new (id) SELECT id FROM parent",
            "DROP TABLE parent",
            "ALTER TABLE new RENAME TO parent",
        ],
    ),
    "an old break stays in a plan larger than the cache": ((PARENT, CHILD, BROKEN), list(BIG)),
    "a break in a temporary table": (
        (),
        ["CREATE TEMP TABLE p (id PRIMARY KEY)", "CREATE TEMP TABLE c (p REFERENCES p)", "INSERT INTO c VALUES (1)"],
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("stands", "statements"), REFUSED.values(), ids=REFUSED)
def test_a_foreign_key_that_the_plan_breaks_stops_it(tmp_path, stands, statements, mode):
    path = tmp_path / "target.db"
    make_database(path, mode, (*SEED, *stands))
    before, bytes_before = dump(path), files(path)
    with pytest.raises(Failed, match="foreign_key_check: a row of") as caught:
        run(path, statements)
    assert (caught.value.signal, caught.value.statement) == (Signal.CHECK_FAILED, None)
    assert caught.value.statements_run == len(statements)
    assert (dump(path), files(path)) == (before, bytes_before)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("stands", "statements"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_foreign_key_that_the_plan_does_not_break_does_not(tmp_path, stands, statements, mode):
    path = tmp_path / "target.db"
    make_database(path, mode, (*SEED, *stands))
    run(path, statements)
    assert query(path, "SELECT status FROM schema_jobs") == [("applied",)]


@pytest.mark.parametrize("mode", MODES)
def test_keys_are_not_followed_while_the_plan_runs(tmp_path, mode):
    """A table can be rebuilt without its children going with it: nothing cascades."""
    path = tmp_path / "target.db"
    cascade = "CREATE TABLE child (p REFERENCES parent (id) ON DELETE CASCADE)"
    make_database(path, mode, (*SEED, PARENT, cascade, *ROWS))
    run(path, ["DELETE FROM parent", "INSERT INTO parent VALUES (1), (3)"])
    assert query(path, "SELECT p FROM child") == [(1,), (None,)]
