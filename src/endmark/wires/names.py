"""The wires by name. A name may carry a profile after a `+`, where a server of that kind gives up some evidence."""

from collections.abc import Callable

from endmark.wires.answer import Reader
from endmark.wires.framing import DEFAULT_CAP, Options

# Each entry imports its wire only when it is asked for. The second argument is the profile, "" for none.


def _openai_chat(options: Options, profile: str) -> Reader:
    from endmark.wires.openai_chat import OpenAIChat

    return OpenAIChat(options, profile)


def _openai_responses(options: Options, _profile: str) -> Reader:
    from endmark.wires.openai_responses import OpenAIResponses

    return OpenAIResponses(options)


def _anthropic(options: Options, _profile: str) -> Reader:
    from endmark.wires.anthropic import Anthropic

    return Anthropic(options)


def _gemini(options: Options, _profile: str) -> Reader:
    from endmark.wires.gemini import Gemini

    return Gemini(options)


def _gemini_array(options: Options, _profile: str) -> Reader:
    from endmark.wires.gemini import GeminiArray

    return GeminiArray(options)


def _ollama(options: Options, _profile: str) -> Reader:
    from endmark.wires.ollama import Ollama

    return Ollama(options)


def _bedrock(options: Options, profile: str) -> Reader:
    from endmark.wires.bedrock import Bedrock

    return Bedrock(options, metadata_optional=profile == "no-metadata")


def _mistral(options: Options, _profile: str) -> Reader:
    from endmark.wires.mistral import Mistral

    return Mistral(options)


def _cohere(options: Options, _profile: str) -> Reader:
    from endmark.wires.cohere import Cohere

    return Cohere(options)


_WIRES: dict[str, Callable[[Options, str], Reader]] = {
    "openai-chat": _openai_chat,
    "openai-chat+vllm": _openai_chat,
    "openai-chat+llamacpp": _openai_chat,
    "openai-chat+ollama": _openai_chat,
    "openai-chat+azure": _openai_chat,
    "openai-chat+openrouter": _openai_chat,
    "openai-chat+gemini": _openai_chat,
    "openai-chat+claude-gateway": _openai_chat,
    "openai-responses": _openai_responses,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "gemini-array": _gemini_array,
    "ollama": _ollama,
    "bedrock": _bedrock,
    "bedrock+no-metadata": _bedrock,
    "mistral": _mistral,
    "cohere": _cohere,
}

NAMES: tuple[str, ...] = tuple(_WIRES)


def reader(
    name: str,
    *,
    max_output_tokens: int | None = None,
    stop_sequences: bool = False,
    allow_close_delimited: bool = False,
    cap: int = DEFAULT_CAP,
    ended_only: bool = False,
    choices: int = 1,
) -> Reader:
    """A fresh reader of the wire `name`, for one body.

    `max_output_tokens`: the cap that was requested; an answer that reaches it is refused. `stop_sequences`: whether
    the request named any. `allow_close_delimited`: take a body that only the close of its connection ended.
    `ended_only`: ask only whether the answer ended (A13), of which the request asked for so many `choices`.
    Raises ValueError for a name that is not in `NAMES`.
    """
    make = _WIRES.get(name)
    if make is None:
        raise ValueError(f"no wire is called {name!r}; there are {', '.join(NAMES)}")
    options = Options(
        max_output_tokens=max_output_tokens,
        stop_sequences=stop_sequences,
        allow_close_delimited=allow_close_delimited,
        cap=cap,
        ended_only=ended_only,
        choices=choices,
    )
    return make(options, name.partition("+")[2])
