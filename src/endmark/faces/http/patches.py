"""Patches over HTTP: bring a verdict, have reviewers asked, look, wait, approve, merge (spec/http.md).

Rules kept here: H38, H39, H41, H42, H44, H45, H46; the others are named where they stand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from http import HTTPStatus
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response

from endmark.core import plan
from endmark.core.patch_outcome import PatchOutcome
from endmark.core.policy import PolicyRefused
from endmark.core.refusal import NotThere, Refused, Signal
from endmark.core.states import Decision
from endmark.faces.http import body as bodies
from endmark.faces.http import openapi_patches as openapi
from endmark.faces.http.access import LOCAL, Identity, forbidden, full_name, placed
from endmark.faces.http.desk import Underway
from endmark.faces.http.jobs import number, seconds
from endmark.faces.http.problems import JSON, Problem, document, not_tried
from endmark.faces.http.progress import check_still
from endmark.faces.http.service import Service
from endmark.faces.patch_records import findings
from endmark.faces.patches import Patches
from endmark.ledger.book import Ledger
from endmark.ledger.patch_book import PatchBook
from endmark.ledger.patch_entry import DecisionEntry, ReviewEntry
from endmark.ledger.patch_outcomes import outcome_of
from endmark.patch_gate import NoSuchReviewer
from endmark.steps.patch_approval import Conflict

_NAME_MOST = 1024  # characters of a branch's or a commit's name
_LOOKS_EVERY = 1.0  # seconds: another process may have moved it
_BY_SIGNAL = {Signal.IDLE: 408, Signal.ID_REUSED: 409, Signal.OVER_CAP: 413}
_OVERTAKEN = 14  # X6
_KEPT = ("merge_tree", "records_sha", "policy_sha256", "required", "submitter", "approver", "opened_at", "changed_at")


def router(service: Service) -> APIRouter:
    """The routes of this file."""
    routes = APIRouter()

    @routes.post("/v1/verdicts", **openapi.DECIDE)
    async def verdicts(request: Request) -> Response:
        identity = await service.allow(request, "review")
        name, base, head, ref = _change(service, request)
        reviewer = _word(request, "reviewer")
        job_id = request.headers.get("endmark-job-id")
        if job_id is not None and not plan.ID.fullmatch(job_id):
            raise not_tried("usage", "Endmark-Job-Id is not 1-128 of [A-Za-z0-9._:-]. Nothing was done.", close=True)
        with service.limits.upload(identity.caller) as room:
            body = await bodies.read(request, service.settings, room)

            def decide(patches: Patches) -> PatchOutcome:
                return patches.decide(
                    body.raw,
                    base,
                    head,
                    ref=ref,
                    reviewer=reviewer,
                    job_id=job_id,
                    submitter=identity.name,
                    refused=body.refused,
                )

            outcome = await _acted(service, identity, name, decide)
        if outcome.state in (Decision.INCOMPLETE.value, Decision.STALE.value):
            raise _nack(outcome, len(body.raw), body.refused)
        return _answer(outcome)

    @routes.post("/v1/reviews", **openapi.REVIEW)
    async def reviews(request: Request) -> Response:
        identity = await service.allow(request, "submit", "review")
        name, base, head, ref = _change(service, request)
        patience = seconds(request.query_params.get("wait"))
        with service.limits.upload(identity.caller) as room:
            body = await bodies.read(request, service.settings, room)
        if body.refused is not None or body.raw:  # what was cut was no wish of anybody
            raise not_tried("usage", "A review has no body, and one came. Nothing was done.", close=True)
        begun: asyncio.Future[str] = service.loop.create_future()

        def told(decision_id: str) -> None:
            service.loop.call_soon_threadsafe(lambda: None if begun.done() else begun.set_result(decision_id))

        def ask(patches: Patches, begun: Callable[[str], None]) -> PatchOutcome:
            return patches.review(base, head, ref=ref, submitter=identity.name, begun=begun)

        running = asyncio.wrap_future(service.desk.review(name, _may(identity, name), told, ask))
        running.add_done_callback(_looked_at)
        either: set[asyncio.Future[Any]] = {running, begun}
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            try:
                outcome = await _said(running)
            except Underway as same:
                outcome = await _waited(service, identity, str(same), patience or 0.0)
        else:
            outcome = await _waited(service, identity, begun.result(), patience or 0.0)
        if outcome.decision_id is None:
            raise _nack(outcome, None, None)
        return _answer(outcome)

    @routes.get("/v1/decisions", **openapi.LIST)
    async def decisions(request: Request) -> Response:
        identity = await service.allow(request)
        asked = request.query_params
        state = _state(asked.get("state"))
        limit = number(asked.get("limit"), 50, 1, 500, "limit")
        places = await _places(service, identity, _word(request, "repository"), _word(request, "ref"))
        before = _word(request, "cursor")

        def page(ledger: Ledger) -> tuple[list[PatchOutcome], str | None]:
            book = PatchBook(ledger)
            if before is not None and book.get(before) is None:
                raise not_tried("usage", "cursor is not one that a page gave.")
            found = book.page(limit + 1, before, state, places)
            shown = [outcome_of(entry, book.reviews(entry.decision_id)) for entry in found[:limit]]
            return shown, found[limit - 1].decision_id if len(found) > limit else None

        shown, onward = await service.read(page)
        return document({"version": 1, "decisions": shown, "cursor": onward})

    @routes.get("/v1/decisions/{id}", **openapi.SHOW)
    async def decision(request: Request, id: str) -> Response:
        identity = await service.allow(request)
        patience = seconds(request.query_params.get("wait"))
        _, name = await _visible(service, identity, id)
        if patience is not None:
            await _waited(service, identity, id, patience)
        return document(await service.read(lambda ledger: _described(service, ledger, id, name)))

    @routes.post("/v1/decisions/{id}/approve", **openapi.APPROVE)
    async def approve(request: Request, id: str) -> Response:
        identity, entry, name = await _theirs(service, request, id)
        if identity.name != LOCAL and identity.name == entry.submitter:  # H16
            raise not_tried(
                "forbidden", f"{identity.name} asked for {id}, and somebody else approves. Nothing was done."
            )
        return _answer(await _acted(service, identity, name, lambda patches: patches.approve(id, identity.name)))

    @routes.post("/v1/decisions/{id}/merge", **openapi.MERGE)
    async def merge(request: Request, id: str) -> Response:
        identity, _, name = await _theirs(service, request, id)

        def act(patches: Patches) -> PatchOutcome:
            return patches.merge_decision(id, key=service.desk.merge_key(name))

        outcome = await _acted(service, identity, name, act)
        if outcome.state != Decision.MERGED.value:
            raise _nack(outcome, None, None, 409)
        return _answer(outcome)

    return routes


# ---- what is asked for


def _word(request: Request, name: str) -> str | None:
    said = request.query_params.get(name)
    if said is not None and not (0 < len(said) <= _NAME_MOST and "\0" not in said):
        raise not_tried("usage", f"{name} is not 1-{_NAME_MOST:,} characters. Nothing was done.", close=True)
    return said


def _change(service: Service, request: Request) -> tuple[str, str, str, str | None]:
    """(repository, base, head, ref). Raises Problem."""
    repository, base, head = (_word(request, name) for name in ("repository", "base", "head"))
    if repository is None or base is None or head is None:
        raise not_tried(
            "usage", "?repository=NAME&base=BRANCH&head=COMMIT were expected. Nothing was done.", close=True
        )
    service.desk.known(repository)
    if service.ending:
        raise not_tried("busy", "The service is ending. Nothing was done; send it again.", close=True)
    return repository, base, head, _word(request, "ref")


def _state(word: str | None) -> Decision | None:
    if word is None:
        return None
    try:
        return Decision(word)
    except ValueError:
        raise not_tried("usage", f"state is none of {', '.join(state.value for state in Decision)}.") from None


# ---- who may


def _may(identity: Identity, name: str) -> Callable[[str], None]:
    def may(ref: str) -> None:
        if not identity.reaches_branch(ref, name):
            raise forbidden(identity, "it is not for that branch", "review")

    return may


async def _places(
    service: Service, identity: Identity, repository: str | None, ref: str | None
) -> Sequence[tuple[str | None, str | None]] | None:
    """What a list is of: (repository, branch) pairs; None for everything. Raises Problem, CannotTry."""
    if repository is not None:
        service.desk.known(repository)
        where = await asyncio.to_thread(service.desk.identity, repository)
    else:
        where = None
    wanted = None if ref is None else full_name(ref)
    if identity.branches is None:
        if identity.targets is not None:
            return ()
        return None if where is None and wanted is None else [(where, wanted)]
    names = {name: one for one, name in (await asyncio.to_thread(service.desk.identities)).items()}
    found: list[tuple[str | None, str | None]] = []
    for only, branch in map(placed, identity.branches):
        of = where if only is None else names.get(only)
        if (only is None or (of is not None and where in (None, of))) and wanted in (None, full_name(branch)):
            found.append((of, full_name(branch)))
    return found


async def _visible(service: Service, identity: Identity, decision_id: str) -> tuple[DecisionEntry, str | None]:
    """The decision, and the name of its repository; what they may not see is not there. Raises Problem."""
    entry = await service.read(lambda ledger: PatchBook(ledger).get(decision_id))
    if entry is not None:
        name = (await asyncio.to_thread(service.desk.identities)).get(entry.repository)
        if identity.reaches_branch(entry.ref, name):
            return entry, name
    raise not_tried("not-found", f"There is no decision {decision_id[:128]!a} here.")


async def _theirs(service: Service, request: Request, decision_id: str) -> tuple[Identity, DecisionEntry, str]:
    identity = await service.allow(request, "approve")
    entry, name = await _visible(service, identity, decision_id)
    if name is None:
        raise not_tried("conflict", "No configuration here names that decision's repository. Nothing was done.")
    return identity, entry, name


# ---- what is done


async def _acted(
    service: Service, identity: Identity, name: str, do: Callable[[Patches], PatchOutcome]
) -> PatchOutcome:
    return await _said(asyncio.wrap_future(service.desk.act(name, _may(identity, name), do)))


async def _said(running: asyncio.Future[PatchOutcome]) -> PatchOutcome:
    """What came of it. Raises Problem, CannotTry, Underway."""
    try:
        return await asyncio.shield(running)  # a client that goes away ends nothing
    except PolicyRefused as fault:
        raise not_tried("conflict", f"{fault.detail}. Nothing was done.") from None
    except NoSuchReviewer as fault:
        raise not_tried("usage", f"{fault}. Nothing was done.") from None
    except Conflict as fault:
        raise not_tried("conflict", fault.detail) from None
    except NotThere as fault:
        raise not_tried("not-found", fault.detail) from None


def _looked_at(running: asyncio.Future[PatchOutcome]) -> None:
    """A review that ends badly when nobody listens any more has its end on record."""
    if not running.cancelled():
        running.exception()


async def _waited(service: Service, identity: Identity, decision_id: str, patience: float) -> PatchOutcome:
    """The decision once it is not pending, or as it is after `patience` seconds. Raises Problem."""

    def look(ledger: Ledger) -> PatchOutcome:
        book = PatchBook(ledger)
        entry = book.get(decision_id)
        if entry is None:
            raise not_tried("not-found", f"There is no decision {decision_id[:128]!a} here.")
        return outcome_of(entry, book.reviews(decision_id))

    outcome = await service.read(look)
    if not patience:
        return outcome
    deadline = service.loop.time() + patience
    with service.limits.watcher(identity.caller):
        while outcome.state == Decision.PENDING.value and not service.ending:
            left = deadline - service.loop.time()
            if left <= 0:
                break
            await service.changes.wait(min(left, _LOOKS_EVERY))
            await check_still(service, identity)
            outcome = await service.read(look)
    return outcome


# ---- what is answered


def _answer(outcome: PatchOutcome) -> Response:
    """H40."""
    status = 202 if outcome.state == Decision.PENDING.value else 200
    headers = {"location": f"/v1/decisions/{outcome.decision_id}"}
    return Response(msgspec.json.encode(outcome), status, headers, JSON)


def _nack(outcome: PatchOutcome, received: int | None, refused: Refused | None, status: int | None = None) -> Problem:
    """H40: a verdict that was not whole, or not of this change; or a merge that was not made."""
    if status is None:
        overtaken = 409 if outcome.exit_code == _OVERTAKEN else 422
        status = _BY_SIGNAL.get(Signal(outcome.signal), overtaken)
    mine = [one for one in outcome.reviews if one.received_bytes == received and one.signal == outcome.signal]
    expected = refused.expected_bytes if refused is not None else mine[-1].expected_bytes if mine else None
    found = {
        "type": f"urn:endmark:problem:{outcome.signal}",
        "title": f"{outcome.state}: {outcome.signal}" if received is not None else HTTPStatus(status).phrase,
        "status": status,
        **msgspec.to_builtins(outcome),
        "received_bytes": received,
        "expected_bytes": expected,
        "attempt_id": mine[-1].review_id if mine and received is not None else None,
        "job_id": None,
    }
    return Problem(status, found, close=refused is not None)


def _described(service: Service, ledger: Ledger, decision_id: str, name: str | None) -> dict[str, Any]:
    """H43: all that is on record of a decision, without paths of this machine and what reviewers said beside."""
    book = PatchBook(ledger)
    entry = book.get(decision_id)
    assert entry is not None  # noqa: S101  # it was there a moment ago, and nothing removes one
    all_of_it = book.reviews(decision_id)
    facts = msgspec.structs.asdict(entry)
    return {
        "version": 1,
        "decision": outcome_of(entry, all_of_it),
        "repository": name,
        "record": {key: facts[key] for key in _KEPT},
        "reviews": list(map(partial(_review, service, book), all_of_it)),
        "events": [
            {"seq": one.seq, "at": one.at, "event": one.event, "from": one.from_state, "to": one.to_state}
            | {key: one.data[key] for key in ("review", "approver") if key in one.data}
            for one in book.events(decision_id)
        ],
    }


def _review(service: Service, book: PatchBook, one: ReviewEntry) -> dict[str, Any]:
    return {**msgspec.structs.asdict(one), "findings": findings(book, one, service.verify)}
