"""The tools on the official SDK's low-level server.

Its decorated functions try `json.loads` on what a parameter's type does not forbid, and turn exceptions into words of
their own. Here the arguments come as the protocol holds them, each is checked to be exactly a string, and every call is
answered, in time.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any

import anyio
import anyio.to_thread
import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server

from endmark import __version__
from endmark.faces.mcp import answers, texts
from endmark.faces.mcp.answers import Answer
from endmark.faces.mcp.desk import Call, Desk, say_fault
from endmark.faces.mcp.settings import Settings

ANSWER_WITHIN = 8.0
"""Seconds after which a call is answered `running`: hosts give up after ten."""

_AT_ONCE = 8  # calls being worked on; the next waits its turn within its time

_Doing = Callable[[Call], Answer]


def make(settings: Settings, desk: Desk, *, answer_within: float = ANSWER_WITHIN) -> Server[Any]:
    """The server with the tools that `settings` open, each done by `desk`. `answer_within`: seconds."""
    offered = texts.tools(settings)
    listed = [_listed(tool) for tool in offered]
    schemas = {tool["name"]: tool["inputSchema"] for tool in offered}
    limiter: anyio.CapacityLimiter | None = None

    async def list_tools(
        _ctx: ServerRequestContext[Any], _params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        return types.ListToolsResult(tools=listed)

    async def call_tool(_ctx: ServerRequestContext[Any], params: types.CallToolRequestParams) -> types.CallToolResult:
        nonlocal limiter
        limiter = limiter or anyio.CapacityLimiter(_AT_ONCE)
        call = Call()
        try:
            doing = _doing(desk, params.name, params.arguments or {}, schemas)
            if isinstance(doing, Answer):
                return _result(doing)
            with anyio.move_on_after(answer_within):
                work = functools.partial(desk.perform, doing, call)
                return _result(await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter))
            return _result(answers.busy() if call.give_up() else answers.running(call.job_id))
        except Exception as fault:  # noqa: BLE001  # told, as every refusal is
            say_fault(fault)
            begun = not call.give_up()
            return _result(answers.our_fault(fault, may_have_applied=begun, job_id=call.job_id))

    return Server(
        "endmark",
        version=__version__,
        instructions=texts.INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _doing(desk: Desk, name: str, arguments: Mapping[str, Any], schemas: Mapping[str, Any]) -> _Doing | Answer:
    """What a call asks for; or why it is none."""
    schema = schemas.get(name)
    if schema is None:
        return answers.not_a_call(f"There is no tool {name[:100]!r} here, only {', '.join(schemas)}.")
    missing = [key for key in schema["required"] if key not in arguments]
    unknown = [key for key in arguments if key not in schema["properties"]]
    if missing or unknown:
        takes = ", ".join(schema["required"])
        found = ", ".join(repr(key[:60]) for key in arguments) or "none"
        return answers.not_a_call(f"{name} takes exactly {takes}; the arguments found are {found}.")
    for key, value in arguments.items():
        if type(value) is not str:
            return answers.not_a_call(
                f"{name}: {key} is one string, and {type(value).__name__} was found. What was parsed on the way is no "
                "longer what was written."
            )
    given: dict[str, str] = dict(arguments)
    if name == texts.APPLY:
        return functools.partial(desk.apply_text, given["plan"])
    if name == texts.FILE:
        return functools.partial(desk.apply_file, given["path"])
    if name == texts.VERDICT:
        return functools.partial(desk.verdict, given["verdict"], given["base"], given["head"], given.get("reviewer"))
    return functools.partial(desk.status, given["job_id"])


def _listed(tool: Mapping[str, Any]) -> types.Tool:
    changes = tool["name"] != texts.STATUS
    return types.Tool(
        name=tool["name"],
        description=tool["description"],
        input_schema=tool["inputSchema"],
        annotations=types.ToolAnnotations(
            read_only_hint=not changes, destructive_hint=changes, idempotent_hint=True, open_world_hint=False
        ),
    )


def _result(answer: Answer) -> types.CallToolResult:
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=answer.text)],
        structured_content=answer.document,
        is_error=answer.is_error,
    )
