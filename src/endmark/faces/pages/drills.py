"""Reports of drills, from a folder: what `endmark drill --json` wrote, and the maps that `--svg` put beside them.

Anybody may have written those files. A report is strict JSON of a known shape or is not shown; a map is never read,
only handed to the browser as a picture, in which nothing runs and which loads nothing.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

import msgspec

from endmark.core import strictjson
from endmark.core.refusal import Refused

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_MOST = 200  # reports, the newest
_LOOKED_AT = 5_000  # entries of the folder
_REPORT_CAP = 4 * 1024 * 1024  # bytes
_MAP_CAP = 8 * 1024 * 1024  # bytes
_HOLES = 500  # shown


class Hole(msgspec.Struct, frozen=True):
    """One hole of a report."""

    fault: str
    effect: bool = False
    note: str = ""
    minimised: str | None = None


class Report(msgspec.Struct, frozen=True):
    """The report of a drill, version 1."""

    version: int
    target: str
    seed: int
    control: str
    planned: int
    tried: int
    refused: int
    crashed: int
    hung: int
    inconclusive: int
    accepted: list[Hole]
    exit_code: int

    @property
    def state(self) -> str:
        """`no hole` only where the whole payload was accepted, faults were tried, and none was taken for whole."""
        if self.accepted:
            return "hole"
        unsure = self.exit_code or self.inconclusive or self.control != "accepted" or self.tried < 1
        return "inconclusive" if unsure else "no hole"

    @property
    def shown(self) -> list[Hole]:
        return self.accepted[:_HOLES]


class Kept(msgspec.Struct, frozen=True):
    """A file of the folder: its report, or why it is not shown."""

    name: str
    at: float
    report: Report | None
    why: str
    has_map: bool


class Shelf:
    """The folder. Raises nothing: what cannot be read is said of each file."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._known: dict[str, tuple[tuple[int, int, int], Report | None, str]] = {}

    def all(self) -> tuple[list[Kept], str]:
        """(the newest reports first, what is wrong with the folder)."""
        if self.folder is None:
            return (
                [],
                'No folder is configured: [service] drills = "DIR" names one, for what endmark drill --json writes.',
            )
        names: list[tuple[float, str]] = []
        try:
            with os.scandir(self.folder) as entries:
                for count, entry in enumerate(entries):
                    if count >= _LOOKED_AT:
                        break
                    name = entry.name.removesuffix(".json")
                    if name != entry.name and _NAME.fullmatch(name) and entry.is_file(follow_symlinks=False):
                        names.append((entry.stat(follow_symlinks=False).st_mtime, name))
        except OSError as fault:
            return [], f"The folder of drills cannot be read: {fault.strerror or fault}."
        found = [self.one(name) for _, name in sorted(names, reverse=True)[:_MOST]]
        return [one for one in found if one is not None], ""

    def one(self, name: str) -> Kept | None:
        """The report of this name, or None where there is no such file."""
        if self.folder is None or not _NAME.fullmatch(name):
            return None
        try:
            facts = os.lstat(self.folder / f"{name}.json")
        except OSError:
            return None
        if not stat.S_ISREG(facts.st_mode):
            return None
        stamp = (facts.st_mtime_ns, facts.st_size, facts.st_ino)
        known = self._known.get(name)
        if known is None or known[0] != stamp:
            report, why = self._read(name)
            if len(self._known) >= 2 * _MOST:
                self._known.clear()
            known = self._known[name] = stamp, report, why
        return Kept(name, facts.st_mtime, known[1], known[2], self._file(f"{name}.svg", _MAP_CAP) is not None)

    def map(self, name: str) -> bytes | None:
        """The picture beside a report, or None."""
        return self._bytes(f"{name}.svg", _MAP_CAP) if _NAME.fullmatch(name) else None

    def _read(self, name: str) -> tuple[Report | None, str]:
        raw = self._bytes(f"{name}.json", _REPORT_CAP)
        if raw is None:
            return None, f"It is no file that can be read, or has more than {_REPORT_CAP:,} bytes."
        try:
            found = msgspec.convert(strictjson.loads(raw), Report)
        except Refused as fault:
            return None, f"It is no report of a drill: {fault.detail}."
        except msgspec.ValidationError as fault:
            return None, f"It is no report of a drill: {fault}."
        if found.version != 1:
            return None, f"It is a report of version {found.version}; version 1 was expected."
        return found, ""

    def _file(self, name: str, cap: int) -> Path | None:
        if self.folder is None:
            return None
        path = self.folder / name
        try:
            facts = os.lstat(path)
        except OSError:
            return None
        return path if stat.S_ISREG(facts.st_mode) and facts.st_size <= cap else None

    def _bytes(self, name: str, cap: int) -> bytes | None:
        path = self._file(name, cap)
        if path is None:
            return None
        try:
            number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            with open(number, "rb") as opened:
                raw = opened.read(cap + 1)
        except OSError:
            return None
        return raw if len(raw) <= cap else None
