"""Installing, checking and removing the hooks: beside other tools' hooks, never over them, and tried out."""

import os
import shutil
import stat

import pytest
from tests.effects.git.repos import git, make
from tests.gates.pushes.world import POLICY, endmark, said

from endmark.core import strictjson
from endmark.faces.canary import try_hooks

# How forges run the hooks of others: each file of the folder that may be run gets the whole list.
DISPATCHER = """\
#!/bin/sh
data=$(cat)
for hook in "$(dirname "$0")/$(basename "$0").d"/*; do
    test -x "$hook" && test -f "$hook" || continue
    echo "$data" | "$hook" "$@" || exit 1
done
"""


def _run(*arguments):
    done = endmark("hook", "git", *arguments, "--json")
    return done.returncode, strictjson.loads(done.stdout)


def _install(world, *more):
    return _run("install", "--repo", str(world.server), "--trusted-keys", f"{world.key}.pub", *more)


def _check(world):
    code, found = _run("check", "--repo", str(world.server))
    assert code == (1 if found["problems"] else 0)
    return "\n".join(found["problems"])


def _tree(folder):
    """Every file but the index of nothing: name, mode and content."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.stat().st_mode, path.read_bytes()) for path in files}


def test_installed_tried_and_removed(plain):
    before = _tree(plain.server)
    code, found = _install(plain)
    assert (code, found["problems"], found["warnings"]) == (0, [], [])
    new = {name: mode for name, (mode, _) in _tree(plain.server).items() if name not in before}
    assert set(new) == {"hooks/pre-receive", "hooks/reference-transaction", "endmark/keys/01-gate.key.pub"}
    assert stat.S_IMODE(new["hooks/pre-receive"]) == 0o755
    assert stat.S_IMODE(new["endmark/keys/01-gate.key.pub"]) == 0o644
    assert _check(plain) == ""
    assert plain.push("+topic:refs/heads/main").returncode != 0
    assert plain.push("merged:refs/heads/main").returncode == 0
    code, found = _run("uninstall", "--repo", str(plain.server))
    assert (code, len(found["removed"])) == (0, 4)
    left = {name for name in _tree(plain.server) if not name.startswith("objects/")} - set(before)
    assert left == {"refs/heads/main"}
    assert _run("uninstall", "--repo", str(plain.server)) == (0, {"version": 1, "removed": [], "exit_code": 0})


def test_whatever_the_umask(plain):
    former = os.umask(0o007)
    try:
        assert _install(plain)[0] == 0
    finally:
        os.umask(former)
    for path in ("endmark", "endmark/keys", "hooks/pre-receive"):
        assert stat.S_IMODE((plain.server / path).stat().st_mode) == 0o755


def test_in_an_empty_repository(plain, tmp_path):
    plain.server = make(tmp_path / "empty.git", bare=True)
    assert _install(plain)[0] == 0
    assert plain.refs() == ""
    assert plain.push("main:refs/heads/main", to=plain.server).returncode == 0
    assert plain.push("+topic:refs/heads/main", to=plain.server).returncode != 0


def test_again_renews(plain):
    assert _install(plain)[0] == 0
    whole = (plain.server / "hooks/pre-receive").read_bytes()
    (plain.server / "hooks/pre-receive").write_bytes(whole.replace(b"-I -c", b"-I -I -c"))
    (plain.server / "hooks/pre-receive").chmod(0o600)
    policy = plain.folder / "policy.toml"
    policy.write_bytes(POLICY)
    other = f"{plain.other_key}.pub"
    code, _ = _run("install", "--repo", str(plain.server), "--trusted-keys", other, "--policy", str(policy))
    assert code == 0
    assert (plain.server / "hooks/pre-receive").read_bytes() == whole
    assert (plain.server / "endmark/policy.toml").read_bytes() == POLICY
    assert [key.name for key in (plain.server / "endmark/keys").iterdir()] == ["01-other.key.pub"]
    assert plain.push("merged:refs/heads/main").returncode != 0
    assert _install(plain)[0] == 0
    assert not (plain.server / "endmark/policy.toml").exists()
    assert plain.push("merged:refs/heads/main").returncode == 0


@pytest.mark.parametrize("kind", ["pre-receive", "reference-transaction"])
def test_another_tools_hook_stays(plain, kind):
    theirs = plain.server / "hooks" / kind
    theirs.write_text("#!/bin/sh\nexit 0\n")
    before = _tree(plain.server)
    done = endmark("hook", "git", "install", "--repo", plain.server, "--trusted-keys", f"{plain.key}.pub")
    assert done.returncode == 20
    assert "another tool's hook. Nothing was written" in said(done)
    assert _tree(plain.server) == before


def test_beside_a_forges_own(plain):
    """A forge has its dispatcher and a hook of its own, which goes on being run."""
    folder = plain.server / "hooks"
    (folder / "pre-receive.d").mkdir()
    (folder / "pre-receive").write_text(DISPATCHER)
    (folder / "pre-receive").chmod(0o755)
    own = folder / "pre-receive.d/forge"
    own.write_text(f"#!/bin/sh\ncat >> {plain.folder}/seen\n")
    own.chmod(0o755)
    before = _tree(folder)
    code, found = _install(plain)
    assert (code, found["problems"]) == (0, [])
    assert [hook["beside"] for hook in found["hooks"]] == [True, False]
    after = _tree(folder)
    assert {name: after[name] for name in before} == before
    assert plain.push("+topic:refs/heads/main").returncode != 0
    assert plain.push("merged:refs/heads/main").returncode == 0
    assert plain.oid("merged") in (plain.folder / "seen").read_text()
    assert _check(plain) == ""
    assert _run("uninstall", "--repo", str(plain.server))[0] == 0
    assert _tree(folder) == before


def _no_hook(world):
    (world.server / "hooks/pre-receive").unlink()


def _no_second_hook(world):
    (world.server / "hooks/reference-transaction").unlink()


def _may_not_be_run(world):
    (world.server / "hooks/reference-transaction").chmod(0o644)


def _edited(world):
    path = world.server / "hooks/pre-receive"
    path.write_bytes(path.read_bytes().replace(b"|| exit 1", b"|| exit 0"))


def _another_hooks_path(world):
    git(world.server, "config", "core.hooksPath", "elsewhere")


def _a_users_hooks_path(world):
    home = world.folder / "gitconfig"
    git(world.folder, "config", "--file", home, "core.hooksPath", "/nowhere")
    os.environ["GIT_CONFIG_GLOBAL"] = str(home)


def _no_key(world):
    shutil.rmtree(world.server / "endmark/keys")


def _broken_key(world):
    (world.server / "endmark/keys/01-gate.key.pub").write_text("x")


def _open_folder(world):
    (world.server / "endmark/keys").chmod(0o777)


def _a_dispatcher_since(world):
    (world.server / "hooks/pre-receive.d").mkdir()


def _policy_gone(world):
    git(world.server, "update-ref", "refs/heads/plain", world.oid("main"))
    git(world.server, "symbolic-ref", "HEAD", "refs/heads/unborn")


def _head_has_no_policy(world):
    git(world.server, "fetch", "-q", world.client, "policy-gone:refs/heads/gone")
    git(world.server, "symbolic-ref", "HEAD", "refs/heads/gone")


def _alias(world):
    _run("uninstall", "--repo", str(world.server))
    git(world.server, "branch", "-m", "main", "trunk")
    git(world.server, "symbolic-ref", "refs/heads/main", "refs/heads/trunk")
    _install(world)


BROKEN = {
    "missing": (_no_hook, "hooks/pre-receive: No such file"),
    "the second missing": (_no_second_hook, "hooks/reference-transaction: No such file"),
    "not executable": (_may_not_be_run, "may not be run"),
    "edited": (_edited, "not as it was installed"),
    "another hooks path": (_another_hooks_path, "elsewhere/pre-receive: No such file"),
    "a user's hooks path": (_a_users_hooks_path, "where ours are not"),
    "no key": (_no_key, "holds no key"),
    "a key that is none": (_broken_key, "holds no public keys"),
    "a folder that anybody may write to": (_open_folder, "can be changed by everybody"),
    "a dispatcher came": (_a_dispatcher_since, "pre-receive.d/endmark: No such file"),
    "HEAD names nothing": (_policy_gone, "HEAD names no branch"),
    "HEAD has no policy": (_head_has_no_policy, "gone is not guarded"),
    "main is an alias": (_alias, "another name of refs/heads/trunk"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_check_finds(plain, case, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")
    assert _install(plain)[0] == 0
    spoil, sentence = BROKEN[case]
    spoil(plain)
    before = _tree(plain.server)
    assert sentence in _check(plain)
    assert _tree(plain.server) == before


def test_a_hook_that_refuses_everything_is_no_guard(plain):
    """Another tool's refusal, or a broken Python, is not taken for ours."""
    folder = plain.server / "hooks"
    (folder / "pre-receive.d").mkdir()
    (folder / "pre-receive").write_text("#!/bin/sh\necho canary >&2\nexit 1\n")
    (folder / "pre-receive").chmod(0o755)
    code, found = _install(plain)
    assert code == 1
    assert "refused, but not by this hook" in found["problems"][0]


