"""What the drills share: their options, one sweep, and its report."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from endmark.core import mc1
from endmark.core.refusal import CannotTry
from endmark.faces.cli.common import Result
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import Progress, paint, say
from endmark.sources import files

if TYPE_CHECKING:
    from endmark.drills.body import Body
    from endmark.drills.families import Family
    from endmark.drills.report.document import Report
    from endmark.drills.sweep.lanes import Job
    from endmark.drills.sweep.world import Commands
    from endmark.drills.targets.answer import Rules, Target

_MANY = 50_000  # faults of our own gates that are worth more than one process
_MINIMISED = 5  # holes

_COMMON: tuple[Callable[[Any], Any], ...] = (
    click.option("--faults", metavar="LIST", help="Families of faults, e.g. cuts,flips,keys,mutations:5000."),
    click.option("--only", metavar="FAULT", multiple=True, help="Just this fault, as a report spells it: cut:1882."),
    click.option("--other", metavar="FILE", help="A second whole payload, for faults that mix two up."),
    click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of what is left to chance."),
    click.option("--stop-on-hole", is_flag=True, help="End at the first hole."),
    click.option("--minimise", is_flag=True, help="Shrink the first holes to their smallest inputs."),
    click.option("--budget", type=click.FloatRange(min=0.001), metavar="SECONDS", help="Stop after so long."),
    click.option(
        "--timeout", type=click.FloatRange(min=0.01), default=10.0, show_default=True, help="Seconds a fault may take."
    ),
    click.option("--workers", type=click.IntRange(1, 512), help="Processes (default: one a core, where they can)."),
    click.option("--state", metavar="FILE", help="Keep what was answered here, and go on from it."),
    click.option("--svg", metavar="FILE", help="Write the map as a picture."),
    click.option("--junit", metavar="FILE", help="Write the report as JUnit XML."),
    click.option("--sarif", metavar="FILE", help="Write the holes as SARIF 2.1.0."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of words."),
)
_WORLD: tuple[Callable[[Any], Any], ...] = (
    click.option("--effect", metavar="CMD", help="Prints what must not change, e.g. 'sqlite3 app.db .dump'."),
    click.option("--counter", metavar="CMD", help="A cheaper look, after each fault; --effect then after each batch."),
    click.option("--reset", metavar="CMD", help="Sets the effect's state back; runs before every fault."),
    click.option("--refused-if", metavar="RULE", multiple=True, help="exit:3,4 status:422 raises:NAME stdout:REGEX."),
)
PAYLOAD = click.option("--payload", metavar="FILE|-", required=True, help="The whole payload, which is accepted.")
WIRE = click.option("--wire", metavar="NAME", help="The format of a stream, e.g. anthropic or openai-chat+vllm.")


def options(*, world: bool) -> Callable[[Any], Any]:
    """The options of a drill; with `world` those of a gate that is not ours too."""

    def add(function: Any) -> Any:
        for option in reversed((*(_WORLD if world else ()), *_COMMON)):
            function = option(function)
        return function

    return add


@contextmanager
def set_aside() -> Iterator[None]:
    """What anything in this process prints meanwhile goes to standard error: it is no result of ours."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


class Meter(Progress):
    """A bar, the rate, and how long it will still take."""

    def line(self, done: int, total: int, seconds: float) -> str:
        rate = done / seconds if seconds else 0.0
        full = round(20 * done / total) if total else 0
        left = f", {(total - done) / rate:,.0f} s left" if rate else ""
        return f"[{'#' * full}{'.' * (20 - full)}] {done:,} of {total:,}  {rate:,.0f}/s{left}"


def body_of(payload: str, given: dict[str, Any], wire: str | None = None) -> "Body":
    """Raises Misuse, Unreadable."""
    from endmark.drills.body import Body
    from endmark.wires import names

    if wire is not None:
        try:
            names.reader(wire)
        except ValueError as fault:
            raise Misuse(f"{fault}.") from None
    cap = mc1.DEFAULT_CAP + mc1.HEADER_MAX + 1
    data = files.read(payload, cap)
    if not data:
        raise Misuse(f"{payload} is empty: 0 bytes cannot be broken.")
    other = files.read(given["other"], cap) if given["other"] is not None else None
    return Body(data, "", wire, other)


def rules_of(given: dict[str, Any]) -> "Rules":
    """Raises Misuse."""
    from endmark.drills.faults import BadFault
    from endmark.drills.targets.answer import rules

    try:
        return rules(given["refused_if"])
    except BadFault as fault:
        raise Misuse(f"--refused-if {fault}.") from None


