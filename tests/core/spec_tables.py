"""The tables in spec/ that are written from the code: `python -m tests.core.spec_tables` writes them anew."""

import re
from pathlib import Path

from endmark.core import states
from endmark.core.decision import TABLE

SPEC = Path(__file__).parents[2] / "spec"
_BLOCK = re.compile(r"(<!-- ([a-z ]+): generated -->\n).*?(<!-- end -->)", re.DOTALL)


def _moves(table) -> str:
    rows = "".join(
        f"| `{state}` | {', '.join(f'`{onward}`' for onward in moves) or 'finished'} |\n"
        for state, moves in table.items()
    )
    return f"| state | moves to |\n|---|---|\n{rows}"


def _decisions() -> str:
    rows = "".join(
        f"| {row.number} | {row.finds} | {' '.join(f'`{signal}`' for signal in row.signals)} | {row.treat_as} "
        f"| `{row.state}`{', bytes kept' if row.keeps_bytes else ''} | {row.exit_code} | `{row.next}` |\n"
        for row in TABLE
    )
    return f"| # | found | signals | treat as | state | exit | next |\n|---|---|---|---|---|---|---|\n{rows}"


def _exits() -> str:
    rows = "".join(f"| `{state}` | {code} |\n" for state, code in states.EXIT.items())
    return f"| state | exit |\n|---|---|\n{rows}"


def _without_effect() -> str:
    return ", ".join(f"`{state}`" for state in states.State if state in states.WITHOUT_EFFECT) + ".\n"


TABLES = {
    "jobs": lambda: _moves(states.MOVES),
    "reviews": lambda: _moves(states.REVIEW_MOVES),
    "decisions": lambda: _moves(states.DECISION_MOVES),
    "without effect": _without_effect,
    "decision table": _decisions,
    "exit by state": _exits,
}


def rendered(text: str) -> str:
    """A page with every generated block as the code has it now."""
    return _BLOCK.sub(lambda block: f"{block[1]}\n{TABLES[block[2]]()}\n{block[3]}", text)


if __name__ == "__main__":
    for page in sorted(SPEC.glob("*.md")):
        page.write_text(rendered(page.read_text()))
