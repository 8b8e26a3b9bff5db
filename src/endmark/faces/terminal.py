"""Talking to people: what is said, in which colour, what is asked, and never a byte that could drive a terminal."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from endmark.core.printable import safe as safe

_SHOWN_AFTER = 0.5  # seconds until work counts as long
_REDRAWN_EVERY = 0.1


def say(text: str = "") -> None:
    """One line of talk, to standard error. `text` is safe already. A closed or full one changes nothing."""
    _write(f"{text}\n")


def _write(text: str) -> None:
    if sys.stderr is not None:
        with suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()


def is_quiet() -> bool:
    """Whether a CI system runs us: no colour, no progress, and nobody to ask."""
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def paint(text: str, colour: str, stream: TextIO | None) -> str:
    """`text` in a colour where `stream` shows colours and nobody asked for none."""
    if not is_terminal(stream) or is_quiet() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    import click

    return click.style(text, fg=colour)


@contextmanager
def _dialogue(stdin_is_input: bool) -> Iterator[TextIO | None]:
    """Where a person would answer: standard input, or the terminal itself while standard input brings the plan."""
    if is_quiet() or not is_terminal(sys.stderr):
        yield None
    elif is_terminal(sys.stdin):
        yield sys.stdin
    elif not stdin_is_input:
        yield None
    else:
        try:
            terminal = open("/dev/tty", encoding="utf-8", errors="replace")  # noqa: SIM115  # closed below
        except OSError:
            yield None
            return
        with terminal:
            yield terminal


def can_ask(stdin_is_input: bool) -> bool:
    """Whether a person sits there who sees what is said and can answer."""
    with _dialogue(stdin_is_input) as answers:
        return answers is not None


def ask(question: str, stdin_is_input: bool) -> bool | None:
    """Yes, no, or None when nobody answers. Whatever is not y, yes, n or no is asked again."""
    with _dialogue(stdin_is_input) as answers:
        if answers is None:
            return None
        import select

        _forget_typed_ahead(answers)
        while True:
            _write(f"{question} [y/n] ")
            # In short waits: a signal that comes just before a long one begins would not end it.
            while not select.select([answers], [], [], 0.2)[0]:
                pass
            line = answers.readline()
            if not line:
                say()
                return None
            match line.strip().lower():
                case "y" | "yes":
                    return True
                case "n" | "no":
                    return False


def _forget_typed_ahead(answers: TextIO) -> None:
    """What was typed before the question was seen does not answer it."""
    import termios

    with suppress(termios.error, OSError, ValueError):
        termios.tcflush(answers.fileno(), termios.TCIFLUSH)


class Progress:
    """One line on a terminal that says how far long work is; nothing where nobody watches.

    It is told (done, total) of one stage after the other. `stages` names them; the last name is for all that follow.
    """

    def __init__(self) -> None:
        self.stages = ["applying"]
        self._shows = is_terminal(sys.stderr) and not is_quiet()
        self._began: float | None = None
        self._drawn = 0.0
        self._width = 0
        self._done = self._total = 0

    def __call__(self, done: int, total: int) -> None:
        if self._total and (total != self._total or done < self._done) and len(self.stages) > 1:
            self.stages.pop(0)
        self._done, self._total = done, total
        self.tick()

    def tick(self) -> None:
        """Draw the line, if it is time to."""
        if not self._shows:
            return
        now = time.monotonic()
        if self._began is None:
            self._began = now
        if now - self._began < _SHOWN_AFTER or now - self._drawn < _REDRAWN_EVERY:
            return
        self._drawn = now
        line = self.line(self._done, self._total, now - self._began)
        _write(f"\r{line:<{self._width}}")
        self._width = len(line)

    def line(self, done: int, total: int, seconds: float) -> str:
        """What it says."""
        how_far = f"{done:,} of {total:,}" if total else ""
        return f"{self.stages[0]}  {how_far}  {seconds:.0f} s"

    def clear(self) -> None:
        """Take the line away again."""
        if self._width:
            _write(f"\r{'':{self._width}}\r")
            self._width = 0
