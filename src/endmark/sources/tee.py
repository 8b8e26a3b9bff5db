"""Transports for httpx and httpx2 that let every byte pass and keep a copy, below the official SDKs.

An SDK works as ever: nothing is delayed, changed or held back, and its errors reach it. One thing is added. Some SDKs
close the response at the terminal event and never see whether the body ended there. Then the rest is read for them, for
a few portions and seconds at most, since a body whose end nobody saw proves nothing.
"""

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import cache
from importlib import import_module
from typing import Any

from endmark.sources.asked import wire_of
from endmark.sources.recorder import Exchange, Head, Recorder, header

_LIBRARIES = ("httpx2", "httpx")
_DRAIN_SECONDS = 5.0
_DRAIN_PORTIONS = 4


class NotInstalled(ImportError):
    """Neither httpx nor httpx2 is there."""


def transport(recorder: Recorder, inner: Any = None, **options: Any) -> Any:
    """A transport for `httpx.Client` or `httpx2.Client`. It wraps `inner`, or the client's usual one with `options`."""
    return _made("_SyncTee", "BaseTransport", _SyncTee, tuple(_loaded()))(recorder, inner, options)


def async_transport(recorder: Recorder, inner: Any = None, **options: Any) -> Any:
    """The same for `AsyncClient`."""
    return _made("_AsyncTee", "AsyncBaseTransport", _AsyncTee, tuple(_loaded()))(recorder, inner, options)


def _loaded() -> list[str]:
    """The libraries in use; where none is yet, one that is installed."""
    found = [name for name in _LIBRARIES if sys.modules.get(name) is not None]
    if found:
        return found
    for name in _LIBRARIES:
        try:
            import_module(name)
        except ImportError:
            continue
        return [name]
    raise NotInstalled("capturing needs httpx or httpx2, and neither is installed: pip install 'endmark[capture]'")


@cache
def _made(name: str, base: str, ours: type, libraries: tuple[str, ...]) -> Callable[..., Any]:
    """`ours` as a class of each of these libraries; some SDKs look at the classes of a transport to choose theirs."""
    bases = dict.fromkeys(getattr(import_module(library), base) for library in libraries)  # one may stand for both
    return type(name, (ours, *bases), {})


def _library_of(message: Any) -> str:
    """Which of the two a request or response, or a subclass of either, belongs to."""
    for made in type(message).__mro__:
        root = made.__module__.partition(".")[0]
        if root in _LIBRARIES:
            return root
    return _loaded()[0]


class _Tee:
    """What both kinds share. The usual transport is made at the first request, for the library that sends it."""

    def __init__(self, recorder: Recorder, inner: Any, options: dict[str, Any]) -> None:
        if inner is not None and options:
            raise TypeError(f"{', '.join(options)}: options go to the usual transport, and another one was given")
        self._recorder = recorder
        self._inner = inner
        self._options = options

    def _usual(self, request: Any, name: str) -> Any:
        if self._inner is None:
            self._inner = getattr(import_module(_library_of(request)), name)(**self._options)
        return self._inner

    def _lend_timeouts(self, request: Any) -> tuple[Any, dict[str, Any]]:
        """The request's extensions as they are, and timeouts that may be changed while its response passes.

        The library below keeps what it is given and reads it anew for the body. The request itself gets its own back,
        since a client makes the request of a redirect from it.
        """
        before = request.extensions
        timeouts = dict(before.get("timeout") or {})
        request.extensions = {**before, "timeout": timeouts}
        return before, timeouts

    def _begin(self, request: Any, response: Any, timeouts: dict[str, Any]) -> Exchange | None:
        _lower(timeouts, self._recorder.idle)  # only now: how long the first byte may take is the client's own affair
        url = request.url
        version = response.extensions.get("http_version", b"")
        head = Head(
            status=response.status_code,
            http_version=version.decode("ascii", "replace"),
            content_encoding=header(response.headers, "content-encoding"),
            transfer_encoding=header(response.headers, "transfer-encoding"),
            content_length=header(response.headers, "content-length"),
            wire=wire_of(url.host, url.path, url.query.decode("ascii", "replace")),
            path=url.path,
            bodiless=request.method == "HEAD" or response.status_code in (204, 304),
        )
        return self._recorder.begin(head, _body_of(request))


def _lower(timeouts: dict[str, Any], seconds: float | None) -> None:
    if seconds is not None:
        read = timeouts.get("read")
        timeouts["read"] = seconds if read is None else min(read, seconds)


def _body_of(request: Any) -> bytes | None:
    """The body of a request that the client holds in memory; None for one that is made while it is sent."""
    try:
        return request.content  # type: ignore[no-any-return]  # bytes, in both libraries
    except RuntimeError:  # RequestNotRead, of either
        return None


def _kept_whole(response: Any, exchange: Exchange) -> bool:
    """A response that its transport made from bytes in memory is read already, and its stream never will be."""
    if not response.is_stream_consumed:
        return False
    for chunk in response.stream:
        exchange.keep(chunk)
    exchange.exhausted()
    return True


