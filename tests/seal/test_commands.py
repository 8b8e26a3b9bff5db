"""The verbs that seal captured answers, sign envelopes and print the tool's definition."""

import sys

import pytest
from tests.support import answers

import endmark
from endmark.core import plan, strictjson
from endmark.core.tooldef import PROVIDERS
from endmark.faces import cli


@pytest.fixture
def run(tmp_path, monkeypatch, capfdbinary):
    monkeypatch.chdir(tmp_path)

    def go(*arguments):
        capfdbinary.readouterr()
        code = cli.run(list(arguments))
        sys.stdout.flush()
        return code, *capfdbinary.readouterr()

    return go


CALL = answers.chat_call()


def test_a_captured_call_is_sealed(run, tmp_path):
    (tmp_path / "stream.sse").write_bytes(CALL)
    code, out, err = run("seal", "--wire", "openai-chat", "--tool", "apply_schema", "stream.sse")
    assert (code, err) == (0, b"")
    (tmp_path / "plan.mc1").write_bytes(out)
    code, out, _ = run("check", "plan.mc1", "--json")
    assert code == 0
    assert strictjson.loads(out)["stmt_count"] == 11


def test_a_captured_text_is_sealed(run, tmp_path):
    (tmp_path / "stream.sse").write_bytes(answers.messages_text())
    code, out, _ = run("seal", "--wire", "anthropic", "stream.sse")
    assert code == 0
    assert answers.verdict().encode() in out


MARKS = ["0-" + "a" * 32, "1-" + "b" * 32]


def test_the_marks_that_were_asked_for_are_checked(run, tmp_path):
    (tmp_path / "stream.sse").write_bytes(answers.chat_text(answers.verdict(marks=MARKS)))
    (tmp_path / "bare.sse").write_bytes(answers.chat_text())
    (tmp_path / "marks").write_text("\n".join(MARKS) + "\n")
    code, out, _ = run("seal", "--wire", "openai-chat", "stream.sse", "--marks", "marks", "--evidence", "e.json")
    assert (code, out[:4]) == (0, b"MC1 ")
    assert "marks-echoed" in strictjson.loads((tmp_path / "e.json").read_bytes())["evidence"]
    assert run("seal", "--wire", "openai-chat", "bare.sse")[0] == 0
    assert run("seal", "--wire", "openai-chat", "bare.sse", "--marks", "marks")[:2] == (10, b"")
    (tmp_path / "marks").write_text("\n".join(reversed(MARKS)))
    assert run("seal", "--wire", "openai-chat", "stream.sse", "--marks", "marks")[:2] == (10, b"")


@pytest.mark.parametrize("text", ["", "\n", "a\n\nb", "a\r\n", "a\tb", b"\xff"])
def test_a_file_that_holds_no_marks(run, tmp_path, text):
    (tmp_path / "stream.sse").write_bytes(answers.chat_text())
    (tmp_path / "marks").write_bytes(text if isinstance(text, bytes) else text.encode())
    code, out, err = run("seal", "--wire", "openai-chat", "stream.sse", "--marks", "marks")
    assert (code, out) == (2, b"")
    assert b"--marks" in err


def test_a_stop_at_a_sequence_is_normal_only_where_the_request_named_one(run, tmp_path):
    raw = answers.messages_call(stop="stop_sequence")
    (tmp_path / "stream.sse").write_bytes(raw)
    seal = ("seal", "--wire", "anthropic", "--tool", "apply_schema", "stream.sse")
    assert run(*seal)[:2] == (13, b"")
    assert run(*seal, "--stop-sequences")[0] == 0


