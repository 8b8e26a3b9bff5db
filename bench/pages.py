"""Does a full ledger slow a look at it? Each list, page and figure of the service over 1,000,000 jobs and over 1,000.

    python -m bench --only pages

Both ledgers are filled through the book itself, in large transactions, with jobs in every state that most end in, at
four targets, and with decisions of four branches. Each is served by a process of its own; every address is asked of
both in turn, over one kept connection each, and the medians are compared.
"""

import http.client
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec

from bench.ledger_scale import BODY, DIGEST, NOW, Bulk, a_plan
from bench.measure import Row, pairs
from endmark.core.refusal import Signal
from endmark.core.states import Decision, State
from endmark.faces import config
from endmark.ledger.book import Ledger, New
from endmark.ledger.file import open_file
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import NewDecision

SMALL, LARGE, QUICK = 1_000, 1_000_000, 50_000  # jobs
_EVERY = 4  # jobs for each decision: in the small ledger too every first page is full
_LIMIT = 1.5
_TARGETS = ("app", "shop", "mail", "rare")
_TOML = "".join(f"[targets.{name}]\nurl = 'sqlite:///{{0}}/{name}.db'\n" for name in _TARGETS)
_TOML += "[service]\nrate = 1e6\nburst = 1000000\nworker = false\n"
_REFUSED = ((State.TRUNCATED, Signal.BODY_CUT), (State.INCOMPLETE, Signal.RESET), (State.REJECTED, Signal.WRONG_VALUE))
_IN_ONE = 2_000  # jobs of one transaction


def _configured(folder: Path) -> config.Config:
    file = folder / "endmark.toml"
    file.write_text(_TOML.format(folder))
    for name in _TARGETS:
        (folder / f"{name}.db").touch()
    return config.load(str(folder / "ledger.db"), str(file), {})


def _refusal(state: State, signal: Signal, number: int) -> New:
    return New(
        job_id=f"cut-{number}",
        owner=False,
        state=state,
        signal=signal,
        received_bytes=len(BODY),
        expected_bytes=2 * len(BODY),
        body_sha256=DIGEST,
        detail="the connection ended",
        submitter="bench",
    )


def _fill(folder: Path, jobs: int) -> None:
    """Of ten jobs five wait or were declined and five were refused; of decisions three of four are incomplete."""
    from endmark.faces.worker.work import usable_places

    where = [place.target.identity for place in usable_places(_configured(folder))[0].values()]
    connection = open_file(folder / "ledger.db", create=True, timeout=10.0)
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA cache_size=-500000")
    with Ledger(Bulk(connection, folder / "ledger.db", 10.0)) as ledger:
        for start in range(0, jobs, _IN_ONE):
            connection.execute("BEGIN IMMEDIATE")
            for number in range(start, min(start + _IN_ONE, jobs)):
                # One target, and below one branch, have only the oldest: a search for them must not read the rest.
                target = where[3] if number < SMALL // 10 else where[number % 3]
                if number % 10 < 5:
                    refusal = _refusal(*_REFUSED[number % len(_REFUSED)], number)
                    ledger.record(msgspec.structs.replace(refusal, target=target), NOW, body=None)
                    continue
                entry, _ = ledger.record(msgspec.structs.replace(a_plan(), target=target), NOW, body=BODY)
                if number % 10 < 8:
                    ledger.move(entry.attempt_id, State.STAGED, State.DECLINED, NOW, approver="bench")
            for number in range(start // _EVERY, min(start + _IN_ONE, jobs) // _EVERY):
                _decide(PatchBook(ledger), number)
            ledger.checkpoint(NOW)
            connection.execute("COMMIT")


def _decide(book: PatchBook, number: int) -> None:
    branch = "rare" if number < SMALL // _EVERY // 4 else ("main", "next", "hot")[number % 3]
    new = NewDecision(
        repository=f"file:///srv/{number % 2}.git",
        ref=f"refs/heads/{branch}",
        base="1" * 40,
        head=f"{number:040x}",
        merge_tree="3" * 40,
        records_sha="4" * 64,
        diff_sha=f"{number:064x}",
        policy_version="bench",
        policy_sha256="5" * 64,
        required=("one",),
        submitter="bench",
    )
    opened = book.open(new, NOW)
    if number % 4:
        book.move(opened.decision_id, Decision.PENDING, Decision.INCOMPLETE, NOW)


def _serve(folder: str, port: Any) -> None:
    from endmark.faces.http.server import Server, listen
    from endmark.faces.http.service import Service
    from endmark.faces.http.settings import settings_of

    found = _configured(Path(folder))
    with listen("127.0.0.1", 0) as listener:
        number = listener.getsockname()[1]
        Server(Service(found, settings_of(found)), listener, lambda _address: port.put(number)).run_to_its_end()


class _Client:
    """One kept connection to one service, and what that service's ledger holds."""

    def __init__(self, folder: Path, port: int) -> None:
        self._wire = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        with Ledger.open(folder / "ledger.db", create=False) as ledger:
            first = "SELECT {} FROM {} ORDER BY n LIMIT 1 OFFSET 60"
            (self.early,) = ledger.ask(lambda row: str(row[0]), first.format("attempt_id", "attempts"))
            (self.late,) = (one.attempt_id for one in ledger.page(1, state=State.STAGED))
            (self.job,) = (str(one.job_id) for one in ledger.page(1, state=State.DECLINED))
            (self.early_decision,) = ledger.ask(
                lambda row: str(row[0]), "SELECT decision_id FROM decisions ORDER BY n LIMIT 1 OFFSET 30"
            )
            self.late_decision = PatchBook(ledger).page(1)[0].decision_id

    def ask(self, path: str) -> bytes:
        self._wire.request("GET", path)
        with self._wire.getresponse() as answer:
            body = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"GET {path} was answered {answer.status}: {body[:300]!r}")
        return body


