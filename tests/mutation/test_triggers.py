"""Each trigger of the ledger is a check, and leaving it out leaves the rest."""

import sqlite3
from pathlib import Path

from tests.mutation.triggers import leave_out, mutants

from endmark.ledger.schema import MIGRATIONS

ROOT = Path(__file__).resolve().parents[2]


def triggers_of(migrations):
    book = sqlite3.connect(":memory:")
    for _, statements in migrations:
        for statement in statements:
            book.execute(statement)
    return {name for (name,) in book.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'")}


def test_each_trigger_is_left_out_in_its_turn():
    names = triggers_of(MIGRATIONS)
    found = mutants(MIGRATIONS, ROOT)
    assert {mutant.replacement for mutant in found} == names
    for mutant in found:
        assert mutant.replacement in (ROOT / mutant.path).read_text().splitlines()[mutant.line - 1]
        less = list(MIGRATIONS)
        leave_out(less, mutant.replacement)
        assert names - triggers_of(less) == {mutant.replacement}
