"""The vectors of the OpenAI wires: E, OC and OR rules, and those that hold for every wire."""

from tests.vectors.wire_cases import case, dump


def answer(stop, text="", calls=()):
    return {"text": text, "calls": [list(call) for call in calls], "stop_reason": stop}


def sse(*events, end="\n"):
    """Events, each a string or an object; an object with a `type` is named by it."""
    out = ""
    for event in events:
        name = f"event: {event['type']}{end}" if isinstance(event, dict) and "type" in event else ""
        out += f"{name}data: {event if isinstance(event, str) else dump(event)}{end}{end}"
    return out


# --- OpenAI chat completions


def chunk(delta=None, finish=None, **more):
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish} | more.pop("choice", {})
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [choice]} | more


def usage(spent, **more):
    return {"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": {"completion_tokens": spent}} | more


def piece(text, index=0, **more):
    return chunk({"tool_calls": [{"index": index, "function": {"arguments": text}} | more]})


def opened(name="run", index=0, call="call_1", **more):
    function = {"name": name, "arguments": ""} | more
    return chunk({"tool_calls": [{"index": index, "id": call, "type": "function", "function": function}]})


def openai_chat():
    wire = "openai-chat"
    hi = [chunk({"role": "assistant", "content": ""}), chunk({"content": "Hel"}), chunk({"content": "lo"})]
    stop = chunk({}, "stop")
    whole = sse(*hi, stop, "[DONE]")
    said, done = answer("stop", "Hello"), sse("[DONE]")
    call = [opened(), piece('{"a":'), piece(" 1}")]
    called = answer("tool_calls", "", [("run", "call_1", '{"a": 1}')])
    both = chunk({"content": "Hello"}, "stop")
    both["choices"] *= 2
    counted = chunk({"content": "Hello"}, usage={"completion_tokens": 1})
    own_words = chunk({}, "stop", choice={"stop_reason": "END", "native_finish_reason": "length"})
    halves = [dump(chunk({"content": "half"})).replace("half", half) for half in ("\\ud83d", "\\ude00")]

    for name, expect, raw, rule, comment, more in (
        ("text", said, whole, "OC7", "text in two pieces", {"evidence": "provider-terminal"}),
        ("no_continuity", said, whole, "OC7", "its events are not numbered", {"evidence": "continuity:none"}),
        ("crlf", said, whole.replace("\n", "\r\n"), "E2", "lines end with CRLF", {}),
        ("cr", said, whole.replace("\n", "\r"), "E2", "lines end with CR", {}),
        ("bom", said, "\ufeff" + whole, "E1", "one byte order mark at the start", {}),
        ("two_boms", "bad-stop", "\ufeff\ufeff" + whole, "E1", "a second byte order mark is part of a field", {}),
        ("comments", said, ": OPENROUTER PROCESSING\n\n:\n" + whole, "E3", "comments", {}),
        ("id_and_retry", said, "id: 1\nretry: 9\n" + whole, "E4", "fields that say nothing", {}),
        ("no_data", said, "event: ping\n\n" + whole, "E5", "an event without data is none", {}),
        ("error_field", "bad-stop", sse(*hi) + 'error: {"code":500}\n\n' + done, "E6", "an error as a field", {}),
        ("damaged_field", "bad-stop", whole.replace("data: ", "dat`: ", 3), "E6", "a damaged field name", {}),
        ("two_lines", said, whole.replace('","choices', '",\ndata: "choices'), "E7", "data over two lines", {}),
        ("cut_last_line", "no-terminal", whole[:-1], "E8", "the event of [DONE] has not ended", {}),
        ("cut_crlf", "no-terminal", whole.replace("\n", "\r\n")[:-1], "E8", "between the last CR and its LF", {}),
        ("cut_event", "no-terminal", whole[: whole.index("lo")], "E8", "inside an event", {}),
        ("after_end", said, whole + "\n", "A4", "an empty line after the terminal event", {}),
        ("comment_after_end", said, whole + ": bye\n\n", "A4", "a comment after the terminal event", {}),
        ("comment_cut_after_end", "bytes-after-end", whole + ": by", "A4", "a comment that has not ended", {}),
        ("field_after_end", "bytes-after-end", whole + "id: 1\n\n", "A4", "a field after the terminal event", {}),
        ("event_after_end", "bytes-after-end", whole + ":\n\n" + sse(stop), "A4", "a comment, then an event", {}),
        ("comment_after_field", "bytes-after-end", whole + "id: 1\n:\n", "A4", "a field, then a comment", {}),
        ("unknown_field", "bad-stop", "foo: bar\n" + whole, "E6", "a field that the standard does not know", {}),
        ("half_pairs", "lone-surrogate", sse(*hi, *halves, stop, "[DONE]"), "A2", "half a pair in each of two", {}),
        ("no_done", "no-terminal", sse(*hi, stop), "A4", "no [DONE]", {}),
        ("nothing", "empty", "", "A1", "no byte", {}),
        ("only_comments", "no-terminal", ": ping\n\n", "A4", "no event", {}),
        ("reset", "reset", whole, "A3", "all bytes, then a reset", {"ending": "reset"}),
        ("idle", "idle", whole, "A3", "all bytes, then nothing", {"ending": "idle"}),
        ("short", "body-cut", whole, "A3", "all bytes, and a close before the last chunk", {"ending": "short"}),
        ("bad_encoding", "body-cut", whole, "A3", "the encoding did not end", {"ending": "bad-encoding"}),
        ("too_long", "over-cap", whole, "A3", "the transport gave up", {"ending": "too-long"}),
        ("closed", "weak-evidence", whole, "A3", "ended by a close alone", {"ending": "closed"}),
        ("length_met", said, whole, "A3", "a declared length was met", {"ending": "length-met"}),
        ("at_cap", said, whole, "A9", "as many bytes as the cap", {"cap": len(whole)}),
        ("over_cap", "over-cap", whole, "A9", "a cap of 100 bytes", {"cap": 100}),
        ("not_json", "not-json", sse(*hi, '{"choices":[', "[DONE]"), "A2", "an event whose JSON is cut", {}),
        ("duplicate_key", "duplicate-key", sse('{"choices":[],"choices":[]}'), "A2", "a key twice", {}),
        ("array", "not-an-object", sse("[]"), "A2", "an event that is no object", {}),
        ("says_nothing", "empty", sse(chunk({"content": ""}), stop, "[DONE]"), "A5", "no text, no call", {}),
        ("token_cap", "token-cap", sse(*hi, stop, usage(16), "[DONE]"), "A6", "16 of 16", {"max_output_tokens": 16}),
        ("below_cap", said, sse(*hi, stop, usage(15), "[DONE]"), "A6", "15 of 16", {"max_output_tokens": 16}),
        ("cap_uncounted", said, whole, "A6", "a cap, and no count of tokens", {"max_output_tokens": 1}),
        ("error", "bad-stop", sse(*hi, {"error": {"type": "server_error"}}), "A8", "an error in the stream", {}),
        ("error_then_end", "bad-stop", sse(*hi, {"error": "x"}, stop, "[DONE]"), "A8", "an end after an error", {}),
        ("unknown_type", said, sse({"type": "keepalive"}) + whole, "A10", "an event of another type", {}),
        ("no_object", said, whole.replace('"object":"chat.completion.chunk",', ""), "OC1", "chunks by no name", {}),
        ("no_choices", "wrong-type", sse({"object": "chat.completion.chunk"}), "OC1", "a chunk without choices", {}),
        ("two_ids", "contradiction", sse(*hi, chunk({}, "stop", id="c2")), "OC2", "chunks of two answers", {}),
        ("empty_id", said, sse(usage(0, id=""), *hi, stop, "[DONE]"), "OC2", "a chunk with an empty id", {}),
        ("second_choice", "wrong-count", sse(chunk({"content": "x"}, choice={"index": 1})), "OC3", "choice 1", {}),
        ("two_choices", "wrong-count", sse(both, "[DONE]"), "OC3", "two choices", {}),
        ("choice_false", "wrong-count", sse(chunk(choice={"index": False})), "OC3", "false is not 0", {}),
        ("done_early", "no-terminal", sse(*hi, "[DONE]"), "OC4", "[DONE] without a finish reason", {}),
        ("length", "bad-stop", sse(*hi, chunk({}, "length"), "[DONE]"), "OC5", "cut at the token limit", {}),
        ("filter", "bad-stop", sse(*hi, chunk({}, "content_filter"), "[DONE]"), "OC5", "cut by a filter", {}),
        ("unknown_reason", "bad-stop", sse(*hi, chunk({}, "done"), "[DONE]"), "OC5", "a reason to come", {}),
        ("empty_reason", said, sse(chunk({"content": "Hello"}, ""), stop, "[DONE]"), "OC5", "an empty reason", {}),
        ("reason_twice", said, sse(*hi, stop, stop, "[DONE]"), "OC6", "the same reason twice", {}),
        ("reason_changes", "bad-stop", sse(*hi, stop, chunk({}, "tool_calls")), "OC6", "another reason", {}),
        ("call_after_reason", "bad-stop", sse(*call, stop, piece("1"), "[DONE]"), "OC6", "a call after it", {}),
        ("text_after_reason", "bad-stop", sse(*hi, stop, chunk({"content": "!"})), "OC6", "text after it", {}),
        ("content_list", "wrong-type", sse(chunk({"content": [{}]})), "OC7", "content that is no text", {}),
        ("reasoning", said, sse(chunk({"reasoning": "hm"}), *hi, stop, "[DONE]"), "OC8", "reasoning", {}),
        ("call", called, sse(*call, chunk({}, "tool_calls"), "[DONE]"), "OC9", "a call in pieces", {}),
        ("forced_call", called | {"stop_reason": "stop"}, sse(*call, stop, "[DONE]"), "OC13", "a call and stop", {}),
        ("call_length", "bad-stop", sse(*call, chunk({}, "length"), "[DONE]"), "OC5", "a call at the token limit", {}),
        ("call_skipped", "wrong-count", sse(opened(index=1)), "OC9", "call 1 before call 0", {}),
        ("calls_object", "wrong-type", sse(chunk({"tool_calls": {}})), "OC9", "calls that are no list", {}),
        ("call_unnamed", "missing-key", sse(piece("{}")), "OC9", "a call that does not say its name", {}),
        ("call_renamed", "contradiction", sse(*call, opened("stop")), "OC9", "one call, two names", {}),
        ("call_two_ids", "contradiction", sse(*call, piece("", id="call_2")), "OC9", "one call, two ids", {}),
        ("call_of_later_type", "wrong-value", sse(chunk({"tool_calls": [{"index": 0, "type": "later"}]})), "OC9",
         "a call of a type to come", {}),
        ("own_words", said, sse(*hi, own_words, "[DONE]"), "OC20", "other words for the end, of no known server", {}),
        ("refusal", "bad-stop", sse(chunk({"refusal": "I'm sorry"}), stop, "[DONE]"), "OC11", "the model declines", {}),
        ("usage_everywhere", said, sse(counted, stop, usage(2), "[DONE]"), "OC12", "usage on every chunk",
         {"evidence": "usage"}),
        ("moderation", said, sse(*hi, stop, usage(2, moderation={"output": {"type": "error"}}), "[DONE]"), "OC3",
         "what a moderator found, in a chunk without a choice", {}),
        ("no_usage", said, whole, "OC12", "no usage", {"evidence": "usage:none"}),
        ("no_call", "bad-stop", sse(*hi, chunk({}, "tool_calls"), "[DONE]"), "OC13", "a reason without a call", {}),
    ):  # fmt: skip
        case(f"{wire}/{name}", expect, raw, comment, rule, **more)
    interleaved = [
        opened(),
        opened("walk", 1, "call_2"),
        piece("{}"),
        piece("[]", 1),
        chunk({}, "tool_calls"),
        "[DONE]",
    ]
    two = answer("tool_calls", "", [("run", "call_1", "{}"), ("walk", "call_2", "[]")])
    case(f"{wire}/calls_interleaved", two, sse(*interleaved), "two calls, piece by piece", "OC9")
    custom = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    done = [chunk({"tool_calls": [custom]}), chunk({}, "tool_calls"), "[DONE]"]
    sql = answer("tool_calls", "", [("sql", "call_1", "SELECT 1")])
    case(f"{wire}/custom", sql, sse(*done), "a custom tool", "OC9")
    old = [chunk({"function_call": {"name": "run", "arguments": "{"}}), chunk({"function_call": {"arguments": "}"}})]
    was = answer("function_call", "", [("run", None, "{}")])
    case(f"{wire}/function_call", was, sse(*old, chunk({}, "function_call"), "[DONE]"), "the older form", "OC10")
    late = sse(*old, chunk({}, "function_call"), old[1], "[DONE]")
    case(f"{wire}/function_call_after_reason", "bad-stop", late, "more of the older form after the reason", "OC6")
    case(f"{wire}/closed_allowed", said, whole, "a close is taken", "A3", ending="closed", allow_close_delimited="yes",
         evidence="transport:closed")  # fmt: skip
    message = {"role": "assistant", "content": "Hello"}
    document = {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    case(f"{wire}/document", said, "\n " + dump(document) + "\n", "one document", "OC14", evidence="one-document")
    case(f"{wire}/document_cut", "not-json", dump(document)[:-1], "one document, cut", "A7")
    case(f"{wire}/document_two", "two-documents", dump(document) * 2, "two documents", "A7")
    other = document | {"object": "text_completion"}
    case(f"{wire}/document_other", "wrong-type", dump(other), "a document of another kind", "OC14")
    capped = {"object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": "length"}]}
    case(f"{wire}/document_length", "bad-stop", dump(capped), "a document cut at the token limit", "OC14")
    denied = {"error": {"code": 401, "message": "no"}}
    case(f"{wire}/document_error", "bad-stop", dump(denied), "an error document", "A8")

    def profile(name, expect, raw, comment, rule, which, **more):
        case(f"{wire}/{which}_{name}", expect, raw, comment, rule, wire=f"{wire}+{which}", **more)

    at_word = [*hi, chunk({}, "stop", choice={"stop_reason": "END"}), "[DONE]"]
    profile("stop_string", "bad-stop", sse(*at_word), "stopped at a sequence nobody named", "OC16", "vllm")
    profile("stop_asked", said, sse(*at_word), "stopped at a sequence", "OC16", "vllm", stop_sequences="yes")
    profile("word", said, whole, "what it gives up", "OC16", "vllm", evidence="gave-up:length-under-tool-calls")
    profile("no_done", said, sse(*hi, stop), "no [DONE]", "OC17", "llamacpp", evidence="gave-up:done")
    for name, tail in (("line", "dat"), ("name", "event: x\n"), ("event", "data: {}\n")):
        profile(f"cut_{name}", "no-terminal", sse(*hi, stop) + tail, f"cut after {tail!r}", "E8", "llamacpp")
    profile("no_reason", "no-terminal", sse(*hi), "no [DONE] and no reason", "OC17", "llamacpp")
    profile("ids", said, sse(*hi, chunk({}, "stop", id="c2")), "another id", "OC17", "llamacpp")
    profile("call", called, sse(*call, chunk({}, "tool_calls"), "[DONE]"), "arguments written anew", "OC18", "ollama",
            evidence="gave-up:argument-spelling")  # fmt: skip
    first = {"id": "", "object": "", "choices": [], "prompt_filter_results": []}
    filters = {"id": "", "object": "", "choices": [{"index": 0, "finish_reason": None, "content_filter_offsets": {}}]}
    profile("filters", said, sse(first, *hi, stop, filters, "[DONE]"), "chunks of filters", "OC19", "azure",
            evidence="profile:azure")  # fmt: skip
    for native in ("MAX_TOKENS", "length", "SAFETY", "pause_turn"):
        ends = chunk({}, "stop", choice={"native_finish_reason": native})
        profile(f"native_{native.lower()}", "bad-stop", sse(*hi, ends, "[DONE]"), native, "OC20", "openrouter")
    ends = chunk({}, "stop", choice={"native_finish_reason": "end_turn"})
    profile("native", said, sse(*hi, ends, "[DONE]"), "a normal end", "OC20", "openrouter")
    profile("native_null", said, sse(*hi, chunk({}, "stop", choice={"native_finish_reason": None}), "[DONE]"),
            "no word of its own", "OC20", "openrouter")  # fmt: skip
    failed = chunk({"content": ""}, "error", error={"code": "server_error", "message": "gone"})
    profile("error", "bad-stop", sse(*hi, failed), "an error in a chunk", "A8", "openrouter")

    opening = {"id": "call_1", "type": "function", "function": {"name": "run", "arguments": '{"a":'}}
    second = {"id": "call_2", "type": "function", "function": {"name": "walk", "arguments": "[]"}}
    rest: dict[str, object] = {"id": "", "type": "", "function": {"name": "", "arguments": " 1}"}}
    stopped = called | {"stop_reason": "stop"}
    first, then, last = (chunk({"tool_calls": [call]}) for call in (opening, rest, second))
    one, both = sse(first, then, stop, "[DONE]"), sse(first, then, last, stop, "[DONE]")
    two = answer("stop", "", [("run", "call_1", '{"a": 1}'), ("walk", "call_2", "[]")])
    case(f"{wire}/call_without_index", "wrong-count", one, "a call that says no index", "OC9")
    profile("call", stopped, one, "a call without an index", "OC22", "gemini", evidence="gave-up:call-index")
    profile("spelling", stopped, one, "from an object", "OC22", "gemini", evidence="gave-up:argument-spelling")
    profile("calls", two, both, "two calls without an index", "OC22", "gemini")
    profile("unnamed", "missing-key", sse(then, stop), "it begins without a name", "OC22", "gemini")
    profile("cut", "no-terminal", sse(first, then, stop), "cut before [DONE]", "OC22", "gemini")
    blocks = [opened(index=1), piece('{"a":', 1), piece(" 1}", 1), opened("walk", 3, "call_2"), piece("[]", 3)]
    numbered = sse(*hi, *blocks, chunk({}, "tool_calls"), "[DONE]")
    with_text = two | {"text": "Hello", "stop_reason": "tool_calls"}
    profile("calls", with_text, numbered, "calls 1 and 3", "OC23", "claude-gateway", evidence="gave-up:call-index")
    profile("native", "bad-stop", sse(*hi, chunk({}, "max_tokens"), "[DONE]"), "max_tokens", "OC5", "claude-gateway")


