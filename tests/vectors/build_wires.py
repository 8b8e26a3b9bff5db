"""Writes the vectors of the OpenAI and Anthropic wires. Shares no code with endmark.

`python -m tests.vectors.build_wires [FOLDER]`

tests/vectors/README.md says what the header lines mean.
"""

import sys
from pathlib import Path

from tests.vectors.wire_cases import CASES
from tests.vectors.wire_cases_anthropic import messages
from tests.vectors.wire_cases_openai import openai_chat, responses

FOLDER = Path(__file__).parent / "wires"


def build() -> dict[str, bytes]:
    """Every vector: its path below the folder, and its bytes."""
    CASES.clear()
    for write in (openai_chat, responses, messages):
        write()
    return dict(CASES)


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for path, content in build().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
