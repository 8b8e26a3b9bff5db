"""Asking a reviewer, from the prompt to the sealed envelope of its verdict: source, wire, seal."""

from collections.abc import Mapping
from pathlib import Path

import msgspec

from endmark.core import policy as policies
from endmark.core import prompt
from endmark.core.policy import Reviewer
from endmark.core.prompt import Shown
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.effects.git import Gate, read_file
from endmark.patch_case import Place
from endmark.seal import seal
from endmark.sources.reviewer import asking

_FILES_MOST = 16 * 1024 * 1024  # bytes of one file that a command brings along


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A reviewer's sealed verdict, and what its provider said of what it read. `evidence` stands beside the seal's."""

    envelope: bytes
    input_tokens: int | None = None
    evidence: tuple[str, ...] = ()


class Reviewers:
    """The reviewers of a policy, asked one by one. `environ`: where their keys stand.

    Their instructions and files come from the base commit, or the server where a path begins with `/`.
    """

    def __init__(self, gate: Gate, environ: Mapping[str, str]) -> None:
        self._gate = gate
        self._environ = environ

    def check(self, place: Place) -> None:
        """Raise CannotTry where a reviewer of the branch could not be asked at all: a key or a file is not there."""
        for reviewer in place.policy.reviewers_of(place.branch):
            asking.key_of(reviewer, self._environ)
            self.instructions(place, reviewer)
            self._files(place, reviewer)

    def instructions(self, place: Place, reviewer: Reviewer) -> bytes:
        """What the reviewer is told to look for. Raises CannotTry."""
        if reviewer.prompt is None:
            return prompt.INSTRUCTIONS
        if reviewer.prompt.startswith("/"):
            try:
                with Path(reviewer.prompt).open("rb") as opened:
                    return opened.read(policies.MOST_BYTES)
            except OSError as fault:
                why = f"reviewers.{reviewer.name}.prompt cannot be read: {fault.strerror or fault}"
                raise CannotTry(f"{why}. Nobody was asked.") from None
        return self._from_base(place, reviewer, reviewer.prompt, policies.MOST_BYTES)

    def ask(self, reviewer: Reviewer, place: Place, shown: Shown) -> Reply:
        """Ask once. Raises Refused for no answer, and for one that is not proven whole."""
        try:
            reply = asking.ask(
                reviewer,
                shown,
                asking.limits_of(place.branch),
                environ=self._environ,
                files=self._files(place, reviewer),
            )
        except CannotTry as fault:
            raise Refused(Signal.UNREACHABLE, 0, None, fault.detail.rstrip(".")) from None
        if reply.how.wire is None:  # a command, which seals its own verdict
            return Reply(envelope=reply.capture.raw)
        sealed = seal(
            reply.capture,
            wire=reply.how.wire,
            marks=list(shown.marks) or None,
            cap=place.branch.max_answer_bytes,
        )
        return Reply(envelope=sealed.envelope, input_tokens=sealed.answer.usage.input_tokens, evidence=sealed.beside)

    def _files(self, place: Place, reviewer: Reviewer) -> dict[str, bytes]:
        return {name: self._from_base(place, reviewer, name, _FILES_MOST) for name in reviewer.files}

    def _from_base(self, place: Place, reviewer: Reviewer, name: str, cap: int) -> bytes:
        try:
            found = read_file(self._gate, place.base, name.encode(), cap)
        except Refused as refused:
            raise CannotTry(f"reviewers.{reviewer.name}: {refused.detail}. Nobody was asked.") from None
        if found is None:
            raise CannotTry(f"reviewers.{reviewer.name}: the base commit has no {name}. Nobody was asked.")
        return found
