"""Tool calls that were cut, and closed again by somebody: the arguments alone must tell."""

import pytest
from tests.incidents import payloads, repair
from tests.incidents.rows import agrees
from tests.incidents.world import refusal, state_of, sweep

from endmark.core.decision import row_of
from endmark.core.refusal import Signal
from endmark.core.states import State

# id -> the arguments as they stood when the provider was done with them, and the whole call in statements
CALLS: dict[str, tuple[str, list[str]]] = {
    "INC-002": (
        '{"path":"REPORT.md","content":"# A\\n| x |"}',
        [payloads.write_file("REPORT.md", "# A\n| x | y |\n|---|---|\n| 1 | 2 |\n")],
    ),
    "INC-003": (
        '{"target":"db1","opts":{"dry_run":tr',
        ["INSERT INTO runs VALUES ('target=db1 dry_run=true')", "INSERT INTO runs VALUES ('report')"],
    ),
    "INC-005": (
        '{"sql":"ALT',
        ["CREATE TABLE invoice (id INTEGER)", "ALTER TABLE invoice ADD COLUMN paid_at TEXT"],
    ),
    "INC-007": (
        '{"a":',
        ["INSERT INTO runs VALUES ('the first, whole call')", "INSERT INTO runs VALUES ('the second, cut one')"],
    ),
    "INC-008": ('{"file_path":"a.md"}', [payloads.write_file("a.md", "eight thousand tokens of text")]),
    "INC-010": ('{"path":"site.css"}', [payloads.write_file("site.css", "body { margin: 0 } /* { } [ ] */")]),
    "INC-012": ('{"city":"Par', ["INSERT INTO runs VALUES ('weather in Paris, Österreich, 東京')"]),
    "INC-013": (
        '{"sql":"INSERT INTO runs VALUES (1)"}',
        ["INSERT INTO runs VALUES ('1')", "INSERT INTO runs VALUES ('2')"],
    ),
    "INC-014": ('{"cmd":"sed -i', ["INSERT INTO runs VALUES ('sed -i \"s/a\\\\b/c/\" file')"]),
    "INC-015": ("{}", ["INSERT INTO runs VALUES ('sixteen tokens were not enough')"]),
    "INC-017": ('{"query":"DELETE FROM runs', ["DELETE FROM runs WHERE what = 'one that is not there'"]),
    "INC-028": ('{"n":1,"items":[1,2', [f"INSERT INTO runs VALUES ('{n}')" for n in (1, 2, 3)]),
    "INC-029": ('{"items":["a","b', ["INSERT INTO runs VALUES ('a')", "INSERT INTO runs VALUES ('b, and more')"]),
    "INC-031": (
        '{"file_path":"t.ts","content":"import',
        [payloads.write_file("t.ts", "import { a } from './a'\nexport default [a]\n")],
    ),
    "INC-042": ('{"a":', ["INSERT INTO runs VALUES ('overloaded')"]),
    "INC-043": ('{"a":[{"b":"c', ["INSERT INTO runs VALUES ('an error is no stop')"]),
}


@pytest.mark.parametrize("row_id", CALLS)
def test_no_cut_of_the_call_is_accepted_and_the_whole_is(world, row_id):
    _, statements = CALLS[row_id]
    assert sweep(world, row_id, statements) > 50, "the repairers made too little to believe"
    world.gate.submit(payloads.witness("control", statements), target=world.url, seal=True)
    outcome = world.gate.job("control").apply(world.url)
    assert (outcome.state, outcome.statements_run) == ("applied", len(statements))


@pytest.mark.parametrize("row_id", CALLS)
def test_the_arguments_as_they_were_handed_over_do_nothing(world, row_id):
    arguments = CALLS[row_id][0]
    for text in {arguments.encode(), repair.close(arguments).encode(), *repair.repaired(arguments.encode())}:
        assert state_of(refusal(text)) == "truncated"
        if repair.document(text) is not None:
            assert world.refuses(text).state == "truncated"


# --- what single rows say beyond the cut itself


def test_inc_005_inc_007_nothing_before_the_cut_runs_either(world):
    """One body is one job: the statements that arrived whole wait for the last byte like the others."""
    for row_id in ("INC-005", "INC-007"):
        first, second = CALLS[row_id][1]
        whole = payloads.witness(row_id, [first, second])
        cut = whole.index(second.encode()) + 3
        assert first.encode() in whole[:cut]
        for text in (whole[:cut], repair.close(whole[:cut].decode()).encode()):
            assert agrees(row_id, world.refuses(text).state)
    assert "invoice" not in world.tables()
    assert world.runs() == []


def test_inc_008_only_the_first_key_arrived(world):
    whole = payloads.witness("JOB", CALLS["INC-008"][1])
    first_pair = whole[: whole.index(b',"stmt_count"')] + b"}"
    assert repair.document(first_pair) == {"job_id": "JOB"}
    assert world.refuses(first_pair).state == "truncated"


def test_inc_010_no_missing_field_gets_a_default(world):
    statements = CALLS["INC-010"][1]
    for form, whole in payloads.forms("JOB", statements).items():
        if form == "envelope":
            continue
        document = repair.document(whole)
        assert document is not None
        for key in document:
            without = {name: value for name, value in document.items() if name != key}
            said = world.refuses(payloads.compact(without))
            assert agrees("INC-010", said.state)
            if key == "trailer":
                assert said.state == "truncated"
            empties: list[object] = ["", None, 0, [], {}, [""]]
            for empty in empties:
                assert agrees("INC-010", world.refuses(payloads.compact({**document, key: empty})).state)
    assert world.file("site.css") is None


def test_inc_013_a_declared_count_tells_what_whole_json_cannot(world):
    first, second = CALLS["INC-013"][1]
    whole = payloads.witness("JOB", [first, second])
    closed = whole.replace(b',"' + second.encode() + b'"', b"")
    said = world.refuses(closed)
    assert (said.state, said.signal) == ("rejected", "wrong-count")
    said = world.refuses(closed.replace(b',"trailer":"END_APPLY"', b""))
    assert (said.state, said.signal) == ("truncated", "no-trailer")
    assert row_of(Signal.TOKEN_CAP).state is State.INCOMPLETE, "what a wire will find at the cap"


def test_inc_029_the_trailer_tells_where_the_transport_looks_perfect(world):
    """What a gateway passes on as a finished call: at every cut the partial arguments, closed."""
    statements = CALLS["INC-029"][1]
    whole = payloads.witness("JOB", statements)
    for n in range(len(whole) - 2):
        assert state_of(refusal(repair.close(whole[:n].decode("utf-8", "ignore")).encode())) == "truncated", n
    before_the_trailer = repair.close(whole[: whole.index(b',"trailer"')].decode()).encode()
    assert (repair.document(before_the_trailer) or {})["statements"] == statements, "every statement arrived"
    said = world.refuses(before_the_trailer)
    assert (said.state, said.signal) == ("truncated", "no-trailer")
