"""How far a run is, and when it will be through."""

import time
from typing import TextIO


class Progress:
    """One line on `file` that is renewed; where it is no terminal, a line every ten seconds."""

    def __init__(self, file: TextIO, what: str, total: int) -> None:
        self._file, self._what, self._total = file, what, total
        self._began = self._shown = time.monotonic()
        self._every = 0.3 if file.isatty() else 10.0

    def __call__(self, done: int, note: str = "") -> None:
        now = time.monotonic()
        if now - self._shown < self._every and done < self._total:
            return
        self._shown = now
        left = (now - self._began) / max(done, 1) * (self._total - done)
        text = f"{self._what}: {done} of {self._total}, {left / 60:.1f} min left{note}"
        ending = "\n" if done == self._total else ""
        self._file.write(f"\r\033[K{text}{ending}" if self._file.isatty() else f"{text}\n")
        self._file.flush()
