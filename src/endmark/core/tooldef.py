"""The definition of the apply_schema tool for each provider: the fields of the witness form, in witness order.

A model writes the fields of a schema in the order in which they stand. Where the provider passes the model's own text
on, the tool takes the witness form itself. Where it hands over an object it has parsed, the order is lost, and the tool
takes the whole text as one string.
"""

from typing import Any

from endmark.core.plan import TOOL, TRAILER

PROVIDERS = ("openai", "openai-responses", "anthropic", "mistral", "gemini", "ollama", "mcp")

_WHAT = (
    "Apply a plan of SQL statements to the database: all of them, in one transaction, or none. "
    "Count the statements before you write them. "
)
_AFTER = (
    " If this call is cut off nothing is executed: send a whole, smaller plan under a new job_id, "
    "and never continue an old one."
)
_FIELDS = f"Write the fields in this order: job_id, stmt_count, statements, and last of all trailer, always {TRAILER}."
_STRING = (
    "Pass one string, plan: the JSON text of one object with exactly these keys in this order: job_id, stmt_count, "
    f'statements, trailer. The last key is "trailer": "{TRAILER}".'
)


def tool(provider: str, *, down: bool = False) -> Any:
    """The tool as `provider`'s API takes it, a dict. `down`: each statement comes with the one that undoes it.

    Raises ValueError for a provider that is not in PROVIDERS.
    """
    named = {"name": TOOL, "description": _WHAT + (_fields_note(down)) + _AFTER}
    as_string = {"name": TOOL, "description": _WHAT + _string_note(down) + _AFTER}
    if provider in ("openai", "mistral"):
        return {"type": "function", "function": {**named, "strict": True, "parameters": _fields(down)}}
    if provider == "openai-responses":
        return {"type": "function", **named, "strict": True, "parameters": _fields(down)}
    if provider == "anthropic":
        return {**named, "strict": True, "input_schema": _fields(down)}
    if provider == "gemini":
        return {**as_string, "parameters_json_schema": _one_string(down)}
    if provider == "ollama":
        return {"type": "function", "function": {**as_string, "parameters": _one_string(down)}}
    if provider == "mcp":
        return {**as_string, "inputSchema": _one_string(down)}
    raise ValueError(f"no tool definition for {provider!r}; there are {', '.join(PROVIDERS)}")


def _fields_note(down: bool) -> str:
    return _FIELDS.replace("statements, and", "statements, down, and") if down else _FIELDS


def _string_note(down: bool) -> str:
    return _STRING.replace("statements, trailer", "statements, down, trailer") if down else _STRING


def _fields(down: bool) -> dict[str, Any]:
    texts = {"type": "array", "items": {"type": "string"}}
    properties: dict[str, Any] = {
        "job_id": {"type": "string", "description": "A new id for this plan: 1 to 128 of A-Z a-z 0-9 . _ : -"},
        "stmt_count": {
            "type": "integer",
            "description": "How many statements follow. Decide it before you write them.",
        },
        "statements": {
            **texts,
            "description": "One SQL statement an entry, in order. No BEGIN, COMMIT, ROLLBACK, SAVEPOINT or ATTACH.",
        },
    }
    if down:
        properties["down"] = {**texts, "description": "down[i] undoes statements[i]; as many, in the same order."}
    properties["trailer"] = {
        "type": "string",
        "enum": [TRAILER],
        "description": "The last field of all. It shows that the plan was not cut off.",
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _one_string(down: bool) -> dict[str, Any]:
    keys = '{"job_id": "...", "stmt_count": 2, "statements": ["...", "..."], '
    example = f'{keys}{"" if not down else chr(34) + "down" + chr(34) + ": [...], "}"trailer": "{TRAILER}"}}'
    plan = {"type": "string", "description": f"The JSON text of the whole plan: {example}"}
    return {"type": "object", "properties": {"plan": plan}, "required": ["plan"], "additionalProperties": False}
