"""One step on either side of each bound, and what only one of several conditions refuses, with the words it says."""

import pytest
from tests.core.payloads import document, dump, envelope, witness
from tests.vectors import build_signature

from endmark.core import dsse, merge_message, plan, policy, proof, schemadiff, strictjson
from endmark.core.decision import Next
from endmark.core.outcome import standing
from endmark.core.patch_outcome import standing as patch_standing
from endmark.core.refusal import Refused, Signal
from endmark.core.schemadiff import Item, diff, lines
from endmark.core.states import Decision, State
from endmark.core.weaknesses import LARGE_DIFF, MANY_RETRIES, weaknesses

PLAN = dump(document())
OBJECT = b'{"a":1}'
BODY = OBJECT + b"\nEND\n"


def refusal(read, *arguments, **named):
    with pytest.raises(Refused) as refused:
        read(*arguments, **named)
    return refused.value.signal, refused.value.detail


def trusting(_keyid, _sig, _message):
    return True


# --- caps: what is as large as the cap is taken, one byte more is not


def test_the_cap_of_a_bare_body():
    assert proof.prove(PLAN, len(PLAN)).form == "plan"
    for verify in (None, trusting):  # a signed envelope may be longer, and what is not signed may not
        assert refusal(proof.prove, PLAN, len(PLAN) - 1, verify)[0] == "over-cap"


def test_what_is_over_the_cap_is_not_read():
    assert refusal(proof.prove, b"{" * 11, 10)[0] == "over-cap"
    assert refusal(proof.prove, b"{" * 10, 10)[0] == "not-json"
    assert refusal(proof.seal, b"{" * 11, 10)[0] == "over-cap"
    assert refusal(proof.seal, b"{" * 10, 10)[0] == "not-json"


def test_the_cap_of_what_is_sealed():
    assert proof.seal(OBJECT, len(BODY)) == envelope(OBJECT)
    assert refusal(proof.seal, OBJECT, len(BODY) - 1)[0] == "over-cap"
    assert proof.prove(envelope(OBJECT), len(BODY)).form == "body"
    assert refusal(proof.prove, envelope(OBJECT), len(BODY) - 1)[0] == "over-cap"


@pytest.mark.parametrize("value", [None, [PLAN], "text"])
def test_what_is_no_bytes_is_the_callers_fault(value):
    with pytest.raises(TypeError, match=f"bytes were expected, not {type(value).__name__}"):
        proof.prove(value)


@pytest.mark.parametrize("value", [bytearray(b'{"a":1}'), memoryview(b'{"a":1}'), '{"a":1}'])
def test_json_is_read_from_bytes_alone(value):
    with pytest.raises(TypeError, match=f"bytes were expected, not {type(value).__name__}"):
        strictjson.loads(value)


# --- numbers and depth


def test_the_bounds_of_an_integer():
    """J8: -2^63 has as many characters as a number may."""
    for number in (-(2**63), 2**63 - 1):
        assert strictjson.loads(b'{"a":%d}' % number) == {"a": number}
    for number in (-(2**63) - 1, 2**63, -(10**19), 10**19):
        assert refusal(strictjson.loads, b'{"a":%d}' % number)[0] == "integer-size"


def test_half_a_pair_is_found_before_a_long_text():
    """J9: escapes are looked for block by block."""
    raw = b'{"a":"\\ud800","b":"%s"}' % (b"x" * 40_000)
    assert refusal(strictjson.loads, raw)[0] == "lone-surrogate"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b'{"a":1}{', "something follows the end of the JSON object"),
        (b"{" + b"[" * 65, "brackets are nested deeper than 64"),
        (b'{"a":"x\xff', "the JSON is malformed at byte 7 (not UTF-8)"),
        (b'{"a":"x\xe2\x82', "the JSON ended early, after 9 bytes"),
    ],
)
def test_why_a_text_does_not_decode(raw, says):
    assert refusal(strictjson.loads, raw)[1] == says


