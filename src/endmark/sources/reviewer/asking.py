"""Ask one reviewer once, with limits on everything, and say how it was asked. Nothing is asked a second time here."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from endmark.core.policy import Branch, Reviewer, url_of, wire_of
from endmark.core.prompt import Shown
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.sources.capture import Capture

Stop = Callable[[], str | None]
"""Who wants it to end, or None."""

GLANCE = 0.1  # seconds between two times that it is asked

_KEY = re.compile(r"[!-~]{8,4096}")  # printable ASCII, and long enough that looking for it finds nothing else


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Of one attempt. Seconds of silence, seconds in all, and bytes of the answer as it passes."""

    idle_seconds: float
    total_seconds: float
    answer_bytes: int


class How(msgspec.Struct, frozen=True, kw_only=True):
    """How a reviewer was asked, for the record: all that its verdict may depend on, and no key."""

    reviewer: str
    kind: str
    capacity: str
    model: str | None
    url: str | None
    wire: str | None
    temperature: float | None
    max_output_tokens: int | None
    prompt_sha256: str
    shown_sha256: str


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came back. `capture.raw` of a command is an envelope (`how.wire` is None), of a model the body to be sealed.

    `stderr` is what a command said beside it, escaped and shortened.
    """

    capture: Capture
    how: How
    stderr: str = ""


class NoAnswer(Refused):
    """The reviewer gave no answer that could be judged: the attempt is incomplete. `how` and `stderr` as in Reply."""

    __slots__ = ("how", "stderr")

    def __init__(
        self, signal: Signal, received_bytes: int, expected_bytes: int | None, detail: str, how: How, stderr: str = ""
    ) -> None:
        super().__init__(signal, received_bytes, expected_bytes, detail)
        self.how = how
        self.stderr = stderr

    def __reduce__(self) -> tuple[Any, ...]:
        return NoAnswer, (self.signal, self.received_bytes, self.expected_bytes, self.detail, self.how, self.stderr)


def ask(
    reviewer: Reviewer,
    shown: Shown,
    limits: Limits,
    *,
    environ: Mapping[str, str],
    files: Mapping[str, bytes] | None = None,
    stop: Stop = lambda: None,
) -> Reply:
    """Ask `reviewer` once. `environ`: where its key stands, and what a command inherits a little of.

    `stop` says who wants it to end before its time, if anybody; it is asked several times a second.

    `files`: the content of `reviewer.files` in the base commit. Raises NoAnswer, and CannotTry where nobody was asked
    because the key or what is needed to ask is not there. How the answer ended is in the capture, good or bad.
    """
    key = key_of(reviewer, environ)
    how = how_of(reviewer, shown)
    if reviewer.kind == "command":
        from endmark.sources.reviewer import command

        reply = command.run(reviewer, shown, limits, how, environ, files or {}, key, stop)
    else:
        from endmark.sources.reviewer import http

        reply = http.ask(reviewer, shown, limits, how, key, stop)
    _refuse_key(reply, key)
    return reply


def limits_of(branch: Branch) -> Limits:
    """The limits that the policy sets."""
    return Limits(
        idle_seconds=branch.idle_seconds, total_seconds=branch.total_seconds, answer_bytes=branch.max_answer_bytes
    )


def how_of(reviewer: Reviewer, shown: Shown) -> How:
    """What will be recorded of an attempt."""
    return How(
        reviewer=reviewer.name,
        kind=reviewer.kind,
        capacity=reviewer.capacity,
        model=reviewer.model,
        url=url_of(reviewer),
        wire=wire_of(reviewer),
        temperature=reviewer.temperature,
        max_output_tokens=reviewer.max_output_tokens,
        prompt_sha256=shown.instructions_sha256,
        shown_sha256=shown.sha256,
    )


def key_of(reviewer: Reviewer, environ: Mapping[str, str]) -> str | None:
    """The key itself, or None where none is named. Raises CannotTry; no message holds a part of it."""
    if reviewer.key is None:
        return None
    name = reviewer.key.removeprefix("env:")
    found = environ.get(name, "")
    if not found:
        raise CannotTry(f"reviewers.{reviewer.name}.key: the variable {name} is not set. Nobody was asked.")
    if not _KEY.fullmatch(found):
        raise CannotTry(
            f"reviewers.{reviewer.name}.key: the variable {name} holds no key: 8 or more printable ASCII characters "
            "without spaces were expected. Nobody was asked."
        )
    return found


def _refuse_key(reply: Reply, key: str | None) -> None:
    """An answer that holds the key would carry it into every record of it."""
    if key is None:
        return
    capture, secret = reply.capture, key.encode()
    held = secret in capture.raw
    if not held and capture.content_encoding:
        try:
            held = secret in capture.body()
        except Refused:
            return  # it is refused by whoever reads it
    if held:
        why = "the answer holds the key it was asked with; it was not kept, and the key is to be changed"
        raise NoAnswer(Signal.WRONG_VALUE, len(capture.raw), None, why, reply.how, reply.stderr)
