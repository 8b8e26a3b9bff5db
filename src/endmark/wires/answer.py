"""What every wire hands over, and what it asks of a reader."""

from typing import Protocol

import msgspec

from endmark.core.ending import Ending


class ToolCall(msgspec.Struct, frozen=True):
    """One tool call. `arguments` is the raw text as the provider sent it, or its JSON where only a parsed object came.

    `parsed` says that the provider handed an object over: the model's own spelling and key order are then unknown.
    """

    name: str
    id: str | None
    arguments: str
    parsed: bool = False


class Usage(msgspec.Struct, frozen=True):
    """Tokens as the provider counted them; None where it did not say."""

    input_tokens: int | None = None
    output_tokens: int | None = None


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One whole answer. `evidence` lists what proves it, in the words of spec/wires.md."""

    text: str
    tool_calls: tuple[ToolCall, ...]
    stop_reason: str
    usage: Usage
    evidence: tuple[str, ...]
    received_bytes: int


class Reader(Protocol):
    """A wire at work on one body. It keeps nothing of the world: no socket, no clock."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes, in whatever portions they come. Never raises for what they hold."""

    def skim(self, data: bytes) -> int:
        """Take the next bytes, as `feed` does, if that is quick: if all that ends in them is events like those before,
        which only add to the answer. Returns where in `data` the last of these ends; 0: nothing was taken."""
        return 0

    def finish(self, ending: Ending) -> Answer:
        """The answer, were the body to end here in this way. Changes nothing, so it may be asked after every byte.

        Raises Refused when the answer is not proven whole.
        """
