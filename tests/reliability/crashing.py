"""Crash points: after each call of the real gate the machine stops, and what it may leave is opened and settled."""

import random
import sqlite3
import time
from collections import Counter
from contextlib import closing

from tests.reliability import crash_child, disk, traced
from tests.support.world import World, clock, dump_of, plain, plain_dump

from endmark.core.refusal import CannotTry
from endmark.ledger.book import Ledger
from endmark.reconcile import reconcile

VERBS = ("rows", "first", "fails", "settles", "settles again", "spilled")
BOTH = ("target.db", "book/ledger.db")


class Scene:
    """One traced run of the gate in a world of its own."""

    def __init__(self, folder, verb, mode, *careless):
        """`careless`: the words by which the traced gate flushes less than it must."""
        self.folder = folder / "world"
        self.folder.mkdir()
        self.verb = verb
        self.world = World(self.folder, mode)
        self._audited: set[object] = set()
        if verb == "first":
            self.world.ledger.unlink()
            (self.folder / "backups").mkdir()
        self.old = plain_dump(self.world.path)
        if verb.startswith("settles"):
            self._interrupt(last=verb == "settles again")
        verb = "reconcile" if verb.startswith("settles") else verb
        self.files, self.ops = traced.traced(self.folder, "tests.reliability.crash_child", verb, *careless)
        self.new = plain_dump(self.world.path)

    def _interrupt(self, *, last):
        """Leave the world as a kill leaves it: just before the commit (or, with `last`, just before the ledger knew).

        The run that is killed is a traced one itself, so that the moment is exact.
        """
        files, ops = traced.traced(self.folder, "tests.reliability.crash_child", "rows")
        for state in reversed([disk.killed(left, None) for _, _, left in disk.points(files, ops)]):
            self._write(state)
            entry = self.world.entry(crash_child.JOB)
            if entry is not None and entry.state == "applying" and bool(self.world.receipts()) is last:
                self._write(state)
                return
        raise AssertionError("no moment of the run leaves such a world")

    def _write(self, state):
        for path in self.folder.rglob("*"):
            if path.is_file():
                path.unlink()
        for name, data in state.items():
            (self.folder / name).write_bytes(data)

    def crash_points(self, seed, every=1):
        """(point, variant, promised, state): what each variant leaves after each call. Equal ones are given once."""
        seen = set()
        for number, said, left in disk.points(self.files, self.ops):
            if number % every and number != len(self.ops):
                continue
            for variant in disk.VARIANTS:
                state = variant(left, random.Random(f"{seed} {number} {variant.__name__}"))
                promised = said.decode().strip()
                mark = (disk.digest(state), promised)
                yield number, variant.__name__, promised, None if mark in seen else state
                seen.add(mark)

    def replay(self, state, promised, chance):
        """Open what a crash left, let the gate settle it, and look at the world. Returns what was found."""
        self._write(state)
        for name in BOTH:  # shared memory holds anything after a crash
            if name in state and chance.random() < 0.2:
                (self.folder / f"{name}-shm").write_bytes(chance.randbytes(32_768))
        try:
            ledger = Ledger.open(self.world.ledger, create=False, timeout=0)
        except CannotTry:
            # Only a ledger that is being made may be missing: no job is in it yet, and so none in the target.
            assert (self.verb, promised) == ("first", ""), "the ledger is refused"
            assert plain_dump(self.world.path) == self.old
            assert not self.world.receipts()
            return "no ledger yet"
        with closing(ledger):
            settled = reconcile(ledger, self.world.target_of, clock, 0.0)
            assert settled.left == []
            entry = ledger.by_job(crash_child.JOB)
            # The same ledger, settled in the same way at the same hour, is the same bytes: they are audited once.
            book = disk.digest({name: data for name, data in state.items() if name.startswith("book/")})
            mark = (book, tuple((outcome.state, outcome.signal, outcome.detail) for outcome in settled.settled))
            if mark not in self._audited:
                report = ledger.verify()
                assert report.ok, report.problems
                self._audited.add(mark)
        with closing(sqlite3.connect(self.world.path)) as conn:
            assert conn.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
            left = dump_of(conn)
        receipt = any(line.startswith("schema_jobs (") for line in left)
        assert receipt == any(line.startswith("endmark_receipts (") for line in left)
        assert plain(left) == (self.new if receipt and self.verb != "fails" else self.old)
        found = str(entry.state) if entry else "not recorded"
        assert found in ({"applied"} if receipt else {"failed", "staged", "not recorded"}), found
        if promised in ("applied", "failed"):
            assert found == promised, f"{promised} was said, and after the crash it is {found}"
        if promised == "settled":
            assert found in ("applied", "failed")
        return found


def bare(folder, state):
    """As little as a replay can be: SQLite alone opens both files, recovers and reads them through."""
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
    for name, data in state.items():
        (folder / name).write_bytes(data)
    for name in BOTH:
        if name in state:
            with closing(sqlite3.connect(folder / name)) as conn:
                conn.execute("PRAGMA integrity_check").fetchall()
                dump_of(conn)


def sweep(scene, seed, every=1):
    """Every crash point of a scene. Returns (points, replays, what was found); raises AssertionError with the point."""
    found: Counter[str] = Counter()
    points = replays = 0
    for number, variant, promised, state in scene.crash_points(seed, every):
        points += 1
        if state is None:
            continue
        replays += 1
        try:
            found[scene.replay(state, promised, random.Random(f"{seed} {number}"))] += 1
        except Exception as fault:
            last = scene.ops[number - 1] if number else None
            where = f"{scene.verb}, point {number} of {len(scene.ops)}, {variant}, seed {seed}"
            raise AssertionError(f"{where}, after {last and (last.kind, last.name, last.at)}: {fault}") from fault
    return points, replays, found


def timed(scene, seed, every=1):
    """(replays a second, bare replays a second), each over the same states, in turns."""
    states = [(s, p) for _, _, p, s in scene.crash_points(seed, every) if s is not None]
    ours = theirs = 0.0
    for state, promised in states:
        start = time.process_time()
        scene.replay(state, promised, random.Random(0))
        middle = time.process_time()
        bare(scene.folder, state)
        ours, theirs = ours + middle - start, theirs + time.process_time() - middle
    return len(states) / ours, len(states) / theirs
