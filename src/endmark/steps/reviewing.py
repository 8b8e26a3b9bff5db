"""Asking a reviewer, from the prompt to what its sealed verdict comes to: source, wire, seal, binding."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from endmark.core import binding, marks, prompt
from endmark.core import policy as policies
from endmark.core.decision import row_of
from endmark.core.dsse import Verify
from endmark.core.evidence import Level
from endmark.core.policy import Reviewer
from endmark.core.prompt import Shown
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.core.states import Review
from endmark.effects.git import Block, Gate, read_file
from endmark.ledger.patch_entry import Answer
from endmark.steps.patch_case import Case, Place

COMPLETE = frozenset({Review.PASS, Review.FAIL})
_FILES_MOST = 16 * 1024 * 1024  # bytes of one file that a command brings along


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A reviewer's sealed verdict, and what its provider said of what it read. `evidence` stands beside the seal's."""

    envelope: bytes
    input_tokens: int | None = None
    evidence: tuple[str, ...] = ()
    stderr: str = ""


class Judged(NamedTuple):
    """What an attempt came to: the answer for the record, the bytes to keep with it, and the last that a command said
    on standard error, safe to print."""

    answer: Answer
    body: bytes | None
    stderr: str = ""


class Reviewers:
    """The reviewers of a policy, asked one by one. `environ`: where their keys stand. `stop`: who wants it to end.

    Their instructions and files come from the base commit, or the server where a path begins with `/`.
    """

    def __init__(self, gate: Gate, environ: Mapping[str, str], stop: Callable[[], str | None] = lambda: None) -> None:
        self._gate = gate
        self._environ = environ
        self._stop = stop

    def check(self, place: Place) -> None:
        """Raise CannotTry where a reviewer of the branch could not be asked at all: a key or a file is not there."""
        from endmark.sources.reviewer import asking  # only who asks pays for it

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
                    found = opened.read(policies.MOST_BYTES + 1)
            except OSError as fault:
                why = f"reviewers.{reviewer.name}.prompt cannot be read: {fault.strerror or fault}"
                raise CannotTry(f"{why}. Nobody was asked.") from None
            if len(found) > policies.MOST_BYTES:
                why = f"reviewers.{reviewer.name}.prompt is over the cap of {policies.MOST_BYTES:,} bytes"
                raise CannotTry(f"{why}. Nobody was asked.")
            return found
        return self._from_base(place, reviewer, reviewer.prompt, policies.MOST_BYTES)

    def is_unchanged(self, place: Place, reviewer: Reviewer, base: str, prompt_sha256: str | None) -> bool:
        """Whether the reviewer is made of the same files now as where `base` was the base, and has the same prompt.

        `prompt_sha256`: of the instructions then, None where that is not known. What cannot be read is not the same.
        """
        names = [name for name in (reviewer.prompt, *reviewer.files) if name is not None and not name.startswith("/")]
        try:
            if prompt_sha256 is not None:
                now = hashlib.sha256(self.instructions(place, reviewer)).hexdigest()
                if now != prompt_sha256:
                    return False
            if base == place.base:
                return True
            then = msgspec.structs.replace(place, base=base)
            made_of = [[self._from_base(at, reviewer, name, _FILES_MOST) for name in names] for at in (then, place)]
            return made_of[0] == made_of[1]
        except CannotTry:
            return False

    def ask(self, reviewer: Reviewer, place: Place, shown: Shown) -> Reply:
        """Ask once. Raises Refused for no answer, and for one that is not proven whole."""
        from endmark.seal import seal
        from endmark.sources.reviewer import asking

        try:
            reply = asking.ask(
                reviewer,
                shown,
                asking.limits_of(place.branch),
                environ=self._environ,
                files=self._files(place, reviewer),
                stop=self._stop,
            )
        except CannotTry as fault:
            raise Refused(Signal.UNREACHABLE, 0, None, fault.detail.rstrip(".")) from None
        if reply.how.wire is None:  # a command, which seals its own verdict
            return Reply(envelope=reply.capture.raw, stderr=reply.stderr)
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


