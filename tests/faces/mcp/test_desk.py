"""What the door opens and what it does not: arguments, files, targets, time, our own faults, verdicts."""

import os
import subprocess
import time

import pytest
from tests.faces.mcp.desk import SEEN, Room, run, words
from tests.faces.shell import SLOW
from tests.gates.patches.world import World
from tests.support.world import witness_bytes

from endmark.core import proof
from endmark.core.refusal import CannotTry
from endmark.faces import api, cli
from endmark.faces.mcp import confined, settings, texts
from endmark.faces.mcp.desk import Call, Desk
from endmark.faces.misuse import Misuse

BOTH = 'target = "prod"\nrepository = "r.git"\nmin_evidence = "{}"'


@pytest.mark.parametrize("level", ["witness", "signed"])
def test_no_text_is_cut_by_a_host(room, level):
    room.configure(BOTH.format(level), more='trusted_keys = ["k.pub"]')
    tools = texts.tools(settings.read(room.config))
    assert [tool["name"] for tool in tools] == [texts.FILE, texts.APPLY, texts.STATUS, texts.VERDICT]
    for text in (texts.INSTRUCTIONS, *(tool["description"] for tool in tools)):
        assert len(text) <= 2048
        assert len(text.encode()) <= 2048
    for tool in tools:
        if tool["name"] != texts.STATUS:
            assert "never append" in tool["description"]


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("apply_schema", {}),
        (
            "apply_schema",
            {"plan": {"job_id": "j", "stmt_count": 1, "statements": ["SELECT 1"], "trailer": "END_APPLY"}},
        ),
        ("apply_schema", {"plan": ["SELECT 1"]}),
        ("apply_schema", {"plan": None}),
        ("apply_schema", {"plan": 5}),
        ("apply_schema", {"plan": "{}", "target": "sqlite:///other.db"}),
        ("apply_schema", {"job_id": "j", "stmt_count": 1, "statements": ["SELECT 1"], "trailer": "END_APPLY"}),
        ("apply_schema_file", {"path": True}),
        ("submit_verdict", {"verdict": "", "base": "main", "head": "topic"}),
        ("drop_everything", {}),
    ],
)
def test_what_is_no_call(room, name, arguments):
    before = room.dump()

    async def visit():
        async with room.here() as (client, _):
            said = await client.call_tool(name, arguments)
            assert said.is_error
            assert "Nothing was applied" in words(said)

    run(visit)
    assert room.dump() == before
    assert not (room.folder / "ledger.db").exists()


def test_half_a_surrogate_pair_is_recorded_and_refused(room):
    async def visit():
        async with room.here() as (client, _):
            said = await client.call_tool("apply_schema", {"plan": '{"a": "\ud800"}'})
            assert (said.is_error, said.structured_content["received_bytes"]) == (True, 12)

    run(visit)
    assert [entry.received_bytes for entry in room.entries()] == [12]


def test_a_bare_text_is_not_enough_unless_the_configuration_says_so(room):
    room.configure('target = "prod"')

    async def visit():
        async with room.here() as (client, _):
            text = await client.call_tool("apply_schema", {"plan": witness_bytes("w-1", SEEN).decode()})
            assert (text.is_error, text.structured_content["signal"]) == (True, "weak-evidence")
            sealed = proof.seal(witness_bytes("w-2", SEEN)).decode()
            assert not (await client.call_tool("apply_schema", {"plan": sealed})).is_error

    run(visit)
    assert room.states() == {"w-1": "incomplete", "w-2": "staged"}


