"""`endmark decisions`: the decision table."""

import click
import msgspec

from endmark.core.decision import TABLE
from endmark.faces.cli.common import JSON, Result, Verb
from endmark.faces.words import table


@click.command("decisions", cls=Verb)
@JSON
def command() -> Result:
    """The decision table: what each fault is treated as, the state it leads to and the exit code. First match wins.

    \b
    Example:
      endmark decisions --json
    """
    rows = [
        (str(row.number), row.state.value, str(row.exit_code), row.next.value, row.treat_as, row.finds) for row in TABLE
    ]
    signals = [f"{row.number:>2}  {' '.join(row.signals)}" for row in TABLE]
    text = table(("#", "STATE", "EXIT", "NEXT", "TREATED AS", "FOUND"), rows)
    return Result(
        "\n".join([text, "", "Signals of each row, as records name them; exit 0 once it is applied:", *signals]),
        {"version": 1, "rows": [msgspec.structs.asdict(row) for row in TABLE], "exit_code": 0},
    )
