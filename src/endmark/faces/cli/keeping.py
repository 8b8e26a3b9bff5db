"""`endmark ledger backup`, `export`, and the check of an export: what is kept of a ledger elsewhere."""

import os
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

import click
import msgspec

from endmark import __version__
from endmark.core.refusal import CannotTry
from endmark.faces.cli.at_gate import LEDGER, must_exist, open_to_read, settings
from endmark.faces.cli.common import JSON, Result, Verb, at
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import Progress, is_terminal, safe
from endmark.faces.words import many
from endmark.ledger.entry import Report, stamp


def _moment(_ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """A date or a time as records spell it; without a zone it is UTC."""
    if value is None:
        return None
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        said = f"{value!r} is no date or time, as 2026-11-30 or 2026-11-30T12:00:00Z."
        raise click.BadParameter(said, param=param) from None
    return stamp(found if found.tzinfo else found.replace(tzinfo=UTC))


@click.command("backup", cls=Verb)
@click.argument("file", metavar="FILE")
@LEDGER
@JSON
@click.pass_context
def backup(ctx: click.Context, file: str, ledger: str | None, config: str | None) -> Result:
    """Copy the ledger to FILE while gates write, audit the copy, and keep it only if it is sound.

    For a ledger in a SQLite file. FILE must not exist, is for this user alone, and is flushed to the disk. A ledger in
    PostgreSQL is backed up by its own tools: docs/ledger.md.

    \b
    Example:
      endmark ledger backup /var/backups/endmark-2026-11-30.db
    """
    from endmark.ledger.backup import back_up

    found = settings(ledger, config)
    if not isinstance(found.ledger, Path):
        raise Misuse(
            "a ledger in PostgreSQL is backed up by 'pg_dump -n endmark DATABASE', or its server's own backups."
        )
    open_to_read(ctx, found)
    progress = Progress()
    progress.stages = ["copying", "verifying"]
    ctx.call_on_close(progress.clear)
    done = back_up(found.ledger, Path(file), progress)
    progress.clear()
    text = f"Backed up {_counts(done.report)}, {done.size:,} bytes: {safe(file)}\n{_checkpoint(done.report)}"
    document = {"version": 1, "file": str(Path(file).absolute()), "bytes": done.size, **_facts(done.report)}
    return Result(text.rstrip("\n"), document | {"exit_code": 0, "at": at()})


@click.command("export", cls=Verb)
@click.argument("file", metavar="FILE|-")
@click.option("--since", callback=_moment, metavar="TIME", help="Only what came then or later.")
@click.option("--until", callback=_moment, metavar="TIME", help="Only what came before.")
@click.option("--bodies/--no-bodies", default=True, show_default=True, help="With the bytes that were kept.")
@click.option("--format", "form", type=click.Choice(["jsonl"]), default="jsonl", show_default=True, help="How.")
@LEDGER
@JSON
@click.pass_context
def export(
    ctx: click.Context,
    file: str,
    since: str | None,
    until: str | None,
    bodies: bool,
    form: str,
    ledger: str | None,
    config: str | None,
) -> Result:
    """Write the ledger as lines of JSON: every attempt, event, decision, review and checkpoint, with their hashes.

    It is of one moment, whatever others write meanwhile. Its last line counts the rows and has the SHA-256 of all bytes
    before: 'endmark ledger verify --export FILE' audits it without a ledger. A FILE must not exist.

    \b
    Examples:
      endmark ledger export audit-2026.jsonl --since 2026-01-01 --until 2027-01-01
      endmark ledger export - --no-bodies | gzip > ledger.jsonl.gz
    """
    from endmark.ledger import export as exports

    as_json = bool(ctx.meta.get("as_json"))
    if file == "-" and is_terminal(sys.stdout) and not as_json:
        raise Misuse("an export is not for a terminal; name a FILE, or send it on.")
    found = settings(ledger, config)
    must_exist(found)
    book = open_to_read(ctx, found).ledger
    progress = Progress()
    progress.stages = ["exporting"]
    ctx.call_on_close(progress.clear)
    size = 0
    with book.store.audited() as source, _to(file) as out:
        header = exports.Header(
            format=exports.FORMAT, endmark=__version__, at=at(), ledger=str(book.place), gapless=source.gapless,
            bodies=bodies, since=since, until=until,
        )  # fmt: skip
        try:
            for line in exports.lines(source, header, progress):
                size += out.write(line)
        except source.errors as error:
            raise CannotTry(
                f"ledger {book.place}: {error}. No export was kept; run 'endmark ledger verify'."
            ) from error
    progress.clear()
    if file == "-":
        return Result("", raw=b"")
    document = {"version": 1, "file": str(Path(file).absolute()), "bytes": size, "exit_code": 0, "at": at()}
    return Result(f"Exported {size:,} bytes: {safe(file)}", document)


def verify_export(ctx: click.Context, file: str) -> tuple[Report, str]:
    """Audit an export without its ledger: the report, and what it is of. Raises Refused for what is no whole export."""
    from endmark.ledger import export as exports
    from endmark.ledger import verify

    progress = Progress()
    progress.stages = ["verifying"]
    ctx.call_on_close(progress.clear)
    with (
        _from(file) as raw,
        tempfile.TemporaryDirectory(prefix="endmark-") as folder,
        closing(sqlite3.connect(Path(folder, "export.db"), isolation_level=None)) as book,
    ):
        book.execute("PRAGMA synchronous=OFF")
        book.execute("PRAGMA journal_mode=OFF")
        book.execute("BEGIN")
        header, _ = exports.load(raw, book)
        report = verify.audit(exports.LoadedSource(book, header), progress)
    progress.clear()
    limits = [f"{word} {time}" for word, time in (("since", header.since), ("until", header.until)) if time]
    of = f"of {header.ledger} at {header.at}{', ' if limits else ''}{', '.join(limits)}"
    return report, of if header.bodies else f"{of}, without bodies"


@contextmanager
def _to(file: str) -> Iterator[IO[bytes]]:
    """Where an export goes; a file has its name only once it is whole and flushed. Raises CannotTry."""
    if file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    if os.path.lexists(path):
        raise CannotTry(f"{file} is there already; an export overwrites nothing. Nothing was done; give another name.")
    part = path.with_name(f".{path.name}.{os.urandom(4).hex()}.part")
    try:
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)  # plans may hold data
        with open(handle, "wb") as out:
            yield out
            out.flush()
            os.fsync(handle)
        os.link(part, path)
    except OSError as fault:
        raise CannotTry(f"{file} cannot be written: {fault.strerror or fault}. No export was kept.") from None
    finally:
        with suppress(OSError):
            part.unlink()


@contextmanager
def _from(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        yield sys.stdin.buffer
        return
    try:
        with open(file, "rb") as raw:
            yield raw
    except OSError as fault:
        raise Misuse(f"{file} cannot be read: {fault.strerror or fault}") from None


def _counts(report: Report) -> str:
    return f"{many(report.attempts, 'attempt')}, {many(report.events, 'event')}"


def _checkpoint(report: Report) -> str:
    if report.checkpoint is None:
        return ""
    number, last, digest = report.checkpoint
    return f"checkpoint {number:,}, up to event {last:,}: {digest}"


def _facts(report: Report) -> dict[str, Any]:
    return {key: value for key, value in msgspec.structs.asdict(report).items() if not key.startswith("problem")}