def test_immediate_targets_are_applied_at_once_and_long_ones_answered_in_time(room):
    room.configure('target = "prod"\nmin_evidence = "witness"\nimmediate = ["prod"]')
    before = room.dump()

    async def visit():
        async with room.here(answer_within=1.0) as (client, desk):
            began = time.monotonic()
            slow = await client.call_tool("apply_schema", {"plan": witness_bytes("slow", (SLOW,)).decode()})
            assert time.monotonic() - began < 8
            assert (slow.is_error, slow.structured_content["state"]) == (False, "running")
            assert "job_status" in words(slow)
            asked = await client.call_tool("job_status", {"job_id": "slow"})
            assert asked.structured_content["state"] in ("staged", "applying", "running")
            desk.stop("SIGTERM")
            desk.wait()
            asked = await client.call_tool("job_status", {"job_id": "slow"})
            assert asked.structured_content["state"] == "failed"
            assert room.dump() == before
        async with room.here() as (client, _):
            done = await client.call_tool("apply_schema", {"plan": witness_bytes("quick", SEEN).decode()})
            assert done.structured_content["state"] == "applied"

    run(visit)
    assert {entry.job_id: entry.approver for entry in room.entries()}["quick"] == "mcp.immediate"


@pytest.mark.parametrize(("immediate", "said"), [("", "Nothing was applied"), ('immediate = ["prod"]', "not known")])
def test_our_own_fault_claims_nothing(room, monkeypatch, immediate, said):
    room.configure(f'target = "prod"\nmin_evidence = "witness"\n{immediate}')
    before = room.dump()

    def broken(*_arguments, **_more):
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(api.Job if immediate else api.Gate, "apply" if immediate else "submit", broken)

    async def visit():
        async with room.here() as (client, _):
            answer = await client.call_tool("apply_schema", {"plan": witness_bytes("bad", SEEN).decode()})
            assert answer.is_error
            assert said in words(answer)
            assert "job_status" in words(answer)
            assert "secret" not in words(answer)

    run(visit)
    assert room.dump() == before


@pytest.mark.parametrize("where", ["ledger", "target"])
def test_what_cannot_be_tried_is_said(room, where):
    if where == "target":
        (room.folder / "app.db").unlink()
    else:
        (room.folder / "ledger.db").write_bytes(b"no ledger at all, and longer than a header" * 100)

    async def visit():
        async with room.here() as (client, _):
            answer = await client.call_tool("apply_schema", {"plan": witness_bytes("j", SEEN).decode()})
            assert (answer.is_error, answer.structured_content["signal"]) == (True, "could-not-try")
            assert "the id is free" in words(answer)

    run(visit)
    assert (room.folder / "app.db").exists() == (where == "ledger")


# --- files


@pytest.fixture
def root(tmp_path):
    made = (tmp_path / "root").resolve()
    (made / "in").mkdir(parents=True)
    (made / "in" / "plan").write_bytes(b"12345")
    (tmp_path / "outside").write_bytes(b"secret")
    (made / "link").symlink_to("in/plan")
    (made / "out").symlink_to(tmp_path / "outside")
    (made / "up").symlink_to(tmp_path)
    (made / "loop").symlink_to("loop")
    os.mkfifo(made / "pipe")
    return made


@pytest.mark.parametrize("path", ["in/plan", "link", "./in/../in/plan", "{root}/in/plan"])
def test_files_below_the_root(root, path):
    assert confined.read(root, path.format(root=root), 5) == b"12345"
    assert confined.read(root, path.format(root=root), 3) == b"1234"


@pytest.mark.parametrize(
    "path",
    [
        *("", ".", "in", "none", "pipe", "out", "up/outside", "loop", "../outside", "/etc/passwd", "in/plan/x"),
        *("a\0b", "x" * 5000, "\ud800", "in/plan\n"),
    ],
)
def test_no_other_file(root, path):
    with pytest.raises(CannotTry, match=r"Nothing was taken"):
        confined.read(root, path, 100)


def test_a_file_that_is_still_written_is_not_taken(root, monkeypatch):
    real = os.pread
    grows = iter((b"6", b""))

    def pread(descriptor, size, offset):
        with (root / "in" / "plan").open("ab") as file:
            file.write(next(grows, b""))
        return real(descriptor, size, offset)

    monkeypatch.setattr(os, "pread", pread)
    with pytest.raises(CannotTry, match=r"changed while it was read: \d bytes, then 6"):
        confined.read(root, "in/plan", 100)


