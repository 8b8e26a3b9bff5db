"""The same answers over every road: a local path, git's daemon, and HTTP."""

import pytest
from tests.gates.pushes import transports
from tests.gates.pushes.world import said


@pytest.mark.parametrize("road", transports.ROADS)
def test_refused_and_accepted(world, road):
    program = transports.core() / transports.PROGRAMS[road]
    if not program.exists():
        pytest.skip(f"NOT TESTED: pushes by {road}: this git has no {program.name}")
    (world.client / ".git/shallow").unlink(missing_ok=True)
    with transports.ROADS[road](world.folder) as address:
        to = f"{address}/server.git"
        before = world.refs(), world.objects()
        for what, reason in {
            "+topic:refs/heads/main": "parents: 1",
            ":refs/heads/main": "is not deleted",
            "start:refs/heads/endmark-canary-1": "of this kind",
        }.items():
            done = world.push(what, to=to)
            assert done.returncode != 0
            assert reason in said(done)
        assert (world.refs(), world.objects()) == before
        done = world.push("twice:refs/heads/main", "topic:refs/tags/v1", to=to)
        assert done.returncode == 0, said(done)
        assert world.main() == world.oid("twice")
