"""States in words of their own, not by reading the tables again."""

from endmark.core import outcome, states
from endmark.core.decision import Next
from endmark.core.refusal import Refused, Signal
from endmark.core.states import DECISION_MOVES, EXIT, FINISHED, MOVES, REVIEW_MOVES, Decision, Review, State


def roads_into(state, moves=MOVES):
    return {start for start, onward in moves.items() if state in onward}


def test_every_road_that_leads_to_an_effect():
    """S1: nothing is applied that was not approved, nothing approved that was not staged, nothing staged unproven."""
    assert roads_into(State.APPLIED) == {State.APPLYING}
    assert roads_into(State.APPLYING) == {State.APPROVED}
    assert roads_into(State.APPROVED) == {State.STAGED}
    assert roads_into(State.STAGED) == {State.RECEIVED, State.APPROVED}
    assert roads_into(State.RECEIVED) == set()
    assert roads_into(State.PARTIAL) == {State.APPLYING}
    assert roads_into(State.SETTLED) == {State.PARTIAL}
    assert roads_into(State.FAILED) == {State.APPLYING}
    assert roads_into(State.STALE) == {State.STAGED, State.APPROVED}
    assert roads_into(State.DECLINED) == {State.STAGED}
    for nack in (State.TRUNCATED, State.REJECTED, State.QUARANTINED, State.INCOMPLETE):
        assert roads_into(nack) == {State.RECEIVED}


def test_a_finished_state_never_moves():
    """S2."""
    assert {state.value for state in FINISHED} == {
        *("truncated", "rejected", "quarantined", "incomplete"),
        *("declined", "stale", "applied", "failed", "settled"),
    }
    assert all(MOVES[state] == () for state in FINISHED)


def test_tables_cover_their_states_and_nothing_moves_to_itself():
    for moves, kind in ((MOVES, State), (REVIEW_MOVES, Review), (DECISION_MOVES, Decision)):
        assert set(moves) == set(kind)
        for state, onward in moves.items():
            assert state not in onward
            assert len(set(onward)) == len(onward)


def test_reviews():
    """S3: one answer, and then no other."""
    assert roads_into(Review.PASS, REVIEW_MOVES) == roads_into(Review.FAIL, REVIEW_MOVES) == {Review.ASKED}
    assert REVIEW_MOVES[Review.PASS] == REVIEW_MOVES[Review.FAIL] == REVIEW_MOVES[Review.INCOMPLETE] == ()


def test_decisions():
    """S4: only a pass merges, a fail outweighs it, and nothing comes back from a fail."""
    assert roads_into(Decision.MERGED, DECISION_MOVES) == {Decision.PASS}
    assert roads_into(Decision.PASS, DECISION_MOVES) == {Decision.PENDING}
    assert roads_into(Decision.FAIL, DECISION_MOVES) == {Decision.PENDING, Decision.PASS}
    assert DECISION_MOVES[Decision.FAIL] == DECISION_MOVES[Decision.INCOMPLETE] == ()


def test_what_may_be_retried():
    """S5: only what is finished and left nothing behind."""
    assert {state.value for state in states.WITHOUT_EFFECT} == {
        *("truncated", "rejected", "quarantined", "incomplete", "declined", "stale", "failed")
    }


def test_exit_codes():
    """X1, X2: every state has its code, and only what is applied is 0."""
    assert set(EXIT) == set(State)
    assert {state.value: code for state, code in EXIT.items() if state in FINISHED} == {
        "applied": 0,
        "failed": 1,
        "declined": 1,
        "settled": 1,
        "truncated": 10,
        "quarantined": 11,
        "rejected": 12,
        "incomplete": 13,
        "stale": 14,
    }
    assert [state for state, code in EXIT.items() if code == 0] == [State.APPLIED]
    assert (EXIT[State.STAGED], EXIT[State.APPROVED], EXIT[State.PARTIAL]) == (16, 16, 15)
    assert (EXIT[State.RECEIVED], EXIT[State.APPLYING]) == (20, 20)


def test_the_json_object():
    """X3: its keys and their order are a promise."""
    assert outcome.Outcome.__struct_fields__ == (
        *("version", "attempt_id", "job_id", "state", "signal", "received_bytes", "expected_bytes", "sha256"),
        *("stmt_count", "statements_run", "target", "evidence", "detail", "next", "exit_code", "at"),
    )


def test_a_refusal_as_an_outcome():
    """S7, X3."""
    refused = Refused(Signal.BODY_CUT, 1_882, 3_410, lambda: "received 1,882 of 3,410 bytes")
    made = outcome.of_refusal(refused, "2026-11-30T12:00:00Z")
    assert (made.state, made.signal, made.exit_code, made.next) == ("truncated", "body-cut", 10, Next.RESEND)
    assert (made.received_bytes, made.expected_bytes) == (1_882, 3_410)
    assert made.detail.startswith("Received 1,882 of 3,410 bytes. Nothing was written.")


def test_the_outcome_when_nothing_could_be_tried():
    """X5."""
    made = outcome.could_not_try("the target is locked.", "2026-11-30T12:00:00Z")
    assert (made.state, made.signal, made.exit_code, made.next) == ("not-tried", "could-not-try", 20, Next.WAIT)


def test_what_a_job_that_stands_should_do_next():
    """X2, X4: a job that goes on waits, one that ended without effect is sent again, one that is done is done."""
    signal = Signal.COMPLETE
    assert outcome.standing(State.APPLIED, signal) == (0, Next.NONE)
    assert outcome.standing(State.STAGED, signal) == (16, Next.WAIT)
    assert outcome.standing(State.APPLYING, signal) == (20, Next.WAIT)
    assert outcome.standing(State.PARTIAL, Signal.SQL_ERROR) == (15, Next.ASK)
    assert outcome.standing(State.FAILED, Signal.SQL_ERROR) == (1, Next.RESEND)
    assert outcome.standing(State.FAILED, Signal.TARGET_FAULT) == (20, Next.RESEND)
    assert outcome.standing(State.TRUNCATED, Signal.BODY_CUT) == (10, Next.RESEND)
    assert states.EXIT[State.REJECTED] == outcome.standing(State.REJECTED, Signal.ID_REUSED)[0]
