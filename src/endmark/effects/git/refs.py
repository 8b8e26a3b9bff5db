"""From a name that a person gave to one ref and one object id: never a guess."""

import os
import re
from collections.abc import Mapping, Sequence

import msgspec

from endmark.core.refusal import CannotTry, NotThere
from endmark.effects.git.program import Answer, Running, failed
from endmark.effects.git.repository import Repository

_PLACES = ("refs/heads/{}", "refs/tags/{}", "refs/remotes/{}")
# What no ref name may hold (git-check-ref-format), and what a program could take for an option.
_BAD = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|^[-/.]|/\.|[/.]$|\.lock(?:/|$)|^@?$")
_CAP = 1 << 20
_HEADS_CAP = 1 << 28  # bytes of a list of branches: a million of them
_FORMAT = "--format=%(refname)%00%(objectname)%00%(symref)"


class Resolved(msgspec.Struct, frozen=True):
    """What a name stands for. `ref` is its full name with symbolic refs resolved; None for a bare object id."""

    name: str
    ref: str | None
    oid: str

    @property
    def branch(self) -> str | None:
        """The full name of the branch, if it is one."""
        return self.ref if self.ref is not None and self.ref.startswith("refs/heads/") else None


def resolve_ends(repository: Repository, base: str, head: str, ref: str | None) -> tuple[str, str, str]:
    """The object ids that `base` and `head` name, and the full name of the branch to merge into.

    Each name is a branch, tag or remote branch by its short or full name, HEAD, or a full object id. `ref` names the
    branch; None stands for the one that `base` names. Raises CannotTry for a name that is missing, ambiguous, or could
    be taken for something else, and as `target_ref`.
    """
    for name in (base, head) if ref is None else (base, head, ref):
        check_name(name)
    found = _look_up(repository, [base, head, *([] if ref is None else [_full(ref)])])
    at_base, at_head = _each(repository, (base, head), found)
    if ref is not None:
        return at_base.oid, at_head.oid, _target(ref, found)[0]
    if at_base.branch is None:
        raise CannotTry(f"{base!r} is no branch: --ref must name the branch to merge into. Nothing was done.")
    return at_base.oid, at_head.oid, at_base.branch


def target_ref(repository: Repository, name: str) -> tuple[str, str | None]:
    """The full name of the branch that `name` means, symbolic refs resolved, and its tip; no tip if it is not there.

    Raises CannotTry when the name cannot be that of a branch.
    """
    check_name(name)
    return _target(name, _look_up(repository, [_full(name)]))


def tip(repository: Repository, ref: str) -> str | None:
    """The object id that the full name `ref` stands at now, or None if there is no such ref. Raises CannotTry."""
    found = _look_up(repository, [ref]).get(ref)
    return None if found is None else found.oid


class Heads(msgspec.Struct, frozen=True):
    """The branches of a repository, as one look found them.

    `tips`: the object id of each, by its full name. `symbolic`: what a symbolic ref among them leads to in the end.
    `default`: the full name of the branch that the repository's own HEAD names, if that is there.
    """

    tips: Mapping[str, str]
    symbolic: Mapping[str, str]
    default: str | None


_FEW = 100  # names that are handed to git one by one


def heads(repository: Repository, beside: Sequence[str] = ()) -> Heads:
    """Every branch, and the refs `beside` them by their full names. Names are any bytes. Raises CannotTry."""
    with start_heads(repository, beside) as running:
        return read_heads(running.finish())


def start_heads(repository: Repository, beside: Sequence[str] = ()) -> Running:
    """Start what `heads` does; `read_heads` takes the answer. Raises CannotTry."""
    asked = ("refs/heads/", *beside) if len(beside) <= _FEW else ()
    return repository.at_home().start("for-each-ref", f"{_FORMAT}%00%(HEAD)", *asked, cap=_HEADS_CAP)


def read_heads(answer: Answer) -> Heads:
    """What the process of `start_heads` said. Raises CannotTry."""
    if answer.code != 0:
        raise failed(answer, "for-each-ref")
    tips, symbolic, default = {}, {}, None
    for line in answer.out.splitlines():
        fields = line.split(b"\0")
        if len(fields) != 4:
            raise CannotTry("'git for-each-ref' answered in a form that is not known")
        full, oid, leads_to, mark = map(os.fsdecode, fields)
        tips[full] = oid
        if leads_to:
            symbolic[full] = leads_to
        if mark == "*":
            default = leads_to or full
    return Heads(tips, symbolic, default)


