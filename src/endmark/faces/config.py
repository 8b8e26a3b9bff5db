"""What the caller set: flags first, then ENDMARK_* variables, then endmark.toml."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from endmark.core.evidence import LEVELS
from endmark.core.refusal import CannotTry
from endmark.core.tables import POLICY, SETTINGS
from endmark.effects.target import Target
from endmark.faces.alerts import AlertsTable
from endmark.faces.books import ledger_place
from endmark.faces.misuse import Misuse
from endmark.faces.repositories import RepositoryTable, repositories_of
from endmark.faces.targets import target_at, target_on_record
from endmark.faces.worker.outbox import Deferring, Queue, QueueTable, queue_at
from endmark.steps.treatment import Options

FILE = "endmark.toml"
SECONDS_MAX = 1_000_000

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")  # what may be a target's name, and is no connection string

_Table = TypeVar(
    "_Table", "TargetTable", "LedgerTable", "MergeTable", "McpTable", QueueTable, RepositoryTable, AlertsTable
)


class TargetTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """`[targets.NAME]` of endmark.toml."""

    url: str
    review: Literal["required", "none"] | None = None  # none on the command line, required by the service
    rehearse: Literal["always", "never"] = "never"
    rehearse_in: str | None = None
    backup: str | list[str] | None = None
    backup_timeout: float = 3600.0
    down: Literal["required", "optional"] = "optional"
    approver: Literal["other", "any"] = "any"
    approval_expires: str | None = None
    min_evidence: Literal["bare", "witness", "sealed", "signed"] | None = None  # bare, or sealed by the service
    lock_timeout: float = 10.0
    statement_timeout: float = 300.0
    max_statements: int | None = None
    allow_owner: bool = False


class LedgerTable(msgspec.Struct, forbid_unknown_fields=True):
    """`[ledger]` of endmark.toml."""

    url: str | None = None


class MergeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`[merge]` of endmark.toml. `key`: the file that signs the records of merges, or `env:NAME` for its path."""

    key: str | None = None


class McpTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[mcp]` of endmark.toml: what agents reach through `endmark mcp`. `faces.mcp.settings` says what it means."""

    target: str | None = None
    root: str | None = None
    repository: str | None = None
    policy: str | None = None
    immediate: tuple[str, ...] = ()
    min_evidence: Literal["bare", "witness", "sealed", "signed"] = "sealed"
    token: str | None = None
    hosts: tuple[str, ...] = ()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A target and how it is treated. `name` and `review` are None for a URL typed on the command line."""

    name: str | None
    review: Literal["required", "none"] | None
    target: Target
    options: Options

    @property
    def title(self) -> str:
        return self.name or self.target.identity


class Overrides(msgspec.Struct, frozen=True, kw_only=True):
    """What flags say about a target; None where no flag did."""

    lock_timeout: float | None = None
    statement_timeout: float | None = None
    backup: str | None = None
    no_backup: bool = False


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was set. `ledger_is_ours`: nobody named a ledger, so it is the one in the user's state folder.

    `ledger` is a file, or a `postgresql://` URL. `trusted_keys`: files of public keys; None where no signature is
    trusted.
    """

    file: Path | None
    ledger: Path | str
    ledger_is_ours: bool
    targets: Mapping[str, TargetTable]
    environ: Mapping[str, str]
    trusted_keys: tuple[Path, ...] | None = None
    merge: MergeTable = MergeTable()
    mcp: McpTable = McpTable()
    service: Mapping[str, Any] = {}
    repositories: Mapping[str, RepositoryTable] = {}
    queue: Queue | None = None
    alerts: AlertsTable = AlertsTable()

    @property
    def outbox(self) -> Deferring | None:
        """What goes out with the acts of whoever makes a job due: its row on the queue, where there is one."""
        return None if self.queue is None else Deferring(self.queue.schema)

    @property
    def merge_key(self) -> Path | None:
        """The file that signs the records of merges, where none is given; a relative one is seen from endmark.toml."""
        if self.merge.key is None:
            return None
        key = f"{self.file}: merge.key"
        named = _from_environment(self.merge.key, key, self.environ)
        return self.folder / self.merge.key if named is None else Path(named)

    def place(self, to: str, flags: Overrides | None = None) -> Place:
        """The target with this name or URL. Raises Misuse.

        A URL that leads to the database of a named target is that target: its review is not walked around.
        """
        if "://" not in to:
            if to not in self.targets:
                raise Misuse(self._no_such_target(to))
            return self._place(to, self._target(to), self.targets[to], flags)
        target = _target_at(to, "--to")
        named = [place for place in self._places(flags) if place.target.identity == target.identity]
        if named:
            return min(named, key=lambda place: place.review != "required")  # of several names the stricter one
        return self._place(None, target, TargetTable(url=to), flags)

    def recorded(self, identity: str, flags: Overrides | None = None) -> Place:
        """The target of a job on record. Raises Misuse, and CannotTry for one that nobody says how to get into."""
        place = self.place(identity, flags)
        if place.name is None:
            target_on_record(identity)
        return place

    def _places(self, flags: Overrides | None) -> Iterator[Place]:
        """Every target with a name, but for one whose URL has no meaning now: it is no concern of this call."""
        for name, table in self.targets.items():
            with suppress(Misuse):
                yield self._place(name, self._target(name), table, flags)

    def served(self, name: str) -> Place:
        """The target with this name as the service treats it: reviewed and sealed, unless its table says otherwise.

        Raises Misuse.
        """
        if name not in self.targets:
            raise Misuse(self._no_such_target(name))
        table = self.targets[name]
        stricter = msgspec.structs.replace(
            table, review=table.review or "required", min_evidence=table.min_evidence or "sealed"
        )
        return self._place(name, self._target(name), stricter, None)

    def _place(self, name: str | None, target: Target, table: TargetTable, flags: Overrides | None) -> Place:
        flags = flags or Overrides()
        options = Options(
            lock_timeout=table.lock_timeout if flags.lock_timeout is None else flags.lock_timeout,
            statement_timeout=table.statement_timeout if flags.statement_timeout is None else flags.statement_timeout,
            backups=self._backups(table, flags, target),
            backup_command=_command(table, flags),
            backup_timeout=table.backup_timeout,
            environ=self.environ if isinstance(table.backup, list) else {},
            min_evidence=LEVELS[table.min_evidence or "bare"],
            max_statements=table.max_statements,
            down_required=table.down == "required",
            rehearse=table.rehearse == "always",
            other_approver=table.approver == "other",
            approval_expires=None if table.approval_expires is None else duration(table.approval_expires),
        )
        return Place(name=name, review=None if name is None else table.review or "none", target=target, options=options)

    def _backups(self, table: TargetTable, flags: Overrides, target: Target) -> Path | None:
        if flags.no_backup:
            return None
        if flags.backup is not None:
            return Path(flags.backup)
        if table.backup == "none" or isinstance(table.backup, list):
            return None
        if table.backup is None:
            if not target.identity.startswith("sqlite:"):  # no other engine is copied by endmark itself
                return None
            beside = _state_folder(self.environ) if isinstance(self.ledger, str) else self.ledger.absolute().parent
            return beside / "backups"
        return self.folder / table.backup

    def _target(self, name: str) -> Target:
        key = f"{self.file}: targets.{name}.url"
        table = self.targets[name]
        url = _from_environment(table.url, key, self.environ) or _anchored(table.url, self.folder)
        scratch = None
        if table.rehearse_in is not None:
            where = f"{self.file}: targets.{name}.rehearse_in"
            scratch = _from_environment(table.rehearse_in, where, self.environ) or table.rehearse_in
        return _target_at(url, key, table.allow_owner, scratch, self.environ)

    def target_of(self, identity: str) -> Target:
        """The target of a job on record: one with a name, which knows how to get in, else by what is recorded.

        Raises CannotTry.
        """
        for place in self._places(None):
            if place.target.identity == identity:
                return place.target
        return target_on_record(identity)

    @property
    def folder(self) -> Path:
        """What relative paths of the configuration are seen from."""
        return Path() if self.file is None else self.file.absolute().parent

    def _no_such_target(self, to: str) -> str:
        known = f"{self.file} names {', '.join(self.targets)}" if self.targets else "no configuration names any"
        hint = f"; a file is given as sqlite:///{to}" if os.path.exists(to) else ""
        named = f"named {to}" if _NAME.fullmatch(to) or hint else "of the name that was given"
        return f"--to: there is no target {named} ({known}){hint}."


def load(ledger: str | None, config: str | None, environ: Mapping[str, str]) -> Config:
    """What flags, environment and endmark.toml say together. `ledger` and `config` are the flags. Raises Misuse."""
    file, document = opened(config, environ)
    tables = document or {}
    targets, keys = _targets(tables.get("targets", {}), file), _keys(tables, file)
    for name, table in targets.items():
        if table.min_evidence == "signed" and keys is None:
            raise Misuse(
                f"{file}: targets.{name}.min_evidence: signed needs trusted_keys; no signature counts without."
            )
    in_file = _convert(tables.get("ledger", {}), LedgerTable, f"{file}: ledger").url
    where, ours = _ledger(ledger or environ.get("ENDMARK_LEDGER"), in_file, file, environ)
    return Config(
        file=None if document is None else file,
        ledger=where,
        ledger_is_ours=ours,
        targets=targets,
        environ=environ,
        trusted_keys=keys,
        merge=_convert(tables.get("merge", {}), MergeTable, f"{file}: merge"),
        mcp=_convert(tables.get("mcp", {}), McpTable, f"{file}: mcp"),
        service=tables.get("service", {}),
        queue=_queue(tables.get("queue"), where, f"{file}: queue", environ),
        alerts=_convert(tables.get("alerts", {}), AlertsTable, f"{file}: alerts"),
        repositories=repositories_of(tables.get("repositories", {}), file, _convert),
    )


def trusted_keys(config: str | None, environ: Mapping[str, str]) -> tuple[Path, ...] | None:
    """The files of public keys that endmark.toml names; None for none. `config` is the flag. Raises Misuse."""
    file, document = opened(config, environ)
    return _keys(document or {}, file)


def opened(config: str | None, environ: Mapping[str, str]) -> tuple[Path, dict[str, Any] | None]:
    """The configuration and what it holds, None where there is none."""
    named = config or environ.get("ENDMARK_CONFIG")
    file = Path(named or FILE)
    document = _read(file, must_exist=named is not None)
    unknown = (document or {}).keys() - {*SETTINGS, *POLICY}
    if unknown:
        raise Misuse(f"{file}: unknown key {min(unknown)}; {', '.join((*SETTINGS, *POLICY))} were expected.")
    return file, document


def _keys(tables: dict[str, Any], file: Path) -> tuple[Path, ...] | None:
    """A relative path is seen from the folder of the configuration."""
    found = tables.get("trusted_keys")
    if found is None:
        return None
    if not isinstance(found, list) or not found or not all(isinstance(name, str) and name for name in found):
        raise Misuse(f"{file}: trusted_keys: a list of files of public keys was expected, one at least.")
    return tuple(file.absolute().parent / name for name in found)


def _read(file: Path, must_exist: bool) -> dict[str, Any] | None:
    try:
        with file.open("rb") as stream:
            import tomllib  # only once there is something to read

            return tomllib.load(stream)
    except FileNotFoundError:
        if must_exist:
            raise Misuse(f"{file}: there is no such configuration file.") from None
        return None
    except OSError as fault:
        raise Misuse(f"{file}: {fault.strerror or fault}.") from None
    except (ValueError, RecursionError) as fault:  # tomllib's own fault, bytes that are no UTF-8, a NUL in the name
        raise Misuse(f"{file}: it is no TOML: {fault}.") from None


def _ledger(given: str | None, in_file: str | None, file: Path, environ: Mapping[str, str]) -> tuple[Path | str, bool]:
    try:
        if given:
            return ledger_place(given), False
        if in_file is not None:
            from_environment = _from_environment(in_file, f"{file}: ledger.url", environ)
            if from_environment is not None:
                return ledger_place(from_environment), False
            place = ledger_place(in_file)
            return (place if isinstance(place, str) else file.absolute().parent / place), False
    except CannotTry as fault:
        raise Misuse(fault.detail) from None
    return _state_folder(environ) / "ledger.db", True


def _queue(value: Any, ledger: Path | str, where: str, environ: Mapping[str, str]) -> Queue | None:
    if value is None:
        return None
    table = _convert(value, QueueTable, where)
    return queue_at(table, _from_environment(table.url, f"{where}.url", environ) or table.url, ledger, where)


def _state_folder(environ: Mapping[str, str]) -> Path:
    """The user's own folder for what is kept. Raises Misuse."""
    # A relative XDG path is to be ignored, says its specification.
    state = environ.get("XDG_STATE_HOME", "")
    folder = state if os.path.isabs(state) else os.path.expanduser("~/.local/state")
    if not os.path.isabs(folder):
        raise Misuse("there is no home folder to keep a ledger in; name one with --ledger or ENDMARK_LEDGER.")
    return Path(folder, "endmark")


