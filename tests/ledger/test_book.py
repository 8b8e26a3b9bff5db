"""Writing and reading: each act whole, each change with its event, and the answer is what the book then says."""

import threading
from contextlib import ExitStack
from datetime import timedelta

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ledger.plans import AT, BODY, NOW, ROADS, a_plan, a_refusal, book_with, dump, open_book

from endmark.core.refusal import CannotTry, Signal
from endmark.core.states import MOVES, State
from endmark.ledger.book import Entry, Ledger, Moved, New
from endmark.ledger.entry import stamp

LATER = NOW + timedelta(seconds=1)


@pytest.fixture
def ledger(path):
    with open_book(path) as ledger:
        yield ledger
        assert ledger.verify().problems == ()


def names(ledger, entry):
    return [(event.event, event.from_state, event.to_state) for event in ledger.events(entry.attempt_id)]


# --- record


def test_a_whole_plan(ledger):
    entry, created = ledger.record(a_plan(job_id="j", target="orders"), NOW, body=BODY)
    assert created
    assert entry == ledger.get(entry.attempt_id) == ledger.by_job("j") == ledger.find("j")
    assert (entry.state, entry.signal, entry.job_id, entry.target) == (State.STAGED, Signal.COMPLETE, "j", "orders")
    assert (entry.received_at, entry.changed_at) == (AT, AT)
    assert entry.evidence == ("envelope-length", "envelope-sha256", "sentinel")
    assert (entry.approver, entry.statements_run, entry.statement_rows, entry.backup) == (None, None, None, None)
    assert ledger.body(entry.attempt_id) == BODY
    assert names(ledger, entry) == [
        ("received", None, State.RECEIVED),
        ("moved", State.RECEIVED, State.STAGED),
    ]


def test_a_refused_body_is_kept_in_numbers(ledger):
    entry, created = ledger.record(a_refusal(received_bytes=1882, expected_bytes=3410), NOW, body=None)
    assert created
    assert (entry.job_id, entry.sha256, entry.stmt_count, entry.evidence) == (None, None, None, ())
    assert (entry.received_bytes, entry.expected_bytes, entry.state) == (1882, 3410, State.TRUNCATED)
    assert ledger.get(entry.attempt_id) == entry
    assert ledger.body(entry.attempt_id) is None
    assert ledger.events(entry.attempt_id)[0].data["set"]["received_bytes"] == 1882


def test_the_second_owner_of_a_job_writes_nothing(ledger, path):
    first, _ = ledger.record(a_plan(job_id="j"), NOW, body=BODY)
    before = dump(path)
    assert ledger.record(a_refusal(job_id="j"), LATER, body=None) == (first, False)
    assert dump(path) == before


def test_an_attempt_that_owns_nothing_may_name_a_job(ledger):
    owner, _ = ledger.record(a_plan(job_id="j"), NOW, body=BODY)
    other, created = ledger.record(a_refusal(job_id="j", owner=False), LATER, body=None)
    assert created
    assert ledger.by_job("j") == owner
    assert ledger.get(other.attempt_id).owner is False


def test_many_attempts_without_a_job_id(ledger):
    assert all(ledger.record(a_refusal(owner=True), NOW, body=None)[1] for _ in range(3))


@pytest.mark.parametrize("state", [state for state in State if state not in MOVES[State.RECEIVED]])
def test_what_cannot_be_recorded(ledger, path, state):
    before = dump(path)
    with pytest.raises(ValueError, match="not a legal move"):
        ledger.record(a_plan(state=state), NOW, body=None)
    assert dump(path) == before


def test_bytes_are_all_bytes(ledger):
    with pytest.raises(ValueError, match="22 bytes are to be kept of 23 received"):
        ledger.record(a_plan(), NOW, body=BODY[:-1])


def test_an_empty_body(ledger):
    empty = a_refusal(received_bytes=0, signal=Signal.EMPTY, expected_bytes=None, body_sha256=EMPTY)
    entry, _ = ledger.record(empty, NOW, body=b"")
    assert ledger.body(entry.attempt_id) == b""


