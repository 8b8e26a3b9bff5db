"""Python, SQLite, git and the extras: what is there, and whether it is new enough."""

import os
import sqlite3
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version

from endmark.core.refusal import CannotTry
from endmark.faces.doctor.finding import Case, Finding, todo, unseen, well

FAMILY = "versions"
_PYTHON = (3, 11)
_SQLITE = (3, 37)  # STRICT tables, of which the ledger is made


def look(case: Case) -> Iterator[Finding]:
    yield _judged("Python", sys.version_info[:3], _PYTHON)
    yield _judged("SQLite", sqlite3.sqlite_version_info, _SQLITE)
    yield _git()
    yield from _extras(case)


def _judged(name: str, found: tuple[int, ...], oldest: tuple[int, ...]) -> Finding:
    said = ".".join(map(str, found))
    if found < oldest:
        needed = ".".join(map(str, oldest))
        return todo(FAMILY, name, f"{said} is older than {needed}", f"install {name} {needed} or newer")
    return well(FAMILY, name, said)


def _git() -> Finding:
    from endmark.effects.git import Git

    try:
        found = Git(os.environ).check_version()
    except CannotTry as fault:
        return todo(FAMILY, "git", fault.detail, "install git 2.38 or newer; without it there is no patch gate")
    return well(FAMILY, "git", ".".join(map(str, found)))


def _extras(case: Case) -> Iterator[Finding]:
    """Which extras are installed, and those that the configuration cannot do without."""
    needed = _needed(case)
    try:
        wanted = requires("endmark") or []
    except PackageNotFoundError:
        yield unseen(
            FAMILY, "extras", "endmark is not installed as a package", "pip install it, so that this can be told"
        )
        return
    extras: dict[str, list[str]] = {}
    for line in wanted:
        requirement, _, marker = line.partition(";")
        if "extra ==" in marker:
            name = requirement.strip().split(" ")[0]
            for sign in "<>=!~[":
                name = name.partition(sign)[0]
            extras.setdefault(marker.partition("extra ==")[2].strip(" '\""), []).append(name)
    for extra, packages in sorted(extras.items()):
        there = {package: _version(package) for package in packages}
        said = ", ".join(f"{package} {found or 'not installed'}" for package, found in there.items())
        if extra in needed and not all(there.values()):
            yield todo(FAMILY, extra, f"{said}; {needed[extra]} needs it", f"pip install 'endmark[{extra}]'")
        else:
            yield well(FAMILY, extra, said)


def _needed(case: Case) -> dict[str, str]:
    needed = {}
    for name, table in case.config.targets.items():
        url = table.url
        if url.startswith("env:"):
            url = case.config.environ.get(url.removeprefix("env:"), "")
        for scheme, extra in (("postgres", "postgres"), ("mariadb:", "mariadb"), ("mysql:", "mariadb")):
            if url.startswith(scheme):
                needed[extra] = f"the target {name}"
    if not isinstance(case.config.ledger, os.PathLike):
        needed["postgres"] = "the ledger"
    if case.config.trusted_keys or case.config.merge.key:
        needed["sign"] = "a key in the configuration"
    if case.config.mcp.target or case.config.mcp.repository:
        needed["mcp"] = "[mcp]"
    return needed


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
