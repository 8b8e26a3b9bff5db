"""The rows of rows.toml, and the page that is made of them: `python -m tests.incidents.rows` writes it anew."""

import tomllib
from collections import Counter
from pathlib import Path

import msgspec

from endmark.core.states import EXIT, Decision

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "incidents.md"

RUNS, HALF, WAITS = "runs", "half", "waits"
# What a row may wait for, as `room: what is to come with it`.
ROOMS = {"MariaDB", "doctor", "ledger"}
# The states a row may end in, with their exit codes: those of a job, of a decision, and of what was not tried.
EXITS: dict[str, int] = {
    **{state.value: code for state, code in EXIT.items()},
    Decision.PASS.value: 0,
    Decision.FAIL.value: 1,
    "not-tried": 20,
}


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One report."""

    id: str
    kind: str
    shape: str
    answers: list[str]
    status: str
    url: str = ""
    tests: list[str] = []
    waits: str = ""

    @property
    def states(self) -> list[str]:
        """The states it may end in, the usual one first."""
        return [answer.partition(":")[0] for answer in self.answers]


_TABLE = tomllib.loads((HERE / "rows.toml").read_text(encoding="utf-8"))
ROWS: dict[str, Row] = {row["id"]: msgspec.convert(row, Row) for row in _TABLE["row"]}


def agrees(row_id: str, state: object) -> bool:
    """Whether `state` is one that the row's answers name."""
    return str(getattr(state, "value", state)) in ROWS[row_id].states


def page() -> str:
    """The whole of docs/incidents.md."""
    count = Counter(row.status for row in ROWS.values())
    lines = [
        HEAD.format(
            rows=len(ROWS),
            links=sum(bool(row.url) for row in ROWS.values()),
            kinds=len({row.kind for row in ROWS.values()}),
            runs=count[RUNS],
            half=count[HALF],
            waits=count[WAITS],
        ),
        "| report | kind | what happened, and was believed | endmark's answer | tested |",
        "|---|---|---|---|---|",
    ]
    for row in ROWS.values():
        lines.append(f"| {_link(row)} | {row.kind} | {row.shape} | {_answers(row)} | {_tested(row)} |")
    lines += ["", FOOT]
    return "\n".join(lines)


def _link(row: Row) -> str:
    return f"[{row.id}]({row.url})" if row.url else f"{row.id} (measured, no link)"


def _answers(row: Row) -> str:
    said = []
    for answer in row.answers:
        state, _, when = answer.partition(": ")
        said.append(f"`{state}` ({EXITS[state]})" + (f" {when}" if when else ""))
    return "; ".join(said)


def _tested(row: Row) -> str:
    links = ", ".join(f"[{file}](../tests/{file})" for file in row.tests)
    if row.status == WAITS:
        return f"waits for {row.waits}"
    return f"{links}; waits for {row.waits}" if row.status == HALF else links


HEAD = """\
<!-- Made by `python -m tests.incidents.rows` from tests/incidents/rows.toml: change that file. -->

# Incidents

{rows} incidents of {kinds} kinds, from 2013 to 2026: {links} public reports and one measurement. In each of them a part
was taken for the whole, a repair changed what was meant, a thing was done twice or by half, or a gate failed open. They
are why endmark exists, and what it is tested with.

- **{runs} run**: endmark's answer is tested, all of it.
- **{half} run by half**: the part that stands on bytes, a database or a verdict alone is tested; the rest waits for
  what the row names.
- **{waits} wait** for something that is not built yet.

No test talks to the project of a report. It builds the strongest input of the same kind: where the shape is a cut,
**every** cut of the payload, as it is and after repairers have closed it, dropped its last item, kept its whole pairs
or filled it with defaults. A call is offered as a witness form, as a bare plan and as an envelope. None may be
accepted, and the database must be byte for byte what it was. Where a report is about files, rows of a table stand for
them. A few rows are controls: they are whole, and must be applied without a letter changed.

To run one: `pytest tests -k "INC-056 or inc_056"`. Tests that bear several rows have all their numbers in the name.

In the answers, the number is the exit code; [the decision table](../spec/states.md) says why. In a review, whatever is
not whole makes the review `incomplete`, and the exit code stays the signal's own.
"""

FOOT = """\
## What these tests do not show

- A witness form is written by a model: its count and its trailer prove that the text reached its end. They do not prove
  that nothing in the middle was lost, doubled or altered (INC-071, INC-124). An envelope proves that for everything
  after it was sealed; a provider's numbered events can prove it before.
- A body that was cut *before* it was sealed is whole from then on (INC-093, INC-163). That is why the sealer must stand
  where the answer is captured, and why a plan and a verdict bring a witness of their own.
- Who fills in the trailer proves nothing by it. A tool definition must not give it a default, and a repairer that knows
  it is a forger.
"""

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
