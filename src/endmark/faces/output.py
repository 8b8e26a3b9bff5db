"""The one result, to standard output: all of it, or an exit code that says it did not arrive."""

import os
import sys
from contextlib import suppress

from endmark.faces.terminal import say

OUR_FAULT = 70


def write(data: bytes) -> None:
    """Write and flush all of `data`. Raises OSError."""
    if sys.stdout is None:
        raise OSError("standard output is closed")
    sys.stdout.flush()
    rest = memoryview(data)
    while rest:  # unbuffered, one write may take a part
        rest = rest[sys.stdout.buffer.write(rest) :]
    sys.stdout.buffer.flush()


def give_up(fault: OSError, what: str = "") -> int:
    """Say that the result could not be written, and what it was, and return the exit code for that.

    A reader that closed its pipe has seen enough: nothing is said then.
    """
    if not isinstance(fault, BrokenPipeError):
        say(f"endmark: the result could not be written: {fault.strerror or fault}. {what}".rstrip())
    # What Python still holds back must not fail once more while it exits.
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    return OUR_FAULT
