"""Reads the vector files. What it does not know it refuses, so that no vector passes by not being understood."""

from dataclasses import dataclass
from pathlib import Path

from endmark.core import binding
from endmark.core.evidence import LEVELS
from endmark.core.mc1 import DEFAULT_CAP
from endmark.core.refusal import Signal

FOLDER = Path(__file__).parents[1] / "vectors"
FORMS = {"plan", "witness", "verdict", "body", "object", "sealed", "digest"}
FOLDERS = ("json", "mc1", "plan", "witness", "verdict", "digest", "fingerprint")  # others have readers of their own
KEYS = {"expect", "comment", "rule", "received", "expected", "as", "cap", "evidence", "sealed", "sha256"}
AS = {"bytes", "json", "witness", "seal", "statements", "schema-rows", "schema-sql"}


@dataclass(frozen=True)
class Vector:
    """One file: its header, and the bytes after the first blank line."""

    name: str
    header: dict[str, str]
    raw: bytes

    @property
    def expect(self) -> str:
        return self.header["expect"]

    @property
    def accepted(self) -> bool:
        return self.expect in FORMS

    @property
    def read_as(self) -> str:
        return self.header.get("as", "bytes")

    @property
    def marks(self) -> list[str] | None:
        kind, _, marks = self.read_as.partition(":")
        return marks.split(",") if kind == "verdict-with-marks" else None

    @property
    def wanted(self) -> binding.Wanted | None:
        """What a verdict must be bound to, with `as: decision:LEVEL,DIFF,POLICY` and perhaps marks after that."""
        kind, _, words = self.read_as.partition(":")
        if kind != "decision":
            return None
        level, diff_sha, policy_version, *marks = words.split(",")
        least = LEVELS[level]
        return binding.Wanted(diff_sha=diff_sha, policy_version=policy_version, marks=marks or None, min_evidence=least)

    @property
    def cap(self) -> int:
        return int(self.header.get("cap", DEFAULT_CAP))

    @property
    def expected(self) -> int | None:
        return int(self.header["expected"]) if "expected" in self.header else None


def parse(name: str, content: bytes) -> Vector:
    """The vector that the content of a file spells. Raises ValueError."""
    head, blank, raw = content.partition(b"\n\n")
    header: dict[str, str] = {}
    for line in head.decode().split("\n"):
        key, colon, value = line.partition(": ")
        if not colon or not value or key not in KEYS or key in header:
            raise ValueError(f"{name}: the header line {line!r} is not known")
        header[key] = value
    vector = Vector(name, header, raw)
    if not blank or "comment" not in header or "rule" not in header or int(header["received"]) != len(raw):
        raise ValueError(f"{name}: no blank line, comment or rule, or other bytes than it says")
    if vector.expect not in FORMS | {signal.value for signal in Signal}:
        raise ValueError(f"{name}: the answer {vector.expect!r} is not known")
    if vector.read_as not in AS and vector.marks is None and vector.wanted is None:
        raise ValueError(f"{name}: {vector.read_as!r} is no way to read bytes")
    return vector


def load(*folders: str) -> list[Vector]:
    """Every vector, or those of some folders."""
    files = [path for folder in folders or FOLDERS for path in sorted((FOLDER / folder).iterdir())]
    return [parse(f"{path.parent.name}/{path.name}", path.read_bytes()) for path in files]
