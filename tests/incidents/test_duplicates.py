"""The same job delivered again: at once, later, changed, after a failure, after a lost acknowledgement."""

import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.incidents import payloads
from tests.incidents.rows import agrees
from tests.incidents.tapped import Tapped
from tests.incidents.world import deliver, deliver_command, environment, settle_all

from endmark.core.outcome import Outcome
from endmark.core.refusal import Refused
from endmark.core.states import State
from endmark.faces.api import Gate

RUN = "INSERT INTO runs VALUES ('a privileged run')"
SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT count(*) FROM n"


def at_once(world, deliveries):
    """Deliver everything at the same moment, each from a thread with a gate of its own; the states, in order."""
    start = threading.Barrier(len(deliveries))

    def one(raw):
        with Gate(world.ledger_path) as gate:
            start.wait()
            try:
                return gate.submit(raw, target=world.url, seal=True).apply(world.url).state
            except Refused as refused:
                return refused.outcome.state if isinstance(refused.outcome, Outcome) else "not recorded"

    with ThreadPoolExecutor(len(deliveries)) as threads:
        return list(threads.map(one, deliveries))


@pytest.mark.parametrize("form", ["witness", "plan", "envelope"])
def test_inc_112_five_deliveries_at_once_are_one_run(world, form):
    raw = payloads.forms("hook", [RUN, SLOW])[form]
    states = at_once(world, [raw] * 5)
    assert "applied" in states
    assert set(states) <= {"applied", "applying"}, "whoever came while it ran was told to wait"
    assert world.runs() == ["a privileged run"]
    again = world.apply(raw)
    assert agrees("INC-112", again.state)
    assert world.runs() == ["a privileged run"]
    assert world.ask("SELECT count(*) FROM schema_jobs") == [(1,)]


def test_inc_112_five_processes_at_once_are_one_run(world):
    raw = payloads.envelope("hook", [RUN, SLOW])
    running = [
        subprocess.Popen(
            deliver_command(world),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(),
        )
        for _ in range(5)
    ]
    with ThreadPoolExecutor(len(running)) as threads:
        said = list(threads.map(lambda process: process.communicate(raw, timeout=60)[1], running))
    codes = [process.returncode for process in running]
    assert 0 in codes, said
    assert set(codes) <= {0, 20}, said  # 20: it is being applied right now
    assert world.runs() == ["a privileged run"]
    assert len(world.gate.ledger.page(10)) == 1


def created_at(when):
    return payloads.witness("hook", [f"INSERT INTO runs VALUES ('created at {when}')"])


def test_inc_113_another_body_under_the_same_id_is_rejected(world):
    assert world.apply(created_at("12:00:00.001")).state == "applied"
    for other in (
        created_at("12:00:00.002"),
        created_at("12:00:00.001") + b"\n",
        created_at("12:00:00.001").replace(b'"job_id":', b'"job_id": '),
        payloads.bare("hook", ["INSERT INTO runs VALUES ('created at 12:00:00.001')"]),
        payloads.envelope("hook", ["INSERT INTO runs VALUES ('created at 12:00:00.001')"]),
    ):
        said = world.refuses(other)
        assert agrees("INC-113", said.state)
        assert (said.signal, said.next) == ("id-reused", "none"), "nobody is told to send it again"
        assert "state applied" in said.detail
    # a field outside the plan does not slip in either: unknown keys are refused
    stamped = created_at("x").replace(b'{"job_id":"hook"', b'{"job_id":"hook2","createdAt":"12:00:00"')
    assert world.refuses(stamped).signal == "unknown-key"
    assert world.runs() == ["created at 12:00:00.001"]


def test_inc_113_two_bodies_at_once_are_one_effect(world):
    states = at_once(world, [created_at(f"12:00:0{n}") for n in range(4)])
    assert sorted(states) == ["applied", "rejected", "rejected", "rejected"]
    assert world.runs() == [f"created at 12:00:0{states.index('applied')}"]


