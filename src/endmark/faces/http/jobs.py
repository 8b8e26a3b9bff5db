"""Jobs over HTTP: deliver, look, wait, approve, decline, revert (spec/http.md)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from endmark.apply_gate import ApplyGate, Delivery, Looked, look
from endmark.core import plan
from endmark.core.evidence import REVIEW_NONE
from endmark.core.outcome import Outcome
from endmark.core.refusal import Refused
from endmark.core.states import State
from endmark.faces.api import Gate
from endmark.faces.config import Place
from endmark.faces.http import body as bodies
from endmark.faces.http import openapi, progress
from endmark.faces.http.access import LOCAL, Identity, forbidden
from endmark.faces.http.log import told
from endmark.faces.http.problems import answer, document, nack, not_tried, refused
from endmark.faces.http.service import Service
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry
from endmark.ledger.outcomes import outcome_of
from endmark.ledger.queries import with_revert

INLINE = 64 * 1024  # bytes: what is no longer is proven faster than handed to another thread
LONGEST_WAIT = 30.0  # seconds
_REASON_MAX = 1000  # characters
_STATES = {state.value: state for state in State if state is not State.RECEIVED}


async def deliver(
    service: Service,
    body: bodies.Body,
    place: Place,
    identity: Identity,
    *,
    job_id: str | None = None,
    seal: bool = False,
    hold: bool = False,
) -> tuple[Outcome, bool]:
    """Prove a delivery and stage it, durably: (what is on record of it, whether it is new). For every door.

    `hold`: it waits for a person, whatever its target says. Read `outcome.state`: nothing is raised for a nack.
    H7: an answer is given after the commit. Raises Problem and CannotTry.
    """
    if job_id is not None and not plan.ID.fullmatch(job_id):
        raise not_tried("usage", "Endmark-Job-Id is not 1-128 of [A-Za-z0-9._:-]. Nothing was done.")  # H6
    delivery = Delivery(
        raw=body.raw,
        job_id=job_id,
        submitter=identity.name,
        seal=seal,
        cap=service.settings.max_body,
        evidence=(REVIEW_NONE,) if place.review == "none" and not hold else (),
        refused=body.refused,
        verify=service.verify,
    )
    small = len(body.raw) <= INLINE
    began = time.time_ns()
    if small:
        found = look(delivery, place.target.identity, place.options)
    else:
        found = await service.proven(lambda: look(delivery, place.target.identity, place.options).light())
    proven = time.time_ns()
    outcome, is_new = await service.write(lambda ledger: _admitted(service, ledger, found), small=small)
    name = place.name or place.target.identity
    if service.traces is not None:
        service.traces.delivered(name, outcome, began, proven)
    service.figures.delivered(name, outcome, is_new)
    if service.log is not None and not refused(outcome):  # a nack has its line where it is answered
        service.say("delivered", target=name, caller=identity.name, is_new=is_new, **told(outcome))
    if is_new and outcome.state == State.STAGED.value:
        service.changes.told()
        if service.worker is not None:
            service.worker.staged(outcome.attempt_id or "", place)
    return outcome, is_new


def _admitted(service: Service, ledger: Ledger, found: Looked) -> tuple[Outcome, bool]:
    return ApplyGate(ledger, service.clock).admit(found)


def submitting(service: Service) -> Callable[[Request], Awaitable[Response]]:
    """What answers `POST /v1/jobs`."""

    async def submit(request: Request) -> Response:
        target = request.query_params.get("target")
        if target is None:
            await service.allow(request, "submit")
            raise not_tried("usage", "Which target? ?target=NAME was expected. Nothing was done.", close=True)
        identity = await service.allow(request, "submit", target=target)
        place = service.place(target)
        if service.ending:
            raise not_tried("busy", "The service is ending. Nothing was done; send it again.", close=True)
        with service.limits.upload(identity.caller) as room:
            body = await bodies.read(request, service.settings, room)
            outcome, is_new = await deliver(
                service,
                body,
                place,
                identity,
                job_id=request.headers.get("endmark-job-id"),
                seal=_flag(request, "seal"),
            )
        if refused(outcome):
            raise nack(outcome, close=body.refused is not None)
        return answer(outcome, 202 if is_new else 200, {"location": f"/v1/jobs/{outcome.attempt_id}"})

    return submit


def router(service: Service) -> APIRouter:
    """The routes of this file."""
    routes = APIRouter()

    routes.post("/v1/jobs", **openapi.SUBMIT)(submitting(service))

    @routes.get("/v1/jobs", **openapi.LIST)
    async def jobs(request: Request) -> Response:
        asked = request.query_params
        target = asked.get("target")
        identity = await service.allow(request, target=target)
        state = _state(asked.get("state"))
        limit = number(asked.get("limit"), 50, 1, 500, "limit")
        targets = identities(service, identity, target)
        cursor = asked.get("cursor")

        def page(ledger: Ledger) -> list[Entry]:
            found = ledger.page(limit + 1, cursor, state, targets)
            return [with_revert(ledger, entry) for entry in found]

        entries = await service.read(page)
        shown = [outcome_of(entry) for entry in entries[:limit]]
        onward = shown[-1].attempt_id if len(entries) > limit else None
        return document({"version": 1, "jobs": shown, "cursor": onward})

    @routes.get("/v1/jobs/{id}", **openapi.SHOW)
    async def job(request: Request, id: str) -> Response:
        identity = await service.allow(request)
        wait = seconds(request.query_params.get("wait"))
        entry = await visible(service, identity, id)
        outcome = outcome_of(entry) if wait is None else await progress.waited(service, identity, entry, wait)
        return answer(outcome, 200)

    @routes.get("/v1/jobs/{id}/events", **openapi.EVENTS)
    async def events(request: Request, id: str) -> Response:
        identity = await service.allow(request)
        entry = await visible(service, identity, id)
        last = request.headers.get("last-event-id", "0")
        after = int(last) if last.isascii() and last.isdigit() and len(last) < 10 else 0
        stream = progress.events(service, identity, entry.attempt_id, after)
        await anext(stream)  # after its head an answer cannot be a 503 any more
        return StreamingResponse(stream, media_type="text/event-stream", headers={"cache-control": "no-store"})

    @routes.post("/v1/jobs/{id}/approve", **openapi.APPROVE)
    async def approve(request: Request, id: str) -> Response:
        outcome = await let_pass(service, request, id, request.query_params.get("fingerprint"))
        return _answered(outcome, 200)

    @routes.post("/v1/jobs/{id}/decline", **openapi.DECLINE)
    async def decline(request: Request, id: str) -> Response:
        outcome = await turn_down(service, request, id, request.query_params.get("reason") or "")
        return _answered(outcome, 200)

    @routes.post("/v1/jobs/{id}/revert", **openapi.REVERT)
    async def revert(request: Request, id: str) -> Response:
        return _answered(await undo(service, request, id), 202)

    @routes.get("/v1/targets", **openapi.TARGETS)
    async def targets(request: Request) -> Response:
        identity = await service.allow(request)
        shown = [_target(service, name) for name in service.config.targets if identity.reaches(name)]
        return document({"version": 1, "targets": shown})

    return routes


def identities(service: Service, identity: Identity, target: str | None) -> tuple[str, ...] | None:
    """What the book calls the target of this name, or all that whoever asks may see; None for any. Raises Problem."""
    names = identity.targets if target is None else (target,)
    return None if names is None else tuple(service.place(name).target.identity for name in names)


async def let_pass(service: Service, request: Request, name: str, shown: str | None) -> Outcome:
    """Approve a job for whoever asks; `shown` is the schema they saw. For every door. Raises Problem and CannotTry."""
    identity, entry, place = await _theirs(service, request, name)
    if shown is not None and not plan.HEX64.fullmatch(shown):
        raise not_tried("usage", "fingerprint is not 64 lower-case hex digits. Nothing was done.")
    options = place.options
    if identity.name != LOCAL:  # H16: names are worth something here
        options = msgspec.structs.replace(options, other_approver=True)

    def act(gate: Gate) -> Outcome:
        return gate.doing.let_pass(entry.attempt_id, gate.target(place.target), options, identity.name, shown)

    return await _acted(service, place, act, "approved", identity)


async def turn_down(service: Service, request: Request, name: str, reason: str) -> Outcome:
    """Decline a job for whoever asks. For every door. Raises Problem and CannotTry."""
    identity, entry, _ = await _theirs(service, request, name)

    def act(gate: Gate) -> Outcome:
        return gate.doing.decline(entry.attempt_id, identity.name, reason[:_REASON_MAX])

    return await _acted(service, None, act, "declined", identity)


async def undo(service: Service, request: Request, name: str) -> Outcome:
    """Stage the job that undoes one, for whoever asks. For every door. Raises Problem and CannotTry."""
    identity = await service.allow(request, "submit", "approve")
    entry = await visible(service, identity, name)
    undone = entry.job_id or entry.attempt_id
    if entry.state is not State.APPLIED:  # a refused attempt may say the id of a job that is another target's
        said = f"That attempt of {undone} is {entry.state}; only an applied job can be reverted. Nothing was done."
        raise not_tried("conflict", said)
    place = _place(service, entry)

    def act(gate: Gate) -> Outcome:
        return gate.doing.stage_revert(undone, gate.target(place.target), identity.name)

    return await _acted(service, place, act, "revert staged", identity)


async def visible(service: Service, identity: Identity, name: str) -> Entry:
    """The attempt of this id, where whoever asks may see it. Raises Problem: what they may not see is not there."""
    entry = await service.read(lambda ledger: progress.entry_in(ledger, name))
    if entry is not None and identity.targets is not None:
        mine = {service.places[name].target.identity for name in identity.targets if name in service.places}
        if entry.target not in mine:
            entry = None
    if entry is None:
        raise not_tried("not-found", f"There is no job or attempt {name[:128]!a} here.")
    return entry


async def _theirs(service: Service, request: Request, name: str) -> tuple[Identity, Entry, Place]:
    """A job that whoever asks may approve or decline. Raises Problem."""
    identity = await service.allow(request, "approve")
    entry = await visible(service, identity, name)
    return identity, entry, _place(service, entry)


def _place(service: Service, entry: Entry) -> Place:
    place = service.place_of(entry.target)
    if place is None:
        raise not_tried("conflict", "No configuration here names that job's target. Nothing was done.")
    return place


async def _acted(
    service: Service, place: Place | None, act: Callable[[Gate], Outcome], what: str, identity: Identity
) -> Outcome:
    try:
        outcome = await service.gated(place, act)
    except Refused as fault:
        if isinstance(fault.outcome, Outcome):
            raise nack(fault.outcome) from None
        raise not_tried("conflict", f"{fault.detail[:1].upper()}{fault.detail[1:]}. Nothing was done.") from None
    if refused(outcome):
        raise nack(outcome)
    service.say(what, caller=identity.name, **told(outcome))
    return outcome


def _answered(outcome: Outcome, status: int) -> Response:
    return answer(outcome, status, {"location": f"/v1/jobs/{outcome.attempt_id}"})


def _target(service: Service, name: str) -> dict[str, Any]:
    place = service.places.get(name)
    if place is None:
        return {"name": name, "usable": False, "detail": "its configuration cannot be used; the service's log says why"}
    return {
        "name": name,
        "usable": True,
        "target": place.target.identity,
        "review": place.review,
        "min_evidence": place.options.min_evidence.word,
        "rehearse": place.options.rehearse,
        "max_statements": place.options.max_statements,
    }


def _state(word: str | None) -> State | None:
    if word is not None and word not in _STATES:
        raise not_tried("usage", f"state is none of {', '.join(_STATES)}.")
    return None if word is None else _STATES[word]


def _flag(request: Request, name: str) -> bool:
    said = request.query_params.get(name, "false")
    if said not in ("true", "false"):
        raise not_tried("usage", f"{name} is neither true nor false. Nothing was done.", close=True)
    return said == "true"


def number(said: str | None, default: int, least: int, most: int, name: str) -> int:
    if said is None:
        return default
    if not (said.isascii() and said.isdigit() and len(said) < 10 and least <= int(said) <= most):
        raise not_tried("usage", f"{name} is no number from {least} to {most}.")
    return int(said)


def seconds(said: str | None) -> float | None:
    return None if said is None else float(number(said, 0, 0, int(LONGEST_WAIT), "wait"))


__all__ = ["deliver", "forbidden", "identities", "let_pass", "router", "submitting", "turn_down", "undo", "visible"]
