"""A database, a ledger and a gate over them, all real, and what must hold whenever something is refused."""

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.incidents import payloads, repair, rows

import endmark
from endmark.core.decision import row_of
from endmark.core.outcome import Outcome
from endmark.core.proof import Form, Proven
from endmark.core.refusal import Refused
from endmark.core.states import State
from endmark.faces.api import Gate, check, seal

PACKAGES = Path(endmark.__file__).resolve().parent.parent
ROOT = Path(__file__).resolve().parent.parent.parent

REFUSALS = {"truncated", "rejected", "quarantined"}
SETUP = (
    "CREATE TABLE files (path TEXT PRIMARY KEY, content TEXT NOT NULL)",
    "CREATE TABLE runs (what TEXT NOT NULL)",
    "INSERT INTO files VALUES ('README', 'as it was')",
)


class World:
    """One target with two tables, one ledger, one gate. Rows of `files` stand for files, rows of `runs` for effects."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / "app.db"
        self.ledger_path = folder / "ledger.db"
        self.url = f"sqlite:///{self.path}"
        self.write(*SETUP)
        self.gate = Gate(self.ledger_path)

    def write(self, *statements: str) -> None:
        """What somebody else does to the database."""
        with contextlib.closing(sqlite3.connect(self.path, isolation_level=None)) as conn:
            for statement in statements:
                conn.execute(statement)

    def ask(self, sql: str, *values: object) -> list[tuple[Any, ...]]:
        with contextlib.closing(sqlite3.connect(self.path)) as conn:
            return conn.execute(sql, values).fetchall()

    def file(self, path: str) -> str | None:
        found = self.ask("SELECT content FROM files WHERE path = ?", path)
        return found[0][0] if found else None

    def runs(self) -> list[str]:
        return [what for (what,) in self.ask("SELECT what FROM runs ORDER BY rowid")]

    def dump(self) -> list[str]:
        with contextlib.closing(sqlite3.connect(self.path)) as conn:
            return list(conn.iterdump())

    def tables(self) -> set[str]:
        return {name for (name,) in self.ask("SELECT name FROM sqlite_master WHERE type = 'table'")}

    def close(self) -> None:
        self.gate.close()

    def reopen(self) -> Gate:
        """The gate after a restart: it settles what was left."""
        self.gate.close()
        self.gate = Gate(self.ledger_path)
        return self.gate

    # ---- deliveries

    def apply(self, raw: bytes, **more: Any) -> Outcome:
        """Deliver and apply. Raises Refused where the gate does."""
        return self.gate.submit(raw, target=self.url, seal=True, **more).apply(self.url)

    def fails(self, raw: bytes) -> Outcome:
        """Deliver a whole plan that cannot go through: nothing of it stays, and the database reads as before."""
        before = self.dump()
        outcome = self.apply(raw)
        assert (outcome.state, outcome.exit_code) == ("failed", 1), outcome
        assert self.dump() == before
        return outcome

    def refuses(self, raw: bytes, **more: Any) -> Outcome:
        """Deliver what must be refused: the record of it. The database file keeps every byte."""
        before = self.path.read_bytes()
        with pytest.raises(Refused) as caught:
            self.apply(raw, **more)
        outcome = caught.value.outcome
        assert isinstance(outcome, Outcome)
        assert self.path.read_bytes() == before
        assert outcome.received_bytes == len(raw)
        assert outcome.exit_code == rows.EXITS[outcome.state] != 0
        assert "Nothing was" in outcome.detail
        return outcome


def judged(raw: bytes) -> Proven | Refused:
    """What `check` makes of any bytes."""
    try:
        return check(raw)
    except Refused as refused:
        return refused


def refusal(raw: bytes) -> Refused:
    """What `check` says of bytes that must be refused."""
    said = judged(raw)
    assert isinstance(said, Refused), f"accepted as {said.form}: {raw!r}"
    return said


def makes_no_plan(raw: bytes) -> None:
    """`seal` must not make a plan of these bytes."""
    with contextlib.suppress(Refused):
        # An object without a plan's keys is a body like any other, to be sealed as it stands. It is then no plan.
        assert check(seal(raw)).form is Form.BODY, raw


def state_of(refused: Refused) -> str:
    """The state that bytes refused with this come to."""
    return row_of(refused.signal).state.value


def sweep(world: World, row_id: str, statements: list[str], *, thorough: bool = False) -> int:
    """Every cut of a call in each form, bare and repaired: none is accepted; each whole is, as the control.

    `check` is asked about every text, `seal` about every witness form; the gate gets every fifth text of the bare plan
    that somebody would have believed (it decodes to an object with statements), some cuts of the envelope and its last.
    `thorough`: the gate gets all of those, and the proof may stand before the statements too.
    Returns how many texts were believable.
    """
    believable = 0
    dump = world.dump()
    forms = payloads.forms(row_id, statements)
    if not thorough:
        del forms["proof-first"]
    for form, whole in forms.items():
        texts = repair.repaired(whole) if form != "envelope" else dict.fromkeys(repair.cuts(whole))
        for text, document in texts.items():
            state = state_of(refusal(text))
            assert rows.agrees(row_id, state) or (form == "proof-first" and state in REFUSALS), (form, state, text)
            if form == "witness":
                makes_no_plan(text)
            believed = bool(document and document.get("statements"))
            believable += believed
            chosen = form == "envelope" and (len(text) % 20 == 0 or len(whole) - len(text) < 9)
            if chosen or (believed and form != "witness" and (thorough or believable % 5 == 0)):
                world.refuses(text)
        check(whole)
    assert world.dump() == dump
    assert world.gate.ledger.in_state(State.STAGED) == world.gate.ledger.in_state(State.APPLIED) == []
    return believable


def settle_all(world: World) -> list[Outcome]:
    """A restart: what the gate settled by itself when it opened."""
    settled = world.reopen().reconciled
    assert settled is not None
    assert settled.left == []
    return settled.settled


# ---- other processes


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGES), str(ROOT)])}


def deliver_command(world: World, point: str = "-", source: str = "-") -> list[str]:
    """The command line of a process that delivers; see deliver.py. `source` is a file, or `-` for its input."""
    return [sys.executable, "-m", "tests.incidents.deliver", str(world.ledger_path), world.url, point, source]


def deliver(world: World, raw: bytes, point: str = "-") -> int:
    """Deliver from a process of its own, which kills itself at `point`; its exit code, negative for a signal."""
    return subprocess.run(
        deliver_command(world, point), input=raw, env=environment(), capture_output=True, timeout=60
    ).returncode
