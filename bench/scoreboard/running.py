"""A row's commands are run, and what they counted is read from what they wrote for machines."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from bench.scoreboard.rows import PLACE, Row

_TAIL = 15  # lines of what failed that are shown
_LOOK = 5.0  # seconds between two lines of progress


class Found(NamedTuple):
    """What a row's commands counted, in words, and whether what must hold did."""

    holds: bool
    words: str
    seconds: float


class Failed(Exception):
    """A command ended without figures; says why."""


def run(row: Row, tell: Callable[[float], None]) -> Found:
    """Run a row. `tell` hears how many seconds it has taken. What fails is a result too: it is said, not raised."""
    began = time.monotonic()
    found: list[dict[str, int]] = []
    try:
        for command in row.commands:
            found.append(_READERS[row.kind](command, lambda: tell(time.monotonic() - began)))
    except Failed as failed:
        return Found(False, f"did not run: {failed}", time.monotonic() - began)
    total: dict[str, int] = {}
    for counts in found:
        for name, count in counts.items():
            total[name] = total.get(name, 0) + count
    holds = not any(total.get(name) for name in _WRONG) and any(total.values())
    if holds:
        for state in PLACE.glob(f"{row.name}-*.state"):  # kept only for going on with what was interrupted
            state.unlink()
    shown = {name: count for name, count in total.items() if count or name in _ALWAYS}
    return Found(holds, ", ".join(f"{count:,} {name}" for name, count in shown.items()), time.monotonic() - began)


_WRONG = ("accepted", "crashed", "hung", "inconclusive", "failed", "not run", "missed")
_ALWAYS = ("accepted", "failed", "missed")


def _output(command: str, tell: Callable[[], None]) -> tuple[int, str]:
    """The exit code and standard output of a command, run as a polite neighbour."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        try:
            process = subprocess.Popen(
                shlex.split(command), stdout=out, stderr=err, preexec_fn=lambda: os.nice(10) and None
            )
        except OSError as fault:
            raise Failed(f"{command.split()[0]}: {fault.strerror}") from None
        try:
            while True:
                try:
                    code = process.wait(_LOOK)
                    break
                except subprocess.TimeoutExpired:
                    tell()
        except BaseException:
            process.terminate()
            process.wait()
            raise
        out.seek(0)
        err.seek(0)
        said, complained = out.read(), err.read()
    if code:
        lines = (said + complained).splitlines()[-_TAIL:]
        print("", f"{command}: exit {code}", *lines, sep="\n", file=sys.stderr)
    return code, said


def _drill(command: str, tell: Callable[[], None]) -> dict[str, int]:
    code, said = _output(command, tell)
    try:
        report = json.loads(said)
    except ValueError:
        report = None
    if not isinstance(report, dict) or not isinstance(report.get("accepted"), list):
        raise Failed(f"exit {code}, and no report")
    if report["control"] != "accepted":
        raise Failed(f"the whole payload was not accepted: {report['control']}")
    counts = {name: report[name] for name in ("tried", "refused", "crashed", "hung", "inconclusive")}
    return {**counts, "accepted": len(report["accepted"])}


def _tests(command: str, tell: Callable[[], None]) -> dict[str, int]:
    with tempfile.NamedTemporaryFile(suffix=".xml") as report:
        code, _ = _output(f"{command} -p no:cacheprovider --junit-xml={report.name}", tell)
        if code not in (0, 1):
            raise Failed(f"pytest ended with exit {code}")
        try:
            suites = list(ElementTree.parse(report.name).iter("testsuite"))
        except ElementTree.ParseError:
            raise Failed(f"exit {code}, and no report") from None
    counts = {"tests": 0, "failed": 0, "not run": 0}
    for suite in suites:
        counts["tests"] += int(suite.get("tests", 0))
        counts["failed"] += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        counts["not run"] += int(suite.get("skipped", 0))
        for told in suite.iter("property"):
            if (value := told.get("value", "")).isdigit() and (name := told.get("name")):
                counts[name] = counts.get(name, 0) + int(value)
    return counts


def _figures(command: str, tell: Callable[[], None]) -> dict[str, int]:
    """The whole numbers of the JSON object that a command writes into {json}, or else as its last line; of a list of
    what survived, how many."""
    with tempfile.NamedTemporaryFile("r", suffix=".json") as told:
        code, said = _output(command.replace("{json}", told.name), tell)
        said = Path(told.name).read_text(encoding="utf-8") if "{json}" in command else said
    for line in reversed(said.splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict):
            counts = {str(name).replace("_", " "): value for name, value in found.items() if type(value) is int}
            if isinstance(survived := found.get("survived"), list):
                counts["missed"] = len(survived)
            return {**counts, **({"failed": 1} if code else {})}
    raise Failed(f"exit {code}, and no figures")


_READERS: dict[str, Callable[[str, Callable[[], None]], dict[str, int]]] = {
    "drill": _drill,
    "tests": _tests,
    "figures": _figures,
}


def version() -> str:
    """What was measured: the version, and the first digits of git's own name for what stands in src/, which is the same
    in whatever commit; a mark where files differ from it."""
    number = Path("pyproject.toml").read_text().split('version = "')[1].partition('"')[0]
    tree = _git("rev-parse", "--short", "HEAD:src")
    return f"{number}, src {tree}{'+' if _git('status', '--porcelain', '--', 'src') else ''}" if tree else number


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=False).stdout.strip()
