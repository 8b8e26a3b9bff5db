"""`endmark tool`: the definition of the tool by which a model hands over a plan."""

import json

import click

from endmark.core.tooldef import PROVIDERS, tool
from endmark.faces.cli.common import Result, Verb


@click.command("tool", cls=Verb)
@click.option("--for", "provider", type=click.Choice(PROVIDERS), required=True, help="Whose API or protocol it is for.")
@click.option("--down", is_flag=True, help="Ask for the statements that undo the plan, too.")
def command(provider: str, down: bool) -> Result:
    """The apply_schema tool's definition, with its fields in witness order: JSON, ready for a request.

    Where a provider hands arguments over as an object it has parsed (gemini, ollama, mcp), the tool takes the whole
    plan as one string, since an object no longer shows where the model's text ended.

    \b
    Examples:
      endmark tool --for openai > apply_schema.json
      endmark tool --for gemini --down
    """
    made = tool(provider, down=down)
    return Result(json.dumps(made, indent=2), made)
