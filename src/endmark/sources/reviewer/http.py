"""Ask a model over HTTP: one request on a fresh connection, no redirect, no retry, no proxy that nobody named."""

import socket
import ssl
import time
from contextlib import suppress
from threading import Event, Thread
from typing import Any

from endmark.core.ending import WHOLE
from endmark.core.policy import Reviewer, url_of, wire_of
from endmark.core.prompt import Shown
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.sources.recorder import Recorder
from endmark.sources.reviewer import requests
from endmark.sources.reviewer.asking import GLANCE, How, Limits, NoAnswer, Reply, Stop

_PORTION = 65_536


def ask(reviewer: Reviewer, shown: Shown, limits: Limits, how: How, key: str | None, stop: Stop) -> Reply:
    """The answer's body as it passed, and how it ended. Raises NoAnswer for none, and CannotTry without httpx."""
    recorder = Recorder(wire=wire_of(reviewer), limit=limits.answer_bytes, idle=limits.idle_seconds)
    clock = _Clock(limits.total_seconds, stop)
    # What the library raises holds the request and so the key: only its words leave, and not its exceptions.
    failure = _exchange(reviewer, shown, limits, key, recorder, clock)
    received, capture, refusal = 0, None, None
    try:
        capture = recorder.capture()
        received = len(capture.raw)
    except Refused as refused:
        received, refusal = refused.received_bytes, (refused.signal, refused.detail)
    if clock.ran_out and (capture is None or capture.ending not in WHOLE):
        if clock.stopped is not None:
            why = f"the answer had not ended when {clock.stopped} came"
            raise NoAnswer(Signal.RESET, received, None, why, how)
        why = f"the answer had not ended when its {limits.total_seconds:g} s were over"
        raise NoAnswer(Signal.IDLE, received, None, why, how)
    if capture is None:
        signal, detail = refusal or (Signal.UNREACHABLE, "")
        why = f"{detail} ({failure})" if failure else detail
        raise NoAnswer(signal, received, None, f"the reviewer {reviewer.name} was not reached: {why}", how)
    return Reply(capture=capture, how=how)


class _Clock:
    """Ends a connection once its time is over, wherever it waits: in the handshake, for the head or within the body.

    `stopped`: who wanted it to end before its time, if anybody did.
    """

    def __init__(self, seconds: float, stop: Stop) -> None:
        self.ran_out = False
        self.stopped: str | None = None
        self._seconds = seconds
        self._stop = stop
        self._sockets: list[socket.socket] = []
        self._over = Event()
        self._thread = Thread(target=self._run, name="endmark-clock", daemon=True)

    def __enter__(self) -> "_Clock":
        self._thread.start()
        return self

    def __exit__(self, *_fault: object) -> None:
        self._over.set()
        self._thread.join()
        for each in self._sockets:
            each.close()

    def watch(self, event: str, info: dict[str, Any]) -> None:
        """Told by the transport of what it does; keeps a second handle of each connection it makes."""
        if event == "connection.connect_tcp.complete":
            made = info["return_value"].get_extra_info("socket")
            self._sockets.append(made.dup())
            if self.ran_out:
                self._end()

    def _run(self) -> None:
        deadline = time.monotonic() + self._seconds
        while (left := deadline - time.monotonic()) > 0:
            if self._over.wait(min(left, GLANCE)):
                return
            self.stopped = self._stop()
            if self.stopped is not None:
                break
        self._end()

    def _end(self) -> None:
        self.ran_out = True
        for each in list(self._sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _exchange(
    reviewer: Reviewer, shown: Shown, limits: Limits, key: str | None, recorder: Recorder, clock: _Clock
) -> str:
    """Send the request and let the answer pass through `recorder`. Returns what went wrong, "" for nothing."""
    try:
        import httpx

        from endmark.sources import tee
    except ImportError:
        raise CannotTry("asking a model needs httpx: pip install 'endmark[capture]'. Nobody was asked.") from None
    trusted = _trusted(reviewer)
    url, headers, body = requests.build(reviewer, shown.text.decode(), key)
    wait = min(limits.idle_seconds, limits.total_seconds)
    transport = tee.transport(recorder, httpx.HTTPTransport(verify=trusted, trust_env=False, retries=0))
    client = httpx.Client(transport=transport, timeout=wait, follow_redirects=False, trust_env=False)
    try:
        with clock, client:
            request = client.build_request("POST", url, headers=headers, content=body, extensions=_watched(clock, wait))
            response = client.send(request, stream=True)
            try:
                _read(response, limits.answer_bytes)
            finally:
                response.close()
    except Exception as fault:  # noqa: BLE001  # of several libraries; each is an answer that did not come whole
        said = str(fault).replace(key, "[key]") if key else str(fault)
        return f"{type(fault).__name__}: {ascii(said)[1:-1][:160]}"
    return ""


def _watched(clock: _Clock, wait: float) -> dict[str, Any]:
    return {"trace": clock.watch, "timeout": {"connect": wait, "read": wait, "write": wait, "pool": wait}}


def _read(response: Any, most: int) -> None:
    """Let the body pass, as far as it is kept. Of an error's body nothing is read: it may quote the key."""
    if not 200 <= response.status_code < 300:
        return
    passed = 0
    for portion in response.iter_raw(_PORTION):
        passed += len(portion)
        if passed > most:
            return


def _trusted(reviewer: Reviewer) -> ssl.SSLContext:
    if (url_of(reviewer) or "").startswith("http://"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody, and is not asked
    try:
        if reviewer.ca_file is not None:
            return ssl.create_default_context(cafile=reviewer.ca_file)
        import certifi

        return ssl.create_default_context(cafile=certifi.where())
    except OSError as fault:
        what = reviewer.ca_file or "the usual certificates"
        raise CannotTry(f"{what} could not be read: {fault.strerror or fault}. Nobody was asked.") from None
