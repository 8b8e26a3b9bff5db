"""The patch gate's policy: `[branches.NAME]` and `[reviewers.NAME]` of endmark.toml (docs/policy.md).

It is given as bytes, from the base commit or a path on the gate's server: what a patch says of its own gate is not
asked. Everything is read strictly; what a policy does not say has the default of the field here, and no other.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from endmark.core.evidence import LEVELS, Level
from endmark.core.refusal import Refused, Signal
from endmark.core.strictjson import short
from endmark.core.tables import POLICY, SETTINGS

FILE = "endmark.toml"
MOST_BYTES = 1 << 20
MOST_SECONDS = 86_400

ALWAYS_PERSON = (".gitattributes", ".gitmodules", FILE)
"""What changes how everything else is read. A policy may add to these, not take away."""

WIRES: dict[str, tuple[str, ...]] = {
    "openai": (
        "openai-chat",
        "openai-responses",
        "openai-chat+vllm",
        "openai-chat+llamacpp",
        "openai-chat+ollama",
        "openai-chat+azure",
        "openai-chat+openrouter",
        "openai-chat+gemini",
        "openai-chat+claude-gateway",
        "mistral",
    ),
    "anthropic": ("anthropic",),
    "gemini": ("gemini",),
    "ollama": ("ollama",),
}
"""The wires that each kind of reviewer may answer in; the first where the policy names none."""

URLS = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "ollama": "http://127.0.0.1:11434",
}
"""Where each kind is asked; the first where the policy names none."""

_VERSION = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_KEY = re.compile(r"env:[A-Za-z_][A-Za-z0-9_]{0,127}")
_KEYID = re.compile(r"[0-9a-f]{64}")
_URL = re.compile(r"https?://(?:[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?(?:/[A-Za-z0-9._~/-]*)?")
_LOCAL = re.compile(r"http://(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?:[:/]|\Z)")
_CONTROL = re.compile(r"[\0-\x1f\x7f\\]")
_MOST_STARS = 8
_GLOB_FLAGS = re.DOTALL | re.IGNORECASE

_Table = TypeVar("_Table", "Branch", "Reviewer")
_Count = Annotated[int, Meta(ge=1, le=1 << 30)]
_Seconds = Annotated[float, Meta(gt=0, le=MOST_SECONDS)]


class PolicyRefused(Refused):
    """The policy cannot be used, so nobody was asked and nothing may be decided by it."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return PolicyRefused, (self.signal, self.received_bytes, self.expected_bytes, self.detail)


