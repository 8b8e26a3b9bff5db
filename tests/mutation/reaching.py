"""Which test reaches which lines of the code, and how long it takes: the tests run once, under coverage."""

import time
from pathlib import Path
from typing import Any

import coverage
import pytest


class Recorder:
    """A pytest plugin that finds {test: {seconds, ok, lines: {file: hexadecimal mask of lines}}} for the code."""

    def __init__(self, code: Path) -> None:
        self.tests: dict[str, dict[str, Any]] = {}
        self._coverage = coverage.Coverage(data_file=None, include=[f"{code}/*"], config_file=False)

    def start(self) -> None:
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        self._coverage.switch_context(item.nodeid)
        began = time.perf_counter()
        result = yield
        spent = round(time.perf_counter() - began, 4)
        self.tests.setdefault(item.nodeid, {"ok": True, "lines": {}})["seconds"] = spent
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        test = self.tests.setdefault(report.nodeid, {"ok": True, "lines": {}, "seconds": 0.0})
        test["ok"] = test["ok"] and not report.failed

    def finish(self) -> dict[str, dict[str, Any]]:
        """What was found, once all tests have run."""
        self._coverage.stop()
        data = self._coverage.get_data()
        for file in sorted(data.measured_files()):
            masks: dict[str, int] = {}
            for line, contexts in data.contexts_by_lineno(file).items():
                for context in contexts:
                    masks[context] = masks.get(context, 0) | 1 << line
            for context, mask in masks.items():
                if context in self.tests:
                    self.tests[context]["lines"][file] = f"{mask:x}"
        return self.tests


def reaches(test: dict[str, Any], file: str, first: int, last: int) -> bool:
    """Whether `test` ran any of the lines `first` to `last` of `file`."""
    mask = int(test["lines"].get(file, "0"), 16)
    return bool(mask >> first & (1 << (last - first + 1)) - 1)