def _targets(value: Any, file: Path) -> dict[str, TargetTable]:
    if not isinstance(value, dict):
        raise Misuse(f"{file}: targets is not a table; [targets.NAME] was expected.")
    targets = {}
    for name, table in value.items():
        where = f"{file}: targets.{name}"
        if "://" in name:
            raise Misuse(f"{where}: a name does not look like a URL.")
        targets[name] = found = _convert(table, TargetTable, where)
        for key in ("lock_timeout", "statement_timeout"):
            if not 0 <= getattr(found, key) <= SECONDS_MAX:
                raise Misuse(f"{where}.{key}: {getattr(found, key)} is not a number of seconds up to {SECONDS_MAX:,}.")
        if found.max_statements is not None and found.max_statements < 1:
            raise Misuse(f"{where}.max_statements: {found.max_statements} is not a number of statements.")
        _check_treatment(found, where)
    return targets


def _check_treatment(table: TargetTable, where: str) -> None:
    """What belongs together, and what cannot be. Raises Misuse."""
    if not 0 < table.backup_timeout <= SECONDS_MAX:
        raise Misuse(
            f"{where}.backup_timeout: {table.backup_timeout} is not a number of seconds up to {SECONDS_MAX:,}."
        )
    if isinstance(table.backup, list):
        if not table.backup or not all(table.backup) or any("\0" in word for word in table.backup):
            raise Misuse(f"{where}.backup: a command is a list of words, the program first, none of them empty.")
        if table.url.startswith("sqlite:"):
            raise Misuse(f"{where}.backup: endmark copies a SQLite file itself; a folder or none was expected.")
        if any(word.startswith(("{job}", "{attempt}")) for word in table.backup):  # a job may be called --help
            raise Misuse(f"{where}.backup: a word cannot begin with {{job}} or {{attempt}}; put a path before it.")
    if table.rehearse_in is not None and table.url.startswith(("sqlite:", "mariadb:", "mysql:")):
        raise Misuse(f"{where}.rehearse_in: only PostgreSQL needs a place for clones to be named.")
    if table.approver == "other" and table.review != "required":
        raise Misuse(f'{where}.approver: another approver needs a review: review = "required".')
    if table.approval_expires is not None:
        try:
            duration(table.approval_expires)
        except ValueError:
            said = f"{table.approval_expires!r} is not a time like 30m, 24h or 7d"
            raise Misuse(f"{where}.approval_expires: {said}.") from None


