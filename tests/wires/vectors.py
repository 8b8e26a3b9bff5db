"""Reads the vector files of the wires. What it does not know it refuses."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endmark.core import strictjson
from endmark.core.ending import Ending
from endmark.core.refusal import Signal
from endmark.wires.answer import Reader
from endmark.wires.framing import DEFAULT_CAP
from endmark.wires.names import NAMES, reader

FOLDER = Path(__file__).parents[1] / "vectors" / "wires"
REQUIRED = {"expect", "comment", "rule", "wire", "ending", "received"}
OPTIONS = {"max-output-tokens", "stop-sequences", "allow-close-delimited", "cap", "ended-only", "choices"}
KEYS = REQUIRED | OPTIONS | {"evidence", "answer"}


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
        return self.expect == "answer"

    @property
    def ending(self) -> Ending:
        return Ending(self.header["ending"])

    @property
    def answer(self) -> dict[str, Any]:
        return strictjson.loads(self.header["answer"].encode())

    def reader(self) -> Reader:
        cap = self.header.get("max-output-tokens")
        return reader(
            self.header["wire"],
            max_output_tokens=None if cap is None else int(cap),
            stop_sequences=self.header.get("stop-sequences") == "yes",
            allow_close_delimited=self.header.get("allow-close-delimited") == "yes",
            cap=int(self.header.get("cap", DEFAULT_CAP)),
            ended_only=self.header.get("ended-only") == "yes",
            choices=int(self.header.get("choices", 1)),
        )


def parse(name: str, content: bytes) -> Vector:
    """The vector that the content of a file spells. Raises ValueError."""
    head, blank, raw = content.partition(b"\n\n")
    header: dict[str, str] = {}
    for line in head.decode().split("\n"):
        key, colon, value = line.partition(": ")
        if not colon or not value or key not in KEYS or key in header:
            raise ValueError(f"{name}: the header line {line!r} is not known")
        header[key] = value
    if not blank or REQUIRED - header.keys() or int(header["received"]) != len(raw):
        raise ValueError(f"{name}: no blank line, a line is missing, or other bytes than it says")
    if header["expect"] not in {"answer"} | {signal.value for signal in Signal}:
        raise ValueError(f"{name}: the answer {header['expect']!r} is not known")
    if (header["expect"] == "answer") != ("answer" in header) or header["wire"] not in NAMES:
        raise ValueError(f"{name}: no answer, one too many, or a wire that is not known")
    if any(header.get(key, "yes") != "yes" for key in ("stop-sequences", "allow-close-delimited", "ended-only")):
        raise ValueError(f"{name}: an option that is not yes")
    return Vector(name, header, raw)


def load(*folders: str) -> list[Vector]:
    """Every vector, or those of some folders."""
    return [
        parse(f"{folder.name}/{path.name}", path.read_bytes())
        for folder in sorted(FOLDER.iterdir())
        if not folders or folder.name in folders
        for path in sorted(folder.iterdir())
    ]
