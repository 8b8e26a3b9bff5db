"""What earlier runs found, so that a run can be broken off and taken up: in `.mutation/`, which git ignores.

What tests reach is kept a test file, under the digest of that file, with the code it was found in: where a module has
been edited since, lines are carried over. A verdict on a mutant is kept under the digest of its module and stands as
long as the tests it rests on do not change.
"""

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.mutation.moved import Block, blocks, moved

from endmark.core import strictjson


def digest(*parts: bytes) -> str:
    sha = hashlib.sha256()
    for part in parts:
        sha.update(b"%d\0" % len(part))
        sha.update(part)
    return sha.hexdigest()[:24]


class Cache:
    """`folder` holds the cache, `code` the modules, `tests` the tests. `fresh`: what it holds is thrown away."""

    def __init__(self, folder: Path, code: Path, tests: Path, *, fresh: bool = False) -> None:
        self._folder = folder
        self._files: dict[Path, bytes] = {}
        if fresh:
            shutil.rmtree(folder, ignore_errors=True)
        (folder / "reach").mkdir(parents=True, exist_ok=True)
        (folder / "source").mkdir(exist_ok=True)
        self._code = {str(path): path.read_text(encoding="utf-8") for path in sorted(code.rglob("*.py"))}
        self._digests = {path: digest(text.encode()) for path, text in self._code.items()}
        self._moves: dict[tuple[str, str], list[Block]] = {}
        helpers = (path for path in sorted(tests.rglob("*.py")) if not path.name.startswith("test_"))
        own = {tests / "mutation", tests / "vectors"}
        self._helpers = digest(*(path.read_bytes() for path in helpers if not own & set(path.parents)))
        self._results = folder / "results.json"
        self.results: dict[str, dict[str, Any]] = _read(self._results)

    def reach(self, file: Path) -> dict[str, dict[str, Any]]:
        """What is known of the tests in `file`, in lines of the code as it is now."""
        kept = _read(self._reach(file))
        tests: dict[str, dict[str, Any]] = kept.get("tests", {})
        edited = [path for path, was in kept.get("code", {}).items() if self._digests.get(path, was) != was]
        for path in edited:
            changes = self._changes(path, kept["code"][path])
            for test in tests.values():
                if path in test["lines"]:
                    test["lines"][path] = f"{moved(int(test['lines'][path], 16), changes):x}"
        return tests

    def keep_reach(self, file: Path, tests: dict[str, dict[str, Any]]) -> None:
        """Adds what was found just now."""
        for path, was in self._digests.items():
            source = self._folder / "source" / was
            if not source.exists():
                source.write_text(self._code[path], encoding="utf-8")
        _write(self._reach(file), {"code": self._digests, "tests": {**self.reach(file), **tests}})

    def _changes(self, path: str, was: str) -> list[Block]:
        if (path, was) not in self._moves:
            before = (self._folder / "source" / was).read_text(encoding="utf-8")
            self._moves[path, was] = blocks(before, self._code[path])
        return self._moves[path, was]

    def tests_stamp(self, tests: Iterable[tuple[str, Path]]) -> str:
        """Changes when one of these tests, each with its file, or a helper of tests changes."""
        return digest(self._helpers.encode(), *(f"{name}\0{self._of(file)}".encode() for name, file in sorted(tests)))

    def mutant_key(self, mutant_key: str, source: str) -> str:
        return digest(mutant_key.encode(), source.encode())

    def flush(self) -> None:
        _write(self._results, self.results)

    def _of(self, file: Path) -> str:
        if file not in self._files:
            self._files[file] = file.read_bytes()
        return digest(self._files[file])

    def _reach(self, file: Path) -> Path:
        key = digest(self._helpers.encode(), str(file).encode(), self._of(file).encode())
        return self._folder / "reach" / f"{key}.json"


def _read(path: Path) -> dict[str, Any]:
    return strictjson.loads(path.read_bytes()) if path.exists() else {}


def _write(path: Path, value: dict[str, Any]) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(strictjson.dumps(value))
    new.replace(path)
