"""The rules that the ledger's file enforces by itself, each trigger left out in its turn."""

import hashlib
import re
from pathlib import Path
from typing import Any

from tests.mutation.checks import Mutant

FILE = "src/endmark/ledger/file.py"  # where MIGRATIONS is read
TESTS = "tests/ledger/"  # what is to notice
_NAME = re.compile(r"CREATE TRIGGER (\w+)")


def mutants(migrations: list[tuple[int, tuple[str, ...]]], folder: Path) -> list[Mutant]:
    """One for each trigger that the migrations create; its line is where its name stands."""
    found = []
    for _, statements in migrations:
        for statement in statements:
            if match := _NAME.match(statement):
                path, line = _stands(match[1], folder)
                change = f"trigger {match[1]} is left out"
                key = hashlib.sha256(change.encode()).hexdigest()[:16]
                found.append(Mutant(path, "TRIGGERS", line, line, -1, match[1], change, key))
    return found


def leave_out(migrations: list[Any], name: str) -> None:
    """Takes the trigger out of the migrations of this process."""
    migrations[:] = [
        (version, tuple(text for text in statements if not text.startswith(f"CREATE TRIGGER {name} ")))
        for version, statements in migrations
    ]


def _stands(name: str, folder: Path) -> tuple[str, int]:
    for file in sorted((folder / "src/endmark/ledger").glob("*.py")):
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
            if re.search(rf"\b{name}\b", line):
                return f"src/endmark/ledger/{file.name}", number
    raise ValueError(f"no module of the ledger spells the trigger {name}")
