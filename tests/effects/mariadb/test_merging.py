"""ALTERs of one table as one statement: what is offered, what is left apart and why, and what the offer is worth."""

import pytest
from tests.support.mariadb import MariaWorld, database
from tests.support.world import plan_bytes, work

from endmark.core.plan import Plan
from endmark.core.refusal import Refused, Signal
from endmark.effects.mariadb import merging
from endmark.effects.mariadb.alters import put_together
from endmark.effects.mariadb.guard import judge
from endmark.effects.target import Failed, Merge
from endmark.faces.api import check, merge_alters

UP = (
    "CREATE TABLE other (id INT PRIMARY KEY)",
    "ALTER TABLE users ADD COLUMN email VARCHAR(80) NOT NULL DEFAULT 'a, b; -- c'",
    "alter table `users`\n  ADD INDEX `by ``mail` (email);",
    "ALTER TABLE other ADD COLUMN n INT",
    "ALTER TABLE users MODIFY name VARCHAR(60) COMMENT 'it''s', DROP COLUMN old",
)
DOWN = (
    "DROP TABLE other",
    "ALTER TABLE users DROP COLUMN email",
    "ALTER TABLE users DROP INDEX `by ``mail`",
    "ALTER TABLE other DROP COLUMN n",
    "ALTER TABLE users MODIFY name VARCHAR(40), ADD COLUMN old INT",
)
MERGED = (
    "ALTER TABLE users ADD COLUMN email VARCHAR(80) NOT NULL DEFAULT 'a, b; -- c', ADD INDEX `by ``mail` (email), "
    "MODIFY name VARCHAR(60) COMMENT 'it''s', DROP COLUMN old"
)
BACK = "ALTER TABLE users MODIFY name VARCHAR(40), ADD COLUMN old INT, DROP INDEX `by ``mail`, DROP COLUMN email"
SEED = (
    "CREATE TABLE users (id INT PRIMARY KEY, name VARCHAR(40), old INT)",
    "INSERT INTO users VALUES (1, 'ann', 5), (2, 'bob', 6)",
)


def judged(texts):
    return [(text, judge(text, frozenset())) for text in texts]


def found(*statements, down=None):
    return put_together(judged(statements), None if down is None else judged(down))


def test_the_words_of_each_are_kept_and_downs_come_in_reverse():
    merges, apart = found(*UP, down=DOWN)
    assert merges == (Merge("users", (2, 3, 5), MERGED, BACK),)
    assert apart == ()


ADD = "ALTER TABLE t ADD a INT"
# name -> (the statements beside ADD, a part of the reason)
APART = {
    "a comment": (["ALTER TABLE t ADD b INT -- why"], "holds a comment"),
    "a comment of another kind": (["ALTER TABLE t /* x */ ADD b INT"], "holds a comment"),
    "a comment of the third kind": (["ALTER TABLE t ADD b INT # x"], "holds a comment"),
    "rows between": (["UPDATE t SET a = 1", "ALTER TABLE t ADD b INT"], "past statement 2"),
    "its name between": (["CREATE VIEW v AS SELECT a FROM t", "ALTER TABLE t ADD b INT"], "past statement 2"),
    "the same column": (["ALTER TABLE t MODIFY a BIGINT"], "changes a,"),
    "the same column, renamed": (["ALTER TABLE t CHANGE A b INT"], "changes a,"),
    "an option": (["ALTER TABLE t ADD b INT, ALGORITHM=INPLACE"], "list of simple changes"),
    "an engine": (["ALTER TABLE t ENGINE=InnoDB"], "list of simple changes"),
    "what the parser does not know": (["ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (3))"], "not "),
    "another name": (["ALTER TABLE t RENAME TO u"], "change that is not known"),
    "if exists": (["ALTER TABLE t DROP COLUMN IF EXISTS b"], "not known"),
    "if not exists": (["ALTER TABLE t ADD COLUMN IF NOT EXISTS b INT"], "not known"),
    "a clock": (["ALTER TABLE t ADD b DATETIME DEFAULT CURRENT_TIMESTAMP"], "computed"),
    "another clock": (["ALTER TABLE t ADD b TIMESTAMP NOT NULL"], "of a type"),
    "an expression": (["ALTER TABLE t ADD b INT DEFAULT (a + 1)"], "computed"),
    "a generated column": (["ALTER TABLE t ADD b INT AS (a + 1) STORED"], "of a kind"),
    "a counter": (["ALTER TABLE t ADD b INT AUTO_INCREMENT"], "of a kind"),
    "a hidden counter": (["ALTER TABLE t ADD b SERIAL"], "of a type"),
    "a key without a name": (["ALTER TABLE t ADD INDEX (a)"], "without a name"),
    "a foreign key without a name": (["ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES u (id)"], "not known"),
    "another spelling": (["ALTER TABLE T ADD b INT"], "in another way"),
    "too long": ([f"ALTER TABLE t ADD b INT COMMENT '{'x' * 20_001}'"], "longer"),
}


@pytest.mark.parametrize(("more", "why"), APART.values(), ids=APART)
def test_what_stays_apart_and_why(more, why):
    merges, apart = found(ADD, *more)
    assert merges == ()
    assert why in " ".join(apart)


