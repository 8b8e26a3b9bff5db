"""A run: the tests are collected, what they reach is recorded where it is not known, and each mutant is tried."""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any, TextIO

import pytest
from tests.mutation import patching, triggers
from tests.mutation.cache import Cache
from tests.mutation.checks import Mutant, mutants_of
from tests.mutation.children import Job, Pool, Teller
from tests.mutation.progress import Progress
from tests.mutation.reaching import reaches
from tests.mutation.recording import Recording
from tests.mutation.report import Result

from endmark.ledger.schema import MIGRATIONS

Functions = dict[patching.Place, list[FunctionType]]

_FLUSH = 25  # verdicts between two writes of the cache


class Run:
    """A pytest plugin that takes the place of pytest's loop; in a copy it lets that loop go on.

    `files` are modules below `root`, whose code stands in `code`. `width` copies run at a time, each for `budget`
    seconds at most; a test has hung when it takes `patience` seconds beyond ten times its own. `fresh`: what earlier
    runs found is not believed. `teller` is set in a copy.
    """

    def __init__(
        self,
        root: Path,
        code: Path,
        files: Sequence[str],
        said: TextIO,
        *,
        width: int,
        budget: float,
        patience: float,
        fresh: bool,
    ) -> None:
        self.results: dict[Mutant, Result] = {}
        self.left_out: list[str] = []
        self.collected = 0
        self.fault: Exception | None = None
        self.teller: Teller | None = None
        self._root, self._code, self._files, self._said = root, code, files, said
        self._width, self._budget, self._patience, self._fresh = width, budget, patience, fresh
        self._tests: dict[str, dict[str, Any]] = {}
        self._items: dict[str, pytest.Item] = {}
        self._killers: dict[tuple[str, str], int] = {}  # module and test: how often it noticed something there

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.testsfailed:
            return None
        try:
            self._run(session)
        except Exception as fault:  # pytest would show it where nobody sees it
            self.fault = fault
            raise
        return None if self.teller else True

    def _run(self, session: pytest.Session) -> None:
        self._items = {item.nodeid: item for item in session.items}
        self.collected = len(self._items)
        folder = self._root / ".mutation"
        self._cache = Cache(folder, self._code, self._root / "tests", fresh=self._fresh)
        for file in self._files:  # some are imported only when they are needed
            import_module(".".join(Path(file).relative_to("src").with_suffix("").parts).removesuffix(".__init__"))
        functions = patching.living(self._code)  # before the pool hides what is loaded from the collector
        pool = Pool(session, self._width)
        recording = Recording(self._cache, session.items, self._code, self._said)
        self.teller = recording.complete(pool, folder)
        if not self.teller:
            self._tests, self.left_out = recording.tests, recording.left_out()
            self.teller = self._try(pool, functions)

    def _try(self, pool: Pool, functions: Functions) -> Teller | None:
        mutants = self._mutants()
        progress = Progress(self._said, "mutants", len(mutants))
        for mutant in mutants:
            reaching = self._reaching(mutant)
            known = self._known(mutant, reaching)
            if known or not reaching:
                self.results[mutant] = known or Result("unreached", "", 0, 0, 0.0)
            elif teller := pool.submit(self._job(mutant, reaching, functions)):
                return teller
            alive = sum(result.outcome in {"survived", "unreached"} for result in self.results.values())
            progress(len(self.results), f", {alive} survived")
        pool.drain()
        progress(len(mutants))
        self._cache.flush()
        self.results = {mutant: self.results[mutant] for mutant in mutants}
        return None

    def _mutants(self) -> list[Mutant]:
        found = []
        for file in self._files:
            found += mutants_of(file, self._source(file))
            if file == triggers.FILE:
                found += triggers.mutants(MIGRATIONS, self._root)
        return found

    def _source(self, file: str) -> str:
        return (self._root / file).read_text(encoding="utf-8")

    def _reaching(self, mutant: Mutant) -> list[str]:
        """The tests that can notice it: those that noticed others in the module first, then the fastest."""
        file = str(self._root / mutant.path)
        names = [
            name
            for name, test in self._tests.items()
            if test["ok"]
            and (reaches(test, file, mutant.line, mutant.end) if mutant.node >= 0 else name.startswith(triggers.TESTS))
        ]
        return sorted(
            names, key=lambda name: (-self._killers.get((mutant.path, name), 0), self._tests[name]["seconds"], name)
        )

    def _job(self, mutant: Mutant, reaching: list[str], functions: Functions) -> Job:
        file = self._root / mutant.path
        changes = patching.weakened(file, self._source(mutant.path), mutant) if mutant.node >= 0 else []

        def prepare() -> None:
            if mutant.node < 0:
                triggers.leave_out(MIGRATIONS, mutant.replacement)
            elif not patching.put(changes, functions):
                raise RuntimeError(f"no loaded function was changed by {mutant}")

        def done(job: Job) -> None:
            self._judge(mutant, reaching, job)

        tests = [self._items[name] for name in reaching]
        usual = [self._tests[name]["seconds"] for name in reaching]
        return Job(tests, usual, prepare, done, budget=self._budget, patience=self._patience)

    def _judge(self, mutant: Mutant, reaching: list[str], job: Job) -> None:
        running = reaching[max(job.at, 0)]
        if job.failed or job.outcome == "died":
            outcome, by = "noticed", job.failed or running
        elif job.outcome == "hung":
            outcome, by = "hung", running
        else:
            outcome, by = "survived", ""
        ran = job.at + 1 if job.outcome != "budget" else job.at
        result = Result(outcome, by, ran, len(reaching), round(job.heard - job.began, 2))
        self.results[mutant] = result
        if by:
            self._killers[mutant.path, by] = self._killers.get((mutant.path, by), 0) + 1
        self._cache.results[self._key(mutant)] = {**result._asdict(), "stamp": self._stamp([by] if by else reaching)}
        if len(self.results) % _FLUSH == 0:
            self._cache.flush()

    def _known(self, mutant: Mutant, reaching: list[str]) -> Result | None:
        """What an earlier run found, if the tests it rests on are still the same."""
        known = dict(self._cache.results.get(self._key(mutant), {}))
        if not known or (known["by"] and known["by"] not in self._items):
            return None
        if known.pop("stamp") != self._stamp([known["by"]] if known["by"] else reaching):
            return None
        result = Result(**known)
        return None if result.outcome == "survived" and result.ran < result.reaching else result

    def _key(self, mutant: Mutant) -> str:
        return self._cache.mutant_key(mutant.key, self._source(mutant.path))

    def _stamp(self, names: list[str]) -> str:
        return self._cache.tests_stamp((name, self._items[name].path) for name in names)
