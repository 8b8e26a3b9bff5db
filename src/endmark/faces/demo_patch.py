"""The second half of the demo: a reviewer's verdict, a protected branch, and hooks that nobody walks around.

Real git, a real ledger, real commands. A verdict is cut at every byte, one says fail, one is whole and says pass.
"""

import os
import secrets
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from endmark.core import intoto, mc1, merge_message, strictjson
from endmark.core.refusal import Refused
from endmark.effects.git import Gate, Git, open_repository, read_change, read_commit
from endmark.faces.api import now
from endmark.ledger.book import Ledger
from endmark.patch_gate import PatchGate
from endmark.sources.keys import verifier
from endmark.steps.patch_case import read_place
from endmark.steps.reviewing import Reviewers, Reviewing

REPOSITORY = "shop.git"
VERSION = "gate-2026-07"
_POLICY = f"""\
[branches.main]
policy = "{VERSION}"
reviewers = ["tests"]

[reviewers.tests]
kind = "command"
command = [{{python}}, "tools/review.py"]
files = ["tools/review.py"]
capacity = "dedicated"
"""
# Stands in for a model: it reads the prompt, echoes the marks, judges what it was shown, and seals its verdict.
_REVIEWER = r"""
import hashlib, json, re, sys
shown = sys.stdin.read()
finding = {"severity": "blocking", "path": "price.py"}
found = []
if "+    except Exception:" in shown:
    found.append({**finding, "line": 4, "message": "every error is swallowed: a lost rebate looks like none"})
if "float(" in shown:
    found.append({**finding, "line": 3, "message": "money as a float: 0.1 + 0.2 is not 0.3"})
body = json.dumps({
    "verdict": "fail" if found else "pass",
    "diff_sha": re.search(r'"diff_sha": "([0-9a-f]{64})"', shown)[1],
    "policy_version": re.search(r'"policy_version": "([^"]+)"', shown)[1],
    "findings": found,
    "marks": re.findall(r"^\[mark ([0-9]+-[0-9a-f]{32})\]$", shown, re.M),
})
text = (body + "\nEND\n").encode()
sys.stdout.write(f"MC1 {len(text)} {hashlib.sha256(text).hexdigest()}\n{text.decode()}")
"""
_BEFORE = "def price(cents, rebate):\n    return cents - rebate\n"
_GOOD = "def price(cents, rebate):\n    return max(0, cents - rebate)\n"
_BAD = """\
def price(cents, rebate):
    try:
        return int(float(cents) - float(rebate))
    except Exception:
        return cents
"""
_ENDS = (b"}", b'"}', b"]}", b'"]}')  # what a lenient parser closes a cut object with

Print = Callable[[str], None]
Promise = Callable[[bool, str], None]
Run = Callable[..., str]


