"""An answer of the service as a value, or raised."""

from __future__ import annotations

import msgspec

from endmark.core import strictjson
from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry, Refused


class Nack(Exception):
    """The service said no (spec/http.md, H8); nothing was applied by this call.

    `signal` and `state` say why, `received_bytes` and `expected_bytes` how much arrived of what (None where no bytes
    are meant or nothing declared them), `next` what to do: `resend-new-job-id`, `wait`, `ask-person` or `none`.
    `str()` of it is words for the model or the person who sent it.
    """

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail)
        self.status = problem.status
        self.signal = problem.signal
        self.state = problem.state
        self.detail = problem.detail
        self.received_bytes = problem.received_bytes
        self.expected_bytes = problem.expected_bytes
        self.attempt_id = problem.attempt_id
        self.job_id = problem.job_id
        self.next = problem.next
        self.exit_code = problem.exit_code


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """A problem document (RFC 9457) of the service."""

    status: int
    detail: str
    state: str
    signal: str
    received_bytes: int | None
    expected_bytes: int | None
    next: str
    exit_code: int
    attempt_id: str | None
    job_id: str | None


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Some attempts, newest first; `cursor` asks for the next ones, None where there are none."""

    version: int
    jobs: list[Outcome]
    cursor: str | None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A target that the service names. What is None is not said of one that cannot be used."""

    name: str
    usable: bool
    detail: str | None = None
    target: str | None = None
    review: str | None = None
    min_evidence: str | None = None
    rehearse: bool | None = None
    max_statements: int | None = None


class Targets(msgspec.Struct, frozen=True, kw_only=True):
    """The targets that a token reaches."""

    version: int
    targets: list[Target]


def read(status: int, raw: bytes, kind: type[msgspec.Struct]) -> msgspec.Struct:
    """The value of an answer's whole body. Raises Nack for a no, and CannotTry for what no service of ours says."""
    try:
        said = strictjson.loads(raw)
        if 200 <= status < 300:
            return msgspec.convert(said, kind)
        problem = msgspec.convert(said, Problem)
    except (Refused, msgspec.ValidationError) as fault:
        raise CannotTry(
            f"status {status} and {len(raw):,} bytes that are no answer of an endmark service ({fault}). What became "
            "of the call is not known; ask for the job, or send the same bytes again."
        ) from None
    raise Nack(problem)