def leads_nowhere(repository: Repository, ref: str) -> str | None:
    """The full name that the symbolic ref `ref` leads to, though nothing is there; None for no such ref.

    Raises CannotTry. A ref that is no file of its own (reftable) is not found.
    """
    if not os.path.lexists(os.path.join(repository.common_dir, ref)):
        return None
    answer = repository.at_home().ask("symbolic-ref", "-q", ref)
    if answer.code not in (0, 1):
        raise failed(answer, "symbolic-ref")
    return os.fsdecode(answer.out.rstrip(b"\n")) if answer.code == 0 else None


def is_only_pruned(repository: Repository, ref: str, oid: str) -> bool:
    """Whether git, in the middle of a transaction, deletes no more of `ref` than the file beside its packed form.

    git holds the lock on the packed refs wherever it deletes a ref for good, and not while it prunes. Raises CannotTry.
    """
    place = os.path.realpath(os.path.join(repository.common_dir, "packed-refs"))
    if os.path.lexists(f"{place}.lock"):
        return False
    try:
        with open(place, "rb") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return False
    except OSError as fault:
        raise CannotTry(f"the packed refs cannot be read: {fault.strerror or fault}") from None
    return b"%s %s" % (oid.encode(), os.fsencode(ref)) in lines


def check_name(name: str) -> None:
    """Raises CannotTry for what is no name of a ref or object."""
    if name.startswith("-"):
        raise CannotTry(f"{name!r} looks like an option, not like a branch, tag or object id. Nothing was done.")
    if _BAD.search(name) is not None:
        raise CannotTry(
            f"{name!r} is no name: give a branch, a tag, a remote branch, HEAD or a full object id. Nothing was done."
        )


def _full(name: str) -> str:
    return name if name.startswith("refs/") else f"refs/heads/{name}"


def _target(name: str, found: dict[str, Resolved]) -> tuple[str, str | None]:
    full = _full(name)
    target = found.get(full, Resolved(name, full, ""))
    if target.branch is None:
        raise CannotTry(f"{target.ref} is no branch: a change is merged into refs/heads/...")
    return target.branch, target.oid or None


def _each(repository: Repository, names: Sequence[str], found: dict[str, Resolved]) -> list[Resolved]:
    return [_head(repository) if name == "HEAD" else _one(repository, name, found) for name in names]


def _look_up(repository: Repository, names: Sequence[str]) -> dict[str, Resolved]:
    """Every ref that one of `names` may mean, by its full name. One process, which opens no object."""
    patterns = [full for name in names if name != "HEAD" for full in _candidates(name)]
    if not patterns:
        return {}
    answer = repository.ask("for-each-ref", _FORMAT, *patterns, cap=_CAP)
    if answer.code != 0:
        raise failed(answer, "for-each-ref")
    found = {}
    for line in answer.out.splitlines():
        fields = line.split(b"\0")
        if len(fields) != 3:
            raise CannotTry("'git for-each-ref' answered in a form that is not known")
        try:
            full, oid, symref = (field.decode() for field in fields)
        except UnicodeDecodeError:
            raise CannotTry(f"the name of a ref is not UTF-8: {line!r}") from None
        found[full] = Resolved(full, symref or full, oid)
    return found


def _candidates(name: str) -> list[str]:
    return [name] if name.startswith("refs/") else [place.format(name) for place in _PLACES]


def _one(repository: Repository, name: str, found: dict[str, Resolved]) -> Resolved:
    fits = [full for full in _candidates(name) if full in found]
    is_oid = re.fullmatch(rf"[0-9a-f]{{{repository.oid_length}}}", name) is not None
    if len(fits) + is_oid > 1:
        what = [*(["an object id"] if is_oid else []), *fits]
        raise CannotTry(f"{name!r} is ambiguous: {' and '.join(what)}. Nothing was done; give the full name.")
    if is_oid:
        return Resolved(name, None, name)
    if not fits:
        hint = ""
        if re.fullmatch(r"[0-9a-fA-F]{4,64}", name):
            hint = f" An object id is given in full, {repository.oid_length} lower-case hex digits."
        raise NotThere(f"there is no branch, tag or remote branch {name!r} here. Nothing was done.{hint}")
    return Resolved(name, found[fits[0]].ref, found[fits[0]].oid)


def _head(repository: Repository) -> Resolved:
    """HEAD of the work tree that the repository was opened from."""
    answer = repository.ask("rev-parse", "--verify", "HEAD")
    named = repository.ask("rev-parse", "--symbolic-full-name", "HEAD")
    oid = answer.out.decode("ascii", "replace").strip()
    if answer.code != 0 or re.fullmatch(rf"[0-9a-f]{{{repository.oid_length}}}", oid) is None:
        raise CannotTry(f"HEAD names no commit: {answer.words}")
    ref = named.out.decode("utf-8", "replace").strip()
    return Resolved("HEAD", ref if named.code == 0 and ref.startswith("refs/heads/") else None, oid)
