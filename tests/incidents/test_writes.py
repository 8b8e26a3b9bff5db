"""Writes that were partial and reported as done, and plans whose second half cannot go through."""

import hashlib

import pytest
from tests.incidents import payloads, repair
from tests.incidents.rows import agrees
from tests.incidents.tapped import Tapped
from tests.incidents.world import refusal, state_of, sweep

LINES = [payloads.write_file(f"line {n:03}", f"text of line {n}") for n in range(1, 401)]


def test_inc_066_the_declared_count_against_the_lines_that_came(world):
    """400 declared, 285 there, with and without an honest trailer; then every other number of lines."""
    for kept in (285, *range(1, 400)):
        text = payloads.witness("JOB", LINES[:kept]).replace(b'"stmt_count":%d' % kept, b'"stmt_count":400')
        refused = refusal(text)
        assert (state_of(refused), refused.signal) == ("rejected", "wrong-count")
        if kept == 285:
            assert "400" in refused.detail
            assert "285" in refused.detail
            assert world.refuses(text).state == "rejected"
        cut = text.replace(b',"trailer":"END_APPLY"', b"")
        assert state_of(refusal(cut)) == "truncated"
    whole = payloads.bare("JOB.plan", LINES)
    cut = whole[: whole.index(b"line 286")]
    assert world.refuses(cut).state == world.refuses(repair.drop_last(cut.decode()).encode()).state == "truncated"
    assert world.apply(payloads.witness("control", LINES)).statements_run == 400


OLD, NEW = "as it was", "# Project\n" + "".join(f"{n}. line\n" for n in range(1, 9))
REWRITE = [f"UPDATE files SET content = {payloads.quote(NEW)} WHERE path = 'README'"]


def test_inc_070_no_prefix_replaces_the_file(world):
    sweep(world, "INC-070", REWRITE)
    assert world.file("README") == OLD
    assert world.apply(payloads.envelope("control", REWRITE)).state == "applied"
    assert world.file("README") == NEW


def test_inc_071_a_literal_changed_by_two_letters_is_quarantined(world):
    """6,671 characters, the same length, the case of two letters. And of each single letter, in both forms."""
    literal = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(105))[:6671]
    statements = [payloads.write_file("data", literal)]
    for form in ("plan", "envelope"):
        whole = payloads.forms("JOB", statements)[form]
        start = whole.index(literal.encode())
        letters = [at for at in range(start, start + len(literal)) if whole[at : at + 1].isalpha()]
        assert len(letters) > 2000
        for at in letters:
            changed = whole[:at] + whole[at : at + 1].swapcase() + whole[at + 1 :]
            assert agrees("INC-071", state_of(refusal(changed))), (form, at)
        first, last = letters[100], letters[-100]
        changed = bytes(byte ^ 0x20 if at in (first, last) else byte for at, byte in enumerate(whole))
        said = world.refuses(changed)
        assert (said.state, said.received_bytes) == ("quarantined", len(whole))
        assert world.gate.ledger.body(said.attempt_id) == changed, "quarantined bytes are kept"
    assert world.apply(payloads.bare("control", statements)).state == "applied"
    assert world.file("data") == literal


def test_inc_071_what_the_statements_digest_does_not_cover_the_envelope_s_does(world):
    """Another id, or a boundary moved between two statements: the digest of a bare plan is the same, the length too."""
    whole = payloads.envelope("JOB", ["SELECT 1; -- a\nb", "SELECT 2"])
    moved = whole.replace(rb'-- a\nb","SELECT 2', rb'-- a","b\nSELECT 2')
    for changed in (whole.replace(b'"JOB"', b'"JOb"'), moved):
        assert len(changed) == len(whole)
        assert changed != whole
        said = world.refuses(changed)
        assert (said.state, said.signal) == ("quarantined", "envelope-digest")
    report = payloads.compact({"verdict": "pass", "diff_sha": "d", "policy_version": "1", "findings": []})
    sealed = payloads.in_envelope(report)
    assert world.refuses(sealed.replace(b'"pass"', b'"fail"')).signal == "envelope-digest"


def test_inc_073_a_receipt_that_reads_back_differently_rolls_back(world):
    """The store keeps something other than it was given: here a count that comes back as text."""
    world.write("CREATE TABLE schema_jobs (job_id TEXT PRIMARY KEY, stmt_count TEXT, sha256 TEXT, status TEXT)")
    said = world.fails(payloads.witness("JOB", [payloads.write_file("a", "b")]))
    assert said.signal == "check-failed"
    assert "read back" in said.detail
    assert world.file("a") is None


def test_inc_073_a_commit_that_reports_success_and_wrote_nothing(world):
    before = world.dump()
    target = Tapped(world.url, lambda point: None, swallow_commit=True)
    said = world.gate.submit(payloads.witness("JOB", [payloads.write_file("a", "b")]), seal=True).apply(target)
    assert agrees("INC-073", said.state)
    assert said.exit_code == 1
    assert world.dump() == before


SCRIPT = ["INSERT INTO runs VALUES ('import os; print(\"started\")')", payloads.write_file("run.py", "print('done')\n")]


