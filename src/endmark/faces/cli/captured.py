"""A captured answer on the command line: how it is read, what is asked of it, and what is said of it beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import msgspec

from endmark.core import mc1
from endmark.core.refusal import Refused
from endmark.faces.cli.common import together
from endmark.faces.misuse import Misuse
from endmark.sources import files

if TYPE_CHECKING:
    from endmark.core.claims import Claims
    from endmark.seal import Sealed

CAPTURED = together(
    click.option("--wire", metavar="NAME", help="FILE is a captured answer in this provider's format, as openai-chat."),
    click.option("--tool", metavar="NAME", help="Take the answer's one call of this tool, not its text. Needs --wire."),
    click.option("--max-output-tokens", type=click.IntRange(min=1), help="The cap that was requested. Needs --wire."),
    click.option("--stop-sequences", is_flag=True, help="The request named stop sequences. Needs --wire."),
    click.option("--content-encoding", metavar="NAME", help="How FILE is coded, e.g. gzip. Needs --wire."),
)
_MOST = 1 << 20


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """The options of CAPTURED, and the marks that a reviewer was asked to echo."""

    wire: str | None
    tool: str | None
    max_output_tokens: int | None
    stop_sequences: bool
    content_encoding: str | None = None
    marks: list[str] | None = None

    def check(self) -> None:
        """Raise Misuse for what does not go together, before anything is read."""
        given = {
            "--tool": self.tool is not None,
            "--max-output-tokens": self.max_output_tokens is not None,
            "--stop-sequences": self.stop_sequences,
            "--content-encoding": self.content_encoding is not None,
            "--marks": self.marks is not None,
        }
        if self.wire is None and any(given.values()):
            name = next(name for name, there in given.items() if there)
            raise Misuse(f"{name} is for a captured answer; name its format with --wire.")
        if self.tool is not None and self.marks is not None:
            raise Misuse("--marks are echoed in a verdict, which is a text; --tool asks for a call.")

    def seal(self, raw: bytes) -> Sealed:
        """The answer in `raw`, sealed. Raises AnswerRefused, and Misuse for a wire that does not exist."""
        from endmark.seal import seal
        from endmark.sources.capture import of_file

        # As much as was read may be less than there is; what fills the limit of the reading is refused.
        capture = of_file(raw, wire=self.wire, limit=mc1.DEFAULT_CAP + mc1.HEADER_MAX)
        capture = msgspec.structs.replace(
            capture,
            max_output_tokens=self.max_output_tokens,
            stop_sequences=self.stop_sequences,
            content_encoding=self.content_encoding or "",
        )
        try:
            return seal(capture, tool=self.tool, marks=self.marks)
        except ValueError as fault:
            raise Misuse(f"{fault}.") from None


def marks_in(file: str) -> list[str]:
    """The marks in a file, one a line. Raises Misuse and Unreadable."""
    try:
        lines = files.read(file, _MOST).decode().removesuffix("\n").split("\n")
    except UnicodeDecodeError:
        raise Misuse(f"--marks: {file} is not UTF-8") from None
    for number, line in enumerate(lines, 1):
        if not line or not line.isprintable():
            raise Misuse(f"--marks: line {number} of {file} is no mark; one mark a line was expected.")
    return lines


def claims_in(file: str) -> Claims:
    """What `seal --evidence` wrote. Raises Misuse and Unreadable."""
    from endmark.core import claims

    try:
        return claims.read(files.read(file, _MOST))
    except Refused as refused:
        raise Misuse(f"--evidence: {file} is not what 'endmark seal --evidence' writes: {refused.detail}.") from None


def write_claims(file: str, sealed: Sealed, written: bytes) -> None:
    """The evidence of `sealed` for whoever takes `written`, the bytes that go out. Raises CannotTry."""
    import hashlib

    from endmark.core import claims
    from endmark.faces.cli.outputs import put

    put(file, claims.write(claims.Claims(hashlib.sha256(written).hexdigest(), sealed.evidence)))
