"""A captured answer on the command line: what stood behind it travels with the job, proven or as a claim (CA11)."""

import hashlib

import pytest
from tests.faces.shell import HERE
from tests.support import answers
from tests.support.world import make_database, query
from tests.wires import bodies, support
from tests.wires.six import asked

from endmark.core import strictjson

CALL = answers.chat_call()
SHA256 = f"capture-sha256:{hashlib.sha256(CALL).hexdigest()}"
SEAL = ("--wire", "openai-chat", "--tool", "apply_schema")
TRAVELS = ["wire:openai-chat", "provider-terminal", "stop-reason:tool_calls", "transport:end-of-file", SHA256]
TABLES = "SELECT count(*) FROM sqlite_master WHERE name = 'customers'"


def apply(shell, raw, *flags):
    return shell.run("apply", "-", "--to", HERE, "--json", *flags, stdin=raw)


def test_sealed_and_applied_in_one_step_with_its_evidence(shell):
    said = apply(shell, CALL, *SEAL, "--yes", "--max-output-tokens", "4096")
    assert (said.code, said.object["state"], said.object["stmt_count"]) == (0, "applied", 11)
    shown = shell.run("show", "job_1", "--json").object["job"]
    assert set(TRAVELS) | {"output-cap:4096", "sealed"} <= set(shown["evidence"])
    assert query(shell.app, TABLES) == [(1,)]
    again = apply(shell, CALL, *SEAL, "--yes")
    assert again.object["attempt_id"] == said.object["attempt_id"]  # two seals of one capture are byte-equal


def test_what_is_staged_has_its_evidence_before_anybody_approves(shell):
    said = apply(shell, CALL, *SEAL)
    assert (said.code, said.object["state"]) == (16, "staged")
    assert set(TRAVELS) <= set(said.object["evidence"])


def test_through_a_pipe_the_evidence_is_a_claim(shell):
    shell.write("stream.sse", CALL)
    line = '"$@" seal --wire openai-chat --tool apply_schema stream.sse --evidence e.json'
    said = shell.script(f'{line} | "$@" apply - --to {HERE} --yes --json --evidence e.json')
    assert said.code == 0, said
    evidence = shell.run("show", "job_1", "--json").object["job"]["evidence"]
    assert [f"claimed:{word}" for word in TRAVELS] == [word for word in evidence if word[8:] in TRAVELS]
    assert not set(TRAVELS) & set(evidence)
    assert evidence[0] == "sealed"
    assert shell.entry("job_1").level == "sealed"


def sealed(shell, *flags):
    """The envelope of CALL, its evidence in e.json."""
    shell.write("stream.sse", CALL)
    said = shell.run("seal", *SEAL, "stream.sse", "--evidence", "e.json", *flags)
    assert said.code == 0
    return said.out


def test_evidence_of_other_bytes_is_refused_and_spends_no_id(shell):
    """CA11"""
    envelope = sealed(shell)
    shell.write("other.sse", answers.chat_call(answers.witness(statements=["CREATE TABLE customers (x)"])))
    other = shell.run("seal", *SEAL, "other.sse").out
    before = shell.dump()
    said = apply(shell, other, "--yes", "--evidence", "e.json")
    assert (said.code, said.object["signal"]) == (12, "wrong-value")
    assert "speaks of other bytes" in said.object["detail"]
    assert shell.dump() == before
    assert apply(shell, envelope, "--yes", "--evidence", "e.json").code == 0


def test_truncation_is_named_before_the_evidence_beside_it(shell):
    envelope = sealed(shell)
    said = apply(shell, envelope[:700], "--yes", "--evidence", "e.json")
    assert (said.code, said.object["received_bytes"]) == (10, 700)
    assert apply(shell, b"", "--yes", "--evidence", "never-written.json").code == 10  # a seal that refused, in a pipe


def test_a_signed_envelope_has_its_evidence_beside_it(shell):
    assert shell.run("key", "new", "sealer.key").code == 0
    signed = sealed(shell, "--key", "sealer.key")
    document = strictjson.loads((shell.folder / "e.json").read_bytes())
    assert document["envelope_sha256"] == hashlib.sha256(signed).hexdigest()
    assert SHA256 in document["evidence"]


