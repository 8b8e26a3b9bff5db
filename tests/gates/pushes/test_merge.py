"""From a verdict to the branch: `endmark decide`, then `endmark merge` in a guarded repository."""

import pytest
from tests.effects.git.repos import git
from tests.gates.pushes.world import endmark, said

from endmark.core import mc1, strictjson


@pytest.fixture
def passed(world, monkeypatch):
    """A pass for topic is on record; the working folder holds no configuration yet."""
    git(world.server, "fetch", "-q", world.client, "topic:refs/heads/topic")
    monkeypatch.chdir(world.folder)
    monkeypatch.setenv("ENDMARK_LEDGER", str(world.folder / "ledger.db"))
    change = ("--base", "main", "--head", "topic", "--repo", str(world.server))
    diff = strictjson.loads(endmark("diff-sha", *change, "--json").stdout)["diff_sha"]
    verdict = {"verdict": "pass", "diff_sha": diff, "policy_version": "gate-2026-07", "findings": []}
    (world.folder / "verdict.mc1").write_bytes(mc1.seal(strictjson.dumps(verdict)))
    done = endmark("decide", "verdict.mc1", *change)
    assert done.returncode == 0, said(done)
    return world, change


def test_without_a_key_it_says_so(passed):
    world, change = passed
    done = endmark("merge", *change)
    assert done.returncode == 2
    assert said(done) == (
        "endmark: --key: this repository takes no merge without a signed record. Nothing was merged; give --key FILE, "
        "or set key in [merge] of endmark.toml.\n"
    )
    assert world.main() == world.oid("main")


def test_a_key_that_is_not_trusted(passed):
    world, change = passed
    done = endmark("merge", *change, "--key", world.other_key)
    assert done.returncode == 20
    assert "no trusted key" in said(done)
    assert world.main() == world.oid("main")
    assert endmark("merge", *change, "--key", world.key).returncode == 0  # the pass still stands


@pytest.mark.parametrize("spelled", ["gate.key", "env:GATE_KEY"])
def test_the_key_of_the_settings(passed, monkeypatch, spelled):
    world, change = passed
    monkeypatch.setenv("GATE_KEY", str(world.key))
    (world.folder / "endmark.toml").write_text(f'[merge]\nkey = "{spelled}"\n')
    done = endmark("merge", *change, "--json")
    assert done.returncode == 0, said(done)
    merged = strictjson.loads(done.stdout)["merged"]
    assert world.main() == merged
    # What was merged here may be pushed elsewhere: the record travels with it.
    git(world.server, "push", "-q", "../client", "main:refs/heads/mine")
    assert world.oid("mine") == merged


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[merge]\nkey = "env:NOT_SET"\n', "merge.key: the variable NOT_SET is not set"),
        ("[merge]\nkey = 1\n", "merge.key: expected `str | null`, got `int`"),
        ('[merge]\nkeys = "x"\n', "unknown field `keys`"),
        ('[merge]\nkey = "nowhere.key"\n', "nowhere.key could not be read"),
    ],
)
def test_settings_that_are_wrong(passed, text, sentence):
    world, change = passed
    (world.folder / "endmark.toml").write_text(text)
    done = endmark("merge", *change)
    assert done.returncode in (2, 20)
    assert sentence in said(done)
    assert world.main() == world.oid("main")


def test_in_a_repository_without_hooks_no_key_is_needed(plain, monkeypatch):
    git(plain.server, "fetch", "-q", plain.client, "topic:refs/heads/topic")
    monkeypatch.setenv("ENDMARK_LEDGER", str(plain.folder / "ledger.db"))
    done = endmark("merge", "--base", "main", "--head", "topic", "--repo", plain.server, "--ledger", "x.db")
    assert "--key" not in said(done)
