"""News of a job: by one long answer, or as a stream of events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import msgspec

from endmark.core.outcome import Outcome
from endmark.faces.http.access import Identity, unauthorized
from endmark.faces.http.service import WAITING, Service
from endmark.ledger.book import Ledger
from endmark.ledger.entry import Entry, Event
from endmark.ledger.outcomes import outcome_of
from endmark.ledger.queries import with_revert

_LOOKS_EVERY = 1.0  # seconds: another process may have moved it
_BEATS_EVERY = 15  # looks without news before a comment that keeps the connection open


def entry_in(ledger: Ledger, name: str) -> Entry | None:
    """The attempt of this id, or the job's, with its undoing."""
    entry = ledger.find(name)
    return None if entry is None else with_revert(ledger, entry)


async def waited(service: Service, identity: Identity, entry: Entry, seconds: float) -> Outcome:
    """H28: the job once its state is another than now or final, else as it is after `seconds`. Raises Problem."""
    before = entry.state
    deadline = service.loop.time() + seconds
    with service.limits.watcher(identity.caller):
        while entry.state is before and before.value in WAITING and not service.ending:
            left = deadline - service.loop.time()
            if left <= 0:
                break
            await service.changes.wait(min(left, _LOOKS_EVERY))
            await check_still(service, identity)
            now = await service.read(partial(entry_in, name=entry.attempt_id))
            entry = entry if now is None else now
    return outcome_of(entry)


async def check_still(service: Service, identity: Identity) -> None:
    """H18: whoever waits is told nothing more once their token counts no more. Raises Problem."""
    if not await service.still_counts(identity):
        raise unauthorized("it was revoked or has expired while you waited")


async def events(service: Service, identity: Identity, attempt_id: str, after: int) -> AsyncIterator[bytes]:
    """H29: what happened to a job since event number `after`, and what happens, until it is final.

    `id:` is the number of the event in the job's chain: a client that comes again with Last-Event-ID misses nothing.
    It also ends once the caller's token counts no more (H18).
    The first piece is empty. Raises Problem instead of it where too many wait (H22).
    """
    with service.limits.watcher(identity.caller):
        yield b""  # a place was free: now the answer may begin
        quiet, told = 0, None
        while await service.still_counts(identity):
            chain, entry = await service.read(lambda ledger: (ledger.events(attempt_id), entry_in(ledger, attempt_id)))
            for event in chain:
                if event.seq > after:
                    after, quiet = event.seq, 0
                    yield _sse(event.event, _public(event), event.seq)
            done = None if service.worker is None else service.worker.progress(attempt_id)
            if done is not None and done != told:
                told, quiet = done, 0
                yield _sse("progress", {"done": done[0], "total": done[1]})
            if entry is None or entry.state.value not in WAITING or service.ending:
                if entry is not None:
                    yield _sse("outcome", outcome_of(entry))
                return
            quiet += 1
            if quiet % _BEATS_EVERY == 0:
                yield b": still here\n\n"
            await service.changes.wait(_LOOKS_EVERY)


def _public(event: Event) -> dict[str, object]:
    return {"seq": event.seq, "at": event.at, "event": event.event, "from": event.from_state, "to": event.to_state}


def _sse(name: str, data: object, number: int | None = None) -> bytes:
    head = b"" if number is None else f"id: {number}\n".encode()
    return head + f"event: {name}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"