EMPTY = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def test_an_unproven_plan_is_never_staged(ledger, path):
    before = dump(path)
    with pytest.raises(CannotTry, match="proven"):
        ledger.record(a_plan(sha256=None), NOW, body=BODY)
    assert dump(path) == before


@given(
    text=st.text(st.characters(codec="utf-8"), max_size=50),
    evidence=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=20)),
    job=st.none() | st.text(st.characters(codec="utf-8"), min_size=1, max_size=128),
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_comes_back(ledger, places, text, evidence, job):
    if places.engine == "postgres":  # its text holds no NUL: see test_postgres
        text, evidence = text.replace("\0", "0"), [item.replace("\0", "0") for item in evidence]
        job = job and job.replace("\0", "0")
    new = a_refusal(job_id=job, owner=False, detail=text, target=text, submitter=text, evidence=tuple(evidence))
    entry, _ = ledger.record(new, NOW, body=None)
    found = ledger.get(entry.attempt_id)
    assert found == entry
    assert {name: getattr(found, name) for name in New.__struct_fields__} == msgspec.structs.asdict(new)


@pytest.mark.parametrize("evidence", [("",), ("a\nb",)])
def test_evidence_is_one_line_each(ledger, evidence):
    with pytest.raises(ValueError, match="one line"):
        ledger.record(a_plan(evidence=evidence), NOW, body=None)
    entry = book_with(ledger, State.STAGED)
    with pytest.raises(ValueError, match="one line"):
        ledger.move(entry.attempt_id, State.STAGED, State.APPROVED, NOW, evidence=evidence)


# --- move


def test_every_legal_move(ledger):
    for before, legal in MOVES.items():
        for after in legal:
            if before is State.RECEIVED:
                entry = book_with(ledger, after)
            else:
                entry = book_with(ledger, before)
                entry = ledger.move(entry.attempt_id, before, after, LATER)
                assert entry.changed_at == stamp(LATER)
            assert entry.state is after
            assert ledger.get(entry.attempt_id) == entry
            assert names(ledger, entry)[-1] == ("moved", before, after)


def test_every_illegal_move(ledger, path):
    entries = {state: book_with(ledger, state) for state in set(ROADS) - {State.RECEIVED}}
    before = dump(path)
    for state, entry in entries.items():
        for after in set(State) - set(MOVES[state]):
            with pytest.raises(ValueError, match=f"{state} > {after} is not a legal move"):
                ledger.move(entry.attempt_id, state, after, LATER)
    with pytest.raises(ValueError, match="leads somewhere"):
        ledger.move(entries[State.STAGED].attempt_id, State.STAGED, (), LATER)
    assert dump(path) == before


def test_all_facts(ledger):
    entry = book_with(ledger, State.APPLYING)
    facts = {
        "signal": Signal.SQL_ERROR,
        "detail": "no such table",
        "target": "orders",
        "statements_run": 2,
        "statement_rows": (0, 17),
        "fingerprint_before": "f1",
        "fingerprint_after": "f2",
        "backup": "/b",
        "approver": "ann",
        "approved_fingerprint": "f0",
    }
    moved = ledger.move(
        entry.attempt_id, State.APPLYING, State.FAILED, LATER, evidence=("rolled-back",), data={"n": 3}, **facts
    )
    assert {name: getattr(moved, name) for name in facts} == facts
    assert moved.evidence == (*entry.evidence, "rolled-back")
    assert ledger.get(entry.attempt_id) == moved
    event = ledger.events(entry.attempt_id)[-1]
    assert event.data["n"] == 3
    assert event.data["set"] == facts | {"evidence": list(moved.evidence), "statement_rows": [0, 17]}


def test_facts_not_given_stay(ledger):
    entry = book_with(ledger, State.STAGED, detail="first", target="orders")
    moved = ledger.move(entry.attempt_id, State.STAGED, State.DECLINED, LATER)
    assert msgspec.structs.replace(moved, state=entry.state, changed_at=entry.changed_at) == entry


