"""Fetching what a clone lacks: only where somebody asked, for it runs what the repository's configuration names."""

from endmark.core.refusal import CannotTry, Refused
from endmark.effects.git import refs
from endmark.effects.git.change import read_change_of
from endmark.effects.git.gate import Gate
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


_STEPS = (50, 500, 5_000)  # commits that a shallow clone is deepened by, before all of it is fetched


def fetch_change(
    repository: Repository, remote: str, ref: str, head: str, *, base: str | None = None
) -> tuple[Repository, str]:
    """Fetch the branch `ref` (a full name) and the commit `head`, and history until it shows where they parted.

    Returns the repository as it is then, and the commit to merge into: `base` (an id), or the tip of `ref` as fetched.
    Moves no branch of one's own. Raises CannotTry.
    """
    refs.check_name(remote)
    refs.check_name(ref)
    tracked = f"refs/remotes/{remote}/{ref.removeprefix('refs/heads/')}"
    wanted = (remote, f"+{ref}:{tracked}", head, *(() if base is None else (base,)))
    for step in (*_STEPS, None) if repository.is_shallow else (None,):
        depth = (f"--deepen={step}",) if step else ("--unshallow",) if repository.is_shallow else ()
        answer = repository.change(*_NO_HOOKS, "fetch", *_QUIET, *depth, *wanted, network=True)
        if answer.code != 0:
            detail = failed(answer, "fetch").detail
            raise CannotTry(f"the change could not be fetched from {remote!r}: {detail}. Nothing else was done.")
        repository = open_repository(repository.git, repository.git_dir)
        at = base or refs.tip(repository, tracked)
        if at is None:
            raise CannotTry(f"{remote!r} has no {ref}. Nothing else was done.")
        if not repository.is_shallow or _can_be_read(repository, at, head, ref):
            return repository, at
    raise CannotTry(f"{remote!r} is itself too shallow to tell where base and head parted. Nothing else was done.")


def _can_be_read(repository: Repository, base: str, head: str, ref: str) -> bool:
    try:
        with Gate(repository) as gate:
            read_change_of(gate, (base, head), ref)
    except Refused:  # a conflict, which more history would not mend
        return True
    except CannotTry:
        return False
    return True
