"""How the book's rules are written in SQL: triggers that refuse, and lists that they look things up in."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from endmark.core.refusal import Signal

_Word = TypeVar("_Word", bound=StrEnum)


def words(*of: str) -> str:
    """The words as a list of SQL strings."""
    return ", ".join(f"'{word}'" for word in of)


def unlisted(value: str, *of: str) -> str:
    """1 unless `value` is one of the words, also for NULL. (IN would build its list anew for every row.)"""
    cases = " ".join(f"WHEN '{word}' THEN 0" for word in of)
    return f"CASE {value} {cases} ELSE 1 END"


def illegal(moves: Mapping[_Word, Sequence[_Word]]) -> str:
    """1 unless OLD.state > NEW.state is one of `moves`."""
    return unlisted(
        "OLD.state || '>' || NEW.state", *(f"{state}>{onward}" for state, legal in moves.items() for onward in legal)
    )


UNKNOWN_SIGNAL = unlisted("NEW.signal", *Signal)


def rule(name: str, says: str, when: str, condition: str | None = None) -> str:
    """A trigger that refuses what it fires on, where the condition holds."""
    body = f"WHEN {condition}\n" if condition else ""
    return f"CREATE TRIGGER {name} {when}\n{body}BEGIN SELECT RAISE(ABORT, '{says}'); END"
