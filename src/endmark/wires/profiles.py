"""Servers that speak the OpenAI chat wire and give up some of its evidence (spec/wires.md, rules OC15-OC23)."""

import msgspec


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """What one kind of server does otherwise. `gives_up` are the words that the evidence of each answer then lists.

    `done_optional`: a stream may end without `[DONE]`; only its finish reason then says that it ended.
    `ids_differ`: the chunks of one answer may carry different ids.
    `calls_by_id`: tool calls are told apart by their ids; their index is absent, or does not count from 0.
    `argument_objects`: a call's arguments may be an object, whole, in place of text in pieces.
    `arguments_parsed`: tool arguments are written anew from an object, so key order and spelling are not the model's.
    `stop_strings`: a choice's `stop_reason` names the stop sequence that ended it.
    `native_reasons`: a choice's `native_finish_reason` says what the model's own provider called the end.
    """

    gives_up: tuple[str, ...] = ()
    done_optional: bool = False
    ids_differ: bool = False
    calls_by_id: bool = False
    argument_objects: bool = False
    arguments_parsed: bool = False
    stop_strings: bool = False
    native_reasons: bool = False


# What each is based on, with dates, stands in spec/wires.md.
PROFILES: dict[str, Profile] = {
    "": Profile(),
    # OC16: says `tool_calls` whenever a tool call was streamed, also at the token limit
    "vllm": Profile(gives_up=("gave-up:length-under-tool-calls",), stop_strings=True),
    # OC17: some builds send no `[DONE]`, older ones another id in each chunk
    "llamacpp": Profile(gives_up=("gave-up:same-id",), done_optional=True, ids_differ=True),
    # OC18: parses the arguments and writes them anew; says `tool_calls` whenever there was one
    "ollama": Profile(gives_up=("gave-up:length-under-tool-calls", "gave-up:argument-spelling"), arguments_parsed=True),
    # OC19: an opening chunk without choices, chunks without a delta and with an empty id; gives up nothing
    "azure": Profile(),
    # OC20: translates the finish reason of another provider
    "openrouter": Profile(gives_up=("gave-up:finish-reason-translated",), native_reasons=True),
    # OC22: tool calls without an index, whose arguments come from an object
    "gemini": Profile(
        gives_up=("gave-up:call-index", "gave-up:argument-spelling"), calls_by_id=True, arguments_parsed=True
    ),
    # OC23: numbers tool calls among all blocks of Claude's answer, and translates its stop reason
    "claude-gateway": Profile(gives_up=("gave-up:call-index", "gave-up:finish-reason-translated"), calls_by_id=True),
}

# MI1 MI4: no profile of the wire, but a wire of its own that resembles it
MISTRAL = Profile(calls_by_id=True, argument_objects=True)
