"""`endmark.Client` and `endmark.AsyncClient`: submit, wait, approve, over the standard library's HTTP."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import http.client
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Self, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry
from endmark.faces.client.answers import Page, Target, Targets, read

TRIES = 3  # of one call whose connection was lost; never under another id
UNFINISHED = frozenset({"staged", "approved", "applying"})
_LONGEST_WAIT = 30  # seconds of one call: H28
_PAUSE = 0.25  # seconds before the second try, twice that before the third

_Answer = TypeVar("_Answer", bound=msgspec.Struct)
_Value = TypeVar("_Value")


class Client:
    """A service at `url` (`http://` or `https://`), asked with `token`. Any number of threads may use one.

    `timeout`, in seconds, is for each wait on the wire. Every method raises Nack when the service says no, and
    CannotTry when it cannot be reached or its answer is not whole: then a call was tried three times, with the same
    bytes under the same id, which the service takes once. A new job id is never made up here.
    """

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 60.0, context: ssl.SSLContext | None = None
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise ValueError(f"{url[:80]!r} is no http:// or https:// URL of a service")
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path.rstrip("/")
        self._tls = (context or ssl.create_default_context()) if parts.scheme == "https" else None
        self._token = token
        self._timeout = timeout
        self._local = threading.local()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_about: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._host!r})"  # and never its token

    def close(self) -> None:
        """Close this thread's connection. Closing twice is fine; a later call opens another."""
        wire: http.client.HTTPConnection | None = getattr(self._local, "wire", None)
        if wire is not None:
            wire.close()

    def submit(self, raw: bytes, *, target: str, job_id: str | None = None, seal: bool = False) -> Outcome:
        """Deliver a plan, its envelope or that signed. `job_id` is the id as known from outside of the bytes.

        `seal`: take the witness form too. The job is staged, or as it stands where the same bytes came before.
        """
        digest = base64.b64encode(hashlib.sha256(raw).digest()).decode()
        headers = {"Content-Digest": f"sha-256=:{digest}:", "Content-Type": "application/octet-stream"}
        if job_id is not None:
            headers["Endmark-Job-Id"] = job_id
        query = {"target": target} | ({"seal": "true"} if seal else {})
        return self._ask("POST", "/v1/jobs", query, Outcome, bytes(raw), headers)

    def job(self, job: str) -> Outcome:
        """A job by its id, or an attempt by its own."""
        return self._ask("GET", _of(job), {}, Outcome)

    def wait(self, job: str, seconds: float) -> Outcome:
        """The job once it is final (`state` is not staged, approved or applying), or as it is after `seconds`."""
        end = time.monotonic() + seconds
        found = self.job(job)
        while found.state in UNFINISHED and (left := end - time.monotonic()) > 0:
            whole = min(_LONGEST_WAIT, int(left), max(1, int(self._timeout / 2)))
            if not whole:
                time.sleep(left)
            found = self._ask("GET", _of(job), {"wait": str(whole)}, Outcome)
        return found

    def approve(self, job: str, *, fingerprint: str | None = None) -> Outcome:
        """Let a staged job through; `fingerprint` is of the schema that was shown (64 hex): once it moved, a Nack."""
        return self._ask("POST", f"{_of(job)}/approve", _given(fingerprint=fingerprint), Outcome)

    def decline(self, job: str, reason: str = "") -> Outcome:
        """End a staged job without effect."""
        return self._ask("POST", f"{_of(job)}/decline", {"reason": reason}, Outcome)

    def revert(self, job: str) -> Outcome:
        """Stage the job that undoes an applied one."""
        return self._ask("POST", f"{_of(job)}/revert", {}, Outcome)

    def page(
        self, *, state: str | None = None, target: str | None = None, limit: int = 100, cursor: str | None = None
    ) -> Page:
        """At most `limit` (1-500) attempts, newest first."""
        query = _given(state=state, target=target, cursor=cursor) | {"limit": str(limit)}
        return self._ask("GET", "/v1/jobs", query, Page)

    def jobs(self, *, state: str | None = None, target: str | None = None) -> Iterator[Outcome]:
        """Every attempt on record, newest first, asked for page by page."""
        cursor: str | None = None
        while True:
            page = self.page(state=state, target=target, cursor=cursor)
            yield from page.jobs
            cursor = page.cursor
            if cursor is None:
                return

    def targets(self) -> list[Target]:
        """The targets that may be named."""
        return self._ask("GET", "/v1/targets", {}, Targets).targets

    def _ask(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        kind: type[_Answer],
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> _Answer:
        where = f"{self._path}{path}" + (f"?{urlencode(query)}" if query else "")
        head = dict(headers or {})
        if self._token is not None:
            head["Authorization"] = f"Bearer {self._token}"
        if body is None and method == "POST":
            body = b""
        for number in range(1, TRIES + 1):
            try:
                status, raw = self._call(method, where, body, head)
                break
            except (OSError, http.client.HTTPException) as fault:
                self.close()
                if number == TRIES or isinstance(fault, ssl.SSLCertVerificationError):
                    raise CannotTry(
                        f"the service at {self._host} gave no whole answer, {number} times: {fault!r}. What "
                        "became of the call is not known; send the same bytes again under the same id, or ask for "
                        "the job."
                    ) from fault
                time.sleep(_PAUSE * number)
        found = read(status, raw, kind)
        assert isinstance(found, kind)  # noqa: S101  # what `read` makes
        return found

    def _call(self, method: str, where: str, body: bytes | None, head: dict[str, str]) -> tuple[int, bytes]:
        """One call; its whole answer, as long as it was declared to be (else http.client raises IncompleteRead)."""
        wire = self._wire()
        try:
            wire.request(method, where, body, head)
        except (BrokenPipeError, ConnectionResetError):
            if wire.sock is None:
                raise
            # It may have answered before it had read all, as for a body over its cap: that answer is looked for.
        answer = wire.getresponse()
        raw = answer.read()
        if answer.getheader("content-length") is None and not answer.chunked:
            raise http.client.IncompleteRead(raw)  # an end that proves nothing
        return answer.status, raw

    def _wire(self) -> http.client.HTTPConnection:
        wire: http.client.HTTPConnection | None = getattr(self._local, "wire", None)
        if wire is None:
            if self._tls is not None:
                wire = http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout, context=self._tls)
            else:
                wire = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
            self._local.wire = wire
        return wire


