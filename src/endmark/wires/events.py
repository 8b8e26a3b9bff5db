"""What the wires over server-sent events share: names that must agree, errors in the stream, events that repeat."""

from collections.abc import Callable, Collection
from re import Match
from typing import Any, NoReturn

from endmark.core.refusal import Signal
from endmark.core.strictjson import short
from endmark.wires import batch, stencil
from endmark.wires.batch import Batch, Columns
from endmark.wires.fragments import Fragments
from endmark.wires.framing import Broken, Options, refuse
from endmark.wires.reading import StreamReader
from endmark.wires.sse import Event, EventStream
from endmark.wires.stencil import Path

# How many events of one kind in a row before a pattern for them pays for its making: at first, and after some were made
_PATIENCE, _PATIENCE_LATER = 64, 512
_MISSES = 3  # how many blocks in a row may be none of a shape before it is not tried any more


class EventReader(StreamReader[Event]):
    """A wire over server-sent events. It says `_take`, `_draft` and `_document`; see `StreamReader`.

    A wire whose events repeat tells `_repeats` of each one that only added a piece of text to some fragments. After a
    while the reader recognises such events without reading them again; every other event starts that anew.
    """

    _followed: tuple[Path, ...] = ()
    """Where in an event that repeats something besides its piece is looked at; see `_continues`."""

    def __init__(self, options: Options) -> None:
        self._events = EventStream(options.cap)
        super().__init__(options, self._events)
        self._match: Callable[[str], Match[str] | None] | None = None
        self._name = b""  # of the events that it matches
        self._groups: dict[Path, int] = {}
        self._group = 0  # where in a match the piece stands
        self._piece: Path = ()
        self._target = Fragments()  # what the piece is added to
        self._steady = False  # the last event that was read left everything else as it was
        self._row = 0  # how many events came in a row that only added to the target
        self._patience = _PATIENCE
        self._batches: list[Batch] = []  # the shapes of such events, to recognise many at once

    def skim(self, data: bytes) -> int:
        """See `Reader.skim`."""
        if self._match is None or not self._batches or self._fault is not None or 0x0D in data:
            return 0
        end = data.rfind(b"\n\n") + 2
        opened = self._events.under_way(len(data)) if end >= 2 else None
        if opened is None:
            return 0
        block = data if end == len(data) else data[:end]
        if not self._again_all(opened + block if opened else block):
            return 0
        self._events.ended_elsewhere(end)
        if end < len(data):
            self._events.feed(data[end:])  # ends no event
        return end

    def _again_all(self, block: bytes) -> bool:
        """Takes a block of events that all repeat. False: something else is in it, and nothing was taken."""
        for shape in self._batches:
            columns = shape.columns(block)
            if columns is not None and self._continue_all(shape.groups, columns):
                shape.misses = self._row = 0
                self._target.add_spelled(b"".join(columns[shape.groups[self._piece]]).decode())
                return True
            shape.misses += 1
        if any(shape.misses >= _MISSES for shape in self._batches):
            self._batches = [shape for shape in self._batches if shape.misses < _MISSES]
        return False

    def _skimmed(self, data: bytes) -> list[Event]:
        return [] if self.skim(data) else self._frames.feed(data)

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

    def _continue_all(self, groups: dict[Path, int], columns: Columns) -> bool:
        """As `_continues`, of many events at once. False: nothing of them was kept."""
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
            self._name, self._piece = item[0], piece
            shapes = [batch.of(item[0], item[1].decode(), {piece, *more}) for more in (self._followed, free)]
            self._batches = [shape for shape in shapes if shape is not None and piece in shape.groups]
            self._sink = self._skimmed


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
