"""`endmark diff-sha`: 64 hex digits, or an exit code that says why there are none."""

import pytest
from tests.effects.git import repos
from tests.effects.git.repos import git


@pytest.fixture
def sample(shell):
    return repos.sample(shell.folder / "repo")


def test_the_digest_in_words_and_as_an_object(shell, sample):
    said = shell.run("diff-sha", "--base", "main", "--head", "topic", "--repo", "repo")
    assert (said.code, len(said.text)) == (0, 65)
    found = shell.run("diff-sha", "--base", "main", "--head", "topic", "--repo", "repo", "--json")
    assert found.code == 0
    document = found.object
    assert document.pop("at").endswith("Z")
    ends = (("base", "main"), ("head", "topic"))
    commits = {f"{side}_commit": git(sample, "rev-parse", name) for side, name in ends}
    trees = {f"{side}_tree": git(sample, "rev-parse", f"{name}^{{tree}}") for side, name in ends}
    assert document == {
        "version": 1,
        "diff_sha": said.text.strip(),
        "object_format": "sha1",
        "target_ref": "refs/heads/main",
        **commits,
        **trees,
        "merge_tree": trees["head_tree"],
        "merge_bases": [commits["base_commit"]],
        "fast_forward": True,
        "files_changed": 23,
        "exit_code": 0,
    }
    assert list(found.object)[:2] == ["version", "diff_sha"]


def test_it_is_the_same_from_a_clone(shell, sample):
    git(shell.folder, "clone", "-q", "--no-checkout", "--depth=1", "--no-single-branch", f"file://{sample}", "clone")
    asked = ("diff-sha", "--repo", "clone", "--base", "origin/main", "--head", "origin/side", "--ref", "main")
    refused = shell.run(*asked)
    assert refused.code == 20
    assert "git fetch --unshallow" in refused.talk
    found = shell.run(*asked, "--fetch", "origin")
    assert found.code == 0
    assert found.text == shell.run("diff-sha", "--repo", "repo", "--base", "main", "--head", "side").text


def test_a_commit_that_only_the_remote_has(shell, sample):
    git(shell.folder, "clone", "-q", "--bare", "--single-branch", f"file://{sample}", "clone")
    git(shell.folder / "clone", "remote", "add", "far", f"file://{sample}")
    git(sample, "config", "uploadpack.allowAnySHA1InWant", "true")
    head = git(sample, "commit-tree", "-p", "main", "-m", "nobody's", "topic^{tree}")
    asked = ("diff-sha", "--repo", "clone", "--base", "main", "--head", head)
    assert "fetch it first" in shell.run(*asked).talk
    assert shell.run(*asked, "--fetch", "far").code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--base", "main", "--head", "conflict"], 13, "conflicts in both.txt. Nothing was written. Merge the base"),
        (["--base", "main", "--head", "nowhere"], 20, "there is no branch, tag or remote branch 'nowhere'"),
        (["--base", "main", "--head", "--all"], 20, "looks like an option"),
        (["--base", "v1", "--head", "main"], 20, "--ref must name the branch"),
        (["--base", "main"], 2, "Missing option '--head'"),
        (["--base", "main", "--head", "topic", "--repo", "nowhere"], 20, "there is no folder"),
        (["--base", "main", "--head", "topic", "--repo", ".."], 20, "no git repository"),
    ],
)
def test_why_there_is_none(shell, sample, arguments, code, words):
    where = [] if "--repo" in arguments else ["--repo", "repo"]
    said = shell.run("diff-sha", *where, *arguments)
    assert said.code == code
    assert words in said.text + said.talk
    if code != 2:
        found = shell.run("diff-sha", *where, *arguments, "--json").object
        assert (found["exit_code"], found["received_bytes"]) == (code, None)


def test_a_program_whose_git_is_gone(shell, sample):
    shell.setenv(PATH=str(shell.folder))
    said = shell.run("diff-sha", "--base", "main", "--head", "topic", "--repo", "repo")
    assert said.code == 20
    assert "git was not found on the PATH" in said.talk
