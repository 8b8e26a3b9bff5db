"""A real bare repository with a protected `main`, its policy and its reviewers in the base commit, and a ledger."""

import itertools
import os
import shutil
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.core.payloads import dump, envelope
from tests.effects.git.repos import Import, git, lines, make

from endmark.effects.git import Gate, Git, Person, open_repository
from endmark.ledger.book import Ledger
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_outcomes import outcome_of
from endmark.patch_gate import PatchGate
from endmark.steps.merging import How, merge_passed, settle_merges
from endmark.steps.patch_case import read_case, read_place
from endmark.steps.reviewing import Reviewers, Reviewing

VERSION = "gate-2026-07"
SCRIPT = Path(__file__).with_name("reviewer.py").read_bytes()
START = datetime(2026, 11, 30, 12, tzinfo=UTC)
PERSON = Person("Gate", "gate@example.com")
_NONCES = itertools.count(1)
_TEMPLATES = tempfile.TemporaryDirectory(prefix="endmark-worlds-")


def toml(value):
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def table(name, fields):
    return f"[{name}]\n" + "".join(f"{key} = {toml(value)}\n" for key, value in fields.items())


def command(name="tests", **changes):
    """A command reviewer: the script of this folder."""
    made = {
        "kind": "command",
        "command": [sys.executable, "-S", "-E", "tools/review.py", name],
        "files": ["tools/review.py"],
        "capacity": "dedicated",
    }
    return made | changes


def policy(reviewers=None, asked=None, **branch):
    """The bytes of a policy for `main`. `reviewers`: name -> fields; `asked`: those who decide, if not all."""
    named = reviewers or {"tests": command()}
    rules: dict[str, Any] = {"policy": VERSION, "reviewers": asked or list(named), "retries": 2, "idle_seconds": 20}
    rules |= {"total_seconds": 30} | branch
    text = [table("branches.main", rules), *(table(f"reviewers.{name}", one) for name, one in named.items())]
    return "\n".join(text).encode()


def build(folder, rules=None, object_format="sha1", files=None):
    """A bare repository: `topic` is ahead of `main`, `aside` beside it, `clash` in conflict with it, and more.

    Made once for each kind, in a folder that is removed when Python ends.
    """
    first = {"endmark.toml": rules or policy(), "tools/review.py": SCRIPT, "app.py": lines("app")} | (files or {})
    name = f"{object_format}-{hash(tuple(sorted(first.items())))}"
    template = Path(_TEMPLATES.name, name)
    if not template.exists():
        _import(make(template, object_format, bare=True), first)
    shutil.copytree(template, folder)
    return folder


def _import(folder, first):
    new = Import()
    main = new.commit("main", first)
    new.branch("start", main)
    topic = new.commit("topic", {"app.py": lines("app", l3="changed")}, main)
    new.commit("topic-next", {"app.py": lines("app", l3="changed", l9="again")}, topic)
    new.commit("aside", {"other.py": lines("other")}, main)
    new.commit("onward", {"readme": b"main goes on\n"}, main)
    new.commit("clash", {"app.py": lines("app", l3="otherwise")}, main)
    new.commit("rules", {"endmark.toml": b"# easier\n" + first["endmark.toml"]}, main)
    new.commit("other-reviewer", {"tools/review.py": SCRIPT + b"# stricter\n"}, main)
    new.commit("empty-commit", {}, main)
    new.commit("orphan", {"app.py": lines("app", l3="changed")})
    one, two = new.commit("arm-1", {"a": b"a\n"}, main), new.commit("arm-2", {"b": b"b\n"}, main)
    new.commit("octopus", {"a": b"a\n", "b": b"b\n"}, main, one, two)
    new.into(folder)


