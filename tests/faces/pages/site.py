"""A real service on loopback for the pages, in a thread of this process, over a world with something of everything."""

import asyncio
import hashlib
import os
import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import httpx
from tests.support.world import make_database, plan_bytes

from endmark.core import mc1, proof, strictjson
from endmark.core.refusal import Signal
from endmark.core.states import Decision, Review, State
from endmark.faces import config
from endmark.faces.http.server import Server, listen
from endmark.faces.http.service import Service
from endmark.faces.http.settings import settings_of
from endmark.ledger.book import Ledger
from endmark.ledger.entry import New
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import Answer, NewDecision, NewReview
from endmark.ledger.tokens import Tokens

PATIENCE = 20.0  # seconds
TOML = """\
[targets.prod]
url = "sqlite:///{0}/prod.db"
rehearse = "always"
[targets.other]
url = "sqlite:///{0}/other.db"
[service]
drills = "drills"
"""
HTML = {"accept": "text/html,application/xhtml+xml"}
HOSTILE = "</script><script>alert(1)</script>\x1b[2J\u202egnp\u200b\"'><img src=x onerror=alert(1)>"
"""What an agent could write wherever it may write."""


class Site:
    """A running service; `folder` holds its targets, its ledger and its drills."""

    def __init__(self, folder, service, url):
        self.folder = folder
        self.service = service
        self.url = url

    def browser(self, **headers):
        """A client that asks as a browser does, and keeps its cookies."""
        return httpx.Client(base_url=self.url, headers={**HTML, **headers}, timeout=PATIENCE)

    def submit(self, raw, target="prod", token=None):
        """What an agent does."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.post(f"{self.url}/v1/jobs", params={"target": target}, content=raw, headers=headers)

    @contextmanager
    def book(self):
        with Ledger.open(self.service.config.ledger, create=False) as ledger:
            yield ledger

    def token(self, name, *scopes, **limits):
        with self.book() as ledger:
            secret, _ = Tokens(ledger).create(
                name, scopes, self.service.clock(), created_by="test", chance=os.urandom, **limits
            )
            self.service.keyring.look_for_any(ledger)  # at once, and not when it would look again
        return secret

    def jobs(self):
        """Every attempt, with the events of its chain: what must not change."""
        with self.book() as ledger:
            assert ledger.verify().problems == ()
            return [(entry, len(ledger.events(entry.attempt_id))) for entry in ledger.page(1000)]

    def until(self, holds):
        """Wait for something that no answer tells of."""
        for _ in range(int(PATIENCE / 0.02)):
            if holds():
                return
            threading.Event().wait(0.02)
        raise AssertionError("it never came about")


def envelope(job_id, statements=("CREATE TABLE made (id INTEGER)",), **more):
    return mc1.seal(plan_bytes(job_id, list(statements), **more))


@contextmanager
def served(folder, *, toml=TOML, ledger=None, worker=False):
    """A service over `folder`, until the block is left; then it was drained."""
    for name in ("prod", "other"):
        if not (folder / f"{name}.db").exists():
            make_database(folder / f"{name}.db")
    (folder / "drills").mkdir(exist_ok=True)
    (folder / "endmark.toml").write_text(toml.format(folder))
    found = config.load(str(ledger or folder / "ledger.db"), str(folder / "endmark.toml"), {})
    flags = {"worker": worker, "rate": 1e6, "burst": 10_000_000, "drain_timeout": 5.0, "port": 0}
    service = Service(found, settings_of(found, **flags))
    began, faults = threading.Event(), []
    with listen("127.0.0.1", 0) as listener:
        server = Server(service, listener, lambda _address: began.set())

        def run():
            try:
                asyncio.run(server.serve([listener]))
            except BaseException as fault:  # noqa: BLE001  # said by the test, not by a thread
                faults.append(fault)
            finally:
                began.set()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            assert began.wait(PATIENCE)
            if faults:
                raise faults[0]
            yield Site(folder, service, f"http://127.0.0.1:{listener.getsockname()[1]}")
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
    assert not thread.is_alive()
    assert faults == []


# --- a world with something of everything

ROADS = {
    State.STAGED: (), State.APPROVED: (State.APPROVED,), State.DECLINED: (State.DECLINED,), State.STALE: (State.STALE,),
    State.APPLYING: (State.APPROVED, State.APPLYING), State.APPLIED: (State.APPROVED, State.APPLYING, State.APPLIED),
    State.FAILED: (State.APPROVED, State.APPLYING, State.FAILED),
    State.PARTIAL: (State.APPROVED, State.APPLYING, State.PARTIAL),
    State.SETTLED: (State.APPROVED, State.APPLYING, State.PARTIAL, State.SETTLED),
}  # fmt: skip
NACKS = {
    State.TRUNCATED: Signal.BODY_CUT,
    State.INCOMPLETE: Signal.WEAK_EVIDENCE,
    State.REJECTED: Signal.WRONG_COUNT,
    State.QUARANTINED: Signal.ENVELOPE_DIGEST,
}


def job_in(ledger, state, now, target, job_id, statements=("CREATE TABLE made (id INTEGER)",), **facts):
    """An attempt that stands in `state`, with a body that fits it."""
    raw = envelope(job_id, statements)
    if state in NACKS:
        raw = raw[: len(raw) * 55 // 100]
    proven: Any = None if state in NACKS else proof.prove(raw, len(raw)).value
    new = New(
        job_id=job_id,
        owner=state not in NACKS,
        state=state if state in NACKS else State.STAGED,
        signal=NACKS.get(state, Signal.COMPLETE),
        received_bytes=len(raw),
        expected_bytes=len(envelope(job_id, statements)),
        body_sha256=hashlib.sha256(raw).hexdigest(),
        sha256=None if proven is None else proven.sha256,
        stmt_count=None if proven is None else proven.stmt_count,
        target=target,
        level=None if proven is None else "sealed",
        evidence=() if proven is None else ("sealed", "envelope-length", "envelope-sha256", "sentinel"),
        submitter=facts.pop("submitter", "billing-agent"),
        detail=facts.pop("detail", "the body is cut" if state in NACKS else ""),
    )
    entry = ledger.record(new, now, body=raw)[0]
    if ROADS.get(state):
        how: dict[str, Any] = (
            {"approver": "ann", "approved_fingerprint": "f" * 64} if State.APPROVED in ROADS[state] else {}
        )
        if state in (State.PARTIAL, State.SETTLED):
            how |= {"statements_run": 1, "detail": "statement 2 failed and the downs did too"}
        if state is State.FAILED:
            how |= {"signal": Signal.SQL_ERROR, "detail": "statement 1: no such table"}
        path = ROADS[state]
        for before, after in zip((State.STAGED, *path), path, strict=False):
            given = {key: value for key, value in how.items() if key in ("approver", "approved_fingerprint")}
            entry = ledger.move(entry.attempt_id, before, after, now, **(how if after is path[-1] else given))
    return entry


SHA, OTHER, COMMIT = "a" * 64, "b" * 64, "c" * 40


def decision_in(book, state, now, *, repository="/repo", ref="refs/heads/main", diff=SHA, finding="a word", **more):
    """A decision with a review, an answer with a finding, and advice."""
    new = NewDecision(
        repository=repository, ref=ref, base=more.pop("base", "1" * 40), head=more.pop("head", "2" * 40),
        merge_tree="3" * 40, records_sha=OTHER, diff_sha=diff, policy_version="v1",
        policy_sha256=more.pop("policy", OTHER), required=("careful",), submitter="ci",
    )  # fmt: skip
    entry = book.open(new, now)
    if state is Decision.PENDING:
        return entry
    word = {Decision.FAIL: Review.FAIL, Decision.INCOMPLETE: Review.INCOMPLETE}.get(state, Review.PASS)
    review(book, entry, word, now, finding=finding)
    first = state if state in (Decision.FAIL, Decision.INCOMPLETE) else Decision.PASS
    how = {"signal": Signal.NO_TERMINAL, "detail": "the answer stopped"} if state is Decision.INCOMPLETE else {}
    entry = book.move(entry.decision_id, Decision.PENDING, first, now, **how)
    if state is Decision.MERGED:
        entry = book.move(entry.decision_id, Decision.PASS, Decision.MERGED, now, merged=COMMIT)
    return entry


def review(book, entry, word, now, *, purpose="review", reviewer="careful", model="gpt-x", finding="a word"):
    """One attempt at a review, answered; a whole one carries a finding."""
    asked = book.ask(
        entry.decision_id, NewReview(reviewer=reviewer, purpose=purpose, model=model, prompt_sha256=SHA), now
    )
    severity = "blocking" if word is Review.FAIL else "advisory"
    verdict = {
        "verdict": word.value, "diff_sha": entry.diff_sha, "policy_version": entry.policy_version,
        "findings": [{"severity": severity, "path": "src/app.py", "line": 7, "message": finding}],
    }  # fmt: skip
    whole = word is not Review.INCOMPLETE
    body = mc1.seal(strictjson.dumps(verdict)) if whole else b"{"
    answer = Answer(
        state=word,
        signal=Signal.COMPLETE if whole else Signal.NO_TERMINAL,
        received_bytes=len(body),
        expected_bytes=len(body) if whole else None,
        body_sha256=hashlib.sha256(body).hexdigest(),
        level="sealed" if whole else None,
        evidence=("sealed",) if whole else (),
        detail="" if whole else "the stream stopped without its end",
        blocking=int(severity == "blocking") if whole else None,
        advisory=int(severity == "advisory") if whole else None,
    )
    book.answered(asked.review_id, answer, now + timedelta(seconds=3), body=body)
    return asked


def furnished(site, hostile=False):
    """Something of everything: jobs in every state, decisions in every state, replays, drills."""
    text = HOSTILE if hostile else "the index is missing"
    now = site.service.clock()
    target = site.service.places["prod"].target.identity
    with site.book() as ledger:
        for number, state in enumerate([*ROADS, *NACKS]):
            more = {"submitter": text} if hostile else {}
            if state in NACKS:
                more["detail"] = text
            statements = [f"DROP TABLE users -- {text}", "CREATE TABLE a (\n  b TEXT,\n  c TEXT DEFAULT 'x'\n)"]
            job_in(ledger, state, now - timedelta(minutes=7 * number), target, f"{state.value}-1", statements, **more)
        book = PatchBook(ledger)
        for number, word in enumerate((Decision.PENDING, Decision.PASS, Decision.FAIL, Decision.INCOMPLETE)):
            decision_in(book, word, now, diff=f"{number}" * 64, finding=text)
        entry = decision_in(book, Decision.MERGED, now, diff="e" * 64, finding=text)
        review(book, entry, Review.PASS, now, purpose="advice", reviewer="adviser", finding=text)
        review(book, entry, Review.PASS, now - timedelta(days=2), purpose="replay")
        review(book, entry, Review.INCOMPLETE, now, purpose="replay", reviewer="careful", model=text[:60])
        review(book, entry, Review.FAIL, now, purpose="replay")
    return entry.decision_id
