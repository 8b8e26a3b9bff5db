"""Values of the kind that a wire expects at a place, or `refuse`: null and absent are the same here."""

from typing import Any

from endmark.core.refusal import Signal
from endmark.core.strictjson import short
from endmark.wires.framing import refuse


def an_object(value: Any, what: str) -> dict[str, Any]:
    """An object; {} for none."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        refuse(Signal.WRONG_TYPE, lambda: f"{what} is {short(value)}, an object was expected")
    return value


def a_list(value: Any, what: str) -> list[Any]:
    """A list; [] for none."""
    if value is None:
        return []
    if not isinstance(value, list):
        refuse(Signal.WRONG_TYPE, lambda: f"{what} is {short(value)}, a list was expected")
    return value


def a_string(value: Any, what: str) -> str:
    """A string; "" for none."""
    if value is None:
        return ""
    if not isinstance(value, str):
        refuse(Signal.WRONG_TYPE, lambda: f"{what} is {short(value)}, a string was expected")
    return value


def an_index(value: Any, what: str, end: int) -> int:
    """A whole number from 0 to before `end`."""
    if type(value) is not int or not 0 <= value < end:
        refuse(Signal.WRONG_COUNT, lambda: f"{what} is {short(value)}, where there are {end}")
    return value


def a_count(value: Any) -> int | None:
    """Tokens counted; None for anything that is no count."""
    return value if type(value) is int and value >= 0 else None
