"""The rows: what must hold, and the commands that show whether it does."""

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PLACE = Path("build/scoreboard")
PLAN, VERDICT = PLACE / "plan.mc1", PLACE / "verdict.mc1"
SEED = 20260701
MUTATIONS = 2_500_000  # for each of the two payloads
BIN = ".venv/bin/"


class Row(NamedTuple):
    """One line of the table. Of `commands` each is run as it stands; `kind` says how its figures are read."""

    name: str
    holds: str
    kind: str  # drill, tests, figures
    commands: tuple[str, ...]
    seed: str = ""


def _drilled(name: str, holds: str, faults: str, *more: str) -> Row:
    """Both of our own gates, drilled by the drill that everybody has."""
    commands = [
        f"{BIN}endmark drill {gate} --payload {body} --faults {faults} --seed {SEED} --json"
        + (f" --state {PLACE}/{name}-{gate}.state" if name == "mutations" else "")
        for gate, body in (("plan", PLAN), ("verdict", VERDICT))
    ]
    return Row(name, holds, "drill", (*commands, *more), str(SEED))


def _tests(name: str, holds: str, paths: str, chosen: str = "", seed: str = "") -> Row:
    keyword = f" -k '{chosen}'" if chosen else ""
    return Row(name, holds, "tests", (f"{BIN}python -m pytest -q -n 1 -m 'soak or not soak'{keyword} {paths}",), seed)


ROWS: tuple[Row, ...] = (
    _drilled("cuts", "An envelope cut at every byte is refused", "cuts"),
    _drilled("flips", "An envelope with any one bit changed is refused", "flips"),
    _drilled(
        "tokens",
        "Tokens lost, keys twice or missing, ends lost and headers made to fit: refused",
        "tokens,keys,sentinel,gaps",
    ),
    _drilled(
        "mutations", "Structured mutations of an envelope, by chance from a seed: refused", f"mutations:{MUTATIONS}"
    ),
    _drilled("pairs", "Two faults at once: refused", "pairs:100000"),
    _tests("incidents", "Each incident that happened to people ends as its row says", "tests/incidents"),
    _tests(
        "good",
        "Whole streams, varied in all that may vary, are taken",
        "tests/wires/test_good_streams.py",
        seed="in the names",
    ),
    _tests(
        "wires",
        "No cut of a stream is an answer, on any wire",
        "tests/wires/test_cuts.py tests/wires/test_six_wires.py",
    ),
    _tests(
        "sdks",
        "Behind the guard no SDK believes a cut stream, whatever its transport's end",
        "tests/drills/test_sdks.py",
    ),
    _tests(
        "crash-points",
        "The machine stops after any write to target, journal, WAL or ledger, in seven ways: all or nothing",
        "tests/reliability/test_crash_points.py",
        "every_call or caught",
        "0",
    ),
    _tests(
        "kills-sqlite", "kill -9 at any moment, SQLite: all or nothing", "tests/gates/test_kills.py", seed="the mode"
    ),
    _tests(
        "kills-postgres", "kill -9 at any moment, PostgreSQL: all or nothing", "tests/effects/postgres/test_kills.py"
    ),
    _tests(
        "kills-mariadb", "kill -9 at any moment, MariaDB: settled truthfully", "tests/effects/mariadb/test_kills.py"
    ),
    _tests(
        "duplicates",
        "The same delivery twice, in turn and at once: one effect",
        "tests/incidents/test_duplicates.py tests/gates/test_together.py tests/gates/test_ids.py",
    ),
    _tests(
        "disk-errors",
        "An I/O error, a full disk, or the end of the process at every call into SQLite: all or nothing",
        "tests/gates/test_injection.py tests/gates/test_world_faults.py",
    ),
    _tests(
        "git-kills",
        "kill -9 while a branch is merged or a push judged: the branch is the old or the new",
        "tests/gates/patches/test_kills.py tests/effects/git/test_killed.py",
    ),
    _tests(
        "soak", "Many jobs through one process: neither memory nor descriptors grow", "tests/reliability/test_soak.py"
    ),
    Row(
        "mutation",
        "Each check that is taken out turns a test red",
        "figures",
        ("make mutation MUTATION='--json {json}'",),
    ),
    Row(
        "coverage",
        "Branches that tests of the same room take",
        "figures",
        (f"{BIN}python -m bench.scoreboard.coverage",),
    ),
)
BY_NAME = {row.name: row for row in ROWS}


def chosen(names: Iterable[str]) -> list[Row]:
    """The rows of these names, all for none. Raises KeyError."""
    wanted = list(names)
    return [BY_NAME[name] for name in wanted] if wanted else list(ROWS)
