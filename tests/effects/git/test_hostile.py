"""Nothing that is set around a repository changes what a change is or what is shown of it, and nothing of it runs."""

import os
import shutil
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effects.git.hostile import TABLE, prepare
from tests.effects.git.repos import PLAIN, git

from endmark.core.refusal import CannotTry
from endmark.effects.git import Gate, Git, open_repository, read_blocks, read_change, read_file
from endmark.effects.git.environment import scrubbed

HEADS = ("topic", "lines")


def reading(repo, environ):
    """Everything that is read of it: identities, patches, a file."""
    with Gate(open_repository(Git(environ), repo)) as gate:
        changes = [read_change(gate, base="main", head=head) for head in HEADS]
        blocks = [read_blocks(gate, change) for change in changes]
        return changes, blocks, read_file(gate, changes[0].head.oid, b"text.txt", 1 << 20)


@pytest.fixture(scope="module")
def clean(samples):
    return reading(samples["sha1"], {"PATH": os.environ["PATH"]})


@pytest.fixture
def world(repo, tmp_path):
    return prepare(repo, tmp_path / "home")


@pytest.mark.parametrize("setting", TABLE)
def test_nothing_changes_and_nothing_runs(world, clean, setting):
    TABLE[setting](world)
    world.canary.unlink(missing_ok=True)
    assert reading(world.repo, world.env) == clean
    assert not world.canary.exists()


def test_everything_at_once(world, clean):
    apart = {"an index of junk", "another work tree"}  # the test could not go on configuring it
    for setting, apply in TABLE.items():
        if setting not in apart:
            apply(world)
    world.canary.unlink(missing_ok=True)
    assert reading(world.repo, world.env) == clean
    assert not world.canary.exists()


def test_a_configuration_that_cannot_be_read_is_no_answer(world):
    (world.repo / ".git" / "config").write_text("[core\n")
    with pytest.raises(CannotTry, match="bad config"):
        reading(world.repo, world.env)


def plainly(world):
    """What plain git makes of it."""
    # Its templates and programs stay its own, and it does not wait at a terminal.
    commands = (("diff", "main", "topic"), ("merge-tree", "--write-tree", "main", "lines"), ("status",))
    said = []
    for command in commands:
        done = subprocess.run(
            ["git", *command], cwd=world.repo, env=world.env, capture_output=True, stdin=subprocess.DEVNULL, timeout=60
        )
        said.append((done.returncode, done.stdout))
    return said


@pytest.mark.soak
def test_plain_git_is_moved_by_many_of_them(samples, tmp_path):
    moved, ran = set(), set()
    for at, (setting, apply) in enumerate(TABLE.items()):
        folder = tmp_path / str(at)
        repo = shutil.copytree(samples["sha1"], folder / "repo", symlinks=True)
        world = prepare(repo, folder / "home")
        before = plainly(world)
        apply(world)
        world.canary.unlink(missing_ok=True)
        if plainly(world) != before:
            moved.add(setting)
        if world.canary.exists():
            ran.add(setting)
    assert len(moved) > 40, sorted(moved)
    assert len(ran) > 10, sorted(ran)


def test_plain_git_would_run_it(world):
    """The canary sings: an external diff does run where nothing is scrubbed."""
    TABLE["an external diff, by the repository"](world)
    subprocess.run(["git", "diff", "main", "topic"], cwd=world.repo, env=world.env, capture_output=True)
    assert world.canary.exists()


def test_plain_git_would_believe_it(world):
    assert git(world.repo, "rev-parse", "topic^{tree}") != git(world.repo, "rev-parse", "main^{tree}")
    TABLE["a commit replaced"](world)
    assert git(world.repo, "rev-parse", "topic^{tree}") == git(world.repo, "rev-parse", "main^{tree}")


def test_the_table_is_long_enough():
    assert len(TABLE) >= 70
    assert "GIT_DIR" not in PLAIN


# --- the nets below: what git is run with would hold even where git looked at the repository itself


def test_nothing_is_fetched_by_itself(world):
    TABLE["a promisor remote that is a program"](world)
    world.canary.unlink(missing_ok=True)
    repository = open_repository(Git(world.env), world.repo)
    assert repository.ask("cat-file", "-p", "1" * 40).code != 0
    assert not world.canary.exists()
    git(world.repo, "cat-file", "-p", "1" * 40, check=False)
    assert world.canary.exists()


def test_nothing_is_replaced(world):
    TABLE["a commit replaced"](world)
    found = open_repository(Git(world.env), world.repo).ask("rev-parse", "topic^{tree}").out.decode().strip()
    assert found != git(world.repo, "rev-parse", "topic^{tree}")


@given(
    st.dictionaries(
        st.from_regex(r"GIT_[A-Z_]{1,20}|LC_[A-Z]+|HOME|XDG_[A-Z_]+|SSH_[A-Z_]+", fullmatch=True), st.text()
    )
)
def test_no_variable_comes_through(given_by_the_caller):
    assert scrubbed(given_by_the_caller) == scrubbed({})
    assert scrubbed({"PATH": "/bin", "TMPDIR": "/t"}) == scrubbed({}) | {"PATH": "/bin", "TMPDIR": "/t"}
