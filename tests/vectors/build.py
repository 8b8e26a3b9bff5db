"""Writes every vector: `python -m tests.vectors.build [FOLDER]`. Shares no code with endmark, so no bug either."""

import sys
from pathlib import Path

from tests.vectors.cases_digest import digests, fingerprints
from tests.vectors.cases_json import strict_json
from tests.vectors.cases_mc1 import mc1
from tests.vectors.cases_plan import plans, witnesses
from tests.vectors.cases_verdict import verdicts
from tests.vectors.parts import CASES

FOLDER = Path(__file__).parent


def build():
    CASES.clear()
    for write in (strict_json, mc1, plans, witnesses, verdicts, digests, fingerprints):
        write()
    return CASES


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for path, content in build().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
