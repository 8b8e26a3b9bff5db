"""What the service holds: configuration, ledger, its one writer, limits, and who waits for news."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request

from endmark.apply_gate import Options
from endmark.core.outcome import Outcome
from endmark.core.states import State
from endmark.faces import api
from endmark.faces.config import Config, Place
from endmark.faces.http import access
from endmark.faces.http.access import EVERYTHING, Identity, Keyring
from endmark.faces.http.desk import Desk
from endmark.faces.http.figures import Figures
from endmark.faces.http.limits import Limits
from endmark.faces.http.log import told
from endmark.faces.http.problems import Problem, not_tried
from endmark.faces.http.settings import Settings
from endmark.faces.worker.outbox import Deferring
from endmark.faces.worker.work import usable_places
from endmark.ledger.batch import Writer
from endmark.ledger.book import Ledger

if TYPE_CHECKING:
    from endmark.core.dsse import Verify
    from endmark.faces.http.tracing import Traces
    from endmark.faces.worker.embedded import Embedded
    from endmark.ledger.outbox import Outbox

_Value = TypeVar("_Value")
_READERS = 8
_GATES = 8
_PROOFS = 1  # large bodies at once: each takes up to nine times its size, and they share one interpreter anyway
_OF_A_NACK = ("signal", "received_bytes", "expected_bytes", "attempt_id", "job_id", "target")


class Changes:
    """Tells those who wait that something happened; of which job, they look themselves. It belongs to the loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def told(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self, seconds: float) -> None:
        """Until something happened, for `seconds` at most: other processes write too, and tell nobody."""
        event = self._event
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await event.wait()


