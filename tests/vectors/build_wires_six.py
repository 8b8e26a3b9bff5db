"""Writes the vectors of six wires, and those of what only ended. Shares no code with endmark.

`python -m tests.vectors.build_wires_six [FOLDER]`

Each is the smallest body that keeps or breaks its rule. Longer ones, and all their cuts, are made by tests/wires.
"""

import sys
from pathlib import Path

from tests.vectors.wire_cases import CASES
from tests.vectors.wire_cases_bedrock import bedrock, eventstream
from tests.vectors.wire_cases_ended import ended
from tests.vectors.wire_cases_gemini import gemini, gemini_array
from tests.vectors.wire_cases_others import cohere, mistral, ollama

FOLDER = Path(__file__).parent / "wires"


def build() -> dict[str, bytes]:
    """Every vector: its path below the folder, and its bytes."""
    CASES.clear()
    for write in (eventstream, bedrock, gemini, gemini_array, ollama, mistral, cohere, ended):
        write()
    return dict(CASES)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, content in build().items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
