"""A real target that tells when it gets somewhere, so that a test can break off there."""

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from endmark.faces.targets import target_at


class Tapped:
    """A real target; `tap` is called with each point reached: "open", "run", "ran", "commit", "committed"."""

    def __init__(self, url: str, tap: Callable[[str], None], swallow_commit: bool = False) -> None:
        self._inner = target_at(url)
        self._tap = tap
        self._swallow = swallow_commit
        self.identity = self._inner.identity

    def is_file(self, path: Path) -> bool:
        return self._inner.is_file(path)

    def open(self) -> Any:
        self._tap("open")
        return _TappedSession(self._inner.open(), self._tap, self._swallow)


class _TappedSession:
    def __init__(self, inner: Any, tap: Callable[[str], None], swallow_commit: bool) -> None:
        self._inner = inner
        self._tap = tap
        self._swallow = swallow_commit

    def __enter__(self) -> Self:
        self._inner.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inner.__exit__(kind, error, trace)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def run(self, *args: Any) -> Any:
        self._tap("run")
        ran = self._inner.run(*args)
        self._tap("ran")
        return ran

    def commit(self) -> None:
        self._tap("commit")
        if not self._swallow:
            self._inner.commit()
        self._tap("committed")
