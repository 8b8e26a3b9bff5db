"""`python -m tests.mutation`: what is asked for, the run, the report."""

import argparse
import json
import os
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.mutation.report import document, equivalent, lines, survivors
from tests.mutation.run import Run

import endmark

ROOT = Path(__file__).resolve().parents[2]
FILES = (
    "core/*.py",
    "wires/*.py",
    *(f"{doing}.py" for doing in ("apply_gate", "patch_gate", "push_gate", "replay", "reconcile", "reconcile_patches")),
    "seal.py",
    "steps/*.py",
    "effects/sqlite/*.py",
    "effects/git/*.py",
    "ledger/file.py",
)
TESTS = ("core", "wires", "seal", "gates", "effects", "ledger", "incidents", "sources")
ELSEWHERE = ("effects/postgres", "effects/mariadb")  # they would notice little of these rooms, and slowly


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--root", metavar="DIR", type=Path, default=ROOT, help="another project: its src/ and tests/")
    parser.add_argument("--only", metavar="FILE", action="append", help="only the checks of this module; repeatable")
    parser.add_argument("--tests", metavar="PATH", action="append", help="only these tests may notice; repeatable")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the counts and the survivors there")
    parser.add_argument(
        "--workers", type=int, default=min(os.cpu_count() or 1, 8), help="mutants at a time (%(default)s)"
    )
    parser.add_argument("--budget", type=float, default=120.0, help="seconds for one mutant (%(default)s)")
    parser.add_argument("--patience", type=float, default=10.0, help="seconds until a test has hung (%(default)s)")
    parser.add_argument("--fresh", action="store_true", help="believe nothing that an earlier run found")
    asked = parser.parse_args()
    root, code = asked.root.resolve(), asked.root.resolve() / "src"
    patterns = [f"endmark/{pattern}" for pattern in FILES] if root == ROOT else ["**/*.py"]
    every = [str(path.relative_to(root)) for pattern in patterns for path in sorted(code.glob(pattern))]
    files = [str((root / name).resolve().relative_to(root)) for name in asked.only] if asked.only else every
    said = os.fdopen(os.dup(2), "w", buffering=1)
    limits = {"width": asked.workers, "budget": asked.budget, "patience": asked.patience}
    run = Run(root, code, files, said, **limits, fresh=asked.fresh)
    tests = asked.tests or ([f"tests/{room}" for room in TESTS] if root == ROOT else ["tests"])
    status = _collect_and(run, root, tests)
    if run.fault:
        raise run.fault
    if not run.results:
        said.write(f"no mutant was tried (pytest ended with {status}): run the tests first\n")
        return 2
    allowed = equivalent(root / "tests/mutation/equivalent.toml")
    facts = {
        "tests": run.collected,
        "left_out": run.left_out,
        "seed": 0,  # hypothesis draws the same examples each time: the profile `ci` is derandomised
        "command": shlex.join(["python", "-m", "tests.mutation", *sys.argv[1:]]),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "version": endmark.__version__,
    }
    if asked.json:
        asked.json.write_text(json.dumps(document(run.results, allowed, facts)) + "\n", encoding="utf-8")
    said.write("\n".join([*lines(run.results, allowed, files == every), ""]))
    if run.left_out:
        said.write(f"{len(run.left_out)} of {run.collected} tests fail or are skipped as it is, and could not notice\n")
    return 1 if survivors(run.results, allowed) else 0


def _collect_and(run: Run, root: Path, tests: list[str]) -> int:
    """pytest, silent: in a copy it ends as usual, here when the run is over."""
    kept = [os.dup(number) for number in (0, 1, 2)]
    silent = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(silent, number)
    # this tool has imported endmark, which pytest would like to rewrite for its asserts as it is a plugin
    options = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    options += ["-q", "--capture=sys", "-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(root)]
    options += [f"--ignore={root}/tests/{folder}" for folder in ELSEWHERE]
    try:
        status = pytest.main([*options, *(str(root / test) for test in tests)], plugins=[run])
        if run.teller:
            run.teller.end()
    finally:
        if run.teller:
            os._exit(0)
        for number in (0, 1, 2):
            os.dup2(kept[number], number)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
