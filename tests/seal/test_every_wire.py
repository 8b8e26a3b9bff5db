"""The same table for every wire, as a stream and as one document: a plan's call and a verdict's text.

Whole: sealed, always to the same bytes. Cut at any byte, however the connection ends: refused. Cut by a server that
closes the JSON, and the body, and says that all is well: refused.
"""

import gzip
import random
import zlib
from collections.abc import Callable, Iterator

import brotli  # type: ignore[import-untyped]  # it has no types
import msgspec
import pytest
from backports import zstd
from tests.seal.lies import closings, value_of
from tests.support import answers
from tests.wires import bodies, bodies_openai
from tests.wires.bodies import Call, Turn, dump

from endmark.core import mc1, plan, strictjson
from endmark.core.ending import Ending
from endmark.core.refusal import Refused
from endmark.seal import AnswerRefused, seal
from endmark.sources.capture import Capture
from endmark.wires import names

TOOL = "apply_schema"
MARKS = ["m-1f", "m-2a", "m-9c"]
WITNESS = answers.witness()
VERDICT = answers.verdict(marks=MARKS)
SEALED = plan.seal(plan.read_witness(strictjson.loads(WITNESS.encode()), 0))

STREAMS: dict[str, Callable[..., bytes]] = {**bodies_openai.STREAMS, **bodies.STREAMS}
DOCUMENTS: dict[str, Callable[..., bytes]] = {**bodies_openai.DOCUMENTS, **bodies.DOCUMENTS}
FORMS = {"stream": STREAMS, "document": DOCUMENTS}
# Where the provider hands the arguments over as an object, the witness form is a string in it.
AS_OBJECT = {(wire, form) for wire in ("gemini", "gemini-array", "ollama") for form in FORMS}
AS_OBJECT |= {("anthropic", "document"), ("bedrock", "document")}

CASES = [(wire, form, kind) for wire in STREAMS for form in FORMS for kind in ("plan", "verdict")]
every_case = pytest.mark.parametrize(("wire", "form", "kind"), CASES, ids=["-".join(case) for case in CASES])

# How the connection ends after a cut: a polite 0-chunk, a length that fits the cut, FIN without the 0-chunk or before
# the declared length (both `short`), FIN where nothing was declared, a reset, silence.
ENDINGS = (Ending.LAST_CHUNK, Ending.LENGTH_MET, Ending.SHORT, Ending.CLOSED, Ending.RESET, Ending.IDLE)


def test_every_wire_is_here():
    assert set(STREAMS) == set(DOCUMENTS) == {name.partition("+")[0] for name in names.NAMES}


def body_of(wire: str, form: str, kind: str, text: str) -> bytes:
    """What a provider sends when the model wrote `text`."""
    if kind == "verdict":
        return FORMS[form][wire](Turn(text=text))
    arguments = dump({"plan": text}) if (wire, form) in AS_OBJECT else text
    return FORMS[form][wire](Turn(calls=(Call(TOOL, arguments),)))


def whole_of(wire: str, form: str, kind: str) -> bytes:
    return body_of(wire, form, kind, WITNESS if kind == "plan" else VERDICT)


def sealed(raw: bytes, wire: str, kind: str, ending: Ending) -> bytes | None:
    """The envelope; None where it is refused, with every byte counted."""
    capture = Capture(raw=raw, ending=ending, wire=wire)
    try:
        return seal(capture, tool=TOOL if kind == "plan" else None, marks=None if kind == "plan" else MARKS).envelope
    except AnswerRefused as caught:
        refused = caught
    assert refused.received_bytes == len(raw)
    return None


@every_case
def test_a_whole_answer_is_sealed(wire, form, kind):
    expected = SEALED if kind == "plan" else mc1.seal(VERDICT.encode())
    for ending in (Ending.LAST_CHUNK, Ending.LENGTH_MET, Ending.END_STREAM, Ending.END_OF_FILE):
        assert sealed(whole_of(wire, form, kind), wire, kind, ending) == expected
    for ending in (Ending.SHORT, Ending.CLOSED, Ending.RESET, Ending.IDLE):
        assert sealed(whole_of(wire, form, kind), wire, kind, ending) is None


@every_case
def test_no_cut_is_sealed_however_it_ends(wire, form, kind):
    """Every offset: the reader that `seal` uses is asked what it would say."""
    raw = whole_of(wire, form, kind)
    asked = names.reader(wire)
    tried = content = 0
    for at in range(len(raw)):
        for ending in ENDINGS:
            tried += 1
            try:
                asked.finish(ending)
            except Refused:
                continue
            content += 1
        asked.feed(raw[at : at + 1])
    assert tried == len(raw) * len(ENDINGS)
    assert content == 0


@every_case
def test_no_cut_is_sealed_when_read_from_its_start(wire, form, kind):
    """As above without the shortcut, at some offsets."""
    raw = whole_of(wire, form, kind)
    for at in [*range(0, len(raw), 211), len(raw) - 2, len(raw) - 1]:
        for ending in ENDINGS:
            assert sealed(raw[:at], wire, kind, ending) is None


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("wire", STREAMS)
def test_a_coded_stream_is_sealed_and_its_cuts_are_not(wire, coding):
    """Varied good streams too: what the coding carries is read like any other."""
    coded = CODINGS[coding](whole_of(wire, "stream", "plan"))
    capture = Capture(raw=coded, ending=Ending.LAST_CHUNK, wire=wire, content_encoding=coding)
    assert seal(capture, tool=TOOL).envelope == SEALED
    for at in range(0, len(coded), 7):
        with pytest.raises(AnswerRefused):
            seal(msgspec.structs.replace(capture, raw=coded[:at]), tool=TOOL)
    arguments = dump({"plan": WITNESS}) if (wire, "stream") in AS_OBJECT else WITNESS
    for seed in range(5):
        raw = STREAMS[wire](Turn(calls=(Call(TOOL, arguments),), thoughts="hm, " * 9), random.Random(seed))
        varied = msgspec.structs.replace(capture, raw=CODINGS[coding](raw))
        assert seal(varied, tool=TOOL).envelope == SEALED


def lies(wire: str, form: str, kind: str) -> Iterator[bytes]:
    """Bodies whose server cut the model's text, closed its JSON in some way, and ended them normally.

    Where only closing brackets were lost, closing them makes the same value: nothing was lost, nothing is found.
    """
    text = WITNESS if kind == "plan" else VERDICT
    same = value_of(text)
    for at in range(len(text)):
        for content in dict.fromkeys([text[:at], *closings(text[:at])]):
            if value_of(content) != same:
                yield body_of(wire, form, kind, content)


@every_case
def test_the_lying_server_gets_nothing_sealed(wire, form, kind):
    tried = 0
    for raw in lies(wire, form, kind):
        tried += 1
        assert sealed(raw, wire, kind, Ending.LAST_CHUNK) is None
    assert tried > 2 * len(WITNESS if kind == "plan" else VERDICT)
