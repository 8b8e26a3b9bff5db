"""`[service]` of endmark.toml: where the service listens, and how much of anybody it takes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from endmark.core import mc1
from endmark.faces.config import Config
from endmark.faces.misuse import Misuse


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes in bytes, times in seconds, rates in requests a second.

    `max_body`: one request's body, and what is in it once decoded. `max_in_flight`: all bodies together that are being
    read or written down. `max_reviews`: changes that reviewers are asked about at once.
    `idle_timeout`: between two pieces of a body; `body_timeout`: for the whole of it;
    `header_timeout`: for a request's head. `rate` and `burst`: of one token, or of one address where there are none.
    `drain_timeout`: for what is being answered or applied when the service is told to end. `worker`: apply in this
    process; the default where there is no `[queue]`. `drills`: the folder with the reports of drills; `repository`: the
    one whose diffs are shown; both as seen from the configuration's folder.
    """

    host: str = "127.0.0.1"
    port: int = 8790
    max_body: int = mc1.DEFAULT_CAP
    max_in_flight: int = 4 * mc1.DEFAULT_CAP
    max_uploads: int = 2048
    max_connections: int = 4096
    max_watchers: int = 512
    max_reviews: int = 8
    header_timeout: float = 10.0
    idle_timeout: float = 15.0
    body_timeout: float = 300.0
    rate: float = 200.0
    burst: int = 1000
    drain_timeout: float = 30.0
    worker: bool = True
    drills: str | None = None
    repository: str | None = None

    def __post_init__(self) -> None:
        for name in ("header_timeout", "idle_timeout", "body_timeout", "drain_timeout", "rate"):
            if not 0 < getattr(self, name) < math.inf:
                raise ValueError(f"{name}: {getattr(self, name)} is not a number above zero")
        for name in (
            "max_body",
            "max_in_flight",
            "max_uploads",
            "max_connections",
            "max_watchers",
            "max_reviews",
            "burst",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: {getattr(self, name)} is not a number above zero")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port: {self.port} is no port")


def settings_of(config: Config, **flags: Any) -> Settings:
    """What the table says, and flags over it; None is no flag. Raises Misuse."""
    where = f"{config.file}: service"
    if not isinstance(config.service, dict) and config.service:
        raise Misuse(f"{where} is not a table; [service] was expected.")
    said = {"worker": config.queue is None} | dict(config.service)
    given = said | {name: value for name, value in flags.items() if value is not None}
    try:
        return msgspec.convert(given, Settings)
    except msgspec.ValidationError as fault:
        what, _, path = str(fault).partition(" - at `$")
        raise Misuse(f"{where}{path.rstrip('`')}: {what[:1].lower()}{what[1:]}.") from None


def wants_traces(environ: Mapping[str, str]) -> bool:
    """Whether the standard variables of OpenTelemetry ask for traces: an endpoint, or OTEL_TRACES_EXPORTER=otlp."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    ends = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
    return environ.get("OTEL_TRACES_EXPORTER") == "otlp" or any(environ.get(name) for name in ends)