class Service:
    """One service over one ledger. Made in any thread, started and stopped in its event loop.

    `read`, `write` and `gated` are the only ways to the ledger. Everything else is for the loop's thread.
    """

    def __init__(
        self,
        config: Config,
        settings: Settings,
        clock: Callable[[], datetime] = api.now,
        log: Any = None,
        traces: Traces | None = None,
    ) -> None:
        self.config = config
        self.settings = settings
        self.clock = clock
        self.log = log
        self.traces = traces
        self.limits = Limits(settings, time.monotonic)
        self.keyring = Keyring(time.monotonic)
        self.places, self.unusable = usable_places(config)
        self.figures = Figures(self.places)
        self.connections: Callable[[], int] = lambda: 0  # the server says
        self.requests: Callable[[], int] = lambda: 0  # that are being answered; the server says
        self.verify: Verify | None = None
        if config.trusted_keys is not None:
            from endmark.sources import keys

            self.verify = keys.verifier(config.trusted_keys)
        self.ending = False
        self.worker: Embedded | None = None
        self.desk = Desk(config, settings.max_reviews, changed=self.tell)

    # ---- its life ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the ledger, which is made if need be, and begin. Raises CannotTry."""
        self.loop = asyncio.get_running_loop()
        self.changes = Changes()
        self._pool = ThreadPoolExecutor(_READERS, "endmark-http")
        # Of their own: those who wait for a target that hangs keep nobody from reading the ledger.
        self._gates = ThreadPoolExecutor(_GATES, "endmark-http-gate")
        self._proofs = ThreadPoolExecutor(_PROOFS, "endmark-http-proof")
        self.ledger = Ledger.open(self.config.ledger, create=True, outbox=self._outbox())
        self._book = Ledger.open(self.config.ledger, create=False)
        self.writer = Writer(self.ledger, self.clock, tell=self._tell, committed=self.figures.committed)
        self.keyring.look_for_any(self._book)
        if self.settings.worker:
            from endmark.faces.worker.embedded import Embedded

            self.worker = Embedded(self.config, self.places, changed=self.tell, ran=self.ran, said=self.look_at)
            self.worker.start()

    def _outbox(self) -> Outbox | None:
        """Workers of a queue also show what a staged job does, as nobody here does."""
        if self.config.queue is None:
            return None
        shown = (place for place in self.places.values() if place.options.rehearse and place.review == "required")
        shows = frozenset() if self.settings.worker else frozenset(place.target.identity for place in shown)
        return Deferring(self.config.queue.schema, shows)

    async def stop(self) -> None:
        """Finish what was begun, in `drain_timeout` seconds, and let go of everything."""
        self.ending = True
        self.changes.told()
        if self.worker is not None:
            await asyncio.to_thread(self.worker.stop, self.settings.drain_timeout)
        await asyncio.to_thread(self.desk.stop, self.settings.drain_timeout)
        await asyncio.to_thread(self.writer.close)
        await asyncio.sleep(0)  # what the writer told last
        self._gates.shutdown(wait=True)
        self._proofs.shutdown(wait=True)
        self._pool.shutdown(wait=True)
        self.ledger.close()
        self._book.close()
        if self.traces is not None:
            await asyncio.to_thread(self.traces.stop)

    def _tell(self, keep: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended; so has everybody who waited
            self.loop.call_soon_threadsafe(keep)

    def tell(self) -> None:
        """Something happened to a job. From any thread."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.changes.told)

    def ran(self, target: str, outcome: Outcome | None, seconds: float) -> None:
        """The worker ran a job of the target of this identity, or (None) could not reach it. From any thread."""
        place = self.place_of(target)
        name = place.name if place is not None and place.name is not None else "other"
        self.figures.ran(name, outcome, seconds)
        if self.traces is not None:
            self.traces.ran(name, outcome, seconds)
        if outcome is not None:
            self.say("ran", target=name, seconds=round(seconds, 6), **told(outcome))

    def look_at(self, what: str) -> None:
        """A person should look at something. From any thread."""
        self.say("alarm", detail=what)

    def say(self, event: str, **facts: Any) -> None:
        """One line of the log, where there is one."""
        if self.log is not None:
            self.log(event, **facts)

    def answered(self, fault: Problem, path: str | None = None) -> None:
        """A problem is answered: counted, with its line in the log. `path`: None where no request was read."""
        self.figures.problems.labels(fault.status, fault.document.get("signal")).inc()
        facts = {key: fault.document.get(key) for key in _OF_A_NACK}
        self.say("nack", status=fault.status, path=path, **facts)

    # ---- the ledger -------------------------------------------------------------------------------------------

    async def read(self, ask: Callable[[Ledger], _Value]) -> _Value:
        """What the ledger says. Raises what `ask` raises, CannotTry above all."""
        return await self.loop.run_in_executor(self._pool, ask, self._book)

    async def proven(self, prove: Callable[[], _Value]) -> _Value:
        """What `prove` makes of a large body, in a thread, after those that came before it."""
        return await self.loop.run_in_executor(self._proofs, prove)

    async def write(self, act: Callable[[Ledger], _Value], *, small: bool = False) -> _Value:
        """What `act` returns, once what it wrote is committed and flushed. Raises CannotTry.

        `small`: it writes little, so that the loop may do it itself while nobody else wants anything.
        """
        promise: asyncio.Future[_Value] = self.loop.create_future()
        if not (small and self._alone() and self.writer.alone(act, promise)):
            self.writer.post(act, promise)
        return await promise

    def _alone(self) -> bool:
        """Whether one request is being answered and no more: then the loop can write, and holds nobody up."""
        return 0 < self.requests() <= 1 + self.limits.watchers

    async def gated(self, place: Place | None, act: Callable[[api.Gate], _Value]) -> _Value:
        """Do something with a gate of its own, in a thread: what looks at a target takes its time. Raises CannotTry."""

        def run() -> _Value:
            options = Options() if place is None else place.options
            with api.Gate(
                self.config.ledger, create=False, reconcile=False, options=options, outbox=self._outbox()
            ) as gate:
                return act(gate)

        try:
            return await self.loop.run_in_executor(self._gates, run)
        finally:
            self.changes.told()
            if self.worker is not None:
                self.worker.wake()

    # ---- who may ----------------------------------------------------------------------------------------------

    async def identify(self, request: Request) -> Identity:
        """Who is asking. Raises Problem: 400, 401, 403, 404, 429."""
        access.check_call(request)
        secret = access.bearer(request.headers)
        address = request.client.host if request.client else "?"
        if secret is None:
            if not self.keyring.fresh():
                await self.read(self.keyring.look_for_any)
            if self.keyring.any:
                raise access.unauthorized("none was sent")
            if not access.is_loopback(address):
                raise access.unauthorized("none was sent, and without any only this machine is served")
            access.check_local(request)
            self.limits.request(address)
            return EVERYTHING
        known, token = self.keyring.remembered(secret)
        if not known:
            token = await self.read(lambda ledger: self.keyring.look(ledger, secret))
        if token is None or not token.counts(self.clock()):
            too_often = self.limits.wrong_token(address)
            said = "it is unknown" if token is None else "it was revoked or has expired"
            raise too_often or access.unauthorized(said)
        self.limits.request(token.name)
        return Identity(
            name=token.name, scopes=token.scopes, targets=token.targets, branches=token.branches, secret=secret
        )

    async def still_counts(self, identity: Identity) -> bool:
        """H18: whether whoever was let in would be let in now. Raises CannotTry."""
        if identity.secret is None:
            if not self.keyring.fresh():
                await self.read(self.keyring.look_for_any)
            return not self.keyring.any
        secret = identity.secret
        known, token = self.keyring.remembered(secret)
        if not known:
            token = await self.read(lambda ledger: self.keyring.look(ledger, secret))
        return token is not None and token.counts(self.clock())

    async def allow(self, request: Request, *scopes: str, target: str | None = None) -> Identity:
        """Who is asking, where they have one of these scopes, and for this target where it is named.

        No scope: any token does. Raises Problem: 401, 403, 404, 429.
        """
        identity = await self.identify(request)
        if scopes and not any(map(identity.may, scopes)):
            raise access.forbidden(identity, f"it lacks the scope {' or '.join(scopes)}", " ".join(scopes))
        if target is not None and not identity.reaches(target):
            raise access.forbidden(identity, "it is not for that target", " ".join(scopes))
        return identity

    # ---- targets ----------------------------------------------------------------------------------------------

    def place(self, name: str) -> Place:
        """The target of this name. Raises Problem."""
        place = self.places.get(name)
        if place is None:
            why = self.unusable.get(name)
            if why is not None:
                raise not_tried("could-not-try", f"The target {name} cannot be used: {why} Nothing was done.")
            raise not_tried("not-found", f"There is no target {name!a} here. Nothing was done.", close=True)
        return place

    def place_of(self, identity: str | None) -> Place | None:
        """The named target that a job on record is for; of several names the stricter."""
        found = [place for place in self.places.values() if place.target.identity == identity]
        return min(found, key=lambda place: place.review != "required") if found else None


WAITING = frozenset({State.STAGED.value, State.APPROVED.value, State.APPLYING.value})