_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_DURATION = re.compile(r"([1-9][0-9]{0,5})([smhd])")


def duration(text: str) -> float:
    """Seconds in a time like `30m`. Raises ValueError."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return float(int(found[1]) * _UNITS[found[2]])


def _command(table: TargetTable, flags: Overrides) -> tuple[str, ...] | None:
    if flags.no_backup or flags.backup is not None or not isinstance(table.backup, list):
        return None
    return tuple(table.backup)


def _convert(value: Any, kind: type[_Table], where: str) -> _Table:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as fault:
        what, _, path = str(fault).partition(" - at `$")
        key = path.rstrip("`")
        raise Misuse(f"{where}{key}: {what[:1].lower()}{what[1:]}.") from None


def _from_environment(url: str, key: str, environ: Mapping[str, str]) -> str | None:
    """What `env:NAME` stands for; None for any other spelling. Raises Misuse when NAME is not set."""
    if not url.startswith("env:"):
        return None
    name = url.removeprefix("env:")
    if not environ.get(name):
        raise Misuse(f"{key}: the variable {name} is not set.")
    return environ[name]


def _anchored(url: str, folder: Path) -> str:
    """A relative SQLite URL of the configuration, seen from the folder it stands in."""
    scheme, slashes, rest = url.partition(":///")
    if scheme != "sqlite" or not slashes or not rest or rest.startswith("/"):
        return url
    return f"sqlite:///{folder / rest}"


def _target_at(
    url: str, key: str, allow_owner: bool = False, scratch: str | None = None, environ: Mapping[str, str] | None = None
) -> Target:
    try:
        return target_at(url, allow_owner=allow_owner, rehearse_in=scratch, environ=environ)
    except CannotTry as fault:
        raise Misuse(f"{key}: {fault.detail}") from None
