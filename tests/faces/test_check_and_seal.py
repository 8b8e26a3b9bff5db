"""`check` and `seal`: what they say of whole bytes and of cut ones, and that they write nothing."""

import pytest
from tests.faces.shell import STATEMENTS
from tests.support.world import plan_bytes, witness_bytes

from endmark.core import mc1, strictjson
from endmark.core.outcome import Outcome
from endmark.faces.demo import CUT, WHOLE, _envelope

PLAN = plan_bytes("job-1", STATEMENTS)
VERDICT = mc1.seal(strictjson.dumps({"verdict": "fail", "diff_sha": "d" * 64, "policy_version": "1"}))
KEYS = list(Outcome.__struct_fields__)


@pytest.fixture(autouse=True)
def _nothing_is_written(shell):
    before = sorted(shell.folder.iterdir())
    yield
    assert [path for path in shell.folder.iterdir() if path not in before and path.suffix != ".in"] == []


def check(shell, raw, *flags):
    return shell.run("check", "-", *flags, stdin=raw)


@pytest.mark.parametrize(
    ("raw", "what", "level"),
    [
        (PLAN, "a plan of 2 statements", "bare"),
        (mc1.seal(PLAN), "a plan of 2 statements", "sealed"),
        (witness_bytes("w", STATEMENTS[:1]), "a plan in witness form of 1 statement", "witness"),
        (VERDICT, "a verdict, fail", "sealed"),
        (mc1.seal(b'{"a":1}'), "a body that endmark does not read further", "sealed"),
    ],
    ids=["plan", "sealed plan", "witness", "verdict", "body"],
)
def test_whole(shell, raw, what, level):
    said = check(shell, raw)
    assert said.code == 0
    assert said.text.startswith(f"whole: {what}. Evidence: {level}, ")
    assert said.err == b""
    found = check(shell, raw, "--json")
    assert found.code == 0
    assert list(found.object) == KEYS
    assert (found.object["state"], found.object["signal"], found.object["attempt_id"]) == ("whole", "complete", None)
    assert found.object["received_bytes"] == len(raw)
    assert found.object["evidence"][0] == level


def test_a_plans_facts_are_in_the_object(shell):
    found = check(shell, mc1.seal(PLAN), "--json").object
    assert (found["job_id"], found["stmt_count"], found["expected_bytes"]) == ("job-1", 2, len(mc1.seal(PLAN)))
    assert (found["next"], found["exit_code"], found["target"]) == ("none", 0, None)


def test_the_cut_of_the_first_screen(shell):
    whole = _envelope("billing-1")
    assert len(whole) == WHOLE
    said = check(shell, whole[:CUT])
    assert said.code == 10
    assert said.text == (
        "truncated: received 1,882 of 3,410 bytes. Nothing was written. "
        "Send the whole payload again under a new job id.\n"
    )


@pytest.mark.parametrize(
    ("raw", "state", "signal", "code"),
    [
        (b"", "truncated", "empty", 10),
        (mc1.seal(PLAN)[:-9], "truncated", "body-cut", 10),
        (mc1.seal(PLAN).replace(b"invoices", b"invoicez", 1), "quarantined", "envelope-digest", 11),
        (PLAN.replace(b"invoices", b"invoicez", 1), "quarantined", "statements-digest", 11),
        (mc1.seal(PLAN) + b"\n", "rejected", "bytes-after-end", 12),
        (PLAN + b"{}", "rejected", "two-documents", 12),
    ],
)
def test_refused(shell, raw, state, signal, code):
    said = check(shell, raw)
    assert said.code == code
    assert said.text.startswith(f"{state}: ")
    assert "Nothing was written" in said.text
    found = check(shell, raw, "--json")
    assert found.code == code
    assert list(found.object) == KEYS
    assert [found.object[key] for key in ("state", "signal", "received_bytes", "exit_code", "next")] == [
        state,
        signal,
        len(raw),
        code,
        "resend-new-job-id",
    ]


def test_seal_makes_the_same_envelope_twice(shell):
    raw = witness_bytes("w", STATEMENTS)
    first, second = (shell.run("seal", "-", stdin=raw) for _ in range(2))
    assert (first.code, first.err) == (0, b"")
    assert first.out == second.out
    found = check(shell, first.out, "--json").object
    assert (found["state"], found["evidence"][0], found["stmt_count"]) == ("whole", "sealed", 2)


def test_seal_from_a_file(shell):
    assert shell.run("seal", shell.write("plan.in", PLAN)).out == mc1.seal(PLAN)


@pytest.mark.parametrize(("raw", "code"), [(PLAN[:-30], 10), (b"", 10), (mc1.seal(PLAN), 12), (b"[]", 12)])
def test_what_seal_refuses_leaves_no_output(shell, raw, code):
    said = shell.run("seal", "-", stdin=raw)
    assert (said.code, said.out) == (code, b"")
    assert said.talk.startswith("endmark: truncated: " if code == 10 else "endmark: rejected: ")


@pytest.mark.parametrize("verb", ["check", "seal"])
def test_standard_input_is_read_to_its_end(shell, verb):
    """One byte at a time, with a pause in the middle of the envelope: nothing is judged before the end."""
    raw = witness_bytes("w", STATEMENTS)
    with shell.start(verb, "-", bufsize=0) as process:
        for byte in raw:
            process.stdin.write(bytes([byte]))
        assert process.poll() is None
        process.stdin.close()
        out = process.stdout.read()
        process.stderr.read()
    assert process.returncode == 0
    assert out