def test_inc_074_three_empty_replies_then_a_script_that_stops_in_a_string(world):
    for _ in range(3):
        said = world.refuses(b"")
        assert (said.state, said.signal, said.received_bytes) == ("truncated", "empty", 0)
    sweep(world, "INC-074", SCRIPT)
    # The same loss inside a plan that is itself whole: the engine refuses it, and the first statement goes too.
    for cut in range(len(SCRIPT[1]) - 1, SCRIPT[1].index("'") + 1, -1):
        half = SCRIPT[1][:cut]
        if half.count("'") % 2:
            assert world.fails(payloads.witness(f"JOB-{cut}", [SCRIPT[0], half])).signal == "sql-error"
    assert world.apply(payloads.witness("control", SCRIPT)).state == "applied"


EDITS = [payloads.write_file(f"src/{name}", f"edited {name}") for name in ("a", "b", "c", "d", "e")]


def test_inc_075_no_edit_lands_before_the_set_is_whole(world):
    sweep(world, "INC-075", EDITS)
    whole = payloads.witness("JOB", EDITS)
    for kept in range(5):
        cut = whole[: whole.index(EDITS[kept].encode()) - 1]
        for text in (cut, repair.close(cut.decode()).encode(), repair.drop_last(cut.decode()).encode()):
            assert agrees("INC-075", world.refuses(text).state)
            assert world.ask("SELECT count(*) FROM files") == [(1,)]
    assert world.apply(whole).statements_run == 5


# --- one operation of several cannot go through

DELETE = "DELETE FROM files WHERE path = 'README'"
MISMATCH = payloads.edit_file("README", "the context that the patch was made for", "new")
EXISTING = payloads.write_file("README", "another")
FIT = payloads.edit_file("README", OLD, NEW)

HALVES = {
    "INC-076": ([payloads.write_file("f1", "x"), "DELETE FROM files WHERE path = 'f1'", MISMATCH], "NOT NULL"),
    "INC-077": ([payloads.write_file("f1", "added"), MISMATCH], "NOT NULL"),
    "INC-079": ([payloads.write_file("f1", "added"), EXISTING], "UNIQUE"),
    "INC-081": ([FIT, payloads.edit_file("README", OLD, "the hunk before changed it")], "NOT NULL"),
}


@pytest.mark.parametrize("row_id", HALVES)
def test_a_plan_that_fails_at_its_end_leaves_nothing(world, row_id):
    statements, says = HALVES[row_id]
    for form, raw in payloads.forms("JOB", statements).items():
        said = world.fails(raw)
        assert agrees(row_id, said.state)
        assert says in said.detail, form
        assert f"tatement {len(statements)}" in said.detail, "the message names the statement"
        assert said.statements_run == len(statements) - 1
    assert world.file("README") == OLD
    assert "schema_jobs" not in world.tables(), "no receipt without its effects"


@pytest.mark.parametrize("row_id", HALVES)
def test_it_leaves_nothing_wherever_it_fails(world, row_id):
    """The statement that cannot go through at each place of six, in each way SQLite has of failing."""
    failing = HALVES[row_id][0][-1]
    if row_id == "INC-081":
        failing = MISMATCH
    good = [payloads.write_file("a", "1"), "CREATE TABLE made (x)", "INSERT INTO runs VALUES ('r')", DELETE]
    good += ["ALTER TABLE runs ADD COLUMN more TEXT"]
    for at in range(len(good)):
        statements = [*good[:at], failing, *good[at:]]
        # where the file was deleted before, the edit finds no row and is no failure: the receipt would say 0 rows
        if at > good.index(DELETE):
            statements = [*good[:at], "INSERT INTO files VALUES ('a', 'twice')", *good[at:]]
        said = world.fails(payloads.bare(f"{row_id}-{at}", statements))
        assert said.statements_run == at
    for word in ("ROLLBACK", "FAIL", "ABORT"):
        world.fails(payloads.bare(f"{row_id}-{word}", [*good[:3], EXISTING.replace("INSERT", f"INSERT OR {word}")]))
    assert world.apply(payloads.bare(f"{row_id}-control", good)).state == "applied"


def test_inc_081_an_edit_that_matched_nothing_shows_in_the_receipt(world):
    """An UPDATE that finds no row is no error to SQL. The receipt tells it apart: it has the rows of each statement."""
    said = world.apply(payloads.witness("JOB", ["UPDATE files SET content = 'x' WHERE path = 'missing'", FIT]))
    assert said.state == "applied"
    assert world.ask("SELECT statements_run, rows_changed FROM endmark_receipts WHERE job_id = 'JOB'") == [(2, "0 1")]
    entry = world.gate.ledger.by_job("JOB")
    assert entry is not None
    assert entry.statement_rows == (0, 1)


def test_inc_076_the_whole_patch_goes_through_or_the_tree_is_as_before(world):
    tree = world.ask("SELECT * FROM files ORDER BY path")
    world.fails(payloads.witness("JOB", [DELETE, payloads.write_file("f2", "x"), payloads.write_file("f2", "y")]))
    assert world.ask("SELECT * FROM files ORDER BY path") == tree
    assert world.apply(payloads.witness("control", [DELETE, payloads.write_file("f2", "x")])).state == "applied"
    assert world.ask("SELECT path FROM files") == [("f2",)]
