"""Puts a mutant into the modules that are loaded: the code of one function is exchanged wherever it is referred to."""

import gc
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType
from typing import NamedTuple

from tests.mutation.checks import Mutant, mutated

_OPTIMIZED = 1  # CO_OPTIMIZED: a function's code and not a class body's


class Place(NamedTuple):
    """Where a function's code was written."""

    file: str
    name: str
    line: int


def place_of(code: CodeType) -> Place:
    return Place(code.co_filename, code.co_qualname, code.co_firstlineno)


def living(folder: Path) -> dict[Place, list[FunctionType]]:
    """Every function that is loaded from a file in `folder`. To be asked once, before the process is forked."""
    found: dict[Place, list[FunctionType]] = {}
    for thing in gc.get_objects():
        if type(thing) is FunctionType and thing.__code__.co_filename.startswith(f"{folder}/"):
            found.setdefault(place_of(thing.__code__), []).append(thing)
    return found


def weakened(file: Path, source: str, mutant: Mutant) -> list[tuple[Place, CodeType]]:
    """The functions whose code differs once `mutant` is put into `source`, with their new code; none if none does."""
    before = compile(source, str(file), "exec", dont_inherit=True)
    after = compile(mutated(source, mutant), str(file), "exec", dont_inherit=True)
    return list(_changed(before, after))


def put(changes: list[tuple[Place, CodeType]], functions: dict[Place, list[FunctionType]]) -> int:
    """How many functions got their new code: 0 means that the module, or the function, is not loaded."""
    done = 0
    for place, code in changes:
        for function in functions.get(place, ()):
            function.__code__ = code
            done += 1
    return done


def _changed(before: CodeType, after: CodeType) -> Iterator[tuple[Place, CodeType]]:
    for old, new in zip(_codes(before), _codes(after), strict=True):
        if old == new:
            continue
        if old.co_flags & _OPTIMIZED:
            yield place_of(old), new
        else:
            yield from _changed(old, new)


def _codes(code: CodeType) -> list[CodeType]:
    return [constant for constant in code.co_consts if isinstance(constant, CodeType)]