def test_a_dispatcher_that_runs_nothing(plain):
    folder = plain.server / "hooks"
    (folder / "pre-receive.d").mkdir()
    before = plain.refs()
    code, found = _install(plain)
    assert code == 1
    assert "pre-receive: the canary was refused, but not by this hook" in found["problems"][0]
    assert plain.refs() == before


@pytest.mark.parametrize("reflogs", ["false", "always"])
def test_the_canary_leaves_nothing(plain, reflogs):
    git(plain.server, "config", "core.logAllRefUpdates", reflogs)
    assert _install(plain)[0] == 0
    before = _tree(plain.server)
    assert _check(plain) == ""
    assert _tree(plain.server) == before
    for kind in ("pre-receive", "reference-transaction"):
        (plain.server / "hooks" / kind).write_text("#!/bin/sh\nexit 0\n")
    found = try_hooks(plain.repository(), os.environ)
    assert [problem.partition(" that nobody")[0] for problem in found] == [
        "reference-transaction let a branch be made",
        "pre-receive let a branch be pushed",
    ]
    assert "canary" not in plain.refs()
    assert not list((plain.server / "logs").rglob("*canary*"))


def test_in_a_linked_work_tree(made, tmp_path):
    world = made.copy(tmp_path / "world")
    git(world.client, "worktree", "add", "-q", "../linked", "second")
    world.server = world.folder / "linked"
    assert _install(world)[0] == 0
    assert (world.client / ".git/hooks/pre-receive").exists()
    git(world.client, "symbolic-ref", "HEAD", "refs/heads/main")
    assert world.by_hand("update-ref", "refs/heads/main", world.oid("topic")).returncode != 0
    done = world.by_hand("update-ref", "refs/heads/main", world.oid("merged"))
    assert done.returncode == 0, said(done)


