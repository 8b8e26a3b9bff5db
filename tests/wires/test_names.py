"""Wires are found by their names, each loaded only when it is asked for; a profile says what it gives up."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.wires.bodies_openai import openai_chat
from tests.wires.support import TURNS, fed

from endmark.core.ending import Ending
from endmark.wires.names import NAMES, reader
from endmark.wires.profiles import PROFILES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "spec" / "wires.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_each_name_has_a_reader_of_its_own(name):
    assert reader(name) is not reader(name)


@pytest.mark.parametrize(
    "name", ["", "telex", "openai", "openai-chat+", "openai-chat+telex", "anthropic+vllm", "+vllm"]
)
def test_an_unknown_name_is_told_the_known_ones(name):
    with pytest.raises(ValueError, match=re.escape(f"{name!r}; there are openai-chat, ")) as told:
        reader(name)
    assert all(known in str(told.value) for known in NAMES)


def test_every_profile_has_its_name():
    assert {name.partition("+")[2] for name in NAMES if name.startswith("openai-chat")} == set(PROFILES)


def test_a_wire_is_loaded_when_it_is_asked_for():
    script = (
        "import sys\nfrom endmark.wires.names import reader\n"
        "loaded = {name for name in sys.modules if name.startswith('endmark.wires.')}\n"
        "assert not loaded & {'endmark.wires.anthropic', 'endmark.wires.openai_chat'}, loaded\n"
        "reader('anthropic')\nassert 'endmark.wires.openai_chat' not in sys.modules\n"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("name", PROFILES)
def test_an_answer_says_its_profile_and_what_that_gives_up(name):
    """OC15"""
    wire = f"openai-chat+{name}" if name else "openai-chat"
    answer = fed(reader(wire), [openai_chat(TURNS["plan"])]).finish(Ending.LAST_CHUNK)
    said = [word for word in answer.evidence if word.startswith(("profile:", "gave-up:"))]
    assert said == ([f"profile:{name}", *PROFILES[name].gives_up] if name else [])
    assert all(f"`{word}`" in PAGE for word in PROFILES[name].gives_up)
    assert answer.tool_calls[0].parsed == (name in ("ollama", "gemini"))