def test_a_key_over_a_column_that_another_changes_stays_apart():
    merges, apart = found(
        ADD, "ALTER TABLE t MODIFY b INT", "ALTER TABLE t ADD KEY k (b)", "ALTER TABLE t ADD KEY j (a)"
    )
    assert [merge.numbers for merge in merges] == [(1, 2), (3, 4)]
    assert apart == ("statement 3 has a key over b, which another of them changes",)


def test_a_down_that_is_no_alter_of_the_table_keeps_its_statement_apart():
    merges, apart = found(ADD, "ALTER TABLE t ADD INDEX k (a)", down=["ALTER TABLE t DROP a", "DROP INDEX k ON t"])
    assert merges == ()
    assert apart == ("statement 2 has a down that is no ALTER TABLE t",)


def test_what_stands_between_splits_a_table_into_two_offers():
    merges, apart = found(ADD, "ALTER TABLE t ADD b INT", "UPDATE t SET b = 1", "ALTER TABLE t ADD c INT",
                          "ALTER TABLE t ADD d INT")  # fmt: skip
    assert [merge.numbers for merge in merges] == [(1, 2), (4, 5)]
    assert "statement 4 would have to move past statement 3" in apart[0]


def test_other_tables_and_single_alters_are_no_matter():
    assert found("ALTER TABLE a ADD x INT", "ALTER TABLE b ADD x INT", "SELECT 1") == ((), ())
    assert found("ALTER TABLE a.b ADD x INT", "ALTER TABLE a.b ADD y INT")[0] == ()


@pytest.fixture
def world(tmp_path):
    with database(SEED) as name:
        yield MariaWorld(tmp_path, name)


def test_a_rehearsal_offers_what_comes_out_alike(world):
    before = world.dump(ours=True)
    with world.target.open() as session:
        session.lock(0)
        keep = [*UP[:4], UP[4].replace(", DROP COLUMN old", "")]
        back = [*DOWN[:4], DOWN[4].replace(", ADD COLUMN old INT", "")]
        offer = session.rehearse(work(keep, down=back), 10.0, lambda: None)
    assert [merge.numbers for merge in offer.merges] == [(2, 3, 5)]
    assert world.dump(ours=True) == before


def test_a_merge_that_leaves_another_schema_is_not_offered(world, monkeypatch):
    """The list of what is simple is ours; the server has the last word."""

    def wrong(*given):
        merges, apart = put_together(*given)
        return tuple(Merge(one.table, one.numbers, "ALTER TABLE users ADD x INT", None) for one in merges), apart

    monkeypatch.setattr(merging, "put_together", wrong)
    with world.target.open() as session:
        session.lock(0)
        one = work(["ALTER TABLE users ADD a INT", "ALTER TABLE users ADD b INT"])
        with pytest.raises(Failed, match="leaves another schema") as caught:
            session.merge(one, 10.0, lambda: None)
        assert caught.value.signal is Signal.CHECK_FAILED
        two = work(
            ["ALTER TABLE users ADD a INT", "ALTER TABLE users ADD b INT"],
            down=["ALTER TABLE users DROP a", "ALTER TABLE users DROP b"],
        )
        offer = session.rehearse(two, 10.0, lambda: None)
    assert offer.merges == ()
    assert "do not go through" in offer.apart[-1]


def test_the_new_plan_is_whole_atomic_and_leaves_the_same(world, tmp_path):
    """Refused as it is, for its DROP COLUMN; merged, the ALTERs of one table are one statement and its own plan."""
    raw = plan_bytes("j1", UP[1:3] + UP[4:], base=world.fingerprint())
    assert world.apply("x", list(UP[1:3] + UP[4:])).state == "failed"
    made, merged = merge_alters(raw, world.target, "j2")
    plan = check(made).value
    assert isinstance(plan, Plan)
    assert (plan.job_id, plan.statements, plan.down, plan.base) == ("j2", [MERGED], None, world.fingerprint())
    assert merged.apart == ()
    with database(SEED) as name:
        other = MariaWorld(tmp_path / "other", name)
        for statement in (*UP[1:3], UP[4]):
            other.query(statement)
        one_by_one = other.dump()
    outcome = world.apply("j2", plan.statements)
    assert outcome.state == "applied"
    assert world.dump() == one_by_one


@pytest.mark.parametrize("job", ["j1", "j0", "", "a b", "x" * 129])
def test_the_new_plan_needs_an_id_of_its_own(world, job):
    raw = plan_bytes("j1", UP[1:3], after=["j0"])
    with pytest.raises(Refused) as refused:
        merge_alters(raw, world.target, job)
    assert refused.value.signal is Signal.BAD_ID


def test_a_cut_plan_is_not_merged(world):
    raw = plan_bytes("j1", UP[1:3])
    before = world.dump(ours=True)
    for at in range(0, len(raw), 7):
        with pytest.raises(Refused):
            merge_alters(raw[:at], world.target, "j2")
    assert world.dump(ours=True) == before


def test_an_interruption_and_nothing_to_merge(world):
    with pytest.raises(Failed) as failed:
        merge_alters(plan_bytes("j1", UP[1:3]), world.target, "j2", stop=lambda: "SIGTERM")
    assert failed.value.signal is Signal.INTERRUPTED
    with pytest.raises(Failed, match="nothing can be merged"):
        merge_alters(plan_bytes("j1", UP[:2]), world.target, "j2")
