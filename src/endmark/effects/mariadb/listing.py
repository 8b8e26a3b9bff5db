"""The rows under the fingerprint as objects that people can read."""

from collections.abc import Iterable, Iterator

from endmark.core.schemadiff import Item
from endmark.effects.mariadb.fingerprint import Row

_KEYS = ("PRIMARY KEY", "UNIQUE KEY", "KEY", "FULLTEXT KEY", "SPATIAL KEY")


def items(found: Iterable[Row]) -> list[Item]:
    """The rows of `describe` as a listing."""
    return [item for row in found for item in _of(row)]


def _of(row: Row) -> Iterator[Item]:
    kind, name, *rest = (field.replace("\0", "") for field in row)
    if kind == "table":
        yield from _table(name, rest[0].split("\n"))
    elif kind == "trigger":
        table, timing, event, order, body, mode = rest
        lines = (f"{timing} {event} ON {table}", *body.splitlines(), f"order {order}", f"sql_mode {mode}")
        yield Item(kind, name, lines, table)
    elif kind == "routine":
        what, returns, body, *flags = rest
        head = f"RETURNS {returns}" if returns else ""
        yield Item(what.lower(), name, tuple(filter(None, (head, *body.splitlines(), " ".join(filter(None, flags))))))
    elif kind == "parameter":
        what, place, *words = rest
        yield Item("parameter", f"{name} {place}", (" ".join(filter(None, [what.lower(), *words])),))
    elif kind == "database":
        yield Item(kind, "defaults", (f"{name} {' '.join(rest)}",))
    else:
        yield Item(kind, name, tuple(line for field in rest for line in field.splitlines()))


def _table(name: str, text: list[str]) -> Iterator[Item]:
    """A table, its columns, keys and constraints, as SHOW CREATE TABLE gives them one a line."""
    own: list[str] = []
    for line in text[1:]:
        part = line.strip().rstrip(",")
        if part.startswith("`"):
            column, definition = _quoted(part)
            yield Item("column", f"{name}.{column}", (definition,), name)
        elif part.startswith(_KEYS):
            yield Item("index", f"{name}.{_named(part)}", (part,), name)
        elif part.startswith("CONSTRAINT "):
            yield Item("constraint", f"{name}.{_named(part)}", (part,), name)
        else:
            own.append(part)
    yield Item("table", name, tuple(own), name)


def _quoted(text: str) -> tuple[str, str]:
    """The name in backticks that a text begins with, and the rest."""
    at = 1
    while text[at : at + 1] != "`" or text[at + 1 : at + 2] == "`":
        at += 2 if text[at : at + 2] == "``" else 1
        if at > len(text):
            return text, ""
    return text[1:at].replace("``", "`"), text[at + 1 :].strip()


def _named(text: str) -> str:
    head, tick, rest = text.partition("`")
    return "PRIMARY" if head.startswith("PRIMARY") or not tick else _quoted(tick + rest)[0]