def test_of_two_faults_the_first_rule_is_named():
    """J8 before J9."""
    assert refusal(strictjson.loads, b'{"a":9223372036854775808,"b":"\\ud800"}')[0] == "integer-size"


# --- plans


def test_one_bad_statement_among_many_is_found_wherever_it_stands():
    """P9, P10: statements are looked at in batches."""
    for bad, signal in (("", "blank-statement"), ("SELECT '\0'", "wrong-value")):
        for at in (0, 600, 1_199):
            many = ["SELECT 1"] * 1_200
            many[at] = bad
            for read in (proof.prove, proof.seal):
                assert refusal(read, dump(witness(many)))[0] == signal


def test_a_trailer_that_is_wrong_is_shown():
    assert refusal(proof.prove, dump(document(trailer="END")))[1] == "trailer is \"END\", 'END_APPLY' was expected"
    without = {key: value for key, value in document().items() if key != "trailer"}
    assert refusal(proof.prove, dump(without))[1] == "the trailer 'END_APPLY' is missing"
    assert refusal(plan.read, document(trailer=["END_APPLY"]), 1)[0] == "no-trailer"


def test_a_header_of_one_word():
    assert refusal(proof.prove, b"MC1\n")[1].startswith("the header is not 'MC1 length sha256'")


# --- signed envelopes


def signed(count=1, **changes):
    signatures = [build_signature.sig(build_signature.OURS, envelope(PLAN)) | changes] * count
    return build_signature.signed(envelope(PLAN), signatures)


def test_the_bounds_of_a_signed_envelope():
    """D5"""
    assert proof.prove(signed(dsse.MOST_SIGNATURES), verify=trusting).form == "plan"
    assert refusal(proof.prove, signed(dsse.MOST_SIGNATURES + 1), verify=trusting)[0] == "wrong-value"
    for keyid in (None, 7, ["k"]):
        assert "no Ed25519 signature" in refusal(proof.prove, signed(keyid=keyid), verify=trusting)[1]


# --- what stands where


def test_the_next_step_rests_on_the_state_first():
    """X2, X4, X6: whatever the signal says."""
    for signal in Signal:
        assert standing(State.SETTLED, signal) == (1, Next.NONE)
        if signal not in (Signal.TARGET_FAULT, Signal.ID_REUSED):
            assert {standing(state, signal)[1] for state in (State.STAGED, State.APPROVED)} == {Next.WAIT}
            assert standing(State.APPLIED, signal)[1] is Next.NONE
        assert patch_standing(Decision.FAIL, signal)[0] == 1
    assert standing(State.REJECTED, Signal.ID_REUSED)[1] is Next.NONE
    assert standing(State.DECLINED, Signal.COMPLETE)[1] is Next.NONE  # a person's word
    assert standing(State.DECLINED, Signal.SQL_ERROR)[1] is Next.RESEND  # found in rehearsal
    assert standing(State.STALE, Signal.COMPLETE)[1] is Next.WAIT
    assert patch_standing(Decision.INCOMPLETE, Signal.COMPLETE)[0] == 13


# --- records in a merge's message


def test_a_record_that_begins_the_message_is_read_and_two_are_none():
    """R11"""
    record = b"record"
    whole = merge_message.write("Merge", "dec_" + "0" * 26, record)
    begin, end = merge_message.BEGIN, merge_message.END
    alone = whole[whole.index(begin) :]
    assert merge_message.record_of(alone) == record
    for message in (alone + alone, alone.replace(begin, begin + begin), alone.replace(end, end + end)):
        assert "more than one record" in refusal(merge_message.record_of, message)[1]


# --- policies

BRANCH = '[branches.main]\npolicy = "p"\nreviewers = ["a"]\n'
MODEL = '[reviewers.a]\nkind = "openai"\nmodel = "m"\ncapacity = "dedicated"\n'
COMMAND = '[reviewers.a]\nkind = "command"\ncommand = ["review"]\ncapacity = "dedicated"\n'


def person(glob):
    return BRANCH + f"always_person = ['{glob}']\n" + MODEL


def files(path):
    return BRANCH + COMMAND + f"files = ['{path}']\n"


