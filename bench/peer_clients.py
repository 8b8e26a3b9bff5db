"""Clients of models as programs use them, each asked for one streamed call of `apply_schema` at a local server.

`CLIENTS` maps a name to the packages it needs, the wire it speaks and `open(url)`, which gives a function that asks
once and returns the arguments of the call that it was handed: a text, an object, or None where there was no call. It
raises whatever the client raises.
"""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

MESSAGES: Any = [{"role": "user", "content": "make the shop's schema"}]
SCHEMA = {"type": "object", "properties": {"job_id": {"type": "string"}, "statements": {"type": "array"}}}
TOOLS: Any = [{"type": "function", "function": {"name": "apply_schema", "description": "d", "parameters": SCHEMA}}]

Ask = Callable[[], Any]


class Client(NamedTuple):
    packages: tuple[str, ...]
    wire: str
    open: Callable[[str], Ask]


class Called(Exception):
    """Raised by a tool that an agent ran, with what it was run with, so that the agent goes no further."""


def openai_stream(url: str) -> Ask:
    import openai

    client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)

    def ask() -> Any:
        found: list[str] = []
        for chunk in client.chat.completions.create(model="m", messages=MESSAGES, stream=True):
            for choice in chunk.choices:
                found += [call.function.arguments or "" for call in choice.delta.tool_calls or [] if call.function]
        return "".join(found) or None

    return ask


def openai_helper(url: str) -> Ask:
    import openai

    client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)

    def ask() -> Any:
        with client.chat.completions.stream(model="m", messages=MESSAGES, tools=TOOLS) as stream:
            for _event in stream:
                pass
            calls: Any = stream.get_final_completion().choices[0].message.tool_calls
        return calls[0].function.arguments if calls else None

    return ask


def openai_responses(url: str) -> Ask:
    import openai

    client = openai.OpenAI(base_url=url, api_key="k", max_retries=0)

    def ask() -> Any:
        found: list[str] = []
        for event in client.responses.create(model="m", input="make", stream=True):
            if event.type == "response.function_call_arguments.delta":
                found.append(event.delta)
        return "".join(found) or None

    return ask


def anthropic_stream(url: str) -> Ask:
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)

    def ask() -> Any:
        found: list[str] = []
        for event in client.messages.create(model="m", max_tokens=9_999, messages=MESSAGES, stream=True):
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                found.append(event.delta.partial_json)
        return "".join(found) or None

    return ask


def anthropic_helper(url: str) -> Ask:
    import anthropic

    client = anthropic.Anthropic(base_url=url, api_key="k", max_retries=0)

    def ask() -> Any:
        with client.messages.stream(model="m", max_tokens=9_999, messages=MESSAGES) as stream:
            message = stream.get_final_message()
        return next((block.input for block in message.content if block.type == "tool_use"), None)

    return ask


def gemini(url: str) -> Ask:
    from google import genai
    from google.genai import types

    client = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=url))

    def ask() -> Any:
        found = None
        for chunk in client.models.generate_content_stream(model="m", contents="make"):
            for call in chunk.function_calls or []:
                found = (call.args or {}).get("plan", found)
        return found

    return ask


def ollama(url: str) -> Ask:
    import ollama as sdk

    client = sdk.Client(host=url)

    def ask() -> Any:
        found = None
        for part in client.chat(model="m", messages=MESSAGES, stream=True):
            for call in part.message.tool_calls or []:
                found = call.function.arguments.get("plan", found)
        return found

    return ask


def mistral(url: str) -> Ask:
    import mistralai.client

    client = mistralai.client.Mistral(api_key="k", server_url=url)

    def ask() -> Any:
        found: Any = None
        with client.chat.stream(model="m", messages=MESSAGES) as stream:
            for event in stream:
                for call in event.data.choices[0].delta.tool_calls or []:
                    found = call.function.arguments
        return found

    return ask


def langchain(url: str) -> Ask:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(model="m", base_url=url, api_key="k", max_retries=0, streaming=True).bind_tools(TOOLS)

    def ask() -> Any:
        calls = model.invoke("make").tool_calls
        return calls[0]["args"] if calls else None

    return ask