class Reviewer(msgspec.Struct, frozen=True, kw_only=True):
    """`[reviewers.NAME]`: who is asked, and how.

    `key` is `env:NAME`, never a key. `prompt`: the instructions, a path in the base commit, or on the server where it
    begins with `/`. `command`: a program and its arguments, run in an empty folder of its own in which the `files` of
    the base commit stand. `ca_file`: certificates on the server that are trusted instead of the usual ones. `marks`:
    whether it can echo marks. `max_output_tokens`: the cap that is requested. `signed_by`: the id of the key whose
    signature a verdict must have that it is said to have made elsewhere, or that a command prints.
    """

    name: str
    kind: Literal["command", "openai", "anthropic", "gemini", "ollama"]
    capacity: Literal["shared", "dedicated"]
    model: str | None = None
    url: str | None = None
    wire: str | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    max_output_tokens: _Count | None = None
    key: str | None = None
    ca_file: str | None = None
    prompt: str | None = None
    command: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    marks: bool = True
    signed_by: str | None = None


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """`[branches.NAME]`: what must be true before this branch moves.

    `policy`: the version that a verdict must name. `reviewers`: all of them must pass. `retries`: further attempts
    after one without a whole verdict; a whole one is never asked for again. Byte counts are caps, `idle_seconds` and
    `total_seconds` limits of one attempt. `author_models`: the models that write the patches, as far as known.
    `advisors`: whose advice is asked for and shown; it decides nothing.
    """

    name: str
    policy: str
    reviewers: tuple[str, ...]
    retries: Annotated[int, Meta(ge=0, le=100)] = 2
    max_diff_bytes: _Count = 512 * 1024
    max_answer_bytes: _Count = 4 * 1024 * 1024
    idle_seconds: _Seconds = 120.0
    total_seconds: _Seconds = 900.0
    carry: Literal["none", "identical"] = "none"
    min_evidence: Literal["bare", "witness", "sealed", "signed"] = "sealed"
    always_person: tuple[str, ...] = ()
    author_models: tuple[str, ...] = ()
    advisors: tuple[str, ...] = ()

    @property
    def level(self) -> Level:
        """The least evidence that a verdict must have."""
        return LEVELS[self.min_evidence]


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """A policy that was read. `sha256` is over the bytes it was read from; every record of a decision names it."""

    sha256: str
    branches: Mapping[str, Branch]
    reviewers: Mapping[str, Reviewer]
    where: str
    received_bytes: int

    def branch(self, ref: str) -> Branch:
        """The rules of a branch, by its short or full name. Raises PolicyRefused where there are none."""
        found = self.branches.get(ref.removeprefix("refs/heads/"))
        if found is None:
            detail = f"{self.where} has no rules for the branch {short(ref)}; it names {', '.join(self.branches)}"
            raise PolicyRefused(Signal.MISSING_KEY, self.received_bytes, None, detail)
        return found

    def reviewers_of(self, branch: Branch) -> tuple[Reviewer, ...]:
        """Who must pass, in the policy's order."""
        return tuple(self.reviewers[name] for name in branch.reviewers)

    def advisors_of(self, branch: Branch) -> tuple[Reviewer, ...]:
        """Who is asked for advice alone, in the policy's order."""
        return tuple(self.reviewers[name] for name in branch.advisors)

    def always_person(self, branch: Branch) -> tuple[str, ...]:
        """The globs of paths whose change a person must look at: the fixed ones, what the policy itself is made of, and
        what it adds.
        """
        asked = (*self.reviewers_of(branch), *self.advisors_of(branch))
        own = (path for reviewer in asked for path in (reviewer.prompt or "", *reviewer.files))
        made_of = tuple(f"/{path}" for path in own if path and not path.startswith("/"))
        return tuple(dict.fromkeys((*ALWAYS_PERSON, *made_of, *branch.always_person)))

    def needs_person(self, branch: Branch, paths: Iterable[bytes]) -> tuple[bytes, ...]:
        """Those of the changed paths, old names and new, that a person must look at."""
        globs = (_glob(pattern).pattern for pattern in self.always_person(branch))
        person = re.compile(b"|".join(b"(?:%s)" % glob for glob in globs), _GLOB_FLAGS)  # one look at each path
        return tuple(filter(person.fullmatch, paths))


def wire_of(reviewer: Reviewer) -> str | None:
    """The wire its answer is read by; None for a command, which answers with an envelope."""
    return reviewer.wire or WIRES.get(reviewer.kind, (None,))[0]


def url_of(reviewer: Reviewer) -> str | None:
    """Where it is asked, without a `/` at the end; None for a command."""
    url = reviewer.url or URLS.get(reviewer.kind)
    return None if url is None else url.rstrip("/")


def is_in_clear(reviewer: Reviewer) -> bool:
    """Whether the diff and the key would travel unencrypted to another machine."""
    url = url_of(reviewer)
    return url is not None and url.startswith("http://") and not _LOCAL.match(url)


def read(raw: bytes, where: str = FILE) -> Policy:
    """The policy that TOML spells. `where` is what messages call it. Raises PolicyRefused, and nothing else.

    Tables that belong to the settings are not looked at.
    """
    reading = _Reading(where, len(raw))
    tables = reading.tables(raw)
    reviewers = reading.named(tables, "reviewers", Reviewer)
    branches = reading.named(tables, "branches", Branch)
    if not branches:
        raise reading.refuse(Signal.MISSING_KEY, "it names no branch, so it asks for nothing; [branches.NAME]")
    for reviewer in reviewers.values():
        _check_reviewer(reviewer, reading)
    for branch in branches.values():
        _check_branch(branch, reviewers, reading)
    digest = hashlib.sha256(raw).hexdigest()
    return Policy(sha256=digest, branches=branches, reviewers=reviewers, where=where, received_bytes=len(raw))


