"""The configuration: what of it is weak."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import parse_qsl

from endmark.core import policy
from endmark.core.weaknesses import weaknesses
from endmark.faces.config import Config, opened
from endmark.faces.doctor.finding import Case, Finding, todo, unseen, well
from endmark.sources import files

FAMILY = "configuration"
_SECRET = frozenset({"password", "passwd", "pwd", "sslpassword"})  # of a URL's parameters


def look(case: Case) -> Iterator[Finding]:
    config = case.config
    if config.file is None:
        yield well(FAMILY, "file", "there is no endmark.toml; targets are named by their URLs")
        return
    yield well(FAMILY, "file", str(config.file))
    for name, table in config.targets.items():
        if table.review in (None, "none") and table.min_evidence in (None, "bare"):
            said = "whatever is whole is applied at once, with no person and no seal"
            do = 'say review = "required", or min_evidence = "sealed", unless nothing in it matters'
            yield todo(FAMILY, f"targets.{name}", said, do)
    yield from _passwords(config)
    for name in config.mcp.immediate:
        said = "what agents send there by MCP is applied without a person"
        yield todo(FAMILY, f"mcp.immediate {name}", said, "take it out, unless nothing in that target matters")
    yield from _policy(str(config.file))


def _passwords(config: Config) -> Iterator[Finding]:
    """Those that stand in the file. None is repeated."""
    _, document = opened(str(config.file), config.environ)
    for key, url in _urls(document or {}):
        where = _password(url)
        if where is not None:
            do = 'url = "env:NAME" keeps it out; one that others could read is worth a new one'
            yield todo(
                FAMILY, key, f"a password stands in the file, {where}", do.replace("url", key.rpartition(".")[2])
            )


def _urls(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every URL of the file that may lead to a server: (its table, what it says)."""
    targets = document.get("targets", {})
    tables = [(name, document.get(name)) for name in ("ledger", "queue")]
    tables += [(f"targets.{name}", table) for name, table in targets.items()]
    for name, table in tables:
        if isinstance(table, dict):
            for key in ("url", "rehearse_in"):
                if isinstance(table.get(key), str):
                    yield f"{name}.{key}", table[key]


def _password(url: str) -> str | None:
    """Where a URL says a password, or None."""
    if not url.startswith(("postgres", "mariadb:", "mysql:")):
        return None
    before, _, words = url.partition("://")[2].partition("?")
    if ":" in before.rpartition("@")[0]:
        return "before the host"
    names = {name.lower() for name, said in parse_qsl(words) if said}
    held = sorted(names & _SECRET)
    return f"as ?{held[0]}=" if held else None


def _policy(file: str) -> Iterator[Finding]:
    """What 'endmark policy check' says, where the file holds a policy."""
    try:
        raw = files.read(file, policy.MOST_BYTES + 1)
        if b"[branches" not in raw:
            return
        found = weaknesses(policy.read(raw, file))
    except files.Unreadable as fault:
        yield unseen(FAMILY, "policy", f"{fault.name}: {fault.why}", "make it readable")
        return
    except policy.PolicyRefused as refused:
        yield todo(FAMILY, "policy", refused.detail, "mend it; 'endmark policy check' says when it is sound")
        return
    for weak in found:
        if weak.forbids:
            yield todo(FAMILY, weak.where, f"{weak.says} ({weak.why})", weak.instead)
        else:
            yield well(FAMILY, weak.where, f"advice: {weak.says}; {weak.instead}")
    if not found:
        yield well(FAMILY, "policy", "nothing in it is weak")
