"""The first half of a run: which test reaches which line. What is known from an earlier run is not run again."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

import pytest
from tests.mutation.cache import Cache
from tests.mutation.children import Job, Pool, Teller
from tests.mutation.progress import Progress
from tests.mutation.reaching import Recorder

from endmark.core import strictjson

_GROUP = 60  # tests a copy: less is lost when a run is broken off
_PATIENCE = 60.0  # seconds a test may take that nobody has timed yet


class Recording:
    """`tests` is what is known of each collected test; `code` is the folder whose lines are of interest."""

    def __init__(self, cache: Cache, items: Sequence[pytest.Item], code: Path, said: TextIO) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self._cache, self._code, self._said = cache, code, said
        self._items = {item.nodeid: item for item in items}

    def complete(self, pool: Pool, folder: Path) -> Teller | None:
        """Runs the tests of which nothing is known. In a copy its teller is returned."""
        groups = self._unknown()
        progress = Progress(self._said, "which test reaches what", sum(map(len, groups)))
        told = 0

        def done(job: Job) -> None:
            nonlocal told
            file = Path(job.note)
            if job.outcome != "ended":
                raise RuntimeError(f"a copy {job.outcome} while it ran {job.tests[job.at].nodeid}")
            self._keep(strictjson.loads(file.read_bytes()))
            file.unlink()
            told += len(job.tests)
            progress(told)

        for number, group in enumerate(groups):
            if teller := pool.submit(self._job(group, folder / f"recorded-{number}.json", done)):
                return teller
        pool.drain()
        return None

    def left_out(self) -> list[str]:
        """Tests that fail without any mutant, or were skipped: they can notice nothing."""
        return [name for name in self._items if not self.tests.get(name, {}).get("ok")]

    def _job(self, group: list[pytest.Item], file: Path, done: Callable[[Job], None]) -> Job:
        recorder = Recorder(self._code)

        def finish() -> None:
            file.write_text(json.dumps(recorder.finish()), encoding="utf-8")

        usual = [_PATIENCE] * len(group)
        note = str(file)
        return Job(group, usual, recorder.start, done, finish=finish, plugin=recorder, note=note, goes_on=True)

    def _unknown(self) -> list[list[pytest.Item]]:
        groups: list[list[pytest.Item]] = [[]]
        known: dict[Path, dict[str, Any]] = {}
        for item in self._items.values():
            if item.path not in known:
                known[item.path] = self._cache.reach(item.path)
            test = known[item.path].get(item.nodeid)
            if test:
                self.tests[item.nodeid] = test
                continue
            if len(groups[-1]) >= _GROUP and groups[-1][-1].path != item.path:
                groups.append([])  # tests of one file share fixtures: they stay together
            groups[-1].append(item)
        return [group for group in groups if group]

    def _keep(self, found: dict[str, Any]) -> None:
        files: dict[Path, dict[str, Any]] = {}
        for name, test in found.items():
            if name in self._items:
                files.setdefault(self._items[name].path, {})[name] = test
        for path, tests in files.items():
            self.tests.update(tests)
            self._cache.keep_reach(path, tests)
