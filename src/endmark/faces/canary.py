"""Is a repository guarded? Both hooks are tried with a branch that nobody may make, as whoever runs this sees git."""

import os
import secrets
import subprocess
from collections.abc import Mapping

from endmark.core.printable import safe
from endmark.core.refusal import CannotTry, Refused
from endmark.effects.git import Gate, hooks
from endmark.effects.git import refs as git_refs
from endmark.effects.git.repository import Repository
from endmark.effects.git.trusted import files
from endmark.push_gate import CANARY, IS_CANARY
from endmark.sources.keys import verifier
from endmark.steps.patch_case import policy_in, policy_of

_TIMEOUT = 120.0
_SAID = 300  # characters of git's words that are repeated


def try_hooks(repository: Repository, environ: Mapping[str, str]) -> list[str]:
    """Try to make a canary, by hand and by a push: a sentence for each thing that is wrong, none for nothing.

    git reads the user's and the system's configuration here, as it does where it serves the repository. Its commit lies
    in a store of its own, so that nothing stays behind. Raises CannotTry.
    """
    problems = _other_hooks_path(repository, environ)
    with Gate(repository) as gate:
        commit = _commit(gate)
        env = {name: value for name, value in environ.items() if not name.startswith("GIT_") or name in _KEPT}
        env |= {"GIT_DIR": repository.common_dir, "LC_ALL": "C"}
        borrowed = env | {"GIT_ALTERNATE_OBJECT_DIRECTORIES": os.path.join(gate.folder, "objects")}
        name = f"{CANARY}{secrets.token_hex(8)}"
        problems += _tried("reference-transaction", "made", _git(borrowed, "update-ref", name, commit))
        # From the gate's own repository, so that its objects come as a push brings them.
        push = ("push", "--quiet", "--no-verify", repository.common_dir, f"{commit}:{name}")
        from_gate = {key: value for key, value in env.items() if key != "GIT_DIR"} | {"GIT_DIR": gate.folder}
        problems += _tried("pre-receive", "pushed", _git(from_gate, *push))
        _git(env, "update-ref", "-d", name)
    return problems


def weaknesses(repository: Repository) -> list[str]:
    """What is wrong with the keys and the policy that the hooks go by, one sentence each. Raises CannotTry."""
    found = files(repository)
    problems = []
    try:
        if found.keys:
            verifier(found.keys)
    except CannotTry as fault:
        problems.append(f"{fault.detail} Until then every merge is refused.")
    try:
        with Gate(repository) as gate:
            return problems + _of_policy(gate, found.policy)
    except (Refused, CannotTry) as fault:
        return [*problems, f"the policy cannot be used, so nothing moves: {fault.detail}"]


_KEPT = ("GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM")


def _of_policy(gate: Gate, file: str | None) -> list[str]:
    heads = git_refs.heads(gate.repository)
    if file is not None:
        policy = policy_in(file)
    elif heads.default is None:
        return (
            [] if heads.tips == {} else ["HEAD names no branch that is there, so only what a branch says itself counts"]
        )
    else:
        try:
            policy = policy_of(gate, heads.tips[heads.default])
        except Refused as refused:
            return [f"{heads.default.removeprefix('refs/heads/')} is not guarded: {refused.detail}"]
    return [
        f"the policy names {name}, which is another name of {heads.symbolic[ref]}: name that"
        for name in policy.branches
        if (ref := f"refs/heads/{name}") in heads.symbolic
    ]


def _other_hooks_path(repository: Repository, environ: Mapping[str, str]) -> list[str]:
    """git may look for hooks elsewhere, by a configuration that nothing else here reads."""
    env = {name: value for name, value in environ.items() if not name.startswith("GIT_") or name in _KEPT}
    answer = _git(
        env | {"GIT_DIR": repository.common_dir}, "rev-parse", "--path-format=absolute", "--git-path", "hooks"
    )
    said, ours = answer.stdout.rstrip("\n"), hooks.folder_of(repository)
    if answer.returncode != 0 or os.path.realpath(said) == os.path.realpath(ours):
        return []
    return [f"git looks for hooks in {safe(said)} (core.hooksPath of the user or the system), where ours are not"]


def _tried(kind: str, verb: str, done: subprocess.CompletedProcess[str]) -> list[str]:
    if done.returncode == 0:
        return [f"{kind} let a branch be {verb} that nobody may make: the hook is not run, or not ours"]
    if f"{IS_CANARY} ({kind})" not in done.stderr:  # the other hook may have said it in the place of this one
        said = safe(" ".join(done.stderr.split()))[:_SAID] or "nothing was said"
        return [f"{kind}: the canary was refused, but not by this hook: {said}"]
    return []


def _commit(gate: Gate) -> str:
    """An empty commit in the gate's own store."""
    tree = gate.run("mktree").out.decode("ascii", "replace").strip()
    body = f"tree {tree}\nauthor endmark <> 0 +0000\ncommitter endmark <> 0 +0000\n\ncanary\n"
    answer = gate.run("hash-object", "-t", "commit", "-w", "--stdin", stdin=body.encode())
    if answer.code != 0:
        raise CannotTry(f"the hooks were not tried: {answer.words}")
    return answer.out.decode("ascii", "replace").strip()


def _git(env: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            ["git", *arguments],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="backslashreplace",
            timeout=_TIMEOUT,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as fault:
        raise CannotTry(f"the hooks could not be tried: {safe(str(fault))}") from None
