"""The operator's own command, in a process group of its own, with an end to it, and the tail of what it says."""

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import IO

import msgspec

from endmark.core.printable import safe
from endmark.core.refusal import CannotTry, Signal
from endmark.effects.program import end_group
from endmark.effects.target import Failed, Stop

OUTPUT_MAX = 2_000  # bytes of its output that are kept, the last ones
_LOOK = 0.05  # seconds between two looks at `stop`
_HIDDEN = "***"


class Done(msgspec.Struct, frozen=True):
    """How it ended. `exit_code` is None where it was ended, `ended_by` says by whom then: "timeout", "SIGINT"."""

    exit_code: int | None
    ended_by: str | None
    seconds: float
    output: str


def filled(words: Sequence[str], known: Mapping[str, str]) -> tuple[str, ...]:
    """Every `{name}` of something known replaced. No shell is involved, so nothing needs quotes."""
    found = []
    for word in words:
        parts = word.split("{")
        text = parts[0]
        for part in parts[1:]:
            name, brace, rest = part.partition("}")
            text += known[name] + rest if brace and name in known else "{" + part
        found.append(text)
    return tuple(found)


def run(
    arguments: Sequence[str], environ: Mapping[str, str], timeout: float, secrets: Sequence[str], stop: Stop
) -> Done:
    """Run it to its end, or end it with everything it started. `timeout`: seconds. `secrets` are not in the output.

    Raises CannotTry where it cannot be started.
    """
    since = time.monotonic()
    ended_by = None
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                list(arguments),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environ),
                start_new_session=True,
            )
        except (OSError, ValueError) as fault:
            raise CannotTry(f"the backup command {arguments[0]} cannot be run: {fault}. Nothing was written.") from None
        try:
            while process.poll() is None:
                if time.monotonic() - since > timeout:
                    ended_by = "timeout"
                    break
                if (by := stop()) is not None:
                    ended_by = by
                    break
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK)
        finally:
            end_group(process)
        code = None if ended_by is not None else process.returncode
        return Done(code, ended_by, time.monotonic() - since, _tail(output, secrets))


def check(done: Done, program: str) -> None:
    """Go on only after a command that ended well. Raises Failed when interrupted, else CannotTry."""
    if done.ended_by == "timeout":
        raise CannotTry(f"the backup command {program} was ended after {done.seconds:.0f} s. Nothing was written.")
    if done.ended_by is not None:
        raise Failed(Signal.INTERRUPTED, f"{done.ended_by} during the backup; nothing was written")
    if done.exit_code != 0:
        last = next((line for line in reversed(done.output.splitlines()) if line.strip()), "")
        said = f": {last}" if last else ""
        raise CannotTry(f"the backup command {program} ended with {done.exit_code}{said}. Nothing was written.")


def _tail(output: IO[bytes], secrets: Sequence[str]) -> str:
    # A secret that begins before what is kept would be cut and not be found: read as much more.
    longest = max((len(secret.encode()) for secret in secrets), default=0)
    size = os.fstat(output.fileno()).st_size
    output.seek(max(0, size - OUTPUT_MAX - longest))
    text = output.read(OUTPUT_MAX + longest).decode("utf-8", "backslashreplace")
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, _HIDDEN)
    return "\n".join(safe(line) for line in text[-OUTPUT_MAX:].splitlines())
