"""Every statement of a plan judged before any of them runs."""

from collections.abc import Sequence

from endmark.core.refusal import Signal
from endmark.effects.mariadb.connection import Conn, rows
from endmark.effects.mariadb.guard import Denied, Judged, judge
from endmark.effects.target import Failed

Judgements = list[tuple[str, Judged]]


def databases_of(conn: Conn) -> frozenset[str]:
    """The names of the server's databases that this account sees, in lower case. Raises pymysql's errors."""
    return frozenset(str(row[0]).lower() for row in rows(conn, "SHOW DATABASES"))


def judge_all(texts: Sequence[str], who: str, databases: frozenset[str]) -> Judgements:
    """Every statement with what it does; `who` names one of them. Raises Failed."""
    found = []
    for n, text in enumerate(texts, 1):
        try:
            found.append((text, judge(text, databases)))
        except Denied as denied:
            raise Failed(Signal.FORBIDDEN_STATEMENT, f"{who} {n} {denied}", n) from None
    return found
