"""On every wire a lie can be told: the wire's own reader takes it, and only the model's own witness refuses it."""

import pytest
from tests.wires import bodies, bodies_openai, six, support
from tests.wires.bodies import Call, Turn, dump

from endmark.core import strictjson
from endmark.core.ending import Ending
from endmark.core.refusal import Refused, Signal
from endmark.drills.faults import Body, Lie
from endmark.seal import seal
from endmark.sources.capture import Capture
from endmark.wires import names

STREAMS = bodies.STREAMS | bodies_openai.STREAMS
DOCUMENTS = bodies.DOCUMENTS | bodies_openai.DOCUMENTS
WIRES = sorted({name.partition("+")[0] for name in names.NAMES})


def told(wire, body, at):
    (lie,) = Lie(at).play(Body(body, "", wire))
    assert isinstance(lie, bytes)
    return lie


def believed(wire, lie):
    reader = names.reader(wire)
    reader.feed(lie)
    return reader.finish(Ending.LAST_CHUNK)


def sealed(wire, raw):
    return seal(Capture(raw=raw, ending=Ending.LAST_CHUNK), wire=wire, tool="apply_schema")


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("made", [STREAMS, DOCUMENTS], ids=["stream", "document"])
def test_a_lie_is_believed_without_the_witness_and_refused_through_it(wire, made):
    parsed = wire in six.PARSED or (made is DOCUMENTS and wire in ("anthropic", "bedrock"))
    turn = Turn(calls=(Call("apply_schema", dump({"plan": support.PLAN}) if parsed else support.PLAN),))
    body = made[wire](turn)
    whole = believed(wire, body).tool_calls[0].arguments
    assert sealed(wire, body)
    lied = 0
    for at in range(0, len(body), max(1, len(body) // 40)):
        lie = told(wire, body, at)
        answer = support.outcome(support.fed(names.reader(wire), [lie]))
        if isinstance(answer, Refused):  # nothing of the answer had come yet
            assert answer.signal is Signal.EMPTY, at
            assert not lied
            continue
        if not answer.tool_calls or answer.tool_calls[0].arguments == whole:
            continue
        lied += 1
        with pytest.raises(Refused):
            sealed(wire, lie)
    assert lied > 8


@pytest.mark.parametrize("wire", WIRES)
def test_a_verdict_is_lied_about_too(wire):
    body = STREAMS[wire](six.turns(wire)["verdict"])
    texts = set()
    for at in range(len(body) // 8, len(body), max(1, len(body) // 60)):
        answer = support.outcome(support.fed(names.reader(wire), [told(wire, body, at)]))
        if isinstance(answer, Refused):
            assert answer.signal is Signal.EMPTY, at
        else:
            strictjson.loads(answer.text.encode())
            texts.add(answer.text)
    assert len(texts) > 1
