"""What the wires over server-sent events share: names that must agree, errors in the stream, events that repeat."""

from collections.abc import Callable, Collection
from re import Match
from typing import Any, NoReturn

from endmark.core.refusal import Signal
from endmark.core.strictjson import short
from endmark.wires import stencil
from endmark.wires.fragments import Fragments
from endmark.wires.framing import Broken, Options, refuse
from endmark.wires.reading import StreamReader
from endmark.wires.sse import Event, EventStream
from endmark.wires.stencil import Path

# How many events of one kind in a row before a pattern for them pays for its making: at first, and after some were made
_PATIENCE, _PATIENCE_LATER = 64, 512


class EventReader(StreamReader[Event]):
    """A wire over server-sent events. It says `_take`, `_draft` and `_document`; see `StreamReader`.

    A wire whose events repeat tells `_repeats` of each one that only added a piece of text to some fragments. After a
    while the reader recognises such events without reading them again; every other event starts that anew.
    """

    def __init__(self, options: Options) -> None:
        super().__init__(options, EventStream(options.cap))
        self._match: Callable[[str], Match[str] | None] | None = None
        self._name = b""  # of the events that it matches
        self._groups: dict[Path, int] = {}
        self._group = 0  # where in a match the piece stands
        self._target = Fragments()  # what the piece is added to
        self._steady = False  # the last event that was read left everything else as it was
        self._row = 0  # how many events came in a row that only added to the target
        self._patience = _PATIENCE

    def _read(self, items: list[Event]) -> None:
        try:
            for item in items:
                if self._match is not None and self._again(self._match, item):
                    continue
                if self._ended:
                    self._after(item)
                    continue
                self._steady = False
                self._take(item)
                if not self._steady:
                    self._match, self._row = None, 0
        except Broken as broken:
            self._fault = broken.fault

    def _again(self, matching: Callable[[str], Match[str] | None], item: Event) -> bool:
        """Takes an event that repeats. False: it does not, it is to be read."""
        name, data = item
        if name != self._name or len(data) > stencil.LONGEST:
            return False
        try:
            match = matching(data.decode())
        except UnicodeDecodeError:
            return False
        if match is None or not self._continues(match):
            return False
        self._target.add_spelled(match[self._group])
        self._row = 0
        return True

    def _continues(self, match: Match[str]) -> bool:
        """What else a wire keeps of an event that repeats. False: it is not the next one, and is to be read."""
        return True

    def _idle(self) -> None:
        """Tells that the event said nothing."""
        self._steady = True

    def _repeats(
        self, item: Event, target: Fragments, piece: Path, free: Collection[Path], lists: Collection[Path] = ()
    ) -> None:
        """Tells that the event only added the string at `piece` to `target`.

        Nothing was judged of what stands at the `free` paths, or in the lists at those in `lists`.
        """
        if target is not self._target:
            self._target, self._match, self._row = target, None, 0
        self._steady = True
        self._row += 1
        if self._row < self._patience:
            return
        self._row, self._patience = 0, min(self._patience * 2, _PATIENCE_LATER)
        if len(item[1]) > stencil.LONGEST:
            return
        made = stencil.cut(item[1].decode(), {piece, *free}, lists)
        if made is not None and piece in made[1]:
            self._match, self._groups, self._group = made[0].fullmatch, made[1], made[1][piece]
            self._name = item[0]


def named(name: bytes, document: dict[str, Any]) -> str:
    """The type of an event, which its `event` field repeats where there is one (E9)."""
    kind = document.get("type")
    if not isinstance(kind, str):
        refuse(Signal.WRONG_TYPE, lambda: f"an event's type is {short(kind)}, a string was expected")
    if name and name != b"message" and name != kind.encode():
        refuse(
            Signal.CONTRADICTION,
            lambda: f"an event is called {short(name.decode('utf-8', 'replace'))}, its type is {short(kind)}",
        )
    return kind


def failed(error: Any) -> NoReturn:
    """A8: an error in the stream, with what the provider calls it."""
    kind = said = None
    if isinstance(error, dict):
        kind = error.get("type") or error.get("code") or error.get("status")
        said = error.get("message")
    elif isinstance(error, str):
        said = error
    words = [short(word) for word in (kind, said) if isinstance(word, str | int) and word]
    refuse(Signal.BAD_STOP, "the provider reported an error" + (": " + ", ".join(words) if words else ""))
