"""Which branches of a room the tests take: of `core` its own, of `wires` its own and those of `seal`, of gates theirs.

Prints one JSON object.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PARTS = {
    "core": (["src/endmark/core/*"], ["tests/core"]),
    "wires": (["src/endmark/wires/*"], ["tests/wires", "tests/seal"]),
    "gates": (
        ["src/endmark/*_gate.py", "src/endmark/reconcile*.py", "src/endmark/steps/*"],
        ["tests/gates", "tests/faces/test_review.py", "tests/effects/mariadb"],
    ),
}


def main() -> int:
    told: dict[str, int] = {}
    code = 0
    for name, (files, tests) in PARTS.items():
        with tempfile.TemporaryDirectory() as folder:
            data, report = Path(folder, "data"), Path(folder, "report.json")
            environ = {**os.environ, "COVERAGE_FILE": str(data)}

            def coverage(*words: str, environ: dict[str, str] = environ) -> int:
                return subprocess.run(
                    [sys.executable, "-m", "coverage", *words], env=environ, stdout=sys.stderr
                ).returncode

            code |= coverage("run", "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", *tests)
            coverage("combine", "-q", folder)
            code |= coverage("json", "-q", "-o", str(report), f"--include={','.join(files)}")
            totals = json.loads(report.read_text())["totals"]
        told[f"branches of {name}"] = totals["num_branches"]
        told[f"taken in {name}"] = totals["covered_branches"]
    print(json.dumps(told))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
