"""Every vector of the wires gives its one answer: in one piece, byte by byte, with bytes after it, and cut anywhere."""

from collections.abc import Iterable

import pytest
from tests.vectors import build_wires
from tests.wires import vectors
from tests.wires.support import bytewise, fed, outcome
from tests.wires.vectors import Vector

from endmark.core.ending import WHOLE, Ending
from endmark.core.refusal import Refused
from endmark.wires.answer import Answer
from endmark.wires.names import reader

VECTORS = vectors.load()
ACCEPTED = [vector for vector in VECTORS if vector.accepted]
OURS = ("openai-chat", "openai-responses", "anthropic")


def named(chosen):
    return pytest.mark.parametrize("vector", chosen, ids=lambda vector: vector.name)


def answer(vector: Vector, parts: Iterable[bytes], ending: Ending | None = None) -> Answer:
    return fed(vector.reader(), parts).finish(ending or vector.ending)


@named(VECTORS)
def test_a_vector_gives_its_answer(vector):
    for parts in ([vector.raw], bytewise(vector.raw), [b"", vector.raw, b""]):
        if not vector.accepted:
            with pytest.raises(Refused) as refused:
                answer(vector, parts)
            assert refused.value.signal == vector.expect
            assert refused.value.received_bytes == len(vector.raw)
            assert refused.value.expected_bytes is None or vector.header["wire"] == "bedrock"
            assert refused.value.detail
            assert refused.value.detail.isprintable()
            assert len(refused.value.detail) < 250
            continue
        found = answer(vector, parts)
        assert found.received_bytes == len(vector.raw)
        calls = [[call.name, call.id, call.arguments] for call in found.tool_calls]
        assert {"text": found.text, "calls": calls, "stop_reason": found.stop_reason} == vector.answer
        assert "evidence" not in vector.header or vector.header["evidence"] in found.evidence
        assert f"transport:{vector.ending}" in found.evidence


@named(ACCEPTED)
def test_it_may_be_asked_twice(vector):
    """A12: asking changes nothing."""
    reader = vector.reader()
    for part in bytewise(vector.raw):
        for ending in (Ending.RESET, vector.ending):
            outcome(reader, ending)
        reader.feed(part)
    assert reader.finish(vector.ending) == reader.finish(vector.ending) == answer(vector, [vector.raw])


@named([vector for vector in ACCEPTED if "ended-only" in vector.header])
def test_what_only_ended_is_not_sealed(vector):
    """A13 is for a guard: asked as for a seal, each of these is refused."""
    with pytest.raises(Refused):
        fed(reader(vector.header["wire"]), [vector.raw]).finish(vector.ending)


@named([vector for vector in ACCEPTED if vector.ending in WHOLE])
def test_no_ending_but_a_whole_one_will_do(vector):
    """A3, for every wire."""
    reader = fed(vector.reader(), [vector.raw])
    for ending in set(Ending) - WHOLE:
        with pytest.raises(Refused) as refused:
            reader.finish(ending)
        assert refused.value.received_bytes == len(vector.raw)


@named([vector for vector in VECTORS if vector.name.split("/")[0] in OURS])
def test_a_vector_is_small_and_says_its_rule_is_there(vector):
    assert len(vector.raw) < 5_000
    assert vector.header["rule"][0].isupper()


def test_the_builder_writes_the_files_that_are_there():
    """Byte for byte, none more and none less."""
    there = {vector.name: vectors.FOLDER / vector.name for vector in vectors.load(*OURS)}
    assert build_wires.build() == {name: path.read_bytes() for name, path in there.items()}


HEAD = b"expect: empty\ncomment: x\nrule: A1\nwire: anthropic\nending: closed\nreceived: 0\n"


@pytest.mark.parametrize(
    "content",
    [
        HEAD,
        HEAD + b"\nx",
        HEAD + b"colour: red\n\n",
        HEAD + b"rule: A1\n\n",
        HEAD + b"answer: {}\n\n",
        HEAD + b"stop-sequences: no\n\n",
        HEAD.replace(b"empty", b"fine") + b"\n",
        HEAD.replace(b"empty", b"answer") + b"\n",
        HEAD.replace(b"anthropic", b"telex") + b"\n",
        HEAD.replace(b"rule: A1\n", b"") + b"\n",
    ],
)
def test_a_vector_that_is_not_understood_is_refused(content):
    with pytest.raises(ValueError, match="name"):
        vectors.parse("name", content)