@pytest.mark.parametrize(
    ("body", "options", "code"),
    [
        (CALL[:1882], ["--tool", "apply_schema"], 13),
        (b"", ["--tool", "apply_schema"], 10),
        (CALL, ["--tool", "drop_schema"], 12),
        (CALL, [], 12),
        (CALL, ["--tool", "apply_schema", "--max-output-tokens", "700"], 13),
        (answers.chat_call(finish="length"), ["--tool", "apply_schema"], 13),
        (answers.chat_call(answers.witness()[:700] + '"]}'), ["--tool", "apply_schema"], 10),
    ],
)
def test_what_is_refused_gives_no_output_and_its_exit_code(run, tmp_path, body, options, code):
    (tmp_path / "stream.sse").write_bytes(body)
    found, out, err = run("seal", "--wire", "openai-chat", *options, "stream.sse")
    assert (found, out) == (code, b"")
    assert err.startswith(b"endmark: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--wire", "telegraph", "x"],
        ["--tool", "apply_schema", "x"],
        ["--max-output-tokens", "5", "x"],
        ["--stop-sequences", "x"],
        ["--marks", "x", "x"],
        ["--evidence", "e.json", "x"],
        ["--wire", "openai-chat", "--tool", "apply_schema", "--marks", "marks", "x"],
        ["--wire", "openai-chat", "--max-output-tokens", "0", "x"],
    ],
)
def test_wrong_use_is_exit_2(run, tmp_path, arguments):
    (tmp_path / "x").write_bytes(CALL)
    (tmp_path / "marks").write_text("a")
    code, out, _ = run("seal", *arguments)
    assert (code, out) == (2, b"")


def test_sign_and_check(run, tmp_path):
    (tmp_path / "witness.json").write_text(answers.witness())
    code, out, _ = run("key", "new", "sealer.key")
    assert code == 0
    assert b"PRIVATE" not in out
    code, signed, _ = run("seal", "witness.json", "--key", "sealer.key")
    assert code == 0
    (tmp_path / "plan.signed").write_bytes(signed)
    code, out, _ = run("check", "plan.signed", "--trusted-keys", "sealer.key.pub", "--json")
    assert code == 0
    assert strictjson.loads(out)["evidence"][0] == "signed"
    (tmp_path / "plan.signed").write_bytes(signed.replace(b'"sig":"', b'"sig":"A', 1))
    assert run("check", "plan.signed", "--trusted-keys", "sealer.key.pub")[0] == 12
    run("key", "new", "other.key")
    (tmp_path / "plan.signed").write_bytes(signed)
    assert run("check", "plan.signed", "--trusted-keys", "other.key.pub")[0] == 13
    assert run("check", "plan.signed")[0] == 13
    assert run("check", "witness.json", "--trusted-keys", "sealer.key.pub")[0] == 13
    assert run("key", "new", "sealer.key")[0] == 20
    (tmp_path / "sealer.key").chmod(0o644)
    code, out, err = run("seal", "witness.json", "--key", "sealer.key")
    assert (code, out) == (20, b"")
    assert b"can be read by others" in err


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("down", [False, True])
def test_the_definition_has_the_fields_in_witness_order(run, provider, down):
    code, out, _ = run("tool", "--for", provider, *(["--down"] if down else []))
    assert code == 0
    made = strictjson.loads(out)
    assert made == endmark.tool(provider, down=down)
    inner = made.get("function", made)
    assert inner["name"] == plan.TOOL
    schema = next(
        inner[key] for key in ("parameters", "input_schema", "inputSchema", "parameters_json_schema") if key in inner
    )
    assert schema["additionalProperties"] is False
    assert schema["required"] == list(schema["properties"])
    if provider in ("gemini", "ollama", "mcp"):
        assert list(schema["properties"]) == ["plan"]
        assert ("down" in inner["description"]) is down
        return
    fields = list(schema["properties"])
    assert fields == ["job_id", "stmt_count", "statements", *(["down"] if down else []), "trailer"]
    assert schema["properties"]["trailer"]["enum"] == [plan.TRAILER]
    assert inner["strict"] is True


def test_a_definition_for_nobody_is_none():
    with pytest.raises(ValueError, match="telegraph"):
        endmark.tool("telegraph")


def test_the_sdks_take_the_definitions():
    """Seen with their own eyes: each SDK's model of a tool accepts it and keeps the order of its fields."""
    import ollama
    from google.genai import types
    from mistralai.client.models import Tool

    declared = types.FunctionDeclaration(**endmark.tool("gemini"))
    assert declared.parameters_json_schema == endmark.tool("gemini")["parameters_json_schema"]
    kept = ollama.Tool(**endmark.tool("ollama")).model_dump(exclude_none=True)
    assert list(kept["function"]["parameters"]["properties"]) == ["plan"]
    tool = Tool.model_validate(endmark.tool("mistral"))
    assert list(tool.function.parameters["properties"]) == ["job_id", "stmt_count", "statements", "trailer"]
