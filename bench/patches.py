"""The patch gate: a decision against the git commands it runs, and a replay against the time its reviewers take."""

import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bench import git_reading
from bench.git_reading import noted
from bench.measure import Row, prepared
from endmark.core.refusal import Signal
from endmark.core.states import Decision, Review
from endmark.effects.git import Gate, Git, open_repository
from endmark.faces.patches import Patches
from endmark.ledger.book import Ledger
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import Answer, NewDecision, NewReview
from endmark.patch_gate import PatchGate, records_sha
from endmark.steps.patch_case import read_case, read_place
from endmark.steps.reviewing import Reviewers, Reviewing

_ENDMARK = [os.path.join(os.path.dirname(sys.executable), "endmark")]
_POLICY = '[branches.{branch}]\npolicy = "p1"\nreviewers = [{names}]\nmax_diff_bytes = 100000000\n{reviewers}'
_COMMAND = '[reviewers.r]\nkind = "command"\ncommand = ["/bin/true"]\ncapacity = "dedicated"\n'
_MODEL = '[reviewers.r{n}]\nkind = "openai"\nmodel = "m"\nurl = "{url}/v1"\ncapacity = "dedicated"\n'
_REVIEWERS = 5


def _sealed(verdict: dict[str, Any]) -> bytes:
    body = json.dumps(verdict).encode() + b"\nEND\n"
    return b"MC1 %d %s\n%s" % (len(body), hashlib.sha256(body).hexdigest().encode(), body)


# ---- a decision


def _bare(told: list[dict[str, Any]], _ready: Path) -> None:
    for one in told:
        subprocess.run(**one, capture_output=True, check=False)


def _decide(command: list[str], ledger: Path) -> None:
    subprocess.run([*command, "--ledger", str(ledger)], capture_output=True, check=True)


def _decision(count: int, changed: int, turns: int, limit: float | None) -> Row:
    with tempfile.TemporaryDirectory(prefix="bench-patches-") as name:
        folder = Path(name)
        repository = folder / "repo.git"
        repository.mkdir()
        git_reading.make(repository, count, changed)
        rules = folder / "policy.toml"
        rules.write_text(_POLICY.format(branch="aside", names='"r"', reviewers=_COMMAND))
        numbers = itertools.count()
        verdict = folder / "verdict.mc1"

        def place() -> tuple[Gate, Any]:
            gate = Gate(open_repository(Git(os.environ), str(repository))).__enter__()
            return gate, read_place(gate, base="aside", head="head", ref=None, policy_file=rules)

        gate, where = place()
        case = read_case(gate, where)
        verdict.write_bytes(_sealed({"verdict": "pass", "diff_sha": case.change.diff_sha, "policy_version": "p1"}))
        gate.__exit__(None, None, None)
        with noted() as told:
            gate, where = place()  # by a git that does not know the version yet, as the process does not
            with Ledger.open(folder / "noted.db", create=True) as ledger:
                reviewing = Reviewing(Reviewers(gate, os.environ), lambda: "0" * 32)
                doing = PatchGate(ledger, lambda: datetime.now(UTC), reviewing=reviewing)
                assert doing.decide(gate, where, verdict.read_bytes(), "bench").state == "pass"
        try:
            command = [
                *_ENDMARK,
                "decide",
                str(verdict),
                "--base",
                "aside",
                "--head",
                "head",
                "--repo",
                str(repository),
            ]
            command += ["--policy", str(rules)]

            def ready() -> Path:
                ledger = folder / f"ledger-{next(numbers)}.db"
                Ledger.open(ledger, create=True).close()
                return ledger

            what = f"endmark decide, {changed:,} of {count:,} files : its {len(told)} git commands, bare"
            return prepared(what, partial(_decide, command), partial(_bare, told), ready, limit, turns)
        finally:
            gate.__exit__(None, None, None)


# ---- a replay


class Model(BaseHTTPRequestHandler):
    """A model that takes its time and passes everything. `python -m bench.patches SECONDS` runs one."""

    protocol_version = "HTTP/1.1"
    seconds = 0.0

    def do_POST(self) -> None:
        began = time.monotonic()
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        prompt = body["messages"][0]["content"]
        asked = prompt[prompt.rindex("Answer with one JSON object") :]
        said = {"verdict": "pass"}
        for key in ("diff_sha", "policy_version"):
            said[key] = re.findall(f'"{key}": "(.*)"', asked)[0]
        text = json.dumps({**said, "findings": [], "marks": re.findall(r"^\[mark (.*)\]$", prompt, re.MULTILINE)})
        raw = b"".join(map(self._event, ({"role": "assistant", "content": text}, {})))
        time.sleep(max(0.0, self.seconds - (time.monotonic() - began)))
        raw += b"data: [DONE]\n\n"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _event(self, delta: dict[str, str]) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": None if delta else "stop"}
        made = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        return f"data: {json.dumps(made)}\n\n".encode()

    def log_message(self, *_: Any) -> None:
        return


