"""Lies are what no reader of one wire can catch: each is a whole answer of its wire, and its JSON decodes."""

import pytest
from tests.support import answers

from endmark.core import strictjson
from endmark.core.ending import Ending
from endmark.drills import edges, lies
from endmark.drills.faults import Body, DoesNotFit, Lie
from endmark.wires import names

STREAMS = {
    "openai-chat call": ("openai-chat", answers.chat_call()),
    "openai-chat text": ("openai-chat", answers.chat_text()),
    "anthropic call": ("anthropic", answers.messages_call()),
    "anthropic text": ("anthropic", answers.messages_text()),
    "gemini call": ("gemini", answers.gemini_call()),
    "ollama call": ("ollama", answers.ollama_call()),
}
DOCUMENTS = {
    "openai-chat document": ("openai-chat", answers.chat_document()),
    "anthropic document": ("anthropic", answers.messages_document()),
}
ALL = STREAMS | DOCUMENTS


def told(wire, body, at):
    (lie,) = Lie(at).play(Body(body, "", wire))
    assert isinstance(lie, bytes)
    return lie


def believed(wire, lie):
    """What the wire's own reader makes of it; raises Refused where it sees the lie."""
    reader = names.reader(wire)
    reader.feed(lie)
    return reader.finish(Ending.LAST_CHUNK)


def check(name, places):
    wire, body = ALL[name]
    whole = believed(wire, body)
    texts = set()
    for at in places:
        lie = told(wire, body, at)
        answer = believed(wire, lie)
        if bool(answer.tool_calls) == bool(whole.tool_calls):
            assert answer.stop_reason == whole.stop_reason
        text = answer.tool_calls[0].arguments if answer.tool_calls else answer.text
        if text.lstrip().startswith("{"):
            strictjson.loads(text.encode())
        texts.add(text)
    return texts


def said_something(name, cuts):
    """From where on there is some text or a call: an answer that says nothing is refused by every wire."""
    if len(cuts) <= 8:
        return 0
    return cuts[6] if "anthropic" in name else cuts[2]


@pytest.mark.parametrize("name", STREAMS)
def test_at_event_edges_a_lie_is_believed_by_the_reader_of_its_wire(name):
    wire, body = ALL[name]
    cuts = edges.edges(body, edges.shape_of(body, "", wire))
    texts = check(name, [cut for cut in cuts if cut >= said_something(name, cuts)])
    assert len(texts) > min(len(cuts) // 4, 10) or len(cuts) <= 8


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_document_keeps_its_share(name):
    _, body = ALL[name]
    assert len(check(name, range(0, len(body), 97))) > 10


@pytest.mark.parametrize("name", ["gemini call", "ollama call"])
def test_a_call_that_comes_whole_is_cut_inside(name):
    _, body = ALL[name]
    texts = check(name, range(0, len(body), 41))
    assert len(texts) > 10


@pytest.mark.soak
@pytest.mark.parametrize("name", ALL)
def test_at_every_byte(name):
    wire, body = ALL[name]
    cuts = edges.edges(body, edges.shape_of(body, "", wire))
    check(name, range(said_something(name, cuts), len(body) + 1))


def test_the_incident_has_fewer_statements_and_claims_a_normal_stop():
    wire, body = STREAMS["openai-chat call"]
    answer = believed(wire, told(wire, body, len(body) // 2))
    made = strictjson.loads(answer.tool_calls[0].arguments.encode())
    assert 0 < len(made["statements"]) < made["stmt_count"] == 11
    assert "trailer" not in made  # only the model's own witness tells


def test_every_cut_json_text_can_be_closed():
    text = '{"a":[1,-2.5e3,"x\\u00e9\\n\\"",{"b":null,"c":true,"d":false}],"é":""}'
    for at in range(len(text) + 1):
        closed = text[:at] + lies.closing(text[:at])
        if closed:
            strictjson.loads(closed.encode())


def test_a_text_that_is_no_json_is_left_alone():
    assert lies.closing("I will apply the sch") == ""


def test_what_is_no_answer_of_the_wire_cannot_be_lied_about():
    with pytest.raises(DoesNotFit, match="the body is no whole answer of the wire anthropic"):
        Lie(9).play(Body(b'data: {"x":1}\n\n', "text/event-stream", "anthropic"))
