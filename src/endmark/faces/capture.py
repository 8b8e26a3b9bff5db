"""`endmark.capture()`: take the raw bytes of one answer below an SDK, and seal what they prove."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from endmark.core import mc1
from endmark.core.refusal import Refused
from endmark.seal import AnswerRefused, Sealed, seal
from endmark.sources import tee
from endmark.sources.capture import DEFAULT_LIMIT, Capture
from endmark.sources.recorder import DEFAULT_IDLE, Recorder
from endmark.wires import names

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Capturing:
    """One capture, for one answer. Made by `endmark.capture()`; use it in a `with` or an `async with`.

    Nothing of a request is kept: no header, no key, no prompt.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def transport(self, inner: Any = None, **options: Any) -> Any:
        """A transport for `httpx.Client(transport=...)` or `httpx2.Client(transport=...)`.

        It wraps `inner`; without one, the library's usual transport made with `options` (`http2=True`, `verify=...`).
        Raises ImportError where neither library is installed.
        """
        return tee.transport(self._recorder, inner, **options)

    def async_transport(self, inner: Any = None, **options: Any) -> Any:
        """The same for `AsyncClient`."""
        return tee.async_transport(self._recorder, inner, **options)

    def reset(self) -> None:
        """Forget what passed. The next response is the one that is captured."""
        self._recorder.reset()

    @property
    def taken(self) -> Capture:
        """What was captured so far: `raw`, `ending`, `sha256`. Raises AnswerRefused where there is no one response."""
        return self._taken(None)

    def seal(
        self,
        *,
        tool: str | None = None,
        wire: str | None = None,
        marks: list[str] | None = None,
        cap: int = mc1.DEFAULT_CAP,
    ) -> Sealed:
        """The captured answer in an envelope: its one call of `tool`, or without `tool` its text, a verdict or a plan.

        `marks`: what the reviewer was asked to echo. `wire`: how to read the bytes, where `capture(wire=...)` did not
        say and the URL does not tell. Raises AnswerRefused for an answer that is not proven whole or not the one asked
        for, and ValueError where the wire is not known.
        """
        if wire is not None and self._recorder.wire is None:
            self._recorder.wire = _known(wire)
        return seal(self._taken(tool), wire=wire, tool=tool, marks=marks, cap=cap)

    def _taken(self, tool: str | None) -> Capture:
        try:
            return self._recorder.capture()
        except Refused as refused:
            raise AnswerRefused(refused.signal, refused.received_bytes, None, refused.detail, tool) from None


def capture(
    *,
    wire: str | None = None,
    limit: int = DEFAULT_LIMIT,
    idle: float | None = DEFAULT_IDLE,
    allow_close_delimited: bool = False,
) -> Capturing:
    """Capture the raw bytes of one answer.

    with endmark.capture() as c:
        client = OpenAI(http_client=httpx.Client(transport=c.transport()))
        ...
        sealed = c.seal(tool="apply_schema")

    `wire`: how to read the answer; without it, the URL of the request tells. `limit`: the most bytes of a body that are
    kept; a longer one passes and is refused. `idle`: the most seconds between two portions of a body, heartbeats
    not counted; None for as long as the client's own timeout allows. `allow_close_delimited`: take a body that has
    neither a length nor a last chunk and ends with its connection, as a cut one does too; the evidence says so.

    Raises ValueError for a wire that does not exist.
    """
    if limit < 1 or (idle is not None and idle <= 0):
        raise ValueError("limit (bytes) and idle (seconds) must be more than 0")
    recorder = Recorder(
        wire=None if wire is None else _known(wire),
        limit=limit,
        idle=idle,
        allow_close_delimited=allow_close_delimited,
    )
    return Capturing(recorder)


def _known(wire: str) -> str:
    names.reader(wire)
    return wire