class AsyncClient:
    """The same for asyncio: each call runs in a thread of the loop's pool. See Client for what is raised."""

    def __init__(
        self, url: str, *, token: str | None = None, timeout: float = 60.0, context: ssl.SSLContext | None = None
    ) -> None:
        self._open = partial(Client, url, token=token, timeout=timeout, context=context)
        self._open()  # what is wrong with the URL is said now

    async def submit(self, raw: bytes, *, target: str, job_id: str | None = None, seal: bool = False) -> Outcome:
        """See Client.submit."""
        return await asyncio.to_thread(self._with, lambda c: c.submit(raw, target=target, job_id=job_id, seal=seal))

    async def job(self, job: str) -> Outcome:
        """See Client.job."""
        return await asyncio.to_thread(self._with, lambda c: c.job(job))

    async def wait(self, job: str, seconds: float) -> Outcome:
        """See Client.wait."""
        return await asyncio.to_thread(self._with, lambda c: c.wait(job, seconds))

    async def approve(self, job: str, *, fingerprint: str | None = None) -> Outcome:
        """See Client.approve."""
        return await asyncio.to_thread(self._with, lambda c: c.approve(job, fingerprint=fingerprint))

    async def decline(self, job: str, reason: str = "") -> Outcome:
        """See Client.decline."""
        return await asyncio.to_thread(self._with, lambda c: c.decline(job, reason))

    async def revert(self, job: str) -> Outcome:
        """See Client.revert."""
        return await asyncio.to_thread(self._with, lambda c: c.revert(job))

    async def jobs(self, *, state: str | None = None, target: str | None = None) -> AsyncIterator[Outcome]:
        """See Client.jobs."""
        cursor: str | None = None
        while True:
            ask = partial(Client.page, state=state, target=target, cursor=cursor)
            page = await asyncio.to_thread(self._with, ask)
            for job in page.jobs:
                yield job
            cursor = page.cursor
            if cursor is None:
                return

    async def targets(self) -> list[Target]:
        """See Client.targets."""
        return await asyncio.to_thread(self._with, lambda c: c.targets())

    def _with(self, act: Callable[[Client], _Value]) -> _Value:
        with self._open() as client:  # a connection of its own, closed in its own thread
            return act(client)


def _of(job: str) -> str:
    return f"/v1/jobs/{quote(job, safe='')}"


def _given(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}