def test_no_rows_are_not_unknown_rows(ledger):
    entry = book_with(ledger, State.APPLYING)
    moved = ledger.move(
        entry.attempt_id, State.APPLYING, State.FAILED, LATER, statements_run=0, statement_rows=(), detail=""
    )
    assert (moved.statements_run, moved.statement_rows) == (0, ())
    assert ledger.get(entry.attempt_id) == moved


def test_a_target_is_set_once(ledger, path):
    entry = book_with(ledger, State.STAGED)
    entry = ledger.move(entry.attempt_id, State.STAGED, State.APPROVED, NOW, target="orders")
    before = dump(path)
    with pytest.raises(CannotTry, match="a target never changes"):
        ledger.move(entry.attempt_id, State.APPROVED, State.APPLYING, NOW, target="other")
    assert dump(path) == before
    assert ledger.move(entry.attempt_id, State.APPROVED, State.APPLYING, NOW, target="orders").target == "orders"


def test_moved_says_what_the_book_says(ledger, path):
    entry = book_with(ledger, State.APPROVED)
    before = dump(path)
    with pytest.raises(Moved) as caught:
        ledger.move(entry.attempt_id, State.STAGED, State.DECLINED, LATER)
    assert caught.value.entry == entry
    assert dump(path) == before


def test_several_moves_are_one(ledger, path):
    entry = book_with(ledger, State.STAGED)
    moved = ledger.move(
        entry.attempt_id,
        State.STAGED,
        [State.APPROVED, State.APPLYING],
        LATER,
        approver="ann",
        approved_fingerprint="f",
        fingerprint_before="f",
        data={"pid": 7},
    )
    assert moved == ledger.get(entry.attempt_id)
    assert (moved.state, moved.approver) == (State.APPLYING, "ann")
    approved, applying = ledger.events(entry.attempt_id)[2:]
    assert approved.data == {"set": {"approver": "ann", "approved_fingerprint": "f"}}
    assert applying.data == {"set": {"fingerprint_before": "f"}, "pid": 7}
    before = dump(path)
    with pytest.raises(ValueError, match="staged > applied"):
        ledger.move(entry.attempt_id, State.APPROVED, [State.STAGED, State.APPLIED], LATER)
    assert dump(path) == before


def test_a_void_approval_does_not_stay(ledger):
    entry = book_with(ledger, State.STAGED)
    entry = ledger.move(entry.attempt_id, State.STAGED, State.APPROVED, NOW, approver="ann", approved_fingerprint="f")
    entry = ledger.move(entry.attempt_id, State.APPROVED, State.STAGED, NOW, detail="expired")
    assert (entry.approver, entry.approved_fingerprint, entry.detail) == (None, None, "expired")
    assert ledger.get(entry.attempt_id) == entry
    assert ledger.events(entry.attempt_id)[2].data["set"]["approver"] == "ann"


def test_unknown_attempts(ledger):
    with pytest.raises(KeyError):
        ledger.move("att_none", State.STAGED, State.APPROVED, NOW)
    with pytest.raises(KeyError):
        ledger.note("att_none", "alarm", NOW, {})
    with pytest.raises(KeyError):
        ledger.redelivered("att_none", NOW, 1)
    assert (ledger.get("att_none"), ledger.by_job("x"), ledger.find("x")) == (None, None, None)
    assert (ledger.body("att_none"), ledger.events("att_none")) == (None, [])


# --- notes


@pytest.mark.parametrize("state", [State.STAGED, State.APPLIED, State.TRUNCATED])
def test_a_note_moves_nothing(ledger, state):
    entry = book_with(ledger, state)
    ledger.note(entry.attempt_id, "alarm", LATER, {"digest": "other"})
    ledger.redelivered(entry.attempt_id, LATER, 99)
    assert ledger.get(entry.attempt_id) == entry
    alarm, again = ledger.events(entry.attempt_id)[-2:]
    assert (alarm.event, alarm.data, alarm.at) == ("alarm", {"digest": "other"}, stamp(LATER))
    assert (again.event, again.data) == ("redelivered", {"received_bytes": 99})
    assert (alarm.from_state, alarm.to_state) == (None, None)


