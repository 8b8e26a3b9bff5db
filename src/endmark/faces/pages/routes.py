"""The routes of the dashboard. Each looks who is asking, reads the book, and makes a page of it."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse

from endmark.core.states import State
from endmark.faces.http import jobs as doors
from endmark.faces.http import progress
from endmark.faces.http.problems import not_tried
from endmark.faces.http.service import Service
from endmark.faces.pages import decision as decisions
from endmark.faces.pages import forms, home, job, listing, signing, stability, words
from endmark.faces.pages.drills import Shelf
from endmark.faces.pages.home import Names, sees_branch
from endmark.faces.pages.paper import HEADERS, STATIC, gone_to, page, static
from endmark.faces.pages.sessions import Sessions, Visit, check_form, visit
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry
from endmark.ledger.patch_entry import DecisionEntry
from endmark.ledger.patch_queries import PatchQueries

_PICTURE = {
    **HEADERS,
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox; frame-ancestors 'none'",
}


def router(service: Service) -> APIRouter:
    """The routes of this room, with the sessions they share."""
    routes = APIRouter(include_in_schema=False)
    sessions = Sessions(time.monotonic)
    bodies = job.Bodies()
    folder = service.config.folder
    shelf = Shelf(None if service.settings.drills is None else folder / service.settings.drills)
    repository = None if service.settings.repository is None else folder / service.settings.repository
    come = partial(visit, service, sessions)

    @routes.get("/")
    async def first(request: Request) -> Response:
        guest = await come(request)
        names = Names(service, guest.identity)
        found = await service.read(lambda ledger: home.look(ledger, guest.identity, names, service.clock()))
        return page("home.html", guest, here="home", home=found, names=names)

    @routes.get("/jobs")
    async def many(request: Request) -> Response:
        guest = await come(request)
        names = Names(service, guest.identity)
        asked = request.query_params
        begins = asked.get("q", "").strip()
        if begins:
            return await _found(service, guest, names, begins)
        state, target = listing.state_in(asked, listing.STATES), asked.get("target") or None
        targets = names.identities
        if target is not None:
            await service.allow(guest.request, target=target)
            targets = (service.place(target).target.identity,)
        found = await service.read(
            lambda ledger: listing.jobs(ledger, names, state, targets, asked.get("before") or None)
        )
        return page(
            "jobs.html", guest, here="jobs", names=names, found=found, state=state, target=target,
            states=listing.STATES, before=asked.get("before"), now=service.clock(), age=words.age,
        )  # fmt: skip

    @routes.get("/jobs/{id}")
    async def one(request: Request, id: str) -> Response:
        guest = await come(request)
        entry = await doors.visible(service, guest.identity, id)
        return await _job_page(service, bodies, guest, entry)

    @routes.get("/jobs/{id}/events")
    async def events(request: Request, id: str) -> Response:
        guest = await come(request)
        entry = await doors.visible(service, guest.identity, id)
        last = request.headers.get("last-event-id") or request.query_params.get("after", "0")
        after = int(last) if last.isascii() and last.isdigit() and len(last) < 10 else 0
        stream = progress.events(service, guest.identity, entry.attempt_id, after)
        await anext(stream)  # after its head an answer cannot be a 503 any more
        return StreamingResponse(stream, media_type="text/event-stream", headers=HEADERS)

    @routes.post("/jobs/{id}/approve")
    async def approve(request: Request, id: str) -> Response:
        guest, sent = await _form(request)
        if not sent.get("fingerprint"):
            raise not_tried("usage", "The form names no schema, so nobody saw one. Nothing was done.", close=True)
        outcome = await doors.let_pass(service, guest.request, id, sent["fingerprint"])
        return gone_to(f"/jobs/{quote(outcome.attempt_id or id, safe='')}")

    @routes.post("/jobs/{id}/decline")
    async def decline(request: Request, id: str) -> Response:
        guest, sent = await _form(request)
        outcome = await doors.turn_down(service, guest.request, id, sent.get("reason", ""))
        return gone_to(f"/jobs/{quote(outcome.attempt_id or id, safe='')}")

    @routes.post("/jobs/{id}/revert")
    async def revert(request: Request, id: str) -> Response:
        guest, _ = await _form(request)
        outcome = await doors.undo(service, guest.request, id)
        return gone_to(f"/jobs/{quote(outcome.attempt_id or id, safe='')}")

    @routes.get("/decisions")
    async def patches(request: Request) -> Response:
        guest = await come(request)
        asked = request.query_params
        state = listing.state_in(asked, listing.DECISION_STATES)
        found = await service.read(
            lambda ledger: listing.decisions(ledger, guest.identity, state, asked.get("before") or None)
        )
        return page(
            "decisions.html", guest, here="decisions", found=found, state=state, states=listing.DECISION_STATES,
            before=asked.get("before"), now=service.clock(), age=words.age,
        )  # fmt: skip

    @routes.get("/decisions/{id}")
    async def patch(request: Request, id: str) -> Response:
        guest = await come(request)
        entry = await service.read(lambda ledger: _decision(ledger, id))
        if entry is None or not sees_branch(guest.identity, entry.ref):
            raise not_tried("not-found", f"There is no decision {id[:128]!a} here.")
        known = entry
        found = await service.read(lambda ledger: decisions.whole(ledger, known, service.verify))
        files, no_diff = await asyncio.to_thread(decisions.diff, repository, entry)
        return page("decision.html", guest, here="decisions", found=found, files=files, no_diff=no_diff)

    @routes.get("/stability")
    async def repeats(request: Request) -> Response:
        guest = await come(request)
        found = await service.read(lambda ledger: stability.look(ledger, guest.identity))
        return page("stability.html", guest, here="stability", found=found, chart=stability)

    @routes.get("/drills")
    async def drilled(request: Request) -> Response:
        guest = await come(request)
        found, wrong = await asyncio.to_thread(shelf.all)
        return page("drills.html", guest, here="drills", found=found, wrong=wrong, when=_when)

    @routes.get("/drills/{name}")
    async def drill(request: Request, name: str) -> Response:
        guest = await come(request)
        found = await asyncio.to_thread(shelf.one, name)
        if found is None:
            raise not_tried("not-found", f"There is no drill {name[:128]!a} here.")
        return page("drill.html", guest, here="drills", kept=found, when=_when)

    @routes.get("/drills/{name}/map.svg")
    async def picture(request: Request, name: str) -> Response:
        await come(request)
        raw = await asyncio.to_thread(shelf.map, name)
        if raw is None:
            raise not_tried("not-found", f"There is no map of a drill {name[:128]!a} here.")
        return Response(raw, 200, _PICTURE, "image/svg+xml")

    @routes.get("/static/{name}")
    async def asset(request: Request, name: str) -> Response:
        if name not in STATIC:
            raise not_tried("not-found", f"There is no file {name[:128]!a} here.")
        headers = {"x-content-type-options": "nosniff", "cache-control": "public, max-age=31536000, immutable"}
        return Response(static(name), 200, headers, STATIC[name])

    async def _form(request: Request) -> tuple[Visit, dict[str, str]]:
        guest = await come(request)
        sent = await forms.read(request)
        check_form(guest, sent.get("csrf", ""))
        return guest, sent

    signing.add(routes, service, sessions)
    return routes


async def _found(service: Service, guest: Visit, names: Names, begins: str) -> Response:
    if len(begins) > listing.QUERY_MAX:
        raise not_tried("usage", f"A search has {listing.QUERY_MAX} characters at most.")
    found = await service.read(lambda ledger: listing.search(ledger, guest.identity, names, begins))
    return page(
        "search.html", guest, here="jobs", q=begins, names=names, found=found, most=listing.FOUND,
        now=service.clock(), age=words.age,
    )  # fmt: skip


async def _job_page(service: Service, bodies: job.Bodies, guest: Visit, entry: Entry) -> Response:
    names = Names(service, guest.identity)
    found = await service.read(lambda ledger: job.whole(ledger, bodies, entry))
    entry = found.entry
    place = service.place_of(entry.target)
    deciding = entry.state is State.STAGED and place is not None and guest.may("approve")
    schema, no_schema = None, ""
    if deciding and place is not None:
        schema, no_schema = await job.fingerprint(service, place)
    return page(
        "job.html", guest, here="jobs", names=names, found=found, entry=entry, place=place, deciding=deciding,
        schema=schema, no_schema=no_schema, share=job.share(entry), waits=job.waits(entry.state),
        own=entry.submitter is not None and entry.submitter == guest.identity.name != "local",
        can_decline=entry.state in (State.STAGED, State.APPROVED) and place is not None
        and guest.may("approve"),
        can_revert=found.state == "applied" and found.body is not None and found.body.has_down and place is not None
        and guest.may("submit", "approve"),
        now=service.clock(), age=words.age,
        done=None if service.worker is None else service.worker.progress(entry.attempt_id),
    )  # fmt: skip


def _decision(ledger: Ledger, name: str) -> DecisionEntry | None:
    return PatchQueries(ledger).get(name)


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