def test_inc_114_a_failed_delivery_stays_failed_and_a_retry_has_a_new_id(world):
    statements = [RUN, "INSERT INTO late VALUES (1)"]
    assert world.fails(payloads.witness("first", statements)).signal == "sql-error"
    world.write("CREATE TABLE late (x)")  # the cause is mended
    for _ in range(2):
        again = world.apply(payloads.witness("first", statements))
        assert (again.state, again.exit_code, again.next) == ("failed", 1, "resend-new-job-id")
        assert world.runs() == []
    assert world.refuses(payloads.envelope("first", statements)).signal == "id-reused"
    retry = world.apply(payloads.witness("second", statements, retry_of="first"))
    assert agrees("INC-114", retry.state)
    assert retry.state == "applied"
    assert world.runs() == ["a privileged run"]
    assert world.refuses(payloads.witness("third", statements, retry_of="second")).signal == "retry-of-live-job"
    first = world.gate.ledger.by_job("first")
    assert first is not None
    assert first.state is State.FAILED


def test_inc_114_a_cut_delivery_spends_the_id_it_was_given(world):
    whole = payloads.witness("first", [RUN])
    assert world.refuses(whole[:-9], job_id="first").state == "truncated"
    again = world.refuses(whole, job_id="first")
    assert (again.state, again.signal) == ("rejected", "id-reused")
    assert "state truncated" in again.detail
    assert world.apply(payloads.witness("second", [RUN], retry_of="first")).state == "applied"


class Lost(Exception):
    pass


def lose(after):
    """A tap that breaks off at one point, each time it gets there."""

    def tap(here):
        if here == after:
            raise Lost(here)

    return tap


@pytest.mark.parametrize("row_id", ["INC-117", "INC-118"])
def test_a_caller_that_tries_again_after_the_effect(world, row_id):
    """The tool raises once its effect is committed; an inner handler calls it again, an outer one three times."""
    raw = payloads.witness("send", [RUN])
    target = Tapped(world.url, lose("committed"))
    raised = 0
    for _attempt in range(3):
        try:
            outcome = world.gate.submit(raw, target=target, seal=True).apply(target)
        except Lost:
            raised += 1
            if row_id == "INC-117":
                outcome = world.gate.submit(raw, target=target, seal=True).apply(target)
                assert (outcome.state, outcome.exit_code, outcome.next) == ("applying", 20, "wait")
        assert world.runs() == ["a privileged run"]
    assert raised == 1, "the second attempt did not reach the target"
    (settled,) = settle_all(world)
    assert agrees(row_id, settled.state)
    assert "receipt-found" in settled.evidence
    assert world.apply(raw).state == "applied"
    assert world.runs() == ["a privileged run"]


@pytest.mark.parametrize("point", ["run", "ran", "commit"])
@pytest.mark.parametrize("row_id", ["INC-117", "INC-118"])
def test_a_caller_that_tries_again_before_the_effect(world, row_id, point):
    """Raised before the commit: it was rolled back, and no attempt with this id brings it back."""
    raw = payloads.witness("send", [RUN])
    target = Tapped(world.url, lose(point))
    with pytest.raises(Lost):
        world.gate.submit(raw, target=target, seal=True).apply(target)
    for _attempt in range(2):
        assert world.apply(raw).state == "applying"
    (settled,) = settle_all(world)
    assert settled.state == "failed"
    assert world.apply(raw).state == "failed"
    assert world.runs() == []
    retry = world.apply(payloads.witness("send-again", [RUN], retry_of="send"))
    assert agrees(row_id, retry.state)
    assert world.runs() == ["a privileged run"]


def test_inc_119_every_lost_acknowledgement_finds_its_receipt(world):
    """209 jobs are committed, each acknowledgement is lost, each is sent again: 209 effects."""
    target = Tapped(world.url, lose("committed"))
    jobs = [payloads.bare(f"payment-{n}", [f"INSERT INTO runs VALUES ('{n}')"]) for n in range(209)]
    for raw in jobs:
        with pytest.raises(Lost):
            world.gate.submit(raw, target=target).apply(target)
    assert {outcome.state for outcome in settle_all(world)} == {"applied"}
    for raw in jobs:
        again = world.apply(raw)
        assert agrees("INC-119", again.state)
        assert (again.exit_code, again.statements_run) == (0, 1)
    assert sorted(world.runs(), key=int) == [str(n) for n in range(209)]


def test_inc_119_killed_between_the_commit_and_the_answer(world):
    raw = payloads.envelope("payment", [RUN])
    assert deliver(world, raw, "committed") == -9
    assert world.runs() == ["a privileged run"]
    assert deliver(world, raw) == 0, "the retry gets the first receipt"
    assert world.runs() == ["a privileged run"]