def test_a_part_exchanged_for_a_link_is_not_followed(root, monkeypatch):
    """What is resolved first and opened later may be another thing by then."""
    real = os.path.realpath

    def realpath(path, **more):
        found = real(path, **more)
        (root / "in").rename(root / "was")
        (root / "in").symlink_to(root.parent / "elsewhere")
        (root.parent / "elsewhere").mkdir()
        (root.parent / "elsewhere" / "plan").write_bytes(b"secret")
        return found

    monkeypatch.setattr(os.path, "realpath", realpath)
    with pytest.raises(CannotTry):
        confined.read(root, "in/plan", 100)


# --- configuration


@pytest.mark.parametrize(
    ("mcp", "target", "says"),
    [
        ("", "", "neither a target nor a repository"),
        ('target = "other"', "", r"no \[targets.other\]"),
        ('target = "sqlite:///app.db"', "", "a URL is not taken here"),
        ('target = "prod"\nimmediate = ["prdo"]', "", r"no \[targets.prdo\]"),
        ('target = "prod"\nimmediate = ["prod"]', 'review = "required"', "demands a review"),
        ('target = "prod"\nroot = "nowhere"', "", "is not a folder"),
    ],
)
def test_what_opens_nothing_is_said_before_anything_is_served(room, mcp, target, says):
    room.configure(mcp, target)
    with pytest.raises(Misuse, match=says):
        settings.read(room.config)


def test_words_of_the_command_line(room, capfd):
    assert cli.run(["mcp", "--port", "1"]) == 2
    room.configure('target = "prod"\nurl = "sqlite:///x"')
    assert cli.run(["mcp"]) == 2
    assert "unknown field" in capfd.readouterr().err


# --- verdicts


def test_a_verdict_decides_and_a_cut_one_blocks(tmp_path, monkeypatch):
    world = World(tmp_path / "world")
    room = Room(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endmark.toml").write_text(
        f'[ledger]\nurl = "sqlite:///{world.path}"\n[mcp]\nrepository = "{world.repo}"\n'
    )
    whole = world.verdict().decode()
    tip = world.tip()

    async def visit():
        async with room.here(desk=Desk(settings.read(room.config))) as (client, _):
            names = {"base": "main", "head": "topic"}
            cut = await client.call_tool("submit_verdict", {"verdict": whole[:-1], **names})
            assert (cut.is_error, cut.structured_content["state"]) == (True, "incomplete")
            assert f"received bytes: {len(whole) - 1}, expected bytes: {len(whole):,}" in words(cut)
            other = await client.call_tool("submit_verdict", {"verdict": whole, **names, "reviewer": "nobody"})
            assert other.is_error
            gone = await client.call_tool("submit_verdict", {"verdict": whole, "base": "main", "head": "--all"})
            assert gone.is_error
            done = await client.call_tool("submit_verdict", {"verdict": whole, **names})
            assert (done.is_error, done.structured_content["state"]) == (False, "pass")
            again = await client.call_tool("job_status", {"job_id": done.structured_content["decision_id"]})
            assert again.structured_content["state"] == "pass"
            return done.structured_content["decision_id"]

    decision_id = run(visit)
    assert (world.tip(), world.merges()) == (tip, [])
    subprocess.run(["git", "init", "-q", "--bare", tmp_path / "other.git"], check=True)
    (tmp_path / "endmark.toml").write_text(
        f'[ledger]\nurl = "sqlite:///{world.path}"\n[mcp]\nrepository = "other.git"\n'
    )
    other = Desk(settings.read(room.config))
    with pytest.raises(CannotTry, match="no job of this id"):  # a decision of another repository's
        other.status(decision_id, Call())
    world.close()