class _Reading:
    """One reading of one text: what it is called, and how a refusal of it is made."""

    def __init__(self, where: str, received: int) -> None:
        self.where = where
        self._received = received

    def refuse(self, signal: Signal, clause: str) -> PolicyRefused:
        return PolicyRefused(signal, self._received, None, f"{self.where}: {clause}")

    def tables(self, raw: bytes) -> dict[str, Any]:
        if len(raw) > MOST_BYTES:
            raise self.refuse(Signal.OVER_CAP, f"{len(raw):,} bytes are over the cap of {MOST_BYTES:,} for a policy")
        import tomllib  # only once there is something to read

        try:
            tables = tomllib.loads(raw.decode())
        except (ValueError, RecursionError) as fault:
            said = ascii(str(fault))[1:-1][:160] or type(fault).__name__
            raise self.refuse(Signal.WRONG_TYPE, f"it is no TOML ({said})") from None
        unknown = tables.keys() - {*POLICY, *SETTINGS}
        if unknown:
            allowed = ", ".join(POLICY)
            raise self.refuse(Signal.UNKNOWN_KEY, f"unknown table {short(min(unknown))}; a policy has {allowed}")
        return tables

    def named(self, tables: dict[str, Any], which: str, kind: type[_Table]) -> dict[str, _Table]:
        found = tables.get(which, {})
        if not isinstance(found, dict):
            raise self.refuse(Signal.WRONG_TYPE, f"{which} is no table; [{which}.NAME] was expected")
        return {name: self._table(table, kind, name, f"{which}.{name}") for name, table in found.items()}

    def _table(self, table: Any, kind: type[_Table], name: str, at: str) -> _Table:
        at = at if at.isprintable() and len(at) < 100 else f"{at.partition('.')[0]}.{short(name)}"
        if not isinstance(table, dict):
            raise self.refuse(Signal.WRONG_TYPE, f"{at} is no table; [{at}] was expected")
        allowed = [field for field in kind.__struct_fields__ if field != "name"]
        unknown = table.keys() - set(allowed)
        if unknown:
            say = f"{at} has an unknown key {short(min(unknown))}; allowed are {', '.join(allowed)}"
            raise self.refuse(Signal.UNKNOWN_KEY, say)
        try:
            return msgspec.convert({**table, "name": name}, kind)
        except msgspec.ValidationError as fault:
            what, _, path = ascii(str(fault))[1:-1].partition(" - at `$")
            signal = Signal.MISSING_KEY if "missing required" in what else Signal.WRONG_TYPE
            raise self.refuse(signal, f"{at}{path.rstrip('`')}: {what[:1].lower()}{what[1:]}") from None


def _check_branch(branch: Branch, reviewers: Mapping[str, Reviewer], reading: _Reading) -> None:
    at = f"branches.{branch.name}"

    def need(holds: object, clause: str) -> None:
        if not holds:
            raise reading.refuse(Signal.WRONG_VALUE, f"{at}.{clause}")

    need(not _CONTROL.search(branch.name) and 0 < len(branch.name) <= 255, "the name of the branch is no name")
    need(not branch.name.startswith("refs/"), "a branch is called by its short name, main and not refs/heads/main")
    need(_VERSION.fullmatch(branch.policy), "policy is not 1-128 of A-Z a-z 0-9 . _ : -")
    need(branch.reviewers, "reviewers names nobody: a policy that asks for nothing proves nothing")
    known = ", ".join(reviewers) or "none"
    for key, names in (("reviewers", branch.reviewers), ("advisors", branch.advisors)):
        need(len(set(names)) == len(names), f"{key} names one of them twice")
        for name in names:
            need(name in reviewers, f"{key} names {short(name)}; there is no such [reviewers.NAME], only: {known}")
    both = [name for name in branch.advisors if name in branch.reviewers]
    need(not both, f"advisors names {short(', '.join(both))}, who decides already: advice counts for nothing else")
    need(branch.idle_seconds <= branch.total_seconds, "idle_seconds is more than total_seconds")
    for pattern in branch.always_person:
        fits = 0 < len(pattern) <= 500 and not _CONTROL.search(pattern) and pattern.count("*") <= _MOST_STARS
        need(fits, f"always_person holds {short(pattern)}, which is no glob of at most {_MOST_STARS} stars")