def _heads(repository: Path, count: int, policy: bytes) -> None:
    """`main` holds the policy; each of `count` heads changes a file of its own."""
    git = partial(git_reading.run_git, repository)
    git("init", "-q", "--bare", "-b", "main", ".")
    stream = [
        b"commit refs/heads/main\nmark :1\ncommitter A <a@example.com> 1 +0000\ndata 2\nx\n\n"
        b"M 100644 inline endmark.toml\ndata %d\n%s\n" % (len(policy), policy)
    ]
    for number in range(count):
        text = b"a line\n" * 40 + b"%d\n" % number
        stream.append(
            b"commit refs/heads/h%d\ncommitter A <a@example.com> 2 +0000\ndata 2\nx\n\nfrom :1\n"
            b"M 100644 inline f%d\ndata %d\n%s\n" % (number, number, len(text), text)
        )
    git("fast-import", "--quiet", stdin=b"".join(stream))


def _record(ledger: Path, repository: Path, count: int) -> None:
    """A decision on every head, with a recorded pass of each reviewer."""
    now = datetime.now(UTC)
    with Ledger.open(ledger, create=True) as opened, Gate(open_repository(Git(os.environ), str(repository))) as gate:
        book = PatchBook(opened)
        for number in range(count):
            place = read_place(gate, base="main", head=f"h{number}", ref=None, policy_file=None)
            case = read_case(gate, place)
            entry = book.open(
                NewDecision(
                    repository=place.repository,
                    ref=place.ref,
                    base=place.base,
                    head=place.head,
                    merge_tree=case.change.merge_tree,
                    records_sha=records_sha(case),
                    diff_sha=case.change.diff_sha,
                    policy_version=place.branch.policy,
                    policy_sha256=place.policy.sha256,
                    required=place.branch.reviewers,
                ),
                now,
            )
            verdict = {"verdict": "pass", "diff_sha": case.change.diff_sha, "policy_version": "p1"}
            raw = _sealed(verdict)
            for name in place.branch.reviewers:
                answer = Answer(
                    state=Review.PASS,
                    signal=Signal.COMPLETE,
                    received_bytes=len(raw),
                    body_sha256=hashlib.sha256(raw).hexdigest(),
                    blocking=0,
                    advisory=0,
                )
                book.brought(entry.decision_id, NewReview(reviewer=name), answer, now, body=raw)
            book.move(entry.decision_id, Decision.PENDING, Decision.PASS, now)


def _replay(quick: bool) -> Row:
    changes, seconds, workers = (10, 0.25, 8) if quick else (200, 0.25, 8)
    with tempfile.TemporaryDirectory(prefix="bench-replay-") as name:
        folder = Path(name)
        repository, ledger = folder / "repo.git", folder / "ledger.db"
        repository.mkdir()
        command = [sys.executable, "-m", "bench.patches", str(seconds)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as model:
            try:
                assert model.stdout is not None
                url = model.stdout.readline().strip()
                names = ", ".join(f'"r{n}"' for n in range(_REVIEWERS))
                made = "".join(_MODEL.format(n=n, url=url) for n in range(_REVIEWERS))
                _heads(repository, changes, _POLICY.format(branch="main", names=names, reviewers=made).encode())
                _record(ledger, repository, changes)
                with Patches(ledger, repository) as patches:
                    began = time.perf_counter()
                    done = patches.replay(datetime.now(UTC) - timedelta(days=1), workers=workers)
                    took = time.perf_counter() - began
            finally:
                model.kill()
        asked = changes * _REVIEWERS
        assert [pair.again for pair in done.pairs] == ["pass"] * asked, done.skipped[:1]
        own = asked * seconds / workers
        what = f"replay of {asked:,} reviews, {workers} at a time : the reviewers' own time ({seconds:g} s each)"
        return Row(what, took, own, took / own, None if quick else 1.2)


def measure(quick: bool) -> list[Row]:
    small = _decision(5_000, 200, 5 if quick else 15, None)  # there, starting Python takes longer than all of git
    return [*([] if quick else [_decision(50_000, 2_000, 15, 2.0)]), small, _replay(quick)]


if __name__ == "__main__":
    Model.seconds = float(sys.argv[1])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()
