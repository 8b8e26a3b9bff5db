"""Pairs and medians: two things timed in turn, so that a noisy machine is noisy for both."""

import json
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple


class Row(NamedTuple):
    """One line of the table. `ours` and `floor` in seconds (or per second); `limit` is what the ratio must keep to."""

    what: str
    ours: float
    floor: float
    ratio: float
    limit: float | None
    unit: str = "s"
    at_least: bool = False

    @property
    def holds(self) -> bool | None:
        if self.limit is None:
            return None
        return self.ratio >= self.limit if self.at_least else self.ratio <= self.limit


def seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def pairs(ours: Callable[[], Any], floor: Callable[[], Any], count: int) -> tuple[float, float]:
    """Median seconds of each, measured in turn; the first of each is thrown away."""
    ours(), floor()
    first: list[float] = []
    second: list[float] = []
    for turn in range(count):
        for action, times in ((ours, first), (floor, second))[:: 1 if turn % 2 else -1]:
            times.append(seconds(action))
    return statistics.median(first), statistics.median(second)


def row(what: str, ours: Callable[[], Any], floor: Callable[[], Any], limit: float | None, count: int) -> Row:
    a, b = pairs(ours, floor, count)
    return Row(what, a, b, a / b, limit)


def prepared(
    what: str,
    ours: Callable[[Any], Any],
    floor: Callable[[Any], Any],
    prepare: Callable[[], Any],
    limit: float | None,
    count: int,
) -> Row:
    """As `row`, for actions that use something up: each gets what `prepare` makes, which is not timed."""
    first: list[float] = []
    second: list[float] = []
    for turn in range(count + 1):
        for action, times in ((ours, first), (floor, second))[:: 1 if turn % 2 else -1]:
            times.append(seconds(partial(action, prepare())))
    a, b = statistics.median(first[1:]), statistics.median(second[1:])
    return Row(what, a, b, a / b, limit)


def fsync_seconds(folder: Path) -> float:
    """The median time this machine needs to flush one 4 KiB page to the disk under `folder`."""
    probe = folder / "fsync.probe"
    times = []
    descriptor = os.open(probe, os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        for at in range(60):
            os.pwrite(descriptor, b"x" * 4096, at * 4096)
            times.append(seconds(lambda: os.fsync(descriptor)))
    finally:
        os.close(descriptor)
        probe.unlink()
    return statistics.median(times)


def show(rows: list[Row]) -> str:
    """The table, in Markdown."""
    lines = ["| what | endmark | floor or peer | ratio | limit | |", "|---|---:|---:|---:|---:|---|"]
    for r in rows:
        limit = "" if r.limit is None else f"{'≥' if r.at_least else '≤'} {r.limit:g}"
        mark = {None: "", True: "holds", False: "**misses**"}[r.holds]
        lines.append(
            f"| {r.what} | {_figure(r.ours, r.unit)} | {_figure(r.floor, r.unit)} | {r.ratio:.2f} | {limit} | {mark} |"
        )
    return "\n".join(lines)


def _figure(value: float, unit: str) -> str:
    if unit == "/s":
        return f"{value:,.0f}/s"
    if unit == "x body":
        return f"{value:.2f} x body"
    if value >= 1:
        return f"{value:.2f} s"
    return f"{value * 1e3:.2f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"


def as_json(rows: list[Row]) -> str:
    return json.dumps([r._asdict() | {"holds": r.holds} for r in rows], indent=1)
