"""kill -9 at moments by chance, with the flushes to the disk as they are."""

from collections import Counter

import pytest
from tests.support.child import CALM, MANY, hear, started
from tests.support.world import MODES, World, plain_dump, plan_bytes, query


def kill_and_settle(folder, mode, many, seed):
    """Kill `many` processes, each applying the same plan in a world of its own. Returns how often what was found."""
    (folder / "plan").write_bytes(plan_bytes("j1", MANY))
    found: Counter[str] = Counter()
    untouched = None
    with started("kills", folder, mode, folder / "plan", many, seed) as child:
        for _ in range(CALM + many):
            n, code = hear(child)
            world = World(folder / str(n))
            entry = world.entry("j1")
            found[f"was {entry.state if entry else 'not recorded'}"] += 1
            found[f"exit {code}"] += 1
            world.reconcile()
            receipt = world.receipts().get("j1")
            tables = len(query(world.path, "SELECT 1 FROM sqlite_master WHERE name GLOB 't*'"))
            rows = query(world.path, "SELECT count(*), sum(length(filler)) FROM t")[0] if tables else (0, None)
            assert (tables, *rows) == ((61, 60, 60 * 20_000) if receipt else (0, 0, None))
            assert query(world.path, "PRAGMA integrity_check") == [("ok",)]
            if not receipt:
                untouched = untouched or plain_dump(world.path)
                assert plain_dump(world.path) == untouched
            known = world.entry("j1")
            assert (known.state if known else None) in ({"applied"} if receipt else {"failed", "staged", None})
            world.check_books_agree()
            found["applied" if receipt else "nothing"] += 1
    assert found["exit 0"] >= CALM
    return found


@pytest.mark.parametrize("mode", MODES)
def test_a_kill_at_any_moment_leaves_all_or_nothing(tmp_path, record_property, mode):
    found = kill_and_settle(tmp_path, mode, 25, seed=mode)
    record_property("kills", found["exit -9"])
    assert found["exit -9"] >= 10
    assert found["was applying"] >= 1
    assert found["nothing"] >= 1


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_two_hundred_kills_leave_all_or_nothing(tmp_path, record_property, mode):
    found = kill_and_settle(tmp_path, mode, 200, seed=f"long {mode}")
    record_property("kills", found["exit -9"])
    assert found["exit -9"] >= 100
    assert found["was applying"] >= 20
