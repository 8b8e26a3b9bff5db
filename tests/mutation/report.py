"""What a run found: counts for machines, survivors for people."""

import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from tests.mutation.checks import Mutant


class Result(NamedTuple):
    """What became of a mutant. `outcome` is `noticed`, `hung` (noticed too), `survived` or `unreached`.

    `by` is the test that failed; `ran` of `reaching` tests were run; `seconds` were spent.
    """

    outcome: str
    by: str
    ran: int
    reaching: int
    seconds: float


def equivalent(file: Path) -> dict[str, str]:
    """The mutants that nobody could tell from the code as it is: `path: function: change` -> the reason."""
    if not file.exists():
        return {}
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("equivalent", [])
    for entry in entries:
        if set(entry) != {"file", "function", "change", "reason"} or not entry["reason"].strip():
            raise ValueError(f"{file}: file, function, change and reason were expected in {entry}")
    return {name(entry["file"], entry["function"], entry["change"]): entry["reason"] for entry in entries}


def name(path: str, function: str, change: str) -> str:
    return f"{path}: {function}: {change}"


def name_of(mutant: Mutant) -> str:
    return name(mutant.path, mutant.function, mutant.change)


def survivors(results: Mapping[Mutant, Result], allowed: Mapping[str, str]) -> list[Mutant]:
    alive = {"survived", "unreached"}
    return [mutant for mutant, result in results.items() if result.outcome in alive and name_of(mutant) not in allowed]


def document(results: Mapping[Mutant, Result], allowed: Mapping[str, str], facts: Mapping[str, object]) -> dict:
    """One JSON object: how many checks, how many noticed, which survived; equivalent ones count for neither."""
    alive = {"survived", "unreached"}
    excused = [mutant for mutant, result in results.items() if result.outcome in alive and name_of(mutant) in allowed]
    left = survivors(results, allowed)
    checks, lost = Counter(map(_room, results)), Counter(map(_room, left))
    checks.subtract(Counter(map(_room, excused)))
    return {
        "checks": len(results) - len(excused),
        "noticed": len(results) - len(excused) - len(left),
        "survived": [
            {
                "file": mutant.path,
                "line": mutant.line,
                "function": mutant.function,
                "change": mutant.change,
                "tests": results[mutant].ran,
                "reaching": results[mutant].reaching,
            }
            for mutant in left
        ],
        "equivalent": [{"mutant": name_of(mutant), "reason": allowed[name_of(mutant)]} for mutant in excused],
        "hung": [str(mutant) for mutant, result in results.items() if result.outcome == "hung"],
        "rooms": {room: {"checks": count, "noticed": count - lost[room]} for room, count in sorted(checks.items())},
        **facts,
    }


def lines(results: Mapping[Mutant, Result], allowed: Mapping[str, str], whole: bool) -> list[str]:
    """The report for people. `whole`: every module was asked for, so an entry that excuses nothing is stale."""
    found = document(results, allowed, {})
    text = []
    for mutant in survivors(results, allowed):
        result = results[mutant]
        seen = f"{result.ran} of {result.reaching} tests ran over it" if result.reaching else "no test runs over it"
        text.append(f"survived  {mutant}  ({seen})")
    text += [f"hung      {mutant}" for mutant in found["hung"]]
    if whole:
        excused = {entry["mutant"] for entry in found["equivalent"]}
        text += [f"stale     equivalent.toml: {entry}" for entry in allowed if entry not in excused]
    for room, counts in found["rooms"].items():
        text.append(f"{room:24} {counts['noticed']:5} of {counts['checks']:5} removed checks noticed")
    text.append(f"{'in all':24} {found['noticed']:5} of {found['checks']:5}, {len(found['equivalent'])} equivalent")
    return text


def _room(mutant: Mutant) -> str:
    inner = mutant.path.removeprefix("src/endmark/")
    return inner.rpartition("/")[0] or inner
