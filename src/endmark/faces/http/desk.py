"""The repositories of the service by name, and the threads in which something is done about their patches."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from endmark.core.patch_outcome import PatchOutcome
from endmark.core.refusal import CannotTry
from endmark.effects.git import Git, hooks, open_repository
from endmark.faces.config import Config
from endmark.faces.http.problems import not_tried
from endmark.faces.patches import Patches

_Value = TypeVar("_Value")
_ACTS = 4  # verdicts, approvals and merges at once; each starts git
_CLOSING = "SIGTERM"


class Underway(Exception):
    """The reviewers are being asked about this very change already; the argument is the decision's id."""


class Desk:
    """What is done about patches, each act with a gate of its own, which belongs to one thread.

    `most` reviews run at once. `changed` is told after each act, from any thread.
    """

    def __init__(self, config: Config, most: int, *, changed: Callable[[], None] = lambda: None) -> None:
        self._config = config
        self._most = most
        self._changed = changed
        self._lock = threading.Lock()
        self._begin = {name: threading.Lock() for name in config.repositories}
        self._found: dict[str, str] = {}
        self._asked: set[str] = set()
        self._reviews: set[Future[PatchOutcome]] = set()
        self._ended_by: str | None = None
        self._acts = ThreadPoolExecutor(_ACTS, "endmark-patch")
        self._asking = ThreadPoolExecutor(most, "endmark-review")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._config.repositories)

    def known(self, name: str) -> None:
        """Raises Problem for a repository that no configuration names."""
        if name not in self._config.repositories:
            raise not_tried("not-found", f"There is no repository {name[:128]!a} here. Nothing was done.", close=True)

    def identity(self, name: str) -> str:
        """What records call the repository of this name. Raises CannotTry. It starts git, once."""
        found = self._found.get(name)
        if found is None:
            found = os.path.realpath(open_repository(Git(os.environ), str(self._path(name))).common_dir)
            self._found[name] = found
        return found

    def identities(self) -> dict[str, str]:
        """What records call each repository that can be read -> its name."""
        found: dict[str, str] = {}
        for name in self.names:
            with suppress(CannotTry):
                found.setdefault(self.identity(name), name)
        return found

    # ---- acts -------------------------------------------------------------------------------------------------

    def act(self, name: str, may: Callable[[str], None], do: Callable[[Patches], _Value]) -> Future[_Value]:
        """`do` with the patch gate of a repository, in a thread. `may` is told the branch before anything is done."""

        def run() -> _Value:
            try:
                with self._patches(name, may) as patches:
                    return do(patches)
            finally:
                self._changed()

        return self._acts.submit(run)

    def review(
        self, name: str, may: Callable[[str], None], begun: Callable[[str], None], do: Callable[..., PatchOutcome]
    ) -> Future[PatchOutcome]:
        """`do(patches, begun=...)` asks the reviewers, in a thread; `begun` is told the decision's id, from there.

        The future raises Underway where that decision's reviewers are being asked already. Raises Problem where
        too many reviews are running.
        """

        def run() -> PatchOutcome:
            mine: list[str] = []
            alone = self._begin[name]
            alone.acquire()  # two calls about one change open one decision

            def told(decision_id: str) -> None:
                with self._lock:
                    if decision_id in self._asked:
                        raise Underway(decision_id)
                    self._asked.add(decision_id)
                mine.append(decision_id)
                alone.release()
                begun(decision_id)

            try:
                with self._patches(name, may) as patches:
                    return do(patches, begun=told)
            finally:
                if not mine:
                    alone.release()
                with self._lock:
                    self._asked.difference_update(mine)
                self._changed()

        with self._lock:
            if len(self._reviews) >= self._most:
                raise not_tried("busy", f"{self._most} reviews are running already. Nothing was done.", close=True)
            future = self._asking.submit(run)
            self._reviews.add(future)
        future.add_done_callback(self._done)
        return future

    def merge_key(self, name: str) -> Path | None:
        """What signs the record of a merge. Raises Problem where the repository takes no merge without."""
        key = self._config.merge_key
        if key is None and hooks.guards(open_repository(Git(os.environ), str(self._path(name)))):
            raise not_tried(
                "conflict",
                "This repository takes no merge without a signed record, and the service has no key in [merge]. "
                "Nothing was merged.",
            )
        return key

    def stop(self, seconds: float) -> None:
        """Wait that long for what is running; then reviewers are let go of, and their attempts end as incomplete."""
        end = time.monotonic() + seconds
        with self._lock:
            running = set(self._reviews)
        wait(running, max(0.0, end - time.monotonic()))
        self._ended_by = _CLOSING
        self._asking.shutdown(wait=True)
        self._acts.shutdown(wait=True)

    def _done(self, future: Future[PatchOutcome]) -> None:
        with self._lock:
            self._reviews.discard(future)

    def _path(self, name: str) -> Path:
        return self._config.folder / self._config.repositories[name].path

    def _patches(self, name: str, may: Callable[[str], None]) -> Patches:
        policy = self._config.repositories[name].policy
        return Patches(
            self._config.ledger,
            self._path(name),
            policy=None if policy is None else self._config.folder / policy,
            create=False,
            trusted_keys=self._config.trusted_keys,
            stop=lambda: self._ended_by,
            may=may,
        )
