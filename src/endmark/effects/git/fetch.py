"""Fetching what a clone lacks: only where somebody asked, for it runs what the repository's configuration names."""

from endmark.core.refusal import CannotTry
from endmark.effects.git import refs
from endmark.effects.git.program import failed
from endmark.effects.git.repository import Repository, open_repository

_QUIET = ("--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--no-auto-maintenance", "--quiet")
_NO_HOOKS = ("-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "maintenance.auto=false")


def fetch_missing(repository: Repository, remote: str, *oids: str) -> Repository:
    """Fetch the whole history from `remote`, a configured one, and the commits `oids`. Moves no branch of one's own.

    Returns the repository as it is then: no longer shallow. Raises CannotTry.
    """
    refs.check_name(remote)
    whole = ("--unshallow",) if repository.is_shallow else ()
    for wanted in ((*whole, remote), (remote, *oids))[: 2 if oids else 1]:
        answer = repository.change(*_NO_HOOKS, "fetch", *_QUIET, *wanted, network=True)
        if answer.code != 0:
            detail = failed(answer, "fetch").detail
            raise CannotTry(f"what is missing could not be fetched from {remote!r}: {detail}. Nothing else was done.")
    return open_repository(repository.git, repository.git_dir)
