"""The official client, the real program, a real database: what arrives whole waits, what is cut leads to nothing."""

import hashlib
import json
import signal
import subprocess
from typing import Any

import pytest
from tests.faces.mcp.desk import SEEN, run, words
from tests.faces.shell import Shell
from tests.support.world import query, witness_bytes

from endmark.core import proof, strictjson
from endmark.faces.mcp import texts

# Whatever looks like something else, an SDK may want to help with.
STRINGS = (
    "null",
    "5",
    "[1, 2]",
    '"a string"',
    '{"job_id": "x", "stmt_count": 1, "statements": ["SELECT 1"], "trailer": "END_APPLY"',
    '{"a": "\\ud800"}',
    '{"a": "\\ud83d\\ude00 \\u2028"}',
    "\ufeff{}",
    " \r\n\t{} \u2029\x7f\x00",
    "Žluť ∎ 😀",
)


def test_a_whole_visit(room, monkeypatch, capfdbinary):
    shell = Shell(room.folder, monkeypatch, capfdbinary)
    whole = witness_bytes("orders-1", SEEN).decode()
    sealed = proof.seal(witness_bytes("orders-2", SEEN))
    (room.folder / "orders-2.mc1").write_bytes(sealed)
    before = room.dump()

    async def visit():
        async with room.stdio() as client:
            listed = (await client.list_tools()).tools
            assert [tool.name for tool in listed] == ["apply_schema_file", "apply_schema", "job_status"]
            assert client.instructions == texts.INSTRUCTIONS
            plan = next(tool for tool in listed if tool.name == "apply_schema").input_schema
            assert (plan["required"], plan["properties"]["plan"]["type"]) == (["plan"], "string")

            for at in (0, 1, len(whole) // 2, len(whole) - 2, len(whole) - 1):
                cut = await client.call_tool("apply_schema", {"plan": whole[:at]})
                assert cut.is_error
                assert cut.structured_content["state"] == "truncated"
                assert f"Received bytes: {len(whole[:at].encode()):,}" in words(cut)
                assert "Send the whole again under a new job_id" in words(cut)
                assert "Never append" in words(cut)
            for at in (len(sealed) // 3, len(sealed) - 1):
                (room.folder / "cut.mc1").write_bytes(sealed[:at])
                cut = await client.call_tool("apply_schema_file", {"path": "cut.mc1"})
                assert (cut.is_error, cut.structured_content["expected_bytes"]) == (True, len(sealed))
                assert f"Received bytes: {at:,}. Expected bytes: {len(sealed):,}" in words(cut)
            assert room.states() == {}
            assert room.dump() == before

            for string in STRINGS:  # the very bytes came through: the ledger has their digest
                await client.call_tool("apply_schema", {"plan": string})
                newest = room.entries()[0]
                raw = string.encode()
                assert (newest.received_bytes, newest.body_sha256) == (len(raw), hashlib.sha256(raw).hexdigest())
            assert room.states() == {}

            waits = await client.call_tool("apply_schema", {"plan": whole})
            assert (waits.is_error, waits.structured_content["state"]) == (False, "staged")
            assert "endmark approve orders-1" in words(waits)
            again = await client.call_tool("apply_schema", {"plan": whole})
            assert "delivered before" in words(again)
            other = await client.call_tool("apply_schema", {"plan": whole.replace("invoices", "bills")})
            assert (other.is_error, other.structured_content["signal"]) == (True, "id-reused")
            assert "again under a new" not in words(other)
            by_file = await client.call_tool("apply_schema_file", {"path": "orders-2.mc1"})
            assert by_file.structured_content["evidence"][0] == "sealed"
            assert room.dump() == before

            assert shell.run("approve", "orders-1", "--yes").code == 0  # a person, at a shell of their own
            done = await client.call_tool("job_status", {"job_id": "orders-1"})
            assert (done.is_error, done.structured_content["state"]) == (False, "applied")
            none = await client.call_tool("job_status", {"job_id": "orders-9"})
            assert none.is_error
            return {entry.job_id: entry.submitter for entry in room.entries()}

    submitters = run(visit)
    assert submitters["orders-1"].endswith(" (mcp)")
    assert query(room.folder / "app.db", "SELECT note FROM invoices") == [("Žluť ∎ 😀",)]
    assert room.states() == {"orders-1": "applied", "orders-2": "staged"}


HELLO = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "0"},
    },
}


def call(number, plan):
    arguments = {"name": "apply_schema", "arguments": {"plan": plan}}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": arguments}).encode()


def test_a_message_that_is_not_whole_and_strict_leads_to_nothing(room):
    """Raw bytes on the wire: no client that could mend them."""
    started = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()
    good = [call(number, witness_bytes(f"raw-{number}", SEEN).decode()) for number in range(2, 7)]
    lines = [
        json.dumps(HELLO).encode(),
        started,
        good[0].replace("Žluť".encode("ascii", "backslashreplace"), b"\xff\xfe"),  # the SDK would put U+FFFD there
        good[1].replace(b'"plan"', b'"plan": "x", "plan"'),
        good[2].replace(b"\\ud83d\\ude00", b"\\ud83d"),  # half a pair, as a host's JSON.stringify writes it
        good[3][: len(good[3]) // 2],
        b"[" + good[3] + b"]",
        json.dumps({"jsonrpc": "2.0", "id": 9, "method": "ping"}).encode(),
    ]
    answers: list[Any] = []
    with subprocess.Popen(
        room.command(), cwd=room.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        wire: Any = running
        wire.stdin.write(b"\n".join(lines) + b"\n")
        wire.stdin.flush()
        while not answers or answers[-1].get("id") != 9:  # nothing but the protocol comes out
            answers.append(strictjson.loads(wire.stdout.readline()))
        wire.stdin.write(good[4])  # a whole object, but its line is not ended
        wire.stdin.close()
        assert wire.stdout.read() == b""
        assert f"ended inside a message of {len(good[4]):,} bytes" in wire.stderr.read().decode()
        assert wire.wait(60) == 0
    errors = [answer for answer in answers if "error" in answer]
    assert [error["error"]["code"] for error in errors] == [-32700] * 5
    assert [error["id"] for error in errors] == [None, None, 4, None, None]
    assert all("nothing was applied" in error["error"]["message"] for error in errors)
    assert {answer["id"] for answer in answers if "result" in answer} == {1, 9}
    assert not (room.folder / "ledger.db").exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(room, number):
    with subprocess.Popen(
        room.command(), cwd=room.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as started:
        program: Any = started
        program.stdin.write(json.dumps(HELLO).encode() + b"\n")
        program.stdin.flush()
        assert strictjson.loads(program.stdout.readline())["id"] == 1
        program.send_signal(number)
        assert program.wait(60) == 128 + number
        assert (program.stdout.read(), program.stderr.read()) == (b"", b"")
