"""A failure, or the end of the process, at every call into SQLite, for the target and for the ledger, one by one."""

from contextlib import suppress
from functools import partial

import pytest
from tests.support.child import hear, started
from tests.support.faults import Fault, injected
from tests.support.world import World, plain_dump, plan_bytes

from endmark.apply_gate import Options
from endmark.core.refusal import CannotTry

LONG = partial(pytest.param, marks=pytest.mark.soak)

PLAN = [
    "CREATE TABLE a (x INTEGER)",
    "INSERT INTO a VALUES (1), (2)",
    "UPDATE users SET name = upper(name)",
    "CREATE INDEX i ON a (x)",
]
DOWN = ["DROP TABLE a", "DELETE FROM a", "UPDATE users SET name = lower(name)", "DROP INDEX i"]
RAW = plan_bytes("j1", PLAN, down=DOWN)
SETTLED = {"applied", "failed", "staged", "stale"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The target as it is, and as the plan leaves it."""
    world = World(tmp_path_factory.mktemp("whole"), "rollback")
    before = plain_dump(world.path)
    assert world.deliver(RAW).state == "applied"
    return before, plain_dump(world.path)


def check_all_or_nothing(world, whole, job_id="j1"):
    """After settling what was left: all of the job or nothing of it, and the ledger says which. Returns whether all."""
    world.reconcile()
    entry, receipt = world.entry(job_id), world.receipts().get(job_id)
    assert plain_dump(world.path) == whole[receipt is not None]
    if entry is None:
        assert receipt is None
    else:
        assert entry.state in SETTLED
        assert (entry.state == "applied") is (receipt is not None)
    world.check_books_agree()
    return receipt is not None


def sweep(folder, mode, when, prepare, act):
    """`act` in a new world for n = 1, 2, ... with the n-th call failing, until none fires. Yields what came of each."""
    for n in range(1, 1_000):
        world = World(folder / str(n), mode)
        prepared = prepare(world)
        fault, outcome = Fault(n, when=when), None
        with injected(fault, target="target.db", ledger="ledger.db"), suppress(CannotTry):
            outcome = act(world, prepared)
        yield world, fault, outcome
        if not fault.fired:
            assert outcome is not None
            return


@pytest.mark.parametrize(
    ("mode", "when"),
    [("rollback", "before"), LONG("wal", "after"), LONG("rollback", "after"), LONG("wal", "before")],
)
def test_a_failing_call_leaves_all_or_nothing(tmp_path, whole, mode, when):
    options = Options(lock_timeout=0, backups=tmp_path / "backups")
    struck, kept = [], set()
    for world, fault, outcome in sweep(
        tmp_path, mode, when, lambda _world: None, lambda world, _: world.deliver(RAW, options=options)
    ):
        struck.append(fault.fired)
        if outcome is not None and outcome.state in ("applied", "failed"):  # what was answered is what stands
            assert (outcome.state == "applied") is ("j1" in world.receipts())
        kept.add(check_all_or_nothing(world, whole))
        # The same delivery again is answered, and has its effect at most once, whatever came of the first.
        known = world.entry("j1")
        again = world.deliver(RAW)
        assert again.state == (known.state if known else "applied")
        check_all_or_nothing(world, whole)
    assert outcome.state == "applied"
    assert kept == {False, True}
    assert sum(name.startswith("ledger") for name in struck) > 10
    assert sum(name.startswith("target") for name in struck) > 25
    assert {"target: COMMIT", "ledger: COMMIT", "target: BEGIN IMMEDIATE", "target: backup"} <= set(struck)


@pytest.mark.parametrize("when", [LONG("before"), "after"])
def test_a_failing_call_while_a_staged_job_is_approved(tmp_path, whole, when):
    for world, fault, outcome in sweep(
        tmp_path, "wal", when, lambda world: world.stage("j1", PLAN), lambda world, staged: world.approve(staged)
    ):
        assert fault.fired or outcome.state == "applied"
        if not check_all_or_nothing(world, whole) and world.entry("j1").state == "staged":
            assert world.approve(world.stage("j1", PLAN)).state == "applied"
            assert check_all_or_nothing(world, whole)


@pytest.mark.parametrize("when", ["before", LONG("after")])
def test_a_failing_call_while_a_job_is_reverted(tmp_path, whole, when):
    before, after = whole

    def prepare(world):
        world.deliver(RAW)

    def act(world, _):
        with world.gate() as gate:
            staged = gate.stage_revert("j1", world.target, "bob")
            return gate.approve(staged.attempt_id, world.target, Options(), "ann")

    for world, fault, outcome in sweep(tmp_path, "rollback", when, prepare, act):
        assert fault.fired or outcome.state == "applied"
        undone = check_all_or_nothing(world, (after, before), "j1.revert")
        assert world.receipts()["j1"][2] == ("reverted" if undone else "applied")


@pytest.mark.parametrize(
    ("when", "committed"), [("before", True), ("after", False), LONG("before", False), LONG("after", True)]
)
def test_a_failing_call_while_reconciling(tmp_path, whole, when, committed):
    """What could not be settled is left for the next time, and comes out the same."""

    def prepare(world):
        """A crash: right before the target's commit, or right after it."""
        fault = CrashAtCommit("after" if committed else "before")
        with injected(fault, target="target.db", ledger="ledger.db"), pytest.raises(Crash):
            world.deliver(RAW)
        assert world.entry("j1").state == "applying"

    for world, fault, settled in sweep(tmp_path, "wal", when, prepare, lambda world, _: world.reconcile()):
        assert check_all_or_nothing(world, whole) is committed
        if not fault.fired:
            assert [outcome.state for outcome in settled.settled] == ["applied" if committed else "failed"]


class Crash(BaseException):
    """Nothing in the gate catches it."""


class CrashAtCommit:
    def __init__(self, when):
        self.when = when

    def around(self, name, sql, do):
        strike = (name, sql) == ("target", "COMMIT")
        if strike and self.when == "before":
            raise Crash
        result = do()
        if strike:
            raise Crash
        return result


@pytest.mark.parametrize("mode", ["wal", LONG("rollback")])
def test_the_process_ends_at_any_call(tmp_path, whole, mode):
    """`os._exit`: no rollback, no close, no goodbye; the next to open the files finds all or nothing."""
    (tmp_path / "plan").write_bytes(RAW)
    kept, states = [], set()
    with started("exits", tmp_path, mode, tmp_path / "plan") as child:
        code = 99
        while code == 99:
            n, code = hear(child)
            world = World(tmp_path / str(n))
            entry = world.entry("j1")
            states.add(entry.state if entry else None)
            kept.append(check_all_or_nothing(world, whole))
    assert code == 0
    assert len(kept) > 40
    assert kept == sorted(kept)  # from some call on the job stands, and not before
    assert {None, "applying", "applied"} <= states