def test_what_is_no_repository_key_or_policy(plain, tmp_path):
    for arguments, code in (
        (["--repo", str(tmp_path), "--trusted-keys", f"{plain.key}.pub"], 20),
        (["--repo", str(plain.server), "--trusted-keys", str(plain.key)], 20),
        (["--repo", str(plain.server), "--trusted-keys", "/nowhere"], 20),
        (["--repo", str(plain.server), "--trusted-keys", f"{plain.key}.pub", "--policy", "/nowhere"], 20),
    ):
        before = _tree(plain.server)
        assert endmark("hook", "git", "install", *arguments).returncode == code
        assert _tree(plain.server) == before


GITALY = """\
#!/bin/sh
# What stands in the place of a GitLab server's own hook: it runs nothing of `hooks/`, and all of the folder below.
data=$(cat)
for hook in "$GIT_DIR/custom_hooks/pre-receive.d"/*; do
    test -x "$hook" || continue
    echo "$data" | "$hook" "$@" || exit 1
done
"""


def test_a_gitlab_server_runs_what_is_linked_into_custom_hooks(plain):
    assert _install(plain)[0] == 0
    own = plain.folder / "gitaly-hooks"
    own.mkdir()
    (own / "pre-receive").write_text(GITALY)
    (own / "pre-receive").chmod(0o755)
    linked = plain.server / "custom_hooks/pre-receive.d"
    linked.mkdir(parents=True)
    by_gitlab = f"--receive-pack=git -c core.hooksPath={own} receive-pack"
    before = plain.refs()
    for name, target in (("endmark", "../../hooks/pre-receive"), ("whole", plain.server / "hooks/pre-receive")):
        (linked / name).symlink_to(target)  # as in the repository's own folder, and as in the one for all
        done = plain.push("+topic:refs/heads/main", options=(by_gitlab,))
        assert done.returncode != 0
        assert "main is a guarded branch" in said(done)
        assert plain.refs() == before
        if name == "endmark":
            (linked / name).unlink()
            assert plain.push("topic:refs/heads/free", options=(by_gitlab,)).returncode == 0
            before = plain.refs()
    assert plain.push("merged:refs/heads/main", options=(by_gitlab,)).returncode == 0