class Reviewing:
    """From a change to what a reviewer's verdict on it comes to. `nonce` makes 32 fresh hex digits at each call.

    `verify` knows the trusted keys.
    """

    def __init__(self, reviewers: Reviewers, nonce: Callable[[], str], verify: Verify | None = None) -> None:
        self._reviewers = reviewers
        self._nonce = nonce
        self._verify = verify

    def check(self, place: Place) -> None:
        """Raise CannotTry where a reviewer of the branch could not be asked at all."""
        self._reviewers.check(place)

    def is_unchanged(self, place: Place, reviewer: Reviewer, base: str, prompt_sha256: str | None) -> bool:
        """Whether the reviewer is what it was when `base` was the base (see Reviewers)."""
        return self._reviewers.is_unchanged(place, reviewer, base, prompt_sha256)

    def show(self, case: Case, reviewer: Reviewer, blocks: Sequence[Block]) -> Shown | Refused:
        """The prompt of one attempt, with fresh marks; or why there is none."""
        count = marks.needed(len(blocks))
        instructions = self._reviewers.instructions(case.place, reviewer)
        while True:
            try:
                return prompt.assemble(
                    [block.patch for block in blocks],
                    diff_sha=case.change.diff_sha,
                    policy_version=case.place.branch.policy,
                    nonces=[self._nonce() for _ in range(count)] if reviewer.marks else None,
                    max_diff_bytes=case.place.branch.max_diff_bytes,
                    instructions=instructions,
                )
            except marks.NonceInText:
                continue
            except Refused as refused:
                return refused

    def answer(self, case: Case, reviewer: Reviewer, shown: Shown | Refused) -> Judged:
        """Ask once and judge what comes."""
        if isinstance(shown, Refused):
            return _refused(shown, None)
        try:
            reply = self._reviewers.ask(reviewer, case.place, shown)
        except Refused as refused:
            return _refused(refused, None)._replace(stderr=getattr(refused, "stderr", ""))
        try:
            tokens = prompt.check_input_tokens(shown, reply.input_tokens, len(reply.envelope))
        except Refused as refused:
            return _refused(refused, reply.envelope)._replace(stderr=reply.stderr)
        echoed = shown.marks if reviewer.marks else None
        beside = (*reply.evidence, tokens, f"capacity:{reviewer.capacity}")
        judged = self.judge(case, reply.envelope, echoed, beside, signer=_signer_asked(reviewer))
        return judged._replace(stderr=reply.stderr)

    @staticmethod
    def cut(refused: Refused, raw: bytes) -> Judged:
        """What a verdict comes to that did not arrive whole, whatever the bytes that came would say."""
        return _refused(refused, raw)

    def judge(
        self,
        case: Case,
        raw: bytes,
        echoed: Sequence[str] | None = None,
        beside: tuple[str, ...] = (),
        *,
        signer: str | None = None,
    ) -> Judged:
        """What the envelope of a verdict comes to. `echoed`: the marks it was asked for. `signer`: the id of the one
        key whose signature counts; None for any trusted key."""
        branch = case.place.branch
        level = branch.level if signer is None else Level.SIGNED
        wanted = binding.Wanted(
            diff_sha=case.change.diff_sha, policy_version=branch.policy, marks=echoed, min_evidence=level
        )
        try:
            bound = binding.read(raw, wanted, branch.max_answer_bytes, self._verify_as(signer))
        except Refused as refused:
            return _refused(refused, raw)
        findings = bound.verdict.findings or []
        blocking = sum(finding.severity == "blocking" for finding in findings)
        answer = Answer(
            state=Review(bound.verdict.verdict),
            signal=Signal.COMPLETE,
            received_bytes=bound.received_bytes,
            expected_bytes=bound.expected_bytes,
            body_sha256=hashlib.sha256(raw).hexdigest(),
            level=bound.level.word,
            evidence=(*bound.evidence, *beside),
            blocking=blocking,
            advisory=len(findings) - blocking,
        )
        return Judged(answer, raw)

    def _verify_as(self, signer: str | None) -> Verify | None:
        verify = self._verify
        if verify is None or signer is None:
            return verify
        return lambda keyid, signature, message: verify(keyid, signature, message) if keyid == signer else None


def _signer_asked(reviewer: Reviewer) -> str | None:
    """Whose signature a reviewer's own answer needs: a model's is captured and sealed here, and signed by nobody."""
    return reviewer.signed_by if policies.wire_of(reviewer) is None else None


def _refused(refused: Refused, raw: bytes | None) -> Judged:
    """A review without a whole, bound verdict is incomplete, whatever was found; some bytes are kept."""
    keep = raw if raw is not None and row_of(refused.signal).keeps_bytes else None
    answer = Answer(
        state=Review.INCOMPLETE,
        signal=refused.signal,
        received_bytes=len(raw) if raw is not None else refused.received_bytes,
        expected_bytes=refused.expected_bytes,
        body_sha256=None if raw is None else hashlib.sha256(raw).hexdigest(),
        detail=refused.detail,
    )
    return Judged(answer, keep)
