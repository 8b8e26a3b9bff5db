"""A document asked at every byte says what the strict reader says of the same bytes, and costs no reading at each."""

import random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.wires import bodies, bodies_openai
from tests.wires.support import TURNS, portions

from endmark.core import strictjson
from endmark.core.ending import Ending
from endmark.core.refusal import Refused
from endmark.wires.names import reader
from endmark.wires.reading import _Growing

DOCUMENTS = [
    make(TURNS[kind]) for make in (bodies.ollama_document, bodies_openai.openai_chat_document) for kind in TURNS
]
MARKS = [
    *(b"{", b"}", b"[", b"]", b'"', b"\\", b",", b":", b" ", b"\n", b"\r\n", b"1", b"-", b"null", b'"a":', b"1e999"),
    *(
        b'{"a":1}',
        b'{"a":1,"a":2}',
        b'{"a":"}"}',
        b'{"a":"{"}',
        b"\xff",
        b"\xc5\xbe",
        b"\xc5",
        b"[" * 65,
        b"\0",
        b"\\ud83d",
    ),
]


def said(ask):
    """A value, or a refusal with all that it says."""
    try:
        return ask()
    except Refused as refused:
        return refused.signal, refused.received_bytes, refused.expected_bytes, refused.detail


def same_at_every_portion(parts):
    growing, sofar = _Growing(), b""
    for part in parts:
        growing.add(part)
        sofar += part
        assert said(growing.document) == said(lambda raw=sofar: strictjson.loads(raw))
    return growing


@pytest.mark.parametrize("raw", DOCUMENTS, ids=["ollama-plan", "ollama-verdict", "openai-plan", "openai-verdict"])
def test_a_document_and_what_may_stand_around_it(raw):
    for made in (raw, b" \r\n\t" + raw + b"\n \n", raw + b"x", raw + raw, b"[" + raw + b"]", raw[:-1] + b",}", raw * 2):
        same_at_every_portion([made[at : at + 1] for at in range(len(made))])


@given(st.lists(st.sampled_from(MARKS), max_size=12))
@example([b'{"a":1}', b" ", b"x", b"}"])
@example([b'{"a":"', b"}", b'{"a":1}', b'"', b"}", b" "])
@example([b"{", b"[" * 65, b"}", b" "])
def test_any_text_at_any_portion(parts):
    same_at_every_portion(parts)


@given(st.sampled_from(DOCUMENTS), st.integers())
def test_a_damaged_document(raw, seed):
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(raw))
        raw = raw[:at] + rng.choice(MARKS) + raw[at + rng.choice([0, 1, 9]) :]
    same_at_every_portion(list(portions(raw, rng))[:400])


def test_a_refusal_explains_itself_by_the_bytes_it_was_made_for():
    """Its words are made when they are read, which may be when more has come, or all is gone."""
    growing = _Growing()
    growing.add(b'{"a": tru')
    with pytest.raises(Refused) as refused:
        growing.document()
    growing.add(b'e, "b": 1}')
    growing.taken()
    assert refused.value.detail == said(lambda: strictjson.loads(b'{"a": tru'))[3]


def test_reading_starts_when_a_bracket_closes_and_not_at_every_byte(monkeypatch):
    raw = bodies.ollama_document(TURNS["plan"])
    asked = []
    real = strictjson.loads

    def loads(data):
        asked.append(len(data))
        return real(data)

    monkeypatch.setattr(strictjson, "loads", loads)
    made = reader("ollama")
    for at in range(len(raw)):
        made.feed(raw[at : at + 1])
        if at < len(raw) - 1:
            with pytest.raises(Refused):
                made.finish(Ending.LAST_CHUNK)
    assert made.finish(Ending.LAST_CHUNK)
    assert len(asked) <= 2 * raw.count(b"}")