def test_a_note_cannot_pass_for_a_move(ledger, path):
    entry = book_with(ledger, State.STAGED)
    before = dump(path)
    for event, data in (("moved", {}), ("received", {}), ("alarm", {"set": {"state": "applied"}})):
        with pytest.raises(ValueError, match=r"name of a move|for the facts"):
            ledger.note(entry.attempt_id, event, NOW, data)
    with pytest.raises(ValueError, match="for the facts"):
        ledger.move(entry.attempt_id, State.STAGED, State.APPROVED, NOW, data={"set": {}})
    with pytest.raises(CannotTry):
        ledger.note(entry.attempt_id, "Alarm!", NOW, {})
    with pytest.raises(TypeError):
        ledger.note(entry.attempt_id, "alarm", NOW, {"x": object()})
    assert dump(path) == before


# --- one object, many threads; closing


def test_threads_share_one_ledger(ledger):
    created = []

    def submit():
        created.append(ledger.record(a_plan(job_id="one"), NOW, body=BODY)[1])
        book_with(ledger, State.DECLINED)

    threads = [threading.Thread(target=submit) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert created.count(True) == 1
    assert len(created) == 50
    assert len(ledger.in_state(State.DECLINED)) == 50


def test_closing(path):
    ledger = open_book(path)
    ledger.close()
    ledger.close()
    with pytest.raises(CannotTry):
        ledger.record(a_plan(), NOW, body=None)
    with pytest.raises(CannotTry):
        ledger.get("att_x")
    assert isinstance(path, str) or not [file.name for file in path.parent.iterdir() if file != path]


# --- anything, in any order, against a model of a few lines


@given(st.data())
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_history(places, data):
    path = places.new()
    model: dict[str, Entry] = {}
    with ExitStack() as stack:
        ledger = stack.enter_context(open_book(path))
        for _ in range(data.draw(st.integers(1, 15))):
            act = data.draw(st.sampled_from(["record", "move", "note", "checkpoint", "reopen"]))
            if act == "record":
                state = data.draw(st.sampled_from(MOVES[State.RECEIVED]))
                job = data.draw(st.none() | st.sampled_from("abc"))
                owner = data.draw(st.booleans())
                make = a_plan if state is State.STAGED else a_refusal
                taken = [e for e in model.values() if e.job_id == job and e.owner] if owner and job else []
                entry, created = ledger.record(make(state=state, job_id=job, owner=owner), NOW, body=BODY)
                assert created is not bool(taken)
                assert not taken or entry == taken[0]
                model[entry.attempt_id] = entry
            elif act == "move" and model:
                entry = data.draw(st.sampled_from(list(model.values())))
                expect = data.draw(st.sampled_from([state for state in State if MOVES[state]]))
                after = data.draw(st.sampled_from(MOVES[expect]))
                if entry.state is expect:
                    model[entry.attempt_id] = ledger.move(entry.attempt_id, expect, after, NOW, detail=str(after))
                else:
                    with pytest.raises(Moved) as caught:
                        ledger.move(entry.attempt_id, expect, after, NOW)
                    assert caught.value.entry == entry
            elif act == "note" and model:
                ledger.note(data.draw(st.sampled_from(list(model))), "alarm", NOW, {})
            elif act == "checkpoint":
                ledger.checkpoint(NOW)
            elif act == "reopen":
                ledger.close()
                ledger = stack.enter_context(Ledger.open(path, create=False))
        assert {entry.attempt_id: entry for entry in ledger.page(100)} == model
        report = ledger.verify()
        assert (report.ok, report.attempts) == (True, len(model))
