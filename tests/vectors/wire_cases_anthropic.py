"""The vectors of the Anthropic wire: AN rules."""

from tests.vectors.wire_cases import case, dump
from tests.vectors.wire_cases_openai import answer, sse


def messages():
    wire = "anthropic"
    start = {"type": "message_start", "message": {"id": "m1", "content": [], "usage": {"output_tokens": 1}}}

    def opens(index=0, **block):
        return {"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""} | block}

    def delta(kind, index=0, **more):
        return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **more}}

    def stops(reason="end_turn", **more):
        changes = {"stop_reason": reason, "stop_sequence": None} | more
        return {"type": "message_delta", "delta": changes, "usage": {"output_tokens": 5}}

    shut = {"type": "content_block_stop", "index": 0}
    end = {"type": "message_stop"}
    text = [opens(), delta("text_delta", text="Hel"), delta("text_delta", text="lo"), shut]
    whole = [start, *text, stops(), end]
    said = answer("end_turn", "Hello")
    tool = {"type": "tool_use", "id": "t1", "name": "run", "input": {}, "text": ""}
    calling = [opens(**tool), delta("input_json_delta", partial_json="")]
    streamed = [*calling, *(delta("input_json_delta", partial_json=text) for text in ('{"b":1,', '"a":2}'))]
    called = answer("tool_use", "", [("run", "t1", '{"b":1,"a":2}')])
    bare = answer("tool_use", "", [("run", "t1", "{}")])
    thought = [delta("thinking_delta", thinking="hm"), delta("signature_delta", signature="x")]
    thinking = [opens(type="thinking"), *thought, shut]
    second = [event | {"index": 1} for event in text]
    hands_over = [opens(type="fallback"), shut]
    taken_over = [event | {"index": 1} for event in hands_over]
    third = [event | {"index": 2} for event in text]
    given = opens(**tool | {"input": {"a": 1}})
    was_given = answer("tool_use", "", [("run", "t1", '{"a":1}')])
    for name, expect, raw, rule, comment, more in (
        ("text", said, sse(*whole), "AN8", "a text block", {"evidence": "blocks-closed"}),
        ("no_start", "no-terminal", sse(*whole[1:]), "AN1", "the first event is missing", {}),
        ("start_twice", "contradiction", sse(start, start), "AN1", "two messages", {}),
        ("ping", said, sse({"type": "ping"}, start, {"type": "ping"}, *whole[1:]), "AN2", "pings", {}),
        ("later_type", said, sse(start, {"type": "later"}, *whole[1:]), "AN2", "a type to come", {}),
        ("block_skipped", "wrong-count", sse(start, opens(1)), "AN3", "block 1 before block 0", {}),
        ("block_twice", "contradiction", sse(start, opens(), opens()), "AN3", "one block opens twice", {}),
        ("unnamed", "missing-key", sse(start, opens(type="tool_use")), "AN3", "a tool without a name", {}),
        ("not_open", "wrong-count", sse(start, delta("text_delta", text="x")), "AN4", "a piece of no block", {}),
        ("closed_block", "contradiction", sse(start, *text, text[1]), "AN4", "a piece of a block that has stopped", {}),
        ("thinking", said, sse(start, *thinking, *second, stops(), end), "AN5", "thinking is no part of it", {}),
        ("citations", said, sse(start, opens(), delta("citations_delta", citation={}), *text[1:], stops(), end), "AN5",
         "citations", {}),
        ("later_delta", "wrong-value", sse(start, opens(), delta("later_delta")), "AN5", "a delta to come", {}),
        ("text_for_tool", "wrong-value", sse(start, *calling, delta("text_delta")), "AN5", "text for a tool", {}),
        ("block_open", "no-terminal", sse(*whole[:4], stops(), end), "AN6", "the message stops, a block has not", {}),
        ("two_deltas", said, sse(*whole[:5], stops(None), stops(), end), "AN6", "two message deltas", {}),
        ("reason_changes", "bad-stop", sse(start, *streamed, shut, stops("tool_use"), stops(), end), "AN6",
         "another reason", {}),
        ("stop_unasked", "bad-stop", sse(*whole[:5], stops(stop_sequence="END"), end), "AN7", "at a sequence", {}),
        ("no_reason", "bad-stop", sse(*whole[:5], end), "AN8", "no stop reason", {}),
        ("no_stop", "no-terminal", sse(*whole[:6]), "AN8", "no message_stop", {}),
        ("ping_after_end", said, sse(*whole, {"type": "ping"}), "AN2", "a ping after the end", {}),
        ("ping_says_more", "bytes-after-end", sse(*whole, {"type": "ping", "error": "x"}), "AN2", "more in a ping", {}),
        ("ping_other_name", "bytes-after-end", sse(*whole) + 'event: error\ndata: {"type":"ping"}\n\n', "AN2",
         "a ping by another name", {}),
        ("ping_cut", "bytes-after-end", sse(*whole, {"type": "ping"})[:-1], "AN2", "a ping that has not ended", {}),
        ("after_end", "bytes-after-end", sse(*whole, {"type": "later"}), "A4", "an event after the end", {}),
        ("call", called, sse(start, *streamed, shut, stops("tool_use"), end), "AN9", "arguments in pieces", {}),
        ("call_bare", bare, sse(start, *calling, shut, stops("tool_use"), end), "AN9", "no arguments", {}),
        ("call_both", "contradiction", sse(start, given, streamed[2], streamed[3], shut, stops("tool_use"), end), "AN9",
         "arguments given and streamed", {}),
        ("call_given", was_given, sse(start, given, shut, stops("tool_use"), end), "AN9", "arguments at once", {}),
        ("token_cap", "token-cap", sse(*whole), "AN10", "5 of 5 tokens", {"max_output_tokens": 5}),
        ("no_call", "bad-stop", sse(*whole[:5], stops("tool_use"), end), "AN11", "a reason without a call", {}),
        ("after_reason", "bad-stop", sse(*whole[:6], opens(1)), "AN12", "a block after the reason", {}),
        ("handed_over", said, sse(start, *hands_over, *second, stops(), end), "AN14", "another model answers", {}),
        ("handed_over_late", "bad-stop", sse(start, *text, *taken_over, *third, stops(), end), "AN14",
         "another model goes on", {}),
        ("handed_over_empty", said, sse(start, opens(), shut, *taken_over, *third, stops(), end), "AN14",
         "nothing was said before", {}),
        ("handed_over_call", "bad-stop", sse(start, *calling, shut, *taken_over, *third, stops(), end), "AN14",
         "a call before another model goes on", {}),
        ("error", "bad-stop", sse(start, opens(), {"type": "error", "error": {"type": "overloaded_error"}}), "A8",
         "overloaded", {}),
        ("other_name", "contradiction", sse(*whole).replace("event: message_st", "event: ping"), "E9", "two names", {}),
        ("unnamed_events", said, "".join(f"data: {dump(event)}\n\n" for event in whole), "E9", "no names", {}),
    ):  # fmt: skip
        case(f"{wire}/{name}", expect, raw, comment, rule, **more)
    for reason in ("max_tokens", "model_context_window_exceeded", "refusal", "pause_turn", "later", "stop_sequence"):
        case(f"{wire}/{reason}", "bad-stop", sse(*whole[:5], stops(reason), end), f"stops with {reason}", "AN7")
    at_word = sse(*whole[:5], stops("stop_sequence", stop_sequence="END"), end)
    ended = answer("stop_sequence", "Hello")
    case(f"{wire}/stop_asked", ended, at_word, "stopped at a sequence", "AN7", stop_sequences="yes")
    document = {"type": "message", "content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"}
    case(f"{wire}/document", said, dump(document), "one document", "AN13", evidence="one-document")
    case(f"{wire}/document_cut", "bad-stop", dump(document | {"stop_reason": None}), "no stop reason", "AN13")
    case(f"{wire}/document_other", "wrong-type", dump({"type": "completion"}), "a document of another kind", "AN13")
    two = document | {"content": [*document["content"], {"type": "fallback"}, *document["content"]]}
    case(f"{wire}/document_handed_over", "bad-stop", dump(two), "another model goes on", "AN14")
    failed = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    case(f"{wire}/document_error", "bad-stop", dump(failed), "an error document", "A8")
    document |= {"content": [{"type": "tool_use", "id": "t1", "name": "run", "input": {}}], "stop_reason": "tool_use"}
    case(f"{wire}/document_call", bare, dump(document), "a call in a document", "AN13")
