"""What a guard keeps of each judged answer: the raw bytes as they came, and beside them a small JSON about them.

No header and no query is written: keys stand there. Only the owner can read the files; under their final names they
are complete.
"""

import hashlib
import os
import tempfile
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from endmark.core import strictjson
from endmark.core.refusal import Refused
from endmark.drills.proxy.heads import Answer, Request


class Record:
    """One answer. Every call may raise OSError; then `drop` what there is."""

    def __init__(self, folder: Path, at: datetime) -> None:
        self._folder = folder
        handle, name = tempfile.mkstemp(prefix=".endmark-", suffix=".part", dir=folder)  # readable by the owner alone
        self._part = Path(name)
        self._file = os.fdopen(handle, "wb")
        self._stem = f"{at:%Y%m%dT%H%M%S%f}Z-{self._part.name.removeprefix('.endmark-').removesuffix('.part')}"
        self._digest = hashlib.sha256()
        self._bytes = 0
        self._facts: dict[str, Any] = {"version": 1, "at": at.isoformat(timespec="microseconds").replace("+00:00", "Z")}

    def about(self, wire: str, request: Request, head: Answer) -> None:
        """What is asked, and how it is answered."""
        self._facts |= {
            "wire": wire,
            "method": request.method,
            "path": request.path,
            "status": head.status,
            "content_type": head.get(b"content-type"),
            "content_encoding": head.get(b"content-encoding"),
            "declared_bytes": head.length,
        }

    def add(self, data: bytes) -> None:
        """The next raw bytes of the body."""
        self._bytes += len(data)
        self._digest.update(data)
        self._file.write(data)

    def judged(self, evidence: tuple[str, ...], refused: Refused | None) -> None:
        """What the judgement was."""
        self._facts |= {
            "whole": refused is None,
            "evidence": list(evidence),
            "signal": None if refused is None else refused.signal.value,
            "detail": "" if refused is None else refused.detail,
        }

    def close(self, *, ending: str, passed: int, why: str) -> None:
        """Complete both files and give them their names."""
        self._facts |= {
            "ending": ending,
            "received_bytes": self._bytes,
            "passed_bytes": passed,
            "sha256": self._digest.hexdigest(),
        }
        if why:
            self._facts["ended_early"] = why
        raw = self._folder / f"{self._stem}.raw"
        self._file.close()
        about = self._part.with_suffix(".json.part")
        with os.fdopen(os.open(about, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(strictjson.dumps(self._facts) + b"\n")
        self._part.rename(raw)
        about.rename(raw.with_suffix(".json"))

    def drop(self) -> None:
        """Leave nothing behind."""
        for part in (self._part, self._part.with_suffix(".json.part")):
            with suppress(OSError):
                part.unlink()
        with suppress(OSError):
            self._file.close()
