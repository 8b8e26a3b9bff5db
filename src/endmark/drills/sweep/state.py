"""The file by which an interrupted sweep goes on: what was answered so far, and to which questions."""

import hashlib
import itertools
import os
import re
from pathlib import Path
from typing import Any

import msgspec

from endmark.core import strictjson
from endmark.core.refusal import CannotTry, Refused
from endmark.drills.sweep.lanes import Job

_RUN = re.compile(r"([0-9]{1,10})([rAEchi.-])")
_LONGEST = 1 << 30


class Progress(msgspec.Struct, kw_only=True):
    """The letters of each family's faults, and words about some."""

    cells: list[bytearray]
    notes: list[dict[int, str]]


def load(path: Path, job: Job, counts: list[int]) -> Progress | None:
    """What stands in the file; None where there is none. Raises CannotTry for a file of another sweep."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise CannotTry(f"{path} cannot be read: {fault.strerror or fault}") from None
    try:
        document = strictjson.loads(raw)
        if document["sweep"] != _identity(job):
            raise CannotTry(f"{path} is of another sweep (target, payload, faults or seed); name another file")
        cells = [_unpacked(text) for text in document["cells"]]
        notes = [{int(number): str(note) for number, note in of.items()} for of in document["notes"]]
    except (Refused, KeyError, TypeError, ValueError, AttributeError):
        raise CannotTry(f"{path} is no state of a sweep, or not a whole one; delete it to begin anew") from None
    if [len(of) for of in cells] != counts or len(notes) != len(counts):
        raise CannotTry(f"{path} does not fit the faults of this sweep; delete it to begin anew")
    return Progress(cells=cells, notes=notes)


def save(path: Path, job: Job, progress: Progress) -> None:
    """Write it, whole or not at all. Raises CannotTry."""
    document = {
        "version": 1,
        "sweep": _identity(job),
        "cells": [_packed(of) for of in progress.cells],
        "notes": [{str(number): note for number, note in of.items()} for of in progress.notes],
    }
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        part.write_bytes(strictjson.dumps(document) + b"\n")
        part.replace(path)
    except OSError as fault:
        part.unlink(missing_ok=True)
        raise CannotTry(f"{path} cannot be written: {fault.strerror or fault}") from None


def _identity(job: Job) -> dict[str, Any]:
    other = b"" if job.body.other is None else job.body.other
    return {
        "target": job.target.name,
        "payload": hashlib.sha256(job.body.data).hexdigest(),
        "other": hashlib.sha256(other).hexdigest(),
        "wire": job.body.wire or "",
        "faults": [family.spec for family in job.families],
        "seeds": [family.seed for family in job.families],
        "world": repr(job.commands),
        "rules": repr(getattr(job.target, "rules", "")),
    }


def _packed(cells: bytearray) -> str:
    return "".join(f"{sum(1 for _ in run)}{chr(letter)}" for letter, run in itertools.groupby(cells))


def _unpacked(text: Any) -> bytearray:
    if not isinstance(text, str) or not re.fullmatch(rf"(?:{_RUN.pattern})*", text):
        raise ValueError("no runs")
    runs = [(int(count), letter) for count, letter in _RUN.findall(text)]
    if sum(count for count, _ in runs) > _LONGEST:
        raise ValueError("too long")
    return bytearray(b"".join(letter.encode() * count for count, letter in runs))
