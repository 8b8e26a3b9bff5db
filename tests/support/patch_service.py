"""A service that decides about a real repository: the world of the patch gate's tests, behind real sockets."""

from contextlib import contextmanager
from urllib.parse import urlencode

from tests.gates.patches.world import World
from tests.support.service import TOML, served

REPOSITORY = '\n[repositories.app]\npath = "repo.git"\n'


def change(base="main", head="topic", repository="app", **more):
    """The query that names a change."""
    return urlencode({"repository": repository, "base": base, "head": head} | more)


@contextmanager
def deciding(folder, rules=None, *, toml=TOML + REPOSITORY, **flags):
    """(world, site): a world in `folder`, and a running service over it and its ledger."""
    world = World(folder, rules)
    try:
        with served(folder, toml=toml, **flags) as site:
            yield world, site
        world.is_sound()
    finally:
        world.close()
