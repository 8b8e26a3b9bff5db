"""endmark's own gates, drilled by endmark's own drill: nothing is taken. And a gate of theirs with a hole shows it."""

import pytest
from tests.core import payloads
from tests.drills.sweeping import counts, drill, holes
from tests.support import answers

from endmark.core import mc1, proof
from endmark.core.ending import Ending
from endmark.core.refusal import Refused, Signal
from endmark.drills.body import Body
from endmark.drills.families import of_data
from endmark.drills.targets import inprocess
from endmark.drills.targets.answer import Answer
from endmark.drills.targets.inprocess import GateTarget
from endmark.seal import seal
from endmark.sources.capture import Capture

EVERY = "cuts,flips,tokens,closes,keys,sentinel,gaps,mutations:2000,pairs:2000"
PLAN = payloads.of_size(1_300)
FINDINGS = [{"severity": "advisory", "path": "a.py", "line": 3, "message": "é"}]
VERDICT = payloads.envelope(payloads.dump(payloads.verdict(findings=FINDINGS, marks=["m1", "m2"])))


@pytest.mark.parametrize(("gate", "data"), [("plan", PLAN), ("verdict", VERDICT)])
def test_no_fault_of_an_envelope_is_accepted(gate, data):
    other = payloads.envelope(payloads.dump(payloads.document(job_id="job_2")))
    swept = drill(GateTarget(gate=gate), Body(data, other=other), f"{EVERY},splices", batch=4096)
    assert (swept.control, holes(swept), swept.exit_code) == ("accepted", [], 0)
    assert set(counts(swept)) <= {"REFUSED", "NO_FAULT"}
    assert swept.tried > 9 * len(data) + 4_000


def test_a_bare_plan_shows_what_its_digest_does_not_cover_and_nothing_else():
    """Flips of its job id, and keys that may be missing: spec/plan.md, P20."""
    document = payloads.document(after=["job_0"])
    trailer = document.pop("trailer")
    raw = payloads.dump({**document, "trailer": trailer})
    swept = drill(GateTarget(gate="plan"), raw, "cuts,closes,flips,tokens", batch=4096)
    spans = payloads.spans(raw)
    for text in holes(swept):
        kind, _, place = text.partition(":")
        assert kind == "flip"
        assert any(int(place.partition(".")[0]) in span for span in spans), text
    assert len(holes(swept)) > 20


def test_a_gate_takes_only_its_own_form():
    assert drill(GateTarget(gate="verdict"), PLAN).control == "refused (wrong-value)"
    assert drill(GateTarget(gate="plan"), VERDICT).control == "refused (wrong-value)"


WIRES = {
    "openai-chat": answers.chat_call,
    "openai-responses": answers.responses_call,
    "anthropic": answers.messages_call,
    "mistral": answers.mistral_call,
}


@pytest.mark.parametrize("wire", WIRES)
def test_no_cut_of_a_stream_is_sealed(wire):
    body = Body(WIRES[wire](answers.witness(statements=answers.ELEVEN[:3])), "text/event-stream", wire)
    target = GateTarget(gate="stream", wire=wire, tool="apply_schema")
    swept = drill(target, body, "cuts,events,terminal", batch=4096)
    assert (swept.control, holes(swept)) == ("accepted", [])
    assert swept.tried > len(body.data)


@pytest.mark.parametrize("wire", ["openai-chat", "anthropic"])
def test_of_a_lying_server_only_the_whole_plan_is_sealed(wire):
    """Where the trailer had come before the cut, nothing was lost: what is sealed then is the very same plan."""
    whole = WIRES[wire](answers.witness(statements=answers.ELEVEN[:3]))
    body = Body(whole, "text/event-stream", wire)
    swept = drill(GateTarget(gate="stream", wire=wire, tool="apply_schema"), body, "lies", batch=4096)
    sealed = {
        seal(Capture(raw=of_data(fault, body), ending=Ending.LAST_CHUNK, wire=wire), tool="apply_schema").envelope
        for fault, _, _ in swept.found(Answer.ACCEPTED)
    }
    assert sealed == {seal(Capture(raw=whole, ending=Ending.LAST_CHUNK, wire=wire), tool="apply_schema").envelope}
    assert swept.count(Answer.REFUSED) > len(whole) // 2


HOLES = {
    "a digest that is not compared": ("cut", lambda raw: raw[:-7] == PLAN[:-7] or proof.prove(raw)),
    "the sentinel is enough": ("flip", lambda raw: None if raw.endswith(b"\nEND\n") else _no()),
    "a crash at one place": ("crash", lambda raw: raw[700] and proof.prove(raw)),
}


def _no():
    raise Refused(Signal.NO_SENTINEL, 0)


@pytest.mark.parametrize("gate", HOLES)
def test_a_weaker_gate_is_found_out(gate, monkeypatch):
    """What is swept at speed is swept for holes too, and each is the one that asking by hand finds."""
    found, check = HOLES[gate]
    monkeypatch.setattr(inprocess, "_gate", lambda target: check)
    swept = drill(GateTarget(gate="plan"), PLAN, "cuts,flips", batch=1000)
    by_hand = []
    for family, texts in zip(swept.families, swept.cells, strict=True):
        for number in range(len(texts)):
            data = b"".join(family.fault(swept.body, number).fault.play(swept.body))
            try:
                check(data)
            except (Refused, IndexError):
                continue
            by_hand.append(str(family.fault(swept.body, number)))
    assert holes(swept) == by_hand
    assert (swept.count(Answer.CRASHED) > 0) == (found == "crash")
    assert bool(by_hand) == (found != "crash")


def test_a_hang_at_speed_is_found(monkeypatch):
    def check(raw):
        while len(raw) == 77:
            pass
        mc1.read(raw)

    monkeypatch.setattr(inprocess, "_gate", lambda target: check)
    swept = drill(GateTarget(gate="plan"), PLAN, "cuts", batch=4096, limit=0.2)
    assert [str(fault) for fault, _, _ in swept.found(Answer.HUNG)] == ["cut:77"]
    assert swept.count(Answer.REFUSED) == len(PLAN) - 1


@pytest.mark.soak
def test_many_mutations_on_every_core():
    swept = drill(GateTarget(gate="plan"), PLAN, "mutations:1000000,pairs:500000", workers=2, batch=4096)
    assert (swept.control, holes(swept)) == ("accepted", [])
