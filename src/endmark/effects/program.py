"""Ending a program that was started in a group of its own, with everything it started."""

import contextlib
import os
import signal
import subprocess
from typing import Any


def end_group(process: "subprocess.Popen[Any]") -> None:
    """Kill the group and wait for the program. Raises nothing; one that has ended is waited for."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