class _SyncTee(_Tee):
    def handle_request(self, request: Any) -> Any:
        inner = self._usual(request, "HTTPTransport")
        before, timeouts = self._lend_timeouts(request)
        try:
            response = inner.handle_request(request)
        except Exception as fault:
            self._recorder.no_response(fault)
            raise
        finally:
            request.extensions = before
        exchange = self._begin(request, response, timeouts)
        if exchange is not None and not _kept_whole(response, exchange):
            stream = _made("_SyncBody", "SyncByteStream", _SyncBody, (_library_of(request),))
            response.stream = stream(response, exchange, timeouts)
        return response

    def close(self) -> None:
        if self._inner is not None:
            self._inner.close()


class _AsyncTee(_Tee):
    async def handle_async_request(self, request: Any) -> Any:
        inner = self._usual(request, "AsyncHTTPTransport")
        before, timeouts = self._lend_timeouts(request)
        try:
            response = await inner.handle_async_request(request)
        except Exception as fault:
            self._recorder.no_response(fault)
            raise
        finally:
            request.extensions = before
        exchange = self._begin(request, response, timeouts)
        if exchange is not None and not _kept_whole(response, exchange):
            stream = _made("_AsyncBody", "AsyncByteStream", _AsyncBody, (_library_of(request),))
            response.stream = stream(response, exchange, timeouts)
        return response

    async def aclose(self) -> None:
        if self._inner is not None:
            await self._inner.aclose()


class _Body:
    """The stream of the one response, with a copy kept of each portion before it is passed on."""

    def __init__(self, response: Any, exchange: Exchange, timeouts: dict[str, Any]) -> None:
        self._inner = response.stream
        self._library = _library_of(response)
        self._exchange = exchange
        self._timeouts = timeouts
        self._iterator: Any = None
        self._resumable = True
        # Both libraries go on where they were when asked for a new iterator, and read the timeouts anew.
        self._again = "network_stream" in response.extensions

    def _timeout(self) -> Exception:
        """What the client's library raises when nothing comes: heartbeats are no progress."""
        made: Exception = import_module(self._library).ReadTimeout(
            f"only heartbeats came for {self._exchange.idle:g} s"
        )
        return made

    @property
    def _worth_draining(self) -> bool:
        exchange = self._exchange
        return exchange.ending is None and self._resumable and self._iterator is not None and exchange.may_be_over


class _SyncBody(_Body):
    def __iter__(self) -> Iterator[bytes]:
        exchange = self._exchange
        if self._iterator is None:
            self._iterator = iter(self._inner)
        try:
            for chunk in self._iterator:
                exchange.keep(chunk)
                if exchange.stands_still(chunk):
                    raise self._timeout()
                yield chunk
        except GeneratorExit:
            raise  # no end: whoever reads may come back, or close
        except BaseException as fault:
            self._resumable = False
            exchange.failed(fault)
            raise
        exchange.exhausted()

    def close(self) -> None:
        try:
            if self._worth_draining:
                self._drain()
        finally:
            self._exchange.left()
            self._inner.close()

    def _drain(self) -> None:
        _lower(self._timeouts, _DRAIN_SECONDS)
        rest = iter(self._inner) if self._again else self._iterator
        portions = 0
        try:
            for chunk in rest:
                self._exchange.keep(chunk)
                portions += 1
                if portions == _DRAIN_PORTIONS:
                    return
            self._exchange.exhausted()
        except Exception as fault:  # noqa: BLE001  # the client has what it wanted; what happened here is on record
            self._exchange.failed(fault)


class _AsyncBody(_Body):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        exchange = self._exchange
        if self._iterator is not None:  # asked for once more, at the terminal event: it is the end that is wanted
            if self._worth_draining:
                await self._drain()
            return
        self._iterator = self._inner.__aiter__()
        try:
            async for chunk in self._iterator:
                exchange.keep(chunk)
                if exchange.stands_still(chunk):
                    raise self._timeout()
                yield chunk
        except GeneratorExit:
            raise
        except BaseException as fault:
            self._resumable = False
            exchange.failed(fault)
            raise
        exchange.exhausted()

    async def aclose(self) -> None:
        try:
            if self._worth_draining:
                await self._drain()
        finally:
            self._exchange.left()
            await self._inner.aclose()
            close = getattr(self._iterator, "aclose", None)
            if close is not None:
                await close()

    async def _drain(self) -> None:
        from anyio import move_on_after  # both libraries stand on it

        _lower(self._timeouts, _DRAIN_SECONDS)
        rest = self._inner.__aiter__() if self._again else self._iterator
        portions = 0
        # Shielded: a client that drains by itself gives up sooner, and then the end is lost for good.
        with move_on_after(_DRAIN_SECONDS, shield=True) as scope:
            try:
                async for chunk in rest:
                    self._exchange.keep(chunk)
                    portions += 1
                    if portions == _DRAIN_PORTIONS:
                        break
                else:
                    self._exchange.exhausted()
            except Exception as fault:  # noqa: BLE001  # as above
                self._exchange.failed(fault)
        if scope.cancelled_caught:
            self._exchange.stalled(_DRAIN_SECONDS)
