"""The configuration: what of it is weak."""

from collections.abc import Iterator

from endmark.core import policy
from endmark.core.weaknesses import weaknesses
from endmark.faces.doctor.finding import Case, Finding, todo, unseen, well
from endmark.sources import files

FAMILY = "configuration"


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
        if table.url.startswith(("postgres", "mariadb:", "mysql:")) and "@" in table.url and _password(table.url):
            do = 'url = "env:NAME" keeps it out'
            yield todo(FAMILY, f"targets.{name}", "a password stands in the file", do)
    for name in config.mcp.immediate:
        said = "what agents send there by MCP is applied without a person"
        yield todo(FAMILY, f"mcp.immediate {name}", said, "take it out, unless nothing in that target matters")
    yield from _policy(str(config.file))


def _password(url: str) -> bool:
    return ":" in url.partition("://")[2].rpartition("@")[0]


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
