"""The service's log: one JSON object a line on standard error. No header, no body and no token is ever in it."""

from __future__ import annotations

import sys
from typing import Any

import structlog


def logger() -> Any:
    """`log(event, **facts)`."""
    made = structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
            structlog.processors.EventRenamer("event"),
            structlog.processors.JSONRenderer(),
        ],
    )
    return made.msg