def named(name):
    return f"[branches.{name}]" + BRANCH.partition("]")[2] + MODEL


TAKEN = {
    "the longest name": named("b" * 255),
    "idle as long as all": BRANCH + "idle_seconds = 9\ntotal_seconds = 9\n" + MODEL,
    "instructions on the server": BRANCH + MODEL + 'prompt = "/etc/prompt.md"\n',
    "an absolute command": BRANCH + COMMAND.replace('"review"', '"/usr/bin/review"'),
    "a command that is one of its files": files("review").replace('["review"]', '["./review"]'),
    "a key by its name": BRANCH + MODEL + 'key = "env:KEY"\n',
    "as large as a policy may be": (BRANCH + MODEL).ljust(policy.MOST_BYTES, "\n"),
    "the longest glob": person("g" * 500),
    "a glob of as many stars as there may be": person("*a" * 8),
    "the longest path": files("p" * 1_000),
    "an absolute path on the server": BRANCH + MODEL + 'ca_file = "/etc/ca.pem"\n',
}
REFUSED = {
    "a name one longer": named("b" * 256),
    "no name": named('""'),
    "a name with a tab": named('"a\\tb"'),
    "a reviewer's name with a space": (BRANCH + MODEL)
    .replace('"a"', '"a b"')
    .replace("reviewers.a", 'reviewers."a b"'),
    "a model's name with a space": BRANCH + MODEL.replace('"m"', '"m n"'),
    "no program": BRANCH + COMMAND.replace('"review"', '""'),
    "a word with a NUL": BRANCH + COMMAND.replace('"review"', '"review", "a\\u0000"'),
    "a glob one longer": person("g" * 501),
    "a glob with a backslash": person("docs\\a"),
    "a path one longer": files("p" * 1_001),
    "a path with a backslash": files("docs\\a"),
    "a path of certificates that is not absolute": BRANCH + MODEL + 'ca_file = "ca.pem"\n',
}


@pytest.mark.parametrize("name", TAKEN)
def test_what_a_policy_may_say(name):
    assert [branch.policy for branch in policy.read(TAKEN[name].encode()).branches.values()] == ["p"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_a_policy_may_not_say(name):
    assert refusal(policy.read, REFUSED[name].encode())[0] == "wrong-value"


def test_what_is_just_not_too_much_is_no_weakness():
    for key, most, number in (("retries", MANY_RETRIES, 4), ("max_diff_bytes", LARGE_DIFF, 14)):
        for value, weak in ((most, False), (most + 1, True)):
            found = weaknesses(policy.read(f"{BRANCH}{key} = {value}\n{MODEL}".encode()))
            assert (number in {one.number for one in found}) is weak


# --- differences of two schemas


def test_a_column_is_told_of_only_where_its_table_is_not():
    table, column, other = (
        Item("table", "t"),
        Item("column", "t.x", ("int",), "t"),
        Item("column", "u.x", ("int",), "u"),
    )
    assert lines(diff([], [table, column, other])) == ["+ column u.x", "    + int", "+ table t", "    + x int"]
    index = Item("index", "t_x", ("ON t",), "t")
    assert "+ index t_x" in lines(diff([], [table, column, index]))
    assert lines(diff([], [Item("table", "t", ("CREATE",)), column])) == ["+ table t", "    + CREATE"]
    assert lines(diff([], [Item("view", "t"), column])) == ["+ column t.x", "    + int", "+ view t"]


def test_lines_that_only_one_listing_has_are_shown_as_they_are():
    some, none = [Item("view", "v", ("?", "+ b"))], [Item("view", "v")]
    assert lines(diff(none, some)) == ["~ view v", "    + ?", "    + + b"]
    assert lines(diff(some, none)) == ["~ view v", "    - ?", "    - + b"]


def test_a_list_just_short_enough_is_whole():
    found = [str(number) for number in range(schemadiff.LINES_MAX)]
    assert schemadiff.capped(found) == found
    assert len(schemadiff.capped([*found, "more"])) == schemadiff.LINES_MAX
