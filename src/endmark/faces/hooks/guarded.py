"""What an agent is kept from: the databases, files and branches that the configuration names."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec

from endmark.faces import config as settings

_CONFIGURATION, _TRUSTED = "endmark's configuration", "a trusted key"
_BESIDE = ("", "-wal", "-shm", "-journal")
_SERVERS = {"postgresql": "postgresql", "postgres": "postgresql", "mariadb": "mariadb", "mysql": "mariadb"}


class Guarded(msgspec.Struct, frozen=True, kw_only=True):
    """`files`: real paths, each with what it is. `databases`: (engine, name of the database) of a target.

    `variables`: those that hold a URL of one. `engines`: of the targets whose URL is not known here. `branches`: short
    names. `may_approve`: the courtesy was switched off for approvals.
    """

    files: Mapping[str, str] = {}
    databases: Mapping[tuple[str, str], str] = {}
    variables: Mapping[str, str] = {}
    branches: tuple[str, ...] = ()
    may_approve: bool = False

    @classmethod
    def read(cls, config: str | None, folder: str, environ: Mapping[str, str]) -> "Guarded":
        """By the configuration named, else ENDMARK_CONFIG, else the nearest endmark.toml at or above `folder`.

        Without one nothing is guarded. Raises Misuse for one that cannot be read.
        """
        found = config or environ.get("ENDMARK_CONFIG") or _nearest(folder)
        approve = environ.get("ENDMARK_AGENT_MAY_APPROVE") == "1"
        if found is None:
            return cls(may_approve=approve)
        file, document = settings.opened(found, environ)
        tables, base = document or {}, file.absolute().parent
        files: dict[str, str] = {os.path.realpath(file): _CONFIGURATION}
        databases: dict[tuple[str, str], str] = {}
        variables: dict[str, str] = {}

        def add(url: Any, what: str) -> None:
            if not isinstance(url, str):
                return
            if url.startswith("env:"):
                name = url.removeprefix("env:")
                variables[name] = what
                url = environ.get(name, "")
            parts = urlsplit(url)
            if parts.scheme in _SERVERS:
                databases[_SERVERS[parts.scheme], unquote(parts.path.lstrip("/"))] = what
            elif path := (url.removeprefix("sqlite:///") if parts.scheme == "sqlite" else url):
                files.update({os.path.realpath(base / (path + more)): what for more in _BESIDE})

        for name, table in _tables(tables, "targets").items():
            add(table.get("url") if isinstance(table, dict) else None, f"the target {name}")
        add(_tables(tables, "ledger").get("url"), "endmark's ledger")
        if environ.get("ENDMARK_LEDGER"):
            add(environ["ENDMARK_LEDGER"], "endmark's ledger")
        key = _tables(tables, "merge").get("key")
        if isinstance(key, str) and not key.startswith("env:"):
            files[os.path.realpath(base / key)] = "the gate's key"
        for key in tables.get("trusted_keys") or ():
            if isinstance(key, str):
                files[os.path.realpath(base / key)] = _TRUSTED
        branches = tuple(name.removeprefix("refs/heads/") for name in _tables(tables, "branches"))
        return cls(files=files, databases=databases, variables=variables, branches=branches, may_approve=approve)

    def file_at(self, path: str, folder: str) -> str | None:
        """What the file is that `path`, seen from `folder`, leads to; None for one that is not guarded."""
        if not path or "\0" in path or len(path) > 4096:
            return None
        return self.files.get(os.path.realpath(os.path.join(folder, os.path.expanduser(path))))

    def untracked(self) -> "Guarded":
        """The same without the files that usually lie in a repository: the configuration and the trusted keys."""
        kept = {path: what for path, what in self.files.items() if what not in (_CONFIGURATION, _TRUSTED)}
        return msgspec.structs.replace(self, files=kept)


def _tables(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def _nearest(folder: str) -> str | None:
    for above in (Path(folder), *Path(folder).parents):
        if (above / settings.FILE).is_file():
            return str(above / settings.FILE)
    return None
