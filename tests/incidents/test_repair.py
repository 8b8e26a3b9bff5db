"""Repairs that change what was meant: what a cleverer parser can never know, and whole input it must not touch."""

import itertools

import pytest
from tests.incidents import payloads, repair
from tests.incidents.rows import agrees
from tests.incidents.world import refusal, state_of, sweep

import endmark
from endmark.core.plan import Plan

CALLS = {
    "INC-056": [
        f"INSERT INTO runs VALUES ('{step}')" for step in ("npm install", "npm test", "npm build", "npm publish")
    ],
    "INC-059": [payloads.write_file("a.md", "text"), "INSERT INTO runs VALUES ('dispatched')"],
    "INC-062": ["INSERT INTO runs VALUES ('[1,2]')", 'INSERT INTO runs VALUES (\'{"patch":{"path":"x"}}\')'],
    "INC-064": ['INSERT INTO runs VALUES (\'[{"a":1,"b":2}]\')', "INSERT INTO runs VALUES ('{\"a\":1}') -- and b"],
    "INC-065": [payloads.write_file("i.html", '<div class="a">whole</div>')],
}


@pytest.mark.parametrize("row_id", CALLS)
def test_no_repair_is_accepted_and_the_whole_is(world, row_id):
    assert sweep(world, row_id, CALLS[row_id], thorough=True) > 150
    outcome = world.apply(payloads.witness("control", CALLS[row_id]))
    assert (outcome.state, outcome.statements_run) == ("applied", len(CALLS[row_id]))


def test_inc_056_a_closed_array_is_a_shorter_legal_array(world):
    """The cut falls between two statements and is closed by hand, with every number a repairer could put right."""
    four = CALLS["INC-056"]
    for kept in range(1, 4):
        short = four[:kept]
        # what a container cut leaves: the count of four, the digest of four, the array of fewer
        declared = payloads.bare("JOB", four, payloads.PROOF_FIRST)
        text = payloads.compact({**(repair.document(declared) or {}), "statements": short})
        said = world.refuses(text)
        assert (said.state, said.signal) == ("rejected", "wrong-count")
        # somebody counts again: the digest is of four
        text = payloads.compact({**(repair.document(declared) or {}), "statements": short, "stmt_count": kept})
        said = world.refuses(text)
        assert (said.state, said.signal) == ("quarantined", "statements-digest")
        assert world.gate.ledger.body(said.attempt_id) == text
        # the cut falls inside the last one: the count fits by itself
        text = payloads.compact({**(repair.document(declared) or {}), "statements": [*four[:3], four[3][:-kept]]})
        assert agrees("INC-056", world.refuses(text).state)
    assert world.runs() == []


def test_inc_059_what_is_suspected_is_refused_and_kept_on_record(world):
    """There is no way to see a fault and go on: one exception, and the book has the bytes that came and why."""
    whole = payloads.witness("JOB", CALLS["INC-059"])
    partial = repair.close(whole[: whole.index(b'"trailer"')].decode()).encode()
    assert (repair.document(partial) or {})["statements"] == CALLS["INC-059"]
    said = world.refuses(partial)
    (entry,) = world.gate.ledger.page(10)
    assert (entry.attempt_id, entry.state, entry.signal) == (said.attempt_id, "truncated", "no-trailer")
    assert entry.received_bytes == len(partial)
    assert said.next == "resend-new-job-id"
    assert world.runs() == []


TEMPTING = [
    "if(a){b}{c}",
    "}{",
    '{"a":1}{"a":2}',
    "[1,2,]",
    "{'a': None, b: undefined}",
    '```json\n{"a":1}\n```',
    "trailing comma, }",
    '// no comment\n/* {"a": */',
    '\\" \\\\ \\n \\u0041',
    "  spaces kept \t\r\n ",
    "NaN Infinity -0 1e999",
    "\u2028\u2029\ufeff\u200b é é \U0001f512",
    '<tool_call>{"x":1}</tool_call>',
]


@pytest.mark.parametrize("form", ["witness", "plan", "proof-first", "envelope"])
def test_inc_061_valid_text_is_applied_byte_for_byte(world, form):
    statements = [payloads.write_file(f"f{n}", content) for n, content in enumerate(TEMPTING)]
    raw = payloads.forms("JOB", statements)[form]
    proven = endmark.check(raw)
    assert isinstance(proven.value, Plan)
    assert proven.value.statements == statements
    outcome = world.apply(raw)
    assert agrees("INC-061", outcome.state)
    assert [world.file(f"f{n}") for n in range(len(TEMPTING))] == TEMPTING
    assert world.gate.ledger.body(outcome.attempt_id) == raw


def test_inc_061_the_sealer_changes_no_byte_of_a_body():
    for content in TEMPTING:
        raw = payloads.compact({"code": content})
        for text in (raw, b" \n" + raw + b"\r\n", raw.replace(b'"code"', b'"\\u0063ode"')):
            sealed = endmark.seal(text)
            assert sealed == payloads.in_envelope(text)
            assert sealed == endmark.seal(text)
            endmark.check(sealed)


def test_inc_062_cuts_that_end_in_a_closing_mark(world):
    """The look at the last character misses exactly these."""
    tried = 0
    for form, whole in payloads.forms("JOB", CALLS["INC-062"]).items():
        for n in (n for n in range(1, len(whole)) if whole[n - 1 : n] in (b"]", b"}")):
            assert agrees("INC-062", state_of(refusal(whole[:n]))), form
            assert agrees("INC-062", world.refuses(whole[:n]).state)
            tried += 1
    assert tried > 12


def test_inc_064_the_last_element_loses_a_part(world):
    """Inside the last statement the array is as long as planned: the count alone would not see it."""
    whole = payloads.bare("JOB", CALLS["INC-064"], payloads.PROOF_FIRST)
    start = whole.rindex(CALLS["INC-064"][1].encode()[:20])
    states = set()
    for n in range(start + 1, len(whole) - 2):
        text = repair.close(whole[:n].decode()).encode()
        assert len((repair.document(text) or {})["statements"]) == 2  # type: ignore[arg-type]
        if text != whole:  # a cut of closing marks alone lost nothing
            states.add(world.refuses(text).state)
    assert states == {"quarantined"}


def test_inc_064_the_order_of_keys_decides_what_a_witness_shows():
    """The trailer must be the last key of all: in each of the 24 orders, the last key of the text is cut and closed."""
    document = repair.document(payloads.witness("JOB", CALLS["INC-064"])) or {}
    shortened = 0
    for keys in itertools.permutations(document):
        whole = payloads.compact({key: document[key] for key in keys})
        start = whole.index(f'"{keys[-1]}"'.encode())
        for n in range(start, len(whole)):
            text = repair.close(whole[:n].decode()).encode()
            if text != whole or keys[-1] != "trailer":
                said = refusal(text)
                if list(repair.document(text) or {}) == list(keys):
                    assert agrees("INC-064", state_of(said)), text
                    shortened += 1
    assert shortened > 200, "all keys were there, the last of them cut short"


def test_inc_065_the_fields_that_arrived_are_no_call(world):
    whole = payloads.witness("JOB", CALLS["INC-065"])
    document = repair.document(whole)
    assert document is not None
    keys = list(document)
    for kept in range(1, len(keys)):
        text = payloads.compact({key: document[key] for key in keys[:kept]})
        assert world.refuses(text).state == "truncated"
    assert world.file("i.html") is None