def run(
    target: "Target",
    body: "Body",
    given: dict[str, Any],
    *,
    default: str,
    verb: str,
    own_gate: bool = False,
    batch: int = 64,
) -> Result:
    """One sweep, as the one result. `batch`: faults between two controls. Raises Misuse, CannotTry."""
    from endmark.drills.report import document as made
    from endmark.drills.sweep.lanes import Job
    from endmark.drills.sweep.runner import Limits, sweep

    commands = _commands(given)
    families = _families(given, default)
    job = Job(
        target=target,
        body=body,
        families=families,
        commands=commands,
        limit=given["timeout"],
        stop_on_hole=given["stop_on_hole"],
    )
    total = sum(family.count(body) for family in families)
    limits = Limits(
        workers=_workers(job, given, total, own_gate),
        budget=given["budget"],
        state=None if given["state"] is None else Path(given["state"]),
        batch=batch if not job.commands.is_any else 64,
    )
    meter = Meter()
    try:
        swept = sweep(job, limits, given["seed"], meter)
    finally:
        meter.clear()
    report = made.report(swept)
    if given["minimise"] and report.holes:
        report = _minimised(job, report)
    for name in ("svg", "junit", "sarif"):
        if given[name] is not None:
            _write(name, Path(given[name]), report)
    return _result(report, verb)


def _result(report: "Report", verb: str) -> Result:
    from endmark.drills.report import document, terminal

    width = min(shutil.get_terminal_size((100, 24)).columns, 240)

    def coloured(text: str, colour: str) -> str:
        return paint(text, colour, sys.stdout) if colour else text

    text = terminal.show(report, width, coloured, f"endmark drill {verb} ... {{}}")
    return Result(text, document.document(report), report.exit_code)


def _families(given: dict[str, Any], default: str) -> "tuple[Family, ...]":
    from endmark.drills import families
    from endmark.drills.faults import BadFault

    if given["only"] and given["faults"] is not None:
        raise Misuse("name either --faults, or --only.")
    try:
        if given["only"]:
            return tuple(families.only(text) for text in given["only"])
        return tuple(families.parse(given["faults"] or default, given["seed"]))
    except BadFault as fault:
        raise Misuse(f"{fault}.") from None


def _commands(given: dict[str, Any]) -> "Commands":
    from endmark.drills.sweep.world import Commands

    found = Commands(effect=given.get("effect"), counter=given.get("counter"), reset=given.get("reset"))
    if found.is_any and not (found.effect or found.counter):
        say("endmark: --reset without --effect: only what the gate answers is looked at, not what it did.")
    if (found.effect or found.counter) and not found.reset:
        say("endmark: --effect without --reset: a gate that keeps state may hide its holes.")
    return found


def _workers(job: "Job", given: dict[str, Any], total: int, own_gate: bool) -> int | None:
    """More than one worker only where none can disturb another."""
    from endmark.drills.targets.command import WORKER

    texts = [text for name in ("effect", "counter", "reset") if (text := given.get(name)) is not None]
    shared = any(WORKER not in text for text in texts)
    wanted: int | None = given["workers"]
    if wanted is not None and wanted > 1 and shared:
        raise Misuse(
            f"--workers {wanted}: workers would share one state; write {WORKER} into the commands, as in "
            f"'rm -f app{WORKER}.db'."
        )
    if own_gate:
        many = wanted if wanted is not None else (os.cpu_count() or 1) if total > _MANY else 1
        return many if many > 1 else None
    if shared or job.stop_on_hole:
        return wanted or 1
    return wanted or max(1, min(os.cpu_count() or 1, -(-total // 64)))


def _minimised(job: "Job", report: "Report") -> "Report":
    from endmark.drills.minimise import minimise

    bench, until = job.bench(0), time.monotonic() + 120
    with closing(bench.player):
        small = [
            msgspec.structs.replace(hole, minimised=minimise(bench, hole.fault, hole.answer, until=until))
            for hole in report.holes[:_MINIMISED]
        ]
    return msgspec.structs.replace(report, holes=(*small, *report.holes[_MINIMISED:]))


def _write(kind: str, path: Path, report: "Report") -> None:
    from importlib import import_module

    module = import_module(f"endmark.drills.report.{kind}")
    try:
        path.write_bytes(module.dumps(report))
    except OSError as fault:
        raise CannotTry(f"{path} cannot be written: {fault.strerror or fault}") from None
