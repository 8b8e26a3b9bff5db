"""What a proxy is told to do. Nothing here is read from the environment."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import msgspec

from endmark.drills.faults import Broken, End
from endmark.drills.proxy.outbound import Upstream

DEFAULT_IDLE = 600.0  # seconds; models that think send nothing for minutes


class Guarding(msgspec.Struct, frozen=True, kw_only=True):
    """Judge every model's answer, and let none end that is not proven whole.

    `wire`: how to read answers where the path does not say, or does not say enough. `record`: the folder for a copy of
    each judged answer. `pass_unknown`: pass streams whose format is not known. `allow_close_delimited`: take an answer
    that only the close of its connection ended.
    """

    wire: str | None = None
    record: Path | None = None
    pass_unknown: bool = False
    allow_close_delimited: bool = False


class Faulting(msgspec.Struct, frozen=True, kw_only=True):
    """Break answers. `broken`: how, the same for each; or `sweep`: the kind of fault of which each one gets the next,
    from number `start` on, each `step`-th, and how those `end`.

    `wire`: the format of answers, where neither path nor content type say. `only`: a part of the paths to break.
    """

    broken: Broken | None = None
    sweep: str | None = None
    start: int = 0
    step: int = 1
    end: End = End.POLITE
    wire: str | None = None
    only: str = ""


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """One body that answers every request, instead of an upstream."""

    body: bytes
    content_type: str
    name: str


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """`upstream` or `served`; `guarding`, `faulting` or neither. `log` takes one line, `now` is the clock of records.

    `connect_timeout` and `idle`, the longest silence of the upstream, in seconds.
    """

    upstream: Upstream | None = None
    served: Served | None = None
    guarding: Guarding | None = None
    faulting: Faulting | None = None
    connect_timeout: float = 10.0
    idle: float = DEFAULT_IDLE
    log: Callable[[str], None]
    now: Callable[[], datetime]