class World:
    """Everything a test does to the gate, in this process. The command line's own tests start processes."""

    def __init__(self, folder, rules=None, object_format="sha1", files=None, environ=None, ledger=None):
        self.folder = folder
        self.repo = folder / "repo.git"
        self.home = folder / "home"
        if not folder.exists():  # else it is a copy, or was left by a process that was killed
            build(self.repo, rules, object_format, files)
            self.home.mkdir()
        self.environ = {**os.environ, "HOME": str(self.home), **(environ or {})}
        self.path = ledger or folder / "ledger.db"
        self.ledger = Ledger.open(self.path, create=True, timeout=5.0)
        self.book = PatchBook(self.ledger)
        self.time = START
        self.git_program = Git(os.environ)
        self.ended = False
        self._changes: dict[Any, Any] = {}

    def close(self):
        self.ledger.close()

    def end(self):
        """Look at everything for the last time."""
        if not self.ended:
            self.ended = True
            self.is_sound()
            self.close()

    def clock(self):
        self.time += timedelta(milliseconds=1)
        return self.time

    # ---- reviewers

    def says(self, *answers, name="tests"):
        (self.home / f"{name}.says").write_text("\n".join(answers))

    def asked(self, name="tests"):
        file = self.home / f"{name}.asked"
        return len(file.read_text().splitlines()) if file.exists() else 0

    # ---- the gate

    def at(self, base="main", head="topic", ref=None, policy_file=None):
        """An open gate and the place of a change."""
        gate = Gate(open_repository(self.git_program, self.repo))
        gate.__enter__()
        try:
            return gate, read_place(gate, base=base, head=head, ref=ref, policy_file=policy_file)
        except BaseException:
            gate.__exit__(None, None, None)
            raise

    def patches(self, gate, **more):
        reviewing = Reviewing(Reviewers(gate, self.environ), lambda: f"{next(_NONCES):032x}", more.pop("verify", None))
        return PatchGate(self.ledger, self.clock, reviewing=reviewing, **more)

    def review(self, base="main", head="topic", ref=None, policy_file=None):
        gate, place = self.at(base, head, ref, policy_file)
        with gate:
            return self.patches(gate).review(gate, place, "tester")

    def decide(self, raw, base="main", head="topic", ref=None, reviewer=None, name=None, policy_file=None):
        gate, place = self.at(base, head, ref, policy_file)
        with gate:
            return self.patches(gate).decide(gate, place, raw, "tester", reviewer=reviewer, name=name)

    def merge(self, base="main", head="topic", ref=None, approver=None, sign=None, policy_file=None):
        gate, place = self.at(base, head, ref, policy_file)
        with gate:
            return merge_passed(self.book, gate, place, How(person=PERSON, sign=sign, approver=approver), self.clock)

    def settle(self):
        with Gate(open_repository(self.git_program, self.repo)) as gate:
            return settle_merges(self.book, gate, os.path.realpath(self.repo), self.clock)

    def change(self, base="main", head="topic", ref=None):
        """The change as it is now; git is asked once for the same two commits."""
        commits = (git(self.repo, "rev-parse", base, head), base, ref)
        if commits not in self._changes:
            gate, place = self.at(base, head, ref)
            with gate:
                self._changes[commits] = read_case(gate, place).change
        return self._changes[commits]

    def verdict(self, base="main", head="topic", **changes):
        """A whole verdict on a change, sealed."""
        return envelope(dump(self.body(base, head, **changes)))

    def body(self, base="main", head="topic", **changes):
        diff_sha = self.change(base, head).diff_sha
        return {"verdict": "pass", "diff_sha": diff_sha, "policy_version": VERSION, "findings": []} | changes

    # ---- what is looked at

    def tip(self, ref="main"):
        return git(self.repo, "rev-parse", ref)

    def move(self, ref, to):
        git(self.repo, "update-ref", f"refs/heads/{ref}", to)

    def decisions(self):
        return self.book.page(10_000)

    def merges(self):
        """The commits that `main` has over where it started, newest first, by the first parents."""
        return git(self.repo, "rev-list", "--first-parent", "start..main").split()

    def outcome(self, entry):
        return outcome_of(entry, self.book.reviews(entry.decision_id))

    def states(self):
        return [entry.state.value for entry in self.decisions()][::-1]

    def is_sound(self):
        report = self.ledger.verify()
        assert report.ok, report.problems
        for commit in self.merges():
            self._is_bound(commit)

    def _is_bound(self, commit):
        """Of a merge that the gate made: its decision is on record, and binds to exactly this commit."""
        message = git(self.repo, "show", "-s", "--format=%B", commit)
        if "Endmark-Decision: " not in message:
            return
        entry = self.book.get(message.partition("Endmark-Decision: ")[2].split()[0])
        assert entry is not None
        assert git(self.repo, "show", "-s", "--format=%P %T", commit).split() == [
            entry.base,
            entry.head,
            entry.merge_tree,
        ]
        passed = {one.reviewer for one in self.book.reviews(entry.decision_id) if one.state == "pass"}
        assert passed >= set(entry.required)


def cached(world, monkeypatch, base="main", head="topic"):
    """Let git read one change once, for tests that decide thousands of times about it. Returns decide(raw)."""
    gate, place = world.at(base, head)
    case = read_case(gate, place)
    monkeypatch.setattr("endmark.patch_gate.read_case", lambda *_: case)
    gate.__exit__(None, None, None)
    return lambda raw: world.patches(gate).decide(gate, place, raw, "tester")


def shown(outcome):
    return outcome.state, outcome.signal, outcome.exit_code