class PatchDemo:
    """The steps, in `folder`. `endmark` runs one command and holds its exit code against the promised one."""

    def __init__(self, folder: Path, endmark: Run, say: Print, promise: Promise) -> None:
        self._folder = folder
        self._server = folder / REPOSITORY
        self._endmark = endmark
        self._print = say
        self._promise = promise

    def prepare(self) -> None:
        """A bare repository with main and two changes, a key, and the hooks."""
        self._git("init", "-q", "--bare", "-b", "main", ".")
        policy = _POLICY.format(python=strictjson.dumps(sys.executable).decode())
        stream = _commit("main", 1, {"endmark.toml": policy, "tools/review.py": _REVIEWER, "price.py": _BEFORE})
        stream += _commit("rounding", 2, {"price.py": _GOOD}, 1) + _commit("rebate", 3, {"price.py": _BAD}, 1)
        self._git("fast-import", "--quiet", stdin=stream)
        self._print(
            f"A reviewer's verdict opens the branch main of {REPOSITORY}, a real bare repository. The reviewer is a\n"
            "command that stands in for a model. A key is made on the spot, and the repository guards itself:\n"
            "only merges with a signed record of a pass move main."
        )
        self._endmark(0, "key", "new", "gate.key", shown=lambda text: text.replace(str(self._folder) + "/", ""))
        self._endmark(0, "hook", "git", "install", "--repo", REPOSITORY, "--trusted-keys", "gate.key.pub", shown=_last)

    def cut(self) -> None:
        """The verdict `pass` arrives cut, at every byte there is."""
        before = self._main()
        with (
            Gate(open_repository(Git(os.environ), self._server)) as git,
            Ledger.open(self._folder / "ledger.db", create=True) as ledger,
        ):
            change = read_change(git, base="main", head="rounding")
            envelope = _verdict(change.diff_sha)
            place = read_place(git, base="main", head="rounding", ref=None, policy_file=None)
            reviewing = Reviewing(Reviewers(git, os.environ), lambda: secrets.token_hex(16))
            gate = PatchGate(ledger, now, reviewing=reviewing)
            outcomes = [gate.decide(git, place, envelope[:at], "demo") for at in range(len(envelope))]
        states = sorted({outcome.state for outcome in outcomes})
        body = envelope[envelope.index(b"\n") + 1 :]
        lenient = sum(_reads_pass(body[:at]) for at in range(len(body)))
        self._print(
            f"{len(outcomes)} cuts of a verdict of {len(envelope)} bytes that says pass: all {', '.join(states)}.\n"
            f"A parser that closes the object by itself reads `pass` at {lenient} of them."
        )
        self._promise(states == ["incomplete"], "every cut is incomplete")
        self._promise(lenient > 0, "a lenient parser reads a pass in a cut verdict")
        self._endmark(10, "merge", "--base", "main", "--head", "rounding", *self._where, shown=_first)
        self._shown(before, "no cut moved main")

    def fail(self) -> None:
        """A whole verdict with two blocking findings, and somebody who pushes all the same."""
        before = self._main()
        said = self._endmark(1, "review", "--base", "main", "--head", "rebate", "--repo", REPOSITORY, shown=_two)
        self._promise("2 blocking" in said, "both findings are counted")
        self._endmark(1, "merge", "--base", "main", "--head", "rebate", *self._where, shown=_first)
        pushed = self._git("push", "--quiet", ".", "rebate:main", check=False)
        refused = next((line for line in pushed.splitlines() if "endmark:" in line), pushed)
        self._print(f"$ git push . rebate:main\n{refused.strip()}")
        self._promise("guarded branch" in refused, "a push around the gate is refused with a reason")
        self._shown(before, "a fail moved nothing")

    def passes(self) -> None:
        """The whole verdict, and its receipt, read back from the branch."""
        before = self._main()
        self._endmark(0, "review", "--base", "main", "--head", "rounding", "--repo", REPOSITORY, shown=_two)
        self._endmark(0, "merge", "--base", "main", "--head", "rounding", *self._where, shown=_two)
        after = self._main()
        with Gate(open_repository(Git(os.environ), self._server)) as git:
            commit = read_commit(git, after)
        signed = merge_message.record_of(commit.message)
        record = intoto.read(signed, verifier(self._folder / "gate.key.pub"))
        decision = record.decision
        self._print(f"main before  {before}\nmain after   {after}")
        self._print(
            "The receipt, read back from the merge commit by the public key alone:\n"
            f"  {decision.decision} by {', '.join(f'{one.reviewer} ({one.kind})' for one in decision.reviews)}, "
            f"policy {decision.policy_version}, {decision.at}\n"
            f"  diff_sha {decision.change.diff_sha}\n"
            f"  signed by key {record.keyid}"
        )
        self._promise(before != after and commit.parents[0] == before, "main moved by one merge")
        self._promise(decision.change.merge_tree == commit.tree, "the record is of this merge")

    @property
    def _where(self) -> tuple[str, ...]:
        return ("--repo", REPOSITORY, "--key", "gate.key")

    def _main(self) -> str:
        return self._git("rev-parse", "refs/heads/main").strip()

    def _shown(self, before: str, promise: str) -> None:
        after = self._main()
        self._print(f"main before  {before}\nmain after   {after}")
        self._promise(before == after, promise)

    def _git(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> str:
        self._server.mkdir(exist_ok=True)
        env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        done = subprocess.run(
            ["git", *arguments],
            cwd=self._server,
            env=env | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"},
            input=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        said = done.stdout.decode(errors="replace")
        self._promise(done.returncode == 0 or not check, f"git {arguments[0]}: {said.strip()}")
        return said


def _commit(branch: str, mark: int, files: dict[str, str], parent: int | None = None) -> bytes:
    """One commit, as `git fast-import` reads it."""
    lines = [
        f"commit refs/heads/{branch}\nmark :{mark}\ncommitter Demo <demo@localhost> 1764460800 +0000\ndata 2\n.\n\n"
    ]
    lines += [f"from :{parent}\n"] if parent else []
    for path, text in files.items():
        lines.append(f"M 100644 inline {path}\ndata {len(text.encode())}\n{text}\n")
    return "".join(lines).encode() + b"\n"


def _verdict(diff_sha: str) -> bytes:
    body = {"verdict": "pass", "diff_sha": diff_sha, "policy_version": VERSION, "findings": []}
    return mc1.seal(strictjson.dumps(body))


def _reads_pass(cut: bytes) -> bool:
    for end in _ENDS:
        try:
            return strictjson.loads(cut + end).get("verdict") == "pass"
        except Refused:
            continue
    return False


def _first(text: str) -> str:
    return text.partition("\n")[0]


def _last(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def _two(text: str) -> str:
    return "\n".join(text.splitlines()[:2])
