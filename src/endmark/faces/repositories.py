"""`[repositories]` of endmark.toml: the ones a service decides about, each by a name."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from endmark.faces.misuse import Misuse

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")


class RepositoryTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[repositories.NAME]` of endmark.toml: what the service decides about. Relative paths are seen from the file.

    `policy`: a file of this machine, instead of what stands in each base commit.
    """

    path: str
    policy: str | None = None


def repositories_of(
    value: Any, file: Path, convert: Callable[[Any, type[RepositoryTable], str], RepositoryTable]
) -> dict[str, RepositoryTable]:
    """The tables by name; `convert` makes one of what stands at a place in the file. Raises Misuse."""
    if not isinstance(value, dict):
        raise Misuse(f"{file}: repositories is not a table; [repositories.NAME] was expected.")
    found = {name: convert(table, RepositoryTable, f"{file}: repositories.{name}") for name, table in value.items()}
    for name, table in found.items():
        where = f"{file}: repositories.{name}"
        if not _NAME.fullmatch(name):
            raise Misuse(f"{where}: a name is 1-64 of A-Z a-z 0-9 _ . -.")
        for key, path in (("path", table.path), ("policy", table.policy)):
            if path is not None and (not path or "\0" in path):
                raise Misuse(f"{where}.{key}: {path!r} is no path.")
    return found
