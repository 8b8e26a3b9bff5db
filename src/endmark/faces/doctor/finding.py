"""What a check found."""

from enum import StrEnum

import msgspec

from endmark.core.refusal import CannotTry
from endmark.faces.config import Config


class Level(StrEnum):
    """How it stands."""

    WELL = "well"
    TODO = "todo"
    UNSEEN = "could-not-look"


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at: `says` what was found, `do` what to do about it (empty where nothing is)."""

    family: str
    what: str
    level: Level
    says: str
    do: str = ""


class Case(msgspec.Struct, frozen=True):
    """What is looked at: the settings, and the repository whose hooks are, None for none."""

    config: Config
    repository: str | None


def well(family: str, what: str, says: str) -> Finding:
    return Finding(family, what, Level.WELL, says)


def todo(family: str, what: str, says: str, do: str) -> Finding:
    return Finding(family, what, Level.TODO, says, do)


def unseen(family: str, what: str, fault: CannotTry | str, do: str) -> Finding:
    says = fault.detail if isinstance(fault, CannotTry) else fault
    return Finding(family, what, Level.UNSEEN, says, do)