# --- OpenAI Responses


def numbered(*events, first=0):
    return sse(
        *[
            event | {"sequence_number": first + at} if isinstance(event, dict) else event
            for at, event in enumerate(events)
        ]
    )


def responses():
    wire = "openai-responses"
    part = {"type": "output_text", "text": "Hello", "annotations": []}
    item = {"id": "m1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    place = {"output_index": 0, "content_index": 0, "item_id": "m1"}

    def state(status="completed", output=(item,), **more):
        return {"id": "r1", "object": "response", "status": status, "error": None, "output": list(output)} | more

    created = {"type": "response.created", "response": state("in_progress", ())}
    opening = item | {"content": [], "status": "in_progress"}
    text = [
        {"type": "response.output_item.added", "output_index": 0, "item": opening},
        {"type": "response.content_part.added", **place, "part": part | {"text": ""}},
        {"type": "response.output_text.delta", **place, "delta": "Hel"},
        {"type": "response.output_text.delta", **place, "delta": "lo"},
        {"type": "response.output_text.done", **place, "text": "Hello"},
        {"type": "response.content_part.done", **place, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    ]
    completed = {"type": "response.completed", "response": state()}
    whole = [created, *text, completed]
    said = answer("completed", "Hello")
    call = {"id": "f1", "type": "function_call", "call_id": "call_1", "name": "run", "arguments": "{}"}
    at = {"output_index": 0, "item_id": "f1"}
    calling = [
        {"type": "response.output_item.added", "output_index": 0, "item": call | {"arguments": ""}},
        {"type": "response.function_call_arguments.delta", **at, "delta": "{}"},
        {"type": "response.function_call_arguments.done", **at, "arguments": "{}"},
        {"type": "response.output_item.done", "output_index": 0, "item": call},
    ]
    called = answer("completed", "", [("run", "call_1", "{}")])

    def changed(at, **more):
        return numbered(*whole[:at], whole[at] | more, *whole[at + 1 :])

    def finished(**more):
        return numbered(*whole[:-1], completed | {"response": state(**more)})

    keepalive = sse({"type": "keepalive"})
    aside = {"type": "response.reasoning_text.delta", "delta": "hm", "output_index": 9}
    for name, expect, raw, rule, comment in (
        ("text", said, numbered(*whole), "OR13", "a message"),
        ("call", called, numbered(created, *calling, completed | {"response": state(output=(call,))}), "OR6", "a call"),
        ("first_number", said, numbered(*whole, first=7), "OR1", "numbered from 7"),
        ("gap", "wrong-count", numbered(*whole[:4]) + numbered(*whole[5:], first=5), "OR1", "an event is missing"),
        ("twice", "wrong-count", numbered(*whole[:4]) + numbered(*whole[3:], first=3), "OR1", "an event came twice"),
        ("no_number", "wrong-type", sse(*whole), "OR1", "no numbers"),
        ("keepalive", said, keepalive + numbered(*whole), "OR1", "a heartbeat without a number"),
        ("keepalive_counts", said, numbered(*whole[:3], {"type": "keepalive"}, *whole[3:]), "OR1", "one with a number"),
        ("not_created", "no-terminal", numbered(*whole[1:]), "OR2", "the first event is missing"),
        ("created_twice", "contradiction", numbered(created, created), "OR2", "two responses"),
        ("aside", said, numbered(created, aside, *whole[1:]), "OR3", "reasoning is no part of it"),
        ("later_type", said, numbered(created, {"type": "response.x.y"}, *whole[1:]), "OR3", "a type to come"),
        ("item_skipped", "wrong-count", changed(1, output_index=1), "OR4", "item 1 before item 0"),
        ("item_twice", "contradiction", numbered(created, text[0], text[0]), "OR4", "one item opens twice"),
        ("item_done", "contradiction", numbered(created, *calling, calling[1]), "OR4", "more of an item that is done"),
        ("part_skipped", "wrong-count", changed(2, content_index=1), "OR5", "part 1 before part 0"),
        ("part_done", "contradiction", numbered(*whole[:7], text[2]), "OR5", "more of a part that is done"),
        ("wrong_kind", "contradiction", numbered(created, text[0], calling[1]), "OR6", "arguments for a message"),
        ("delta_lost", "contradiction", numbered(*whole[:3], *whole[4:]), "OR7", "a piece is missing"),
        ("copy_differs", "contradiction", changed(5, text="Hellu"), "OR7", "a copy with another letter"),
        ("part_open", "no-terminal", numbered(*whole[:6], whole[7], completed), "OR8", "its part is not done"),
        ("item_incomplete", "bad-stop", changed(7, item=item | {"status": "incomplete"}), "OR8", "an item is cut"),
        ("item_open", "no-terminal", numbered(*whole[:7], completed), "OR9", "completed, an item is not done"),
        ("item_missing", "wrong-count", finished(output=()), "OR9", "the final copy lacks an item"),
        ("final_differs", "contradiction", finished(output=(item | {"content": [part | {"text": "Hell"}]},)), "OR9",
         "the final copy is shorter"),
        ("other_id", "contradiction", finished(id="r2"), "OR9", "another response completes"),
        ("not_completed", "bad-stop", finished(status="in_progress"), "OR9", "completed by name, not by status"),
        ("no_terminal", "no-terminal", numbered(*whole[:-1]), "OR9", "no response.completed"),
        ("incomplete", "bad-stop", numbered(*whole[:-1], {"type": "response.incomplete", "response": state("incomplete",
         incomplete_details={"reason": "max_output_tokens"})}), "OR10", "cut at the token limit"),
        ("failed", "bad-stop", numbered(created, {"type": "response.failed", "response": state("failed", (),
         error={"code": "server_error"})}), "OR10", "failed"),
        ("error", "bad-stop", numbered(created, {"type": "error", "code": "x", "message": "gone"}), "OR10", "an error"),
        ("refusal", "bad-stop", numbered(created, text[0], {"type": "response.refusal.delta", "delta": "I"}), "OR11",
         "the model declines"),
        ("done", said, numbered(*whole) + sse("[DONE]"), "OR12", "[DONE] after the end"),
        ("done_twice", "bytes-after-end", numbered(*whole) + sse("[DONE]", "[DONE]"), "OR12", "[DONE] twice"),
        ("done_cut", "bytes-after-end", numbered(*whole) + "data: [DO", "OR12", "a cut [DONE]"),
        ("after_end", "bytes-after-end", numbered(*whole, {"type": "keepalive"}), "A4", "an event after the end"),
        ("other_name", "contradiction", numbered(*whole).replace("event: response.comp", "event: response.pomp"), "E9",
         "an event with two names"),
        ("number_negative", "wrong-type", numbered(*whole, first=-1), "OR1", "the first number is below 0"),
        ("unnamed", said, numbered(created | {"response": state("in_progress", (), id="")}, *whole[1:]), "OR9",
         "its id comes late"),
        ("part_begun", said, numbered(*whole[:2], text[1] | {"part": part | {"text": "Hel"}}, *whole[4:]), "OR5",
         "a part opens with text"),
        ("part_twice", "contradiction", numbered(*whole[:3], text[1]), "OR5", "one part opens twice"),
        ("part_other", "contradiction", changed(6, part={"type": "later"}), "OR5", "a part of two types"),
        ("part_differs", "contradiction", changed(6, part=part | {"text": "Hellu"}), "OR7", "another letter in a part"),
        ("part_refusal", "bad-stop", numbered(*whole[:2], text[1] | {"part": {"type": "refusal"}}), "OR11",
         "a part declines"),
        ("part_of_later_type", "contradiction", numbered(*whole[:2], text[1] | {"part": {"type": "later"}}, text[2]),
         "OR6", "text for a part that has none"),
        ("delta_number", "wrong-type", changed(3, delta=7), "OR6", "a piece that is no text"),
        ("item_other", "contradiction", changed(7, item=item | {"type": "later"}), "OR8", "an item of two types"),
        ("item_part_missing", "wrong-count", changed(7, item=item | {"content": []}), "OR8", "its copy lacks a part"),
        ("item_part_other", "contradiction", changed(7, item=item | {"content": [part | {"type": "later"}]}), "OR8",
         "a part of another type in its copy"),
        ("call_differs", "contradiction", numbered(created, *calling[:3], calling[3] | {"item": call | {"arguments":
         "[]"}}, completed | {"response": state(output=(call,))}), "OR8", "a call with other arguments in its copy"),
        ("document", said, dump(state()), "OR15", "one document"),
        ("document_unended_search", said, dump(state(output=({"type": "web_search_call", "status": "failed"}, item))),
         "OR8", "how a search ended says nothing of the answer"),
        ("document_item_incomplete", "bad-stop", dump(state(output=(item | {"status": "incomplete"},))), "OR15",
         "an item is cut"),
        ("document_refusal", "bad-stop", dump(state(output=(item | {"content": [{"type": "refusal"}]},))), "OR11",
         "the model declines"),
        ("document_nameless", "missing-key", dump(state(output=(call | {"name": ""},))), "OR14", "a call, no name"),
        ("document_queued", "bad-stop", dump(state("queued", (), background=True)), "OR16", "no answer yet"),
        ("document_incomplete", "bad-stop", dump(state("incomplete")), "OR15", "one document, cut"),
        ("document_details", "bad-stop", dump(state(incomplete_details={"reason": "max_output_tokens"})), "OR9",
         "completed, and a reason why not"),
        ("document_other", "wrong-type", dump({"object": "list"}), "OR15", "a document of another kind"),
    ):  # fmt: skip
        proof = {"text": "final-copy-equal", "call": "continuity:sequence-numbers", "document": "one-document"}.get(
            name
        )
        case(f"{wire}/{name}", expect, raw, comment, rule, **({"evidence": proof} if proof else {}))
    shell = {"type": "shell_call", "call_id": "call_2", "action": {}}
    ran = answer("completed", "", [("run", "call_1", "{}"), ("shell_call", "call_2", dump(shell))])
    case(f"{wire}/other_call", ran, dump(state(output=(call, shell))), "a call of another kind", "OR14")
