"""Families: each counts its faults, knows each by its number, and makes the same again from the same seed."""

import pytest
from tests.core import payloads

from endmark.core import mc1, strictjson
from endmark.core.refusal import Refused
from endmark.drills import edges, families, faults, structure
from endmark.drills.body import Body, DoesNotFit
from endmark.drills.families import NAMES, Family, of_data
from endmark.drills.faults import BadFault, Cut, End

PLAN = Body(mc1.seal(payloads.dump(payloads.document())))
BARE = Body(payloads.dump(payloads.verdict()), other=payloads.dump(payloads.verdict(verdict="fail")))
STREAM = Body(b"data: 1\n\ndata: 22\n\ndata: [DONE]\n\n", "text/event-stream")


def texts(kind, body, seed=0):
    family = Family(kind, seed)
    return [str(family.fault(body, number)) for number in range(family.count(body))]


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("body", [PLAN, BARE, STREAM], ids=["envelope", "bare", "stream"])
def test_every_fault_is_spelled_and_comes_back(kind, body):
    for text in texts(kind, body):
        assert str(faults.parse_broken(text)) == text


@pytest.mark.parametrize("kind", ["cuts", "flips"])
def test_what_is_made_at_speed_is_what_the_faults_say(kind):
    family = Family(kind)
    for numbers in (range(family.count(PLAN)), range(100, 117), range(7, 8)):
        quick = family.payloads(PLAN, numbers)
        assert quick is not None
        assert list(quick) == [of_data(family.fault(PLAN, number), PLAN) for number in numbers]


def test_cuts_are_every_prefix_and_flips_every_bit():
    cuts = [of_data(Family("cuts").fault(BARE, n), BARE) for n in range(Family("cuts").count(BARE))]
    assert cuts == [BARE.data[:at] for at in range(len(BARE.data))]
    flips = {of_data(Family("flips").fault(BARE, n), BARE) for n in range(Family("flips").count(BARE))}
    assert len(flips) == 8 * len(BARE.data)
    assert all(sum((a ^ b).bit_count() for a, b in zip(flip, BARE.data, strict=True)) == 1 for flip in flips)


def test_token_faults_cut_at_every_edge_and_lose_every_token():
    text = b'{"a": [1, "x,}"], "b": -2.5e3}'
    tokens = [text[span.start : span.end] for span in structure.of(text).tokens]
    assert tokens == [b"{", b'"a"', b":", b"[", b"1", b",", b'"x,}"', b"]", b",", b'"b"', b":", b"-2.5e3", b"}"]
    found = texts("tokens", Body(text))
    assert [f for f in found if f.startswith("cut")] == [
        f"cut:{at}" for at in (0, 1, 4, 5, 6, 7, 8, 9, 10, 15, 16, 17, 18, 21, 22, 23, 29)
    ]
    assert len([f for f in found if f.startswith("splice")]) == len(tokens)


def test_event_faults():
    assert texts("events", STREAM) == ["edge:0", "edge:1", "edge:2"]
    assert texts("dups", STREAM) == ["dup:0", "dup:1", "dup:2"]
    assert texts("terminal", STREAM) == ["terminal-"]
    assert texts("stalls", STREAM) == ["stall:0", "stall:9", "stall:19"]
    for kind in ("events", "dups", "terminal"):
        assert texts(kind, BARE) == []


def test_keys_and_sentinel():
    assert texts("keys", Body(b'{"a": 1}')) == ["dup-key:a", "drop-key:a", "null-key:a"]
    assert "dup-key:trailer+refix" in texts("keys", PLAN)
    assert texts("sentinel", PLAN) == ["drop-sentinel", "drop-sentinel+refix"]
    assert texts("sentinel", BARE) == []
    assert texts("keys", Body(b'{"a b": 1, "c": 2}')) == ["dup-key:c", "drop-key:c", "null-key:c"]


def test_splices_need_another_payload():
    assert BARE.other is not None
    assert texts("splices", PLAN) == []
    found = [of_data(Family("splices").fault(BARE, n), BARE) for n in range(Family("splices").count(BARE))]
    assert BARE.data[:20] + BARE.other[20:] in found
    assert BARE.other[:20] + BARE.data[20:] in found


def test_shorts_fins_and_rsts_end_badly():
    assert Family("shorts").fault(BARE, 3) == faults.Broken(Cut(3), End.SHORT)
    assert Family("fins").fault(BARE, 4) == faults.Broken(Cut(4), End.FIN)
    assert Family("rsts").fault(BARE, 5) == faults.Broken(Cut(5), End.RST)


@pytest.mark.parametrize("kind", ["mutations:300", "pairs:300"])
def test_chance_is_a_seed_and_nothing_else(kind):
    first = texts(kind, PLAN, seed=7)
    assert first == texts(kind, PLAN, seed=7)
    assert first != texts(kind, PLAN, seed=8)
    assert len(set(first)) > 150
    # the number alone says which one it is: no other has to be made before
    assert str(Family(kind, 7).fault(PLAN, 250)) == first[250]


def test_mutations_do_damage_mostly():
    changed = [number for number in range(500) if _left("mutations:500", number) != PLAN.data]
    assert len(changed) > 450


def _left(kind, number):
    return of_data(Family(kind).fault(PLAN, number), PLAN)


def test_closes_decode_everywhere_they_fit():
    family, fits = Family("closes"), 0
    for number in range(family.count(BARE)):
        try:
            sent = of_data(family.fault(BARE, number), BARE)
        except DoesNotFit:
            continue
        fits += 1
        assert strictjson.loads(sent) is not None
    assert fits > len(BARE.data) * 0.8


@pytest.mark.parametrize("spec", ["", "cut", "cuts,", "cuts:5", "mutations:0", "mutations:x", "cuts,cuts", "Cuts"])
def test_what_is_no_family_is_told(spec):
    with pytest.raises(BadFault):
        families.parse(spec, 0)


def test_the_list_is_kept_in_its_order():
    assert [family.spec for family in families.parse("flips, mutations:5,cuts", 3)] == ["flips", "mutations:5", "cuts"]


def test_same_value_sees_what_a_spelling_hides():
    a = b'{"a": "\\u0041", "b": [1]}'
    assert structure.same_value(a, b'{ "a":"A","b":[1] }\n')
    for other in (
        b'{"a": "B", "b": [1]}',
        b'{"b": [1], "a": "A"}',
        b'{"a": "A", "b": [1.0]}',
        b'{"a": "A", "b": [true]}',
    ):
        assert not structure.same_value(a, other)
    assert not structure.same_value(a, a[:-1])
    with pytest.raises(Refused):
        strictjson.loads(a[:-1])


def test_parts_of_a_payload_are_named_for_the_map():
    names = [span.name for span in structure.spans(PLAN.data, [0])]
    assert names[:5] == ["header", "tool", "job_id", "stmt_count", "sha256"]
    assert names[5:] == ["statements[0]", "statements[1]", "statements[2]", "trailer", "sentinel"]
    marks = edges.edges(STREAM.data, STREAM.shape)
    assert [span.name for span in structure.spans(STREAM.data, marks)] == ["event 0", "event 1", "event 2"]