_NEEDS = {
    "command": ("command",),
    "openai": ("model",),
    "anthropic": ("model", "max_output_tokens"),
    "gemini": ("model",),
    "ollama": ("model",),
}
_NOT_FOR_COMMANDS = ("url", "wire", "ca_file", "max_output_tokens")
_ONLY_FOR_COMMANDS = ("command", "files")


def _check_reviewer(reviewer: Reviewer, reading: _Reading) -> None:
    at, kind = f"reviewers.{reviewer.name}", reviewer.kind

    def need(holds: object, clause: str, signal: Signal = Signal.WRONG_VALUE) -> None:
        if not holds:
            raise reading.refuse(signal, f"{at}.{clause}")

    need(_NAME.fullmatch(reviewer.name), "the name of a reviewer is 1-64 of A-Z a-z 0-9 _ . -")
    for field in _NEEDS[kind]:
        need(
            getattr(reviewer, field) not in (None, ()), f"{field} is missing: kind {kind} needs it", Signal.MISSING_KEY
        )
    for field in _NOT_FOR_COMMANDS if kind == "command" else _ONLY_FOR_COMMANDS:
        need(getattr(reviewer, field) in (None, ()), f"{field} means nothing for kind {kind}", Signal.UNKNOWN_KEY)
    # Whatever stands there is not repeated: it may be a key.
    need(reviewer.key is None or _KEY.fullmatch(reviewer.key), 'key is not "env:NAME"; a key itself never stands here')
    need(
        reviewer.model is None or _MODEL.fullmatch(reviewer.model), f"model is {short(reviewer.model)}, no model's name"
    )
    need(reviewer.url is None or _URL.fullmatch(reviewer.url), "url is not http(s)://host/path, and nothing else in it")
    wires = WIRES.get(kind, ())
    need(reviewer.wire in (None, *wires), f"wire is {short(reviewer.wire)}; kind {kind} has {', '.join(wires)}")
    need(reviewer.ca_file is None or _is_path(reviewer.ca_file, "/"), "ca_file is no absolute path")
    prompt = reviewer.prompt
    need(prompt is None or _is_path(prompt) or _is_path(prompt, "/"), "prompt is no path of the base commit or server")
    signed_by = reviewer.signed_by
    need(signed_by is None or _KEYID.fullmatch(signed_by), "signed_by is no key's id: 64 lower-case hex digits")
    need(all(map(_is_path, reviewer.files)), "files are paths in the base commit, without .. and backslash")
    if kind == "command":
        program = reviewer.command[0]
        need(all("\0" not in word for word in reviewer.command) and program, "command is no program")
        need(
            program.startswith("/") or "/" not in program or program.removeprefix("./") in reviewer.files,
            (
                "command is neither an absolute path, a name on the PATH, nor one of files: "
                "a relative path could be the patch's own"
            ),
        )


def _is_path(path: str, root: str = "") -> bool:
    parts = path.removeprefix(root).split("/")
    plain = all(part not in ("", ".", "..") for part in parts) and parts[0].lower() != ".git"
    return path.startswith(root) and plain and len(path) <= 1_000 and not _CONTROL.search(path)


def _glob(pattern: str) -> re.Pattern[bytes]:
    """Whole paths that a glob is for, and all below them. `*` and `?` stay in one folder, `**` does not.

    Without a `/` it may stand in any folder. Letters have no case: what is a guarded name to some file system is one.
    """
    anchored = "/" in pattern.rstrip("/")
    parts = re.split(rb"(\*\*/|\*\*|\*|\?)", pattern.strip("/").encode())
    spelled = {b"**/": rb"(?:.*/)?", b"**": rb".*", b"*": rb"[^/]*", b"?": rb"[^/]"}
    body = b"".join(spelled.get(part) or re.escape(part) for part in parts)
    return re.compile((b"" if anchored else rb"(?:.*/)?") + body + rb"(?:/.*)?", _GLOB_FLAGS)
