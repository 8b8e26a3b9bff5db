"""The examples run: a whole answer is applied, a cut one is refused in words for the model and changes nothing."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from tests.support import answers
from tests.support.server import CHUNK_FIN, CHUNKED, Script, serving
from tests.support.world import files, make_database, query

FOLDER = Path(__file__).parents[2] / "examples"
BODIES = {
    "openai": (answers.chat_call(), {"OPENAI_BASE_URL": "{url}/v1", "OPENAI_API_KEY": "k"}),
    "anthropic": (answers.messages_call(), {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "k"}),
    "gemini": (answers.gemini_call(), {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "k"}),
    "ollama": (answers.ollama_call(), {"OLLAMA_HOST": "{url}"}),
    "mistral": (answers.mistral_call(), {"MISTRAL_SERVER_URL": "{url}", "MISTRAL_API_KEY": "k"}),
}


def load(name):
    spec = spec_from_file_location(f"example_with_{name}", FOLDER / f"with_{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_is_one_for_each_sdk():
    assert {path.name for path in FOLDER.glob("with_*.py")} == {f"with_{name}.py" for name in BODIES}


@pytest.mark.parametrize("name", BODIES)
def test_an_example_applies_a_whole_answer_and_no_other(name, tmp_path, monkeypatch, capsys):
    body, variables = BODIES[name]
    example = load(name)
    monkeypatch.chdir(tmp_path)
    make_database(tmp_path / "shop.db")
    before = files(tmp_path / "shop.db")
    with serving() as server:
        for variable, value in variables.items():
            monkeypatch.setenv(variable, value.format(url=server.url))
        monkeypatch.setenv("MODEL", "m")
        for ending in (CHUNKED, CHUNK_FIN):
            server.play(Script(body, ending, cut=len(body) // 2))
            assert example.main("a small web shop", "sqlite:///shop.db") == 1
            assert "nothing was executed. Send it again, smaller, in whole" in capsys.readouterr().out
            assert files(tmp_path / "shop.db") == before
        server.play(Script(body))
        assert example.main("a small web shop", "sqlite:///shop.db") == 0
    said = capsys.readouterr().out
    assert "applied: 11 statements, sealed" in said
    assert "output-cap:8192" in said
    assert query(tmp_path / "shop.db", "SELECT count(*) FROM order_lines") == [(0,)]