def _lists(path: str, filters: tuple[str, ...], word: str, kind: str) -> Iterator[str]:
    """Each list: its first page, one from its newest end on, and its last."""
    for one in filters:
        for cursor in ("", f"&{word}={{late{kind}}}", f"&{word}={{early{kind}}}"):
            yield f"{path}?{one}{cursor}"


_STATES = ("", "state=truncated", "state=staged", "state=declined", "state=applied")
_OF_TARGETS = ("target=app", "target=rare", "target=app&state=staged", "target=rare&state=incomplete")
_OF_DECISIONS = ("", "state=incomplete", "state=pending", "state=merged")
ADDRESSES = (
    *_lists("/v1/jobs", _STATES + _OF_TARGETS, "cursor", ""),
    *_lists("/v1/decisions", (*_OF_DECISIONS, "ref=main", "ref=rare", "ref=rare&state=pending"), "cursor", "_decision"),
    *_lists("/jobs", _STATES + _OF_TARGETS, "before", ""),
    *_lists("/decisions", _OF_DECISIONS, "before", "_decision"),
    "/v1/jobs/{late}",
    "/v1/jobs/{job}",
    "/v1/decisions/{late_decision}",
    "/v1/targets",
    "/",
    "/jobs/{late}",
    "/decisions/{late_decision}",
    "/jobs?q={job}",
    "/jobs?q=job-",
    "/jobs?q=cut-7",
    "/jobs?q=0000",
    "/jobs?q=nothing",
    "/stability",
    "/healthz",
    "/readyz",
    "/metrics",
)


@contextmanager
def _served(folder: Path, jobs: int) -> Iterator[_Client]:
    folder.mkdir()
    began = time.perf_counter()
    _fill(folder, jobs)
    size = (folder / "ledger.db").stat().st_size / 2**20
    print(f"{jobs:,} jobs in {time.perf_counter() - began:.0f} s, {size:,.0f} MiB", file=sys.stderr)
    context = multiprocessing.get_context("spawn")
    port = context.Queue()
    process = context.Process(target=_serve, args=(str(folder), port), daemon=True)
    process.start()
    try:
        yield _Client(folder, port.get(timeout=600))
    finally:
        process.terminate()
        process.join()


def _ratios(jobs: int, turns: int, folder: Path) -> list[tuple[float, str, float, float]]:
    found = []
    with _served(folder / "small", SMALL) as small, _served(folder / "large", jobs) as large:
        for address in ADDRESSES:
            mine, theirs = (
                address.format_map({name: quote(str(word), safe="") for name, word in vars(one).items()})
                for one in (large, small)
            )
            a, b = pairs(partial(large.ask, mine), partial(small.ask, theirs), turns)
            found.append((a / b, address, a, b))
    return sorted(found, reverse=True)


def measure(quick: bool) -> list[Row]:
    """The three addresses that a full ledger slows down most, of all of them."""
    with tempfile.TemporaryDirectory(prefix="endmark-bench-", dir=os.environ.get("ENDMARK_BENCH_FOLDER")) as folder:
        jobs = QUICK if quick else LARGE
        found = _ratios(jobs, 7 if quick else 25, Path(folder))
    what = f"worst of {len(found)} lists and pages, {jobs:,} jobs : {SMALL:,} jobs: GET "
    return [Row(what + address, a, b, ratio, _LIMIT) for ratio, address, a, b in found[:3]]
