"""The official SDKs' own ways to read a stream, each behind the proxy, where they are installed: at how many cuts of an
answer, politely ended, do they raise nothing, and hand over a call whose arguments read as an object?
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from endmark.core import strictjson
from endmark.core.refusal import Refused
from endmark.drills import edges
from endmark.drills.body import Body
from endmark.drills.faults import Broken, Cut
from endmark.drills.targets.answer import Answer, Seen
from endmark.drills.targets.client import ProxyPlayer

MOST = 60  # cuts of each sweep, evenly spread; an SDK takes many milliseconds to be made ready for each
_MESSAGES: Any = [{"role": "user", "content": "make the schema"}]
_PLAN = ('{"job_id": "job_1", "stmt_count": 2, "state', 'ments": ["CREATE TABLE a (x)", ', '"CREATE TABLE b (x)"], ',
         '"trailer": "END_APPLY"}')  # fmt: skip

Ask = Callable[[str], Any]


class Sdk(NamedTuple):
    """`ask(url)` asks once and returns the arguments of the call that it was handed, None where there was none."""

    name: str
    package: str
    body: Body
    ask: Ask


class Row(NamedTuple):
    """Of `tried` cuts: how many ended without an error, and how many of these with a call that reads.

    `control`: empty, or what became of the whole answer.
    """

    name: str
    version: str
    tried: int
    silent: int
    calls: int
    control: str


def rows(most: int = MOST) -> Iterator[Row]:
    """One row for each SDK that is installed."""
    for sdk in SDKS:
        try:
            its_version = version(sdk.package)
        except PackageNotFoundError:
            continue
        player = _SdkPlayer(sdk)
        with closing(player):
            control = player.play(None, sdk.body)
            length, silent, calls = len(sdk.body.data), 0, 0
            places = sorted({round(at * (length - 1) / (most - 1)) for at in range(most)})
            for at in places:
                player.play(Broken(Cut(at)), sdk.body)
                silent += player.silent
                calls += player.reads
            whole = "" if control.answer is Answer.ACCEPTED else control.note or control.answer.name.lower()
            yield Row(sdk.name, its_version, len(places), silent, calls, whole)


class _SdkPlayer(ProxyPlayer):
    """Asks in this process."""

    def __init__(self, sdk: Sdk) -> None:
        kind = edges.TYPES[edges.shape_of_wire(sdk.body.wire or "")]
        super().__init__(kind)
        self._sdk = sdk
        self.silent = self.reads = False

    def ask(self, url: str) -> Seen:
        self.silent = self.reads = False
        try:
            arguments = self._sdk.ask(url)
        except Exception as fault:  # noqa: BLE001  # any error is an answer: the client noticed
            return Seen(Answer.REFUSED, f"raised {type(fault).__name__}")
        self.silent, self.reads = True, _reads(arguments)
        return Seen(Answer.ACCEPTED if self.reads else Answer.REFUSED, "" if self.reads else "handed over no call")


def _reads(arguments: Any) -> bool:
    if isinstance(arguments, str):
        try:
            return bool(strictjson.loads(arguments.encode()))
        except Refused:
            return False
    return isinstance(arguments, dict) and bool(arguments)


# --- the answers, as their providers stream them


def _sse(*events: dict[str, Any], named: bool = False) -> bytes:
    made = []
    for event in events:
        name = f"event: {event['type']}\n".encode() if named else b""
        made.append(name + b"data: " + strictjson.dumps(event) + b"\n\n")
    return b"".join(made)


def _chat() -> Body:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}

    def call(**more: Any) -> dict[str, Any]:
        return chunk({"tool_calls": [{"index": 0, **more}]})

    first = call(id="call_1", type="function", function={"name": "apply_schema", "arguments": ""})
    pieces = [call(function={"arguments": piece}) for piece in _PLAN]
    stream = _sse(chunk({"role": "assistant"}), first, *pieces, chunk({}, "tool_calls"))
    return Body(stream + b"data: [DONE]\n\n", "text/event-stream", "openai-chat")


def _messages() -> Body:
    usage = {"input_tokens": 9, "output_tokens": 1}
    message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
    block = {"type": "tool_use", "id": "t", "name": "apply_schema", "input": {}}
    deltas = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}}
        for piece in _PLAN
    ]
    stream = _sse(
        {"type": "message_start", "message": {**message, "stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *deltas,
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use", "stop_sequence": None},
            "usage": {"output_tokens": 40},
        },
        {"type": "message_stop"},
        named=True,
    )
    return Body(stream, "text/event-stream", "anthropic")


# --- the SDKs


def _openai_stream(url: str) -> Any:
    import openai

    found: list[str] = []
    with openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        for chunk in client.chat.completions.create(model="m", messages=_MESSAGES, stream=True):
            for choice in chunk.choices:
                found += [call.function.arguments or "" for call in choice.delta.tool_calls or [] if call.function]
    return "".join(found) or None


def _openai_helper(url: str) -> Any:
    import openai

    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client,
        client.chat.completions.stream(model="m", messages=_MESSAGES) as stream,
    ):
        for _event in stream:
            pass
        calls: Any = stream.get_final_completion().choices[0].message.tool_calls
    return calls[0].function.arguments if calls else None


def _anthropic_stream(url: str) -> Any:
    import anthropic

    found: list[str] = []
    with anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client:
        for event in client.messages.create(model="m", max_tokens=999, messages=_MESSAGES, stream=True):
            if event.type == "content_block_delta" and event.delta.type == "input_json_delta":
                found.append(event.delta.partial_json)
    return "".join(found) or None


def _anthropic_helper(url: str) -> Any:
    import anthropic

    with (
        anthropic.Anthropic(base_url=url, api_key="k", max_retries=0) as client,
        client.messages.stream(model="m", max_tokens=999, messages=_MESSAGES) as stream,
    ):
        message = stream.get_final_message()
    return next((block.input for block in message.content if block.type == "tool_use"), None)


SDKS = (
    Sdk("openai, chat stream", "openai", _chat(), _openai_stream),
    Sdk("openai, chat.completions.stream()", "openai", _chat(), _openai_helper),
    Sdk("anthropic, messages stream", "anthropic", _messages(), _anthropic_stream),
    Sdk("anthropic, messages.stream()", "anthropic", _messages(), _anthropic_helper),
)
