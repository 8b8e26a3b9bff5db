"""Faults of what a body says: their text form goes there and back, and each does to the bytes what it says."""

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from endmark.core import mc1, strictjson
from endmark.core.refusal import Refused
from endmark.drills import faults, structure
from endmark.drills.body import Body, DoesNotFit
from endmark.drills.damage import Close, DropSentinel, Input, OfKey, Put, Splice, Zero
from endmark.drills.faults import BadFault, Both, Cut, Flip

PLACES = st.integers(0, 10**10 - 1)
SIDES = st.sampled_from("AB")
KEYS = st.from_regex(r"[A-Za-z_][\w.:$-]{0,30}", fullmatch=True).filter(str.isascii)
DAMAGE = st.one_of(
    st.builds(DropSentinel, st.booleans()),
    st.builds(OfKey, st.sampled_from(["dup", "drop", "null"]), KEYS, st.booleans()),
    st.builds(Splice, SIDES, PLACES, SIDES, PLACES),
    st.builds(Put, st.sampled_from(["insert", "set"]), PLACES, st.binary(min_size=1, max_size=40)),
    st.builds(Zero, PLACES, PLACES),
    st.builds(Close, PLACES),
    st.builds(Input, st.binary(max_size=80)),
)
BARE = b'{"verdict": "pass", "n": [1, {"a": 2}], "z": "\xc3\xa9"}'
SEALED = mc1.seal(BARE)


def left(text, data=SEALED, other=None):
    (sent,) = faults.parse(text).play(Body(data, other=other))
    return sent


@given(DAMAGE)
def test_every_fault_is_one_line_of_text_and_comes_back_from_it(fault):
    assert faults.parse(str(fault)) == fault
    assert str(fault).isascii()
    assert len(str(fault).split()) == 1


@given(DAMAGE, st.builds(Flip, PLACES, st.integers(0, 7)))
def test_so_do_two_at_once(first, second):
    assert faults.parse(str(Both(first, second))) == Both(first, second)
    assert faults.parse(f"{first}~{second}~cut:1") == Both(first, Both(second, Cut(1)))


@pytest.mark.parametrize(
    "text",
    ["drop-sentinel+", "drop-sentinel:1", "dup-key:", "dup-key: a", "dup-key:a b", "twice-key:a", "splice:A@1",
     "splice:C@1,A@2", "splice:A@1,B@", "insert:1=", "insert:1=7", "insert:1=7D", "set:x=00", "zero:1", "zero:1-",
     "close:", "input:7", "input:zz", "cut:1~", "~cut:1", "insert:11111111111=00"],
)  # fmt: skip
def test_what_is_no_fault_is_told(text):
    with pytest.raises(BadFault, match="is no fault; something like"):
        faults.parse(text)


def test_a_dropped_sentinel():
    assert left("drop-sentinel") == SEALED.removesuffix(b"\nEND\n")
    again = left("drop-sentinel+refix")
    assert again == b"MC1 %d %s\n%s" % (len(BARE), hashlib.sha256(BARE).hexdigest().encode(), BARE)
    with pytest.raises(Refused, match="sentinel"):
        mc1.read(again)


def test_keys_twice_missing_and_null():
    twice = left("dup-key:n", BARE)
    assert twice == b'{"verdict": "pass", "n": [1, {"a": 2}], "n": [1, {"a": 2}], "z": "\xc3\xa9"}'
    with pytest.raises(Refused, match="a key stands twice"):
        strictjson.loads(twice)
    for key in ("verdict", "n", "z"):
        whole = strictjson.loads(BARE)
        assert strictjson.loads(left(f"null-key:{key}", BARE)) == whole | {key: None}
        del whole[key]
        assert strictjson.loads(left(f"drop-key:{key}", BARE)) == whole
    assert strictjson.loads(left("drop-key:a", b'{"a": 1}')) == {}


def test_a_refixed_envelope_is_one_again():
    sealed = left("drop-key:n+refix")
    envelope = mc1.read(sealed)
    assert strictjson.loads(sealed, envelope.start, envelope.end) == {"verdict": "pass", "z": "é"}
    with pytest.raises(Refused):
        mc1.read(left("drop-key:n"))


def test_splices():
    assert left("splice:A@2,B@3", b"abcdef", b"uvwxyz") == b"abxyz"
    assert left("splice:B@2,A@3", b"abcdef", b"uvwxyz") == b"uvdef"
    assert left("splice:A@1,A@4", b"abcdef") == b"aef"
    assert left("splice:A@4,A@1", b"abcdef") == b"abcdbcdef"


def test_bytes_put_in_and_zeroed():
    assert left("insert:0=efbbbf", b"{}") == b"\xef\xbb\xbf{}"
    assert left("insert:2=7d", b"{}") == b"{}}"
    assert left("set:1=5d", b"{}") == b"{]"
    assert left("zero:1-3", b"abcd") == b"a\0\0d"
    assert left("input:", b"abcd") == b""


def test_closing_gives_json_that_decodes_and_begins_alike():
    closed = 0
    for at in range(1, len(BARE)):
        try:
            sent = left(f"close:{at}", BARE)
        except DoesNotFit:
            continue
        assert sent.startswith(BARE[:at])
        strictjson.loads(sent)
        closed += 1
    assert closed > len(BARE) // 2


def test_two_at_once_are_one_after_the_other():
    assert left("insert:0=2020~cut:3", b"abcd") == b"  a"
    assert left("cut:3~insert:3=21", b"abcd") == b"abc!"


@pytest.mark.parametrize(
    ("text", "data", "why"),
    [
        ("drop-sentinel", BARE, "no envelope with a sentinel"),
        ("drop-sentinel", SEALED[:-1], "no envelope with a sentinel"),
        ("dup-key:absent", BARE, "has no key 'absent'"),
        ("dup-key:a", BARE, "has no key 'a'"),
        ("null-key:verdict", BARE[:-1], "has no key 'verdict'"),
        ("splice:A@1,B@1", BARE, "no other body"),
        ("splice:A@1,A@99", BARE, "the fault needs 99"),
        ("set:1=0000", b"{}", "has 2 bytes, the fault needs 3"),
        ("zero:3-3", BARE, "nothing stands between"),
        ("close:1", SEALED, "no JSON to close"),
        ("close:3", b"[1, 2]", "no JSON to close"),
        ("stall:1~cut:1", BARE, "only the last of two"),
    ],
)
def test_what_does_not_fit_is_told(text, data, why):
    with pytest.raises(DoesNotFit, match=why):
        left(text, data)


@settings(max_examples=60)
@given(st.data())
def test_the_members_of_an_object_are_found_where_they_stand(data):
    scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=8))
    values = st.recursive(
        scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner), max_leaves=8
    )
    document = data.draw(st.dictionaries(st.text(max_size=8), values, min_size=1, max_size=5))
    indent = data.draw(st.sampled_from([None, 0, 2]))
    try:
        raw = json.dumps(document, ensure_ascii=data.draw(st.booleans()), indent=indent).encode()
        strictjson.loads(raw)
    except (Refused, UnicodeEncodeError):
        return
    members = structure.of(raw).members
    assert [member.key for member in members] == list(document)
    for member in members:
        assert strictjson.loads(b"{%b}" % raw[member.start : member.end]) == {member.key: document[member.key]}
        assert strictjson.loads(b'{"v": %b}' % raw[member.value : member.end]) == {"v": document[member.key]}
