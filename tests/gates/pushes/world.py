"""A guarded bare repository, somebody's clone of it with commits of every kind, and a key whose records count."""

import io
import os
import shutil
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
from tests.effects.git.repos import PLAIN, Import, git, make

from endmark.core import intoto, merge_message
from endmark.effects.git import Gate, Git, hooks, open_repository, read_change
from endmark.faces import cli
from endmark.ledger.entry import stamp
from endmark.sources import keys
from endmark.steps.patch_case import Case, change_of, read_place

POLICY = b"""\
[branches.main]
policy = "gate-2026-07"
reviewers = ["tests"]

[reviewers.tests]
kind = "command"
command = ["/bin/false"]
capacity = "dedicated"
"""
ID = "dec_" + "0" * 26
PROGRAM = [sys.executable, "-I", "-c", "import gc; gc.disable(); from endmark.faces.guard import hook; hook()"]


class World:
    """`client` has every commit under a branch of its name; `server` is what is pushed to."""

    def __init__(self, folder, object_format="sha1"):
        self.folder = folder
        self.server = folder / "server.git"
        self.client = folder / "client"
        self.key, self.other_key = folder / "gate.key", folder / "other.key"
        self.object_format = object_format

    def build(self):
        make(self.client, self.object_format)
        new = Import()
        first = new.commit("main", {"endmark.toml": POLICY, "a.txt": b"a\n", "sub/b.txt": b"b\n"})
        new.branch("start", first)
        new.commit("topic", {"a.txt": b"a, changed\n"}, first)
        new.commit("second", {"c.txt": b"c\n"}, first)
        new.commit("policy-edit", {"endmark.toml": POLICY.replace(b"/bin/false", b"/bin/true")}, first)
        new.commit("policy-broken", {"endmark.toml": POLICY[:70]}, first)
        new.commit("policy-gone", {"endmark.toml": (None, None)}, first)
        new.into(self.client)
        git(self.client, "checkout", "-q", "-f", "start")
        for key in (self.key, self.other_key):
            keys.new(key)
        git(self.folder, "clone", "-q", "--bare", self.client, self.server)
        self.reset_server()
        git(self.client, "remote", "add", "origin", self.server)
        main = self.oid("main")
        self.branch("merged", self.merge(main, self.oid("topic")))
        self.branch("twice", self.merge(self.oid("merged"), self.oid("second")))
        return self

    def reset_server(self):
        """The server has main alone, and no configuration of the clone."""
        for ref in git(self.server, "for-each-ref", "--format=%(refname)").splitlines():
            if ref != "refs/heads/main":
                git(self.server, "update-ref", "-d", ref)
        git(self.server, "symbolic-ref", "HEAD", "refs/heads/main")
        git(self.server, "remote", "remove", "origin")

    def guard(self, keys=None, policy=None):
        """The hooks, as they are installed."""
        copied = {"01-gate.key.pub": (self.folder / "gate.key.pub").read_bytes()} if keys is None else keys
        return hooks.install(self.repository(), PROGRAM, copied, policy)

    def copy(self, folder):
        """Both repositories and the keys, to be changed."""
        shutil.copytree(self.folder, folder, symlinks=True)
        other = World(folder, self.object_format)
        git(other.client, "remote", "set-url", "origin", other.server)
        return other

    # ---- commits ----------------------------------------------------------------------------------------------

    def oid(self, name):
        return git(self.client, "rev-parse", "--verify", f"{name}^{{commit}}")

    def branch(self, name, oid):
        git(self.client, "update-ref", f"refs/heads/{name}", oid)
        return oid

    def commit(self, *parents, message=b"x\n", tree):
        asked = [word for parent in parents for word in ("-p", parent)]
        return git(self.client, "commit-tree", *asked, "-F", "-", tree, stdin=message)

    def tree(self, commit):
        return git(self.client, "rev-parse", f"{commit}^{{tree}}")

    def message(self, base, head, *, key=None, ref="refs/heads/main", policy=None, evidence=(), **otherwise):
        """The message of a merge with its record; `otherwise` replaces fields of the record."""
        repository = open_repository(Git(os.environ), self.client)
        with Gate(repository) as gate:
            place = read_place(gate, base=base, head=head, ref="refs/heads/main", policy_file=policy)
            case = Case(place=place, change=read_change(gate, base=base, head=head, ref=ref))
        return self.message_of(case, key=key, evidence=evidence, **otherwise)

    def message_of(self, case, *, key=None, evidence=(), **otherwise):
        sha, branch = "ab" * 32, case.place.branch
        review = intoto.Asked(
            attempt_id="one",
            reviewer=branch.reviewers[0],
            kind="command",
            model=None,
            wire=None,
            temperature=None,
            max_output_tokens=None,
            capacity="dedicated",
            prompt_sha256=sha,
            shown_sha256=sha,
            verdict_sha256=sha,
            verdict="pass",
            blocking=0,
            advisory=0,
            evidence=("marks",),
        )
        decision = intoto.Decision(
            decision="pass",
            change=change_of(case),
            policy_version=branch.policy,
            policy_sha256=case.place.policy.sha256,
            reviews=(review,),
            evidence=evidence,
            at=stamp(datetime(2026, 11, 30, tzinfo=UTC)),
        )
        decision = msgspec.structs.replace(decision, **otherwise)
        signed = keys.sign(intoto.dumps(decision), key or self.key, intoto.PAYLOAD_TYPE)
        return merge_message.write("Merge it", ID, signed)

    def merge(self, base, head, *, parents=None, tree=None, message=None, **more):
        """A merge commit with its record, or with something else about it."""
        if tree is None:
            tree = git(self.client, "merge-tree", "--write-tree", base, head)
        message = self.message(base, head, **more) if message is None else message
        return self.commit(*(parents or (base, head)), message=message, tree=tree)

    # ---- the server -------------------------------------------------------------------------------------------

    def repository(self):
        return open_repository(Git(os.environ), self.server)

    def refs(self):
        """What stands where; a push that was refused must leave this as it was."""
        return git(self.server, "for-each-ref", "--format=%(refname) %(objectname) %(symref)")

    def objects(self):
        return sorted(path.name for path in (self.server / "objects").rglob("*") if path.is_file())

    def main(self):
        return git(self.server, "rev-parse", "refs/heads/main")

    def push(self, *what, to=None, env=None, options=()):
        """`git push`; returns the finished process."""
        command = ["git", "push", *options, str(to or "origin"), *what]
        return subprocess.run(command, cwd=self.client, capture_output=True, env=PLAIN | (env or {}))

    def by_hand(self, *arguments, stdin=None, env=None):
        """git in the server itself; returns the finished process."""
        return subprocess.run(
            ["git", *map(str, arguments)], cwd=self.server, input=stdin, capture_output=True, env=PLAIN | (env or {})
        )


def said(done):
    """Everything that a process said, in one text."""
    return (done.stdout + done.stderr).decode(errors="replace")


class Done(NamedTuple):
    returncode: int
    stdout: bytes
    stderr: bytes


def endmark(*arguments):
    """One command line of ours, in this process."""
    streams = [io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2)]
    with redirect_stdout(streams[0]), redirect_stderr(streams[1]):
        code = cli.run([str(argument) for argument in arguments])
    return Done(code, *(stream.buffer.getvalue() for stream in streams))
