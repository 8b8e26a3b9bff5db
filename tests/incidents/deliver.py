"""A process that delivers: `python -m tests.incidents.deliver LEDGER URL POINT FILE|-`.

It reads the whole payload, applies it and exits with the outcome's code. At POINT it kills itself with SIGKILL: a
number is after that many statements; "run" before the first, "ran" after the last with its receipt, "committed" after
the commit and before the ledger knows. `-` is never.
"""

import os
import signal
import sys
from pathlib import Path

from tests.incidents.tapped import Tapped

from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry, Refused
from endmark.faces.api import Gate


def main(ledger: str, url: str, point: str, source: str) -> int:
    def tap(here: str) -> None:
        if here == point:
            os.kill(os.getpid(), signal.SIGKILL)

    raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    try:
        with Gate(ledger, progress=lambda done, _total: tap(str(done))) as gate:
            target = Tapped(url, tap)
            return gate.submit(raw, target=target, seal=True).apply(target).exit_code
    except Refused as refused:
        outcome = refused.outcome
        return outcome.exit_code if isinstance(outcome, Outcome) else 70
    except CannotTry:
        return 20


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