def litellm(url: str) -> Ask:
    import os

    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")  # else it asks the network for prices when imported
    import litellm as sdk

    sdk.suppress_debug_info = True

    def ask() -> Any:
        stream = sdk.completion(
            model="openai/m", api_base=url, api_key="k", messages=MESSAGES, tools=TOOLS, stream=True, max_retries=0
        )
        whole: Any = sdk.stream_chunk_builder(list(stream), messages=MESSAGES)
        calls = whole.choices[0].message.tool_calls if whole is not None else None
        return calls[0].function.arguments if calls else None

    return ask


def pydantic_ai(url: str) -> Ask:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    agent = Agent(OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="k")), retries=0)

    @agent.tool_plain
    def apply_schema(statements: list[str], job_id: str = "", stmt_count: int = 0, trailer: str = "") -> str:
        raise Called({"statements": statements})

    async def run() -> None:
        async with agent.run_stream("make") as stream:
            await stream.get_output()

    return _agent(run)


def openai_agents(url: str) -> Ask:
    import agents
    import openai

    agents.set_tracing_disabled(True)

    @agents.function_tool(failure_error_function=None, strict_mode=False)
    def apply_schema(statements: list[str], job_id: str = "", stmt_count: int = 0, trailer: str = "") -> str:
        raise Called({"statements": statements})

    client = openai.AsyncOpenAI(base_url=url, api_key="k", max_retries=0)
    model = agents.OpenAIChatCompletionsModel(model="m", openai_client=client)
    agent: Any = agents.Agent(name="a", model=model, tools=[apply_schema])

    async def run() -> None:
        found = agents.Runner.run_streamed(agent, "make", max_turns=1)
        async for _event in found.stream_events():
            pass

    return _agent(run)


def _agent(run: Callable[[], Any]) -> Ask:
    """What the tool was run with; None where the agent ended without running it."""
    import asyncio

    loop = asyncio.new_event_loop()  # one for all, as in a service: their clients outlive a question

    def ask() -> Any:
        try:
            loop.run_until_complete(run())
        except Exception as fault:
            for one in (fault, fault.__cause__, fault.__context__):
                if isinstance(one, Called):
                    return one.args[0]
            raise
        return None

    return ask


CLIENTS: dict[str, Client] = {
    "openai, chat stream": Client(("openai",), "openai-chat", openai_stream),
    "openai, `chat.completions.stream()`": Client(("openai",), "openai-chat", openai_helper),
    "openai, responses stream": Client(("openai",), "openai-responses", openai_responses),
    "anthropic, messages stream": Client(("anthropic",), "anthropic", anthropic_stream),
    "anthropic, `messages.stream()`": Client(("anthropic",), "anthropic", anthropic_helper),
    "google-genai, `generate_content_stream`": Client(("google-genai",), "gemini", gemini),
    "ollama, chat stream": Client(("ollama",), "ollama", ollama),
    "mistralai, chat stream": Client(("mistralai",), "mistral", mistral),
    "LangChain, `ChatOpenAI`, streaming": Client(("langchain-openai", "openai"), "openai-chat", langchain),
    "LiteLLM, stream and `stream_chunk_builder`": Client(("litellm", "openai"), "openai-chat", litellm),
    "Pydantic AI, agent that runs the tool": Client(("pydantic-ai-slim", "openai"), "openai-chat", pydantic_ai),
    "OpenAI Agents, agent that runs the tool": Client(("openai-agents", "openai"), "openai-chat", openai_agents),
}


def json_repair() -> Callable[[str], Any]:
    import json_repair as sdk

    loads: Callable[[str], Any] = sdk.loads
    return loads


def partial_json_parser() -> Callable[[str], Any]:
    import partial_json_parser as sdk

    loads: Callable[[str], Any] = sdk.loads
    return loads


def strict() -> Callable[[str], Any]:
    return json.JSONDecoder().decode


# What makes a value of a text that may have been cut.
PARSERS: dict[str, tuple[str | None, Callable[[], Callable[[str], Any]]]] = {
    "json_repair": ("json_repair", json_repair),
    "partial-json-parser": ("partial-json-parser", partial_json_parser),
    "the standard library's `json`": (None, strict),
}
