"""ALTERs of one table put together as one statement, which is atomic here where several are not.

The text of each is kept word for word; only the heads after the first become commas. What is no ALTER TABLE of known
simple actions, on parts of the table that no other of them touches, is left alone and said. Whether the schema comes
out alike both ways is for a rehearsal to tell.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from endmark.effects.destroys import parse
from endmark.effects.mariadb.guard import Does, Judged
from endmark.effects.mariadb.lexer import Kind, Unreadable, has_comment, tokens
from endmark.effects.target import Merge

_HEAD = re.compile(r"[ \t\n\v\f\r]*ALTER[ \t\n\v\f\r]+TABLE[ \t\n\v\f\r]*(`(?:[^`]|``)+`|\w+)(?=[ \t\n\v\f\r])", re.I)
_BLANK = " \t\n\v\f\r"
_LONGEST = 20_000  # characters of one ALTER; the parser is slow
# By sqlglot's names. TIMESTAMP and SERIAL are not here: on their own they fill rows by the clock or a counter.
_TYPES = frozenset(
    {"TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "UTINYINT", "USMALLINT", "UMEDIUMINT", "UINT", "UBIGINT"}
    | {"DECIMAL", "UDECIMAL", "FLOAT", "DOUBLE", "UDOUBLE", "BIT", "BOOLEAN", "YEAR", "DATE", "DATETIME", "TIME"}
    | {"CHAR", "NCHAR", "VARCHAR", "NVARCHAR", "TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT", "ENUM", "SET", "JSON"}
    | {"BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"}
)


class NotSimple(Exception):
    """A statement that is not put together with others. `str()` completes `statement N ...`."""


class _Part(msgspec.Struct, frozen=True):
    """One ALTER: its table in lower case and as spelled, the text after that, what it touches and what it leans on."""

    table: str
    spelled: str
    rest: str
    touches: frozenset[tuple[str, str]]
    leans_on: frozenset[str]  # columns of its keys and checks
    adds: frozenset[str]  # columns that are new
    actions: tuple[Any, ...]


class _Open(msgspec.Struct):
    numbers: list[int]
    ups: list[_Part]
    downs: list[_Part]


def put_together(
    statements: Sequence[tuple[str, Judged]], downs: Sequence[tuple[str, Judged]] | None
) -> tuple[tuple[Merge, ...], tuple[str, ...]]:
    """What can be put together, and why other ALTERs of a table that occurs twice cannot.

    A statement moves up to the first of its table only past statements about the schema that do not name the table.
    """
    tables = [_table(text) for text, _judged in statements]
    many = {table for table in tables if table is not None and tables.count(table) > 1}
    groups: list[_Open] = []
    at_hand: dict[str, _Open] = {}
    apart: list[str] = []
    passed: dict[str, int] = {}  # the statement past which none of a table may go any more
    for n, (text, judged) in enumerate(statements, 1):
        table = tables[n - 1]
        down = None if downs is None else downs[n - 1]
        for name in _kept_from_moving(at_hand, table, judged, down):
            del at_hand[name]
            passed[name] = n
        if table not in many or table is None:
            continue
        try:
            up = _read(text, table)
            back = None if down is None else _read_down(down[0], table)
        except NotSimple as why:
            apart.append(f"statement {n} {why}")
            at_hand.pop(table, None)
            passed.pop(table, None)
            continue
        if (there := passed.pop(table, None)) is not None:
            apart.append(
                f"statement {n} would have to move past statement {there}, which changes rows or names {table}"
            )
        group = at_hand.get(table)
        if group is not None and (clash := _clash(group, up, back)):
            apart.append(f"statement {n} {clash}")
            group = None
        if group is None:
            group = at_hand[table] = _Open([], [], [])
            groups.append(group)
        group.numbers.append(n)
        group.ups.append(up)
        group.downs += [] if back is None else [back]
    return tuple(_merged(group) for group in groups if len(group.numbers) > 1), tuple(apart)


def plan_of(
    statements: Sequence[str], downs: Sequence[str] | None, merges: Sequence[Merge]
) -> tuple[list[str], list[str] | None]:
    """The statements, and the downs, of the plan with each merge at the place of its first statement."""
    first = {merge.numbers[0]: merge for merge in merges}
    gone = {n for merge in merges for n in merge.numbers[1:]}
    ups, backs = [], []
    for n, text in enumerate(statements, 1):
        if n in gone:
            continue
        merge = first.get(n)
        ups.append(text if merge is None else merge.statement)
        if downs is not None:
            backs.append(downs[n - 1] if merge is None or merge.down is None else merge.down)
    return ups, None if downs is None else backs


def _kept_from_moving(
    at_hand: dict[str, _Open], table: str | None, judged: Judged, down: tuple[str, Judged] | None
) -> Iterator[str]:
    """The tables past whose statements this one does not let others go."""
    rows = judged.does is not Does.SCHEMA or (down is not None and down[1].does is not Does.SCHEMA)
    named = judged.names | (down[1].names if down is not None else frozenset())
    for name in list(at_hand):
        if rows or (name != table and name in named):
            yield name


def _table(text: str) -> str | None:
    """The table of an `ALTER TABLE name ...`, in lower case; None for every other statement."""
    try:
        head = tokens(text)[:3]
    except Unreadable:
        return None
    if len(head) == 3 and head[0].is_word("alter") and head[1].is_word("table") and head[2].is_name:
        return head[2].text
    return None


def _read_down(text: str, table: str) -> _Part:
    try:
        return _read(text, table)
    except NotSimple as why:
        raise NotSimple(f"has a down that {why}") from None


def _read(text: str, table: str) -> _Part:
    """Raises NotSimple."""
    if len(text) > _LONGEST:
        raise NotSimple(f"is longer than {_LONGEST:,} characters")
    if has_comment(text):
        raise NotSimple("holds a comment, which would be lost or stand for other words")
    head = _HEAD.match(text)
    if head is None or _table(text) != table:
        raise NotSimple(f"is no ALTER TABLE {table}")
    rest = text[head.end() :].strip(_BLANK + ";")  # no comment and no open quote: nothing else can end so
    actions = _actions(text)
    touches: set[tuple[str, str]] = set()
    leans: set[str] = set()
    adds: set[str] = set()
    for action in actions:
        for touched in _touched(action, leans, adds):
            if touched in touches:
                raise NotSimple(f"names {touched[1]} twice")
            touches.add(touched)
    return _Part(table, head[1], rest, frozenset(touches), frozenset(leans), frozenset(adds), actions)


def _actions(text: str) -> tuple[Any, ...]:
    """The actions of exactly one ALTER TABLE without options. Raises NotSimple."""
    from sqlglot import expressions as sql

    why = "is not one that can be read as a list of simple changes"
    try:
        parsed = parse(text, "mysql")
    except Exception:  # noqa: BLE001  # a parser's bug, whatever it is: then there is no offer
        raise NotSimple(why) from None
    if len(parsed) != 1 or not isinstance(parsed[0], sql.Alter):
        raise NotSimple(why)
    given = {name for name, value in parsed[0].args.items() if value}
    if given != {"this", "kind", "actions"} or parsed[0].args["kind"] != "TABLE":
        raise NotSimple(why)
    return tuple(parsed[0].args["actions"])


def _touched(action: Any, leans: set[str], adds: set[str]) -> Iterator[tuple[str, str]]:
    """What an action changes; fills the columns it leans on and those it adds. Raises NotSimple for any not known."""
    from sqlglot import expressions as sql

    match action:
        case sql.ColumnDef():
            _check_column(action)
            adds.add(action.name.lower())
            yield "column", action.name.lower()
        case sql.ModifyColumn():
            _check_column(action.this)
            names = {action.this.name.lower()}
            if (former := action.args.get("rename_from")) is not None:
                names.add(former.name.lower())
            yield from (("column", name) for name in names)
        case sql.RenameColumn() if not action.args.get("exists"):
            yield from (("column", part.name.lower()) for part in (action.this, action.args["to"]))
        case sql.DropPrimaryKey():
            yield "key", "primary"
        case sql.Drop() if not action.args.get("exists") and not action.args.get("cascade"):
            kind = {"COLUMN": "column", "INDEX": "key", "CONSTRAINT": "key", "FOREIGN KEY": "key"}.get(
                str(action.args.get("kind"))
            )
            if kind is None or len(action.args["tables"]) != 1:
                raise NotSimple("drops something that is not known here")
            yield kind, action.args["tables"][0].name.lower()
        case sql.AddConstraint() if len(action.expressions) == 1:
            leans |= {column.name.lower() for column in action.find_all(sql.Column)}
            yield from _key(action.expressions[0], leans)
        case _:
            raise NotSimple("has a change that is not known here")


def _key(found: Any, leans: set[str]) -> Iterator[tuple[str, str]]:
    from sqlglot import expressions as sql

    match found:
        case sql.IndexColumnConstraint():
            name = found.this.name if found.this is not None else ""
        case sql.UniqueColumnConstraint() if isinstance(found.this, sql.Schema):
            name = found.this.name
        case sql.PrimaryKey():
            name = "primary"
        case sql.Constraint() if len(found.expressions) == 1:
            name, only = found.name, found.expressions[0]
            if not isinstance(only, sql.ForeignKey | sql.CheckColumnConstraint):
                raise NotSimple("adds a constraint that is not known here")
            if isinstance(only, sql.ForeignKey):
                leans |= {column.name.lower() for column in only.expressions}
        case _:
            raise NotSimple("adds a key that is not known here")
    if not name:  # the server would find one, by what is there at that moment
        raise NotSimple("adds a key without a name")
    if isinstance(found, sql.PrimaryKey):
        leans |= {column.name.lower() for column in found.expressions}
    yield "key", name.lower()


def _check_column(column: Any) -> None:
    """Only what fills rows the same way whenever it runs: no expression, no counter, no clock. Raises NotSimple."""
    from sqlglot import expressions as sql

    if not isinstance(column, sql.ColumnDef) or column.args.get("exists") or column.args.get("kind") is None:
        raise NotSimple("has a column that is not known here")
    if not isinstance(column.args["kind"], sql.DataType) or column.args["kind"].this.name not in _TYPES:
        raise NotSimple("has a column of a type that is not known here")
    known = (
        sql.NotNullColumnConstraint,
        sql.CommentColumnConstraint,
        sql.CharacterSetColumnConstraint,
        sql.CollateColumnConstraint,
    )
    for constraint in column.args.get("constraints") or ():
        kind = constraint.args.get("kind")
        if isinstance(kind, sql.DefaultColumnConstraint):
            value = kind.this.this if isinstance(kind.this, sql.Neg) else kind.this
            if isinstance(value, sql.Literal | sql.Null | sql.Boolean):
                continue
            raise NotSimple("has a column with a default that is computed")
        if not isinstance(kind, known):
            raise NotSimple("has a column of a kind that is not known here")


def _clash(group: _Open, up: _Part, down: _Part | None) -> str | None:
    """Why one more part does not go with those of a group: one thing may be changed by one of them."""
    spelled = _named(group.ups[0].spelled)
    if any(part is not None and _named(part.spelled) != spelled for part in (up, down, *group.downs)):
        return "spells the name of its table in another way"  # to some servers that is another table
    for parts, one in ((group.ups, up), (group.downs, down)):
        if one is None:
            continue
        added = frozenset().union(*(part.adds for part in parts)) | one.adds
        for part in parts:
            if both := part.touches & one.touches:
                return f"changes {min(name for _kind, name in both)}, as another of them does"
            for first, second in ((part, one), (one, part)):
                changed = {name for kind, name in first.touches if kind == "column"} - added
                if leant := changed & second.leans_on:
                    return f"has a key over {min(leant)}, which another of them changes"
    return None


def _merged(group: _Open) -> Merge:
    ups, downs = group.ups, group.downs[::-1]
    return Merge(_named(ups[0].spelled), tuple(group.numbers), _join(ups), _join(downs) if downs else None)


def _named(spelled: str) -> str:
    return spelled[1:-1].replace("``", "`") if spelled.startswith("`") else spelled


def _join(parts: Sequence[_Part]) -> str:
    """One ALTER of many, which has to read as exactly their words and actions. Raises RuntimeError: our own mistake."""
    joined = f"ALTER TABLE {parts[0].spelled} " + ", ".join(part.rest for part in parts)
    words = [(token.kind, token.text) for token in tokens(joined)]
    expected = [(token.kind, token.text) for token in tokens(f"ALTER TABLE {parts[0].spelled}")]
    for at, part in enumerate(parts):
        expected += [(Kind.SIGN, ",")] if at else []
        expected += [(token.kind, token.text) for token in tokens(part.rest)]
    if words != expected or _actions(joined) != tuple(action for part in parts for action in part.actions):
        raise RuntimeError("several ALTERs do not read as their parts when they are put together")
    return joined