@pytest.mark.parametrize(
    ("raw", "flags", "code", "state"),
    [
        (CALL[:1882], (), 13, "incomplete"),
        (CALL, ("--max-output-tokens", "700"), 13, "incomplete"),
        (answers.chat_call(answers.witness()[:700] + '"]}'), (), 10, "truncated"),
        (b"", (), 10, "truncated"),
    ],
    ids=["cut", "capped", "closed", "empty"],
)
def test_a_refused_capture_is_on_record_and_nothing_is_written(shell, raw, flags, code, state):
    before = shell.dump()
    said = apply(shell, raw, *SEAL, "--yes", "--job", "job_9", *flags)
    assert (said.code, said.object["state"], said.object["received_bytes"]) == (code, state, len(raw))
    assert shell.dump() == before
    entry = shell.entry("job_9")
    assert (entry.state, entry.received_bytes) == (state, len(raw))
    assert entry.body_sha256 == hashlib.sha256(raw).hexdigest()
    assert entry.evidence == ()
    assert apply(shell, CALL, *SEAL, "--yes", "--job", "job_9").code == 12  # the id is spent
    assert shell.run("ledger", "verify").code == 0


def test_a_damaged_capture_is_kept(shell):
    """Row 3: a frame whose checksum does not fit. What is kept are the bytes of the capture."""
    raw = bytearray(bodies.bedrock(asked("bedrock", support.PLAN)))
    raw[1_000] ^= 4
    said = apply(shell, bytes(raw), "--wire", "bedrock", "--tool", "apply_schema", "--yes")
    assert (said.code, said.object["state"]) == (11, "quarantined")
    with shell.book() as book:
        assert book.body(said.object["attempt_id"]) == bytes(raw)


def test_a_verdict_is_no_plan(shell):
    said = apply(shell, answers.chat_text(), "--wire", "openai-chat", "--yes")
    assert (said.code, said.object["signal"]) == (12, "wrong-value")


@pytest.mark.parametrize(
    "flags",
    [
        ("--tool", "apply_schema"),
        ("--stop-sequences",),
        ("--max-output-tokens", "9"),
        (*SEAL, "--seal"),
        (*SEAL, "--evidence", "e.json"),
        ("--wire", "telegraph"),
        ("--evidence", "missing.json"),
    ],
)
def test_wrong_use_opens_no_ledger(shell, flags):
    shell.write("e.json", "{}")
    said = apply(shell, CALL, "--yes", *flags)
    assert (said.code, said.object["state"]) == (2, "not-tried")
    assert not (shell.folder / "ledger.db").exists()


ONE = strictjson.dumps({"version": 1, "envelope_sha256": "a" * 64, "evidence": ["sealed"]}).decode()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (ONE, ""),
        ("}", ""),
        ('"version":1', '"version":2'),
        ('"version":1', '"version":true'),
        ('"version":1,', ""),
        ('"sealed"', ""),
        ('"sealed"', '"sealed",7'),
        ('"sealed"', '"a\\nb"'),
        ('"sealed"', '"' + "x" * 201 + '"'),
        ('"sealed"', ",".join(['"x"'] * 65)),
        ('["sealed"]', '"sealed"'),
        ("a" * 64, "A" * 64),
        ('{"v', '{"more":1,"v'),
    ],
)
def test_a_file_that_is_no_evidence(shell, old, new):
    envelope = sealed(shell)
    shell.write("e.json", ONE.replace(old, new, 1))
    said = apply(shell, envelope, "--yes", "--evidence", "e.json")
    assert (said.code, said.object["state"]) == (2, "not-tried")
    assert "--evidence" in said.object["detail"]
    assert query(shell.app, TABLES) == [(0,)]


def test_a_capture_is_applied_to_one_target(shell):
    """An id belongs to one target, whichever way its plan came."""
    assert apply(shell, CALL, *SEAL, "--yes").code == 0
    make_database(shell.folder / "two.db")
    shell.write("stream", CALL)
    said = shell.run("apply", "stream", "--to", "sqlite:///two.db", "--yes", "--json", *SEAL)
    assert (said.code, said.object["signal"]) == (12, "id-reused")
