"""The vectors of Ollama, Mistral and Cohere: NL, OL, MI and CO rules."""

from tests.vectors.wire_cases import answer, case, dump, events


def lines(*documents):
    return "".join(dump(document) + "\n" for document in documents)


def chat(content="", **more):
    return {"model": "m", "message": {"role": "assistant", "content": content} | more, "done": False}


def generated(text, **more):
    return {"model": "m", "response": text, "done": False} | more


DONE = {"done": True, "done_reason": "stop", "prompt_eval_count": 9, "eval_count": 7}
LAST = chat() | DONE


def ollama():
    def good(name, expect, raw, comment, rule, **more):
        case(f"ollama/{name}", expect, raw, comment, rule, **more)

    def bad(name, signal, raw, comment, rule, **more):
        case(f"ollama/{name}", signal, raw, comment, rule, **more)

    hello = answer("hello")
    good("chat", hello, lines(chat("hel"), chat("lo"), LAST), "a text in two lines", "NL1")
    good("crlf", hello, lines(chat("hel"), chat("lo"), LAST).replace("\n", "\r\n"), "lines that end with CRLF", "NL1")
    good("blank_lines", hello, "\n" + lines(chat("hello")) + " \n" + lines(LAST), "blank lines between", "NL2")
    bad("blank_line_last", "bytes-after-end", lines(chat("hello"), LAST) + "\n", "a blank line at the end", "NL2")
    bad("no_line_end", "no-terminal", lines(chat("hello"), LAST)[:-1], "the last line has no end", "NL3")
    good("document", hello, dump(chat("hello") | DONE), "one document, no line end", "OL1", evidence="one-document")
    good("document_line", hello, lines(chat("hello") | DONE), "one document with a line end", "OL1")
    bad("error", "bad-stop", lines(chat("hel"), {"error": "an error was encountered"}), "an error line", "OL2")
    bad("error_done", "bad-stop", lines(chat("hello"), LAST | {"error": "x"}), "an error on the last line", "OL2")
    mixed = lines(chat("hel"), generated("lo"), LAST)
    bad("both_routes", "contradiction", mixed, "a chat and a generation in one", "OL3")
    good("unknown_line", hello, lines({"status": "loading"}, chat("hello"), LAST), "a line of another type", "OL3")
    thinking = lines(chat("", thinking="hm"), chat("hello"), LAST)
    good("thinking", hello, thinking, "what was thought is no part of the answer", "OL4")
    good("generate", hello, lines(generated("hel"), generated("lo"), generated("") | DONE), "a generation", "OL4")
    bad("thinking_only", "empty", lines(chat("", thinking="hm"), LAST), "done after thoughts alone", "OL4")
    call = {"id": "c1", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}}
    called = answer(calls=[("f", "c1", '{"a":1}')])
    good("call", called, lines(chat("", tool_calls=[call]), LAST), "a tool call", "OL5")
    bare = {"function": {"name": "g", "arguments": {}}}
    twice = answer(calls=[("f", "c1", '{"a":1}'), ("g", None, "{}")])
    good("calls", twice, lines(chat("", tool_calls=[call]), chat("", tool_calls=[bare]), LAST), "two calls", "OL5")
    bad("call_without", "missing-key", lines(chat("", tool_calls=[{"function": {"name": "f"}}])), "no arguments", "OL5")
    nameless = chat("", tool_calls=[{"function": {"arguments": {}}}])
    bad("call_nameless", "missing-key", lines(nameless), "a call without a name", "OL5")
    spelled = chat("", tool_calls=[{"function": {"name": "f", "arguments": "{}"}}])
    bad("call_args_text", "wrong-type", lines(spelled), "arguments as a text", "OL5")
    good("done_with_text", hello, lines(chat("hel"), chat("lo") | DONE), "the last line holds text", "OL6")
    bad("no_done", "no-terminal", lines(chat("hel"), chat("lo")), "cut before the last line", "OL6")
    bad("done_text", "wrong-type", lines(chat("hello"), LAST | {"done": "true"}), "done is a string", "OL6")
    bad("after_done", "bytes-after-end", lines(chat("hello"), LAST, chat("!")), "a line after the last", "OL6")
    bad("after_done_cut", "bytes-after-end", lines(chat("hello"), LAST) + "{", "a line begins after the last", "OL6")
    for reason in ("length", "load", "unload", "tomorrow"):
        ending = lines(chat("hello"), LAST | {"done_reason": reason})
        bad(f"reason_{reason}", "bad-stop", ending, f"the done reason is {reason}", "OL7")
    without = {key: value for key, value in LAST.items() if key != "done_reason"}
    bad("no_reason", "bad-stop", lines(chat("hello"), without), "done, and no word why", "OL7")
    bad("at_the_cap", "token-cap", lines(chat("hello"), LAST), "7 tokens of 7", "OL8", max_output_tokens=7)
    bad("document_not_done", "no-terminal", dump(chat("hello")), "one document that is not done", "OL9")
    capped = dump(chat("hello") | DONE | {"done_reason": "length"})
    bad("document_capped", "bad-stop", capped, "one document, at the limit", "OL9")


# --- Mistral


def chunk(delta, reason=None, **more):
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "m1", "object": "chat.completion.chunk", "choices": [choice]} | more


SPENT = {"prompt_tokens": 9, "completion_tokens": 7, "total_tokens": 16}


def mistral():
    def good(name, expect, raw, comment, rule, **more):
        case(f"mistral/{name}", expect, raw, comment, rule, **more)

    def bad(name, signal, raw, comment, rule, **more):
        case(f"mistral/{name}", signal, raw, comment, rule, **more)

    def piece(arguments, name="", index=0, **more):
        return {"index": index, "function": {"name": name, "arguments": arguments}} | more

    def called(*calls):
        tail = [chunk({"content": ""}, "tool_calls", usage=SPENT), "[DONE]"]
        return events(*(chunk({"tool_calls": [call]}) for call in calls), *tail)

    stop = chunk({"content": ""}, "stop", usage=SPENT)
    hello = answer("hello")
    good("text", hello, events(chunk({"content": "hel"}), chunk({"content": "lo"}), stop, "[DONE]"), "a text", "MI1")
    bad("no_done", "no-terminal", events(chunk({"content": "hello"}), stop), "cut before [DONE]", "MI1")
    capped = events(chunk({"content": "hello"}), stop, "[DONE]")
    bad("at_the_cap", "token-cap", capped, "7 tokens of 7", "MI1", max_output_tokens=7)
    error = {"object": "error", "message": "overloaded", "type": "internal", "code": "1000"}
    bad("error", "bad-stop", events(chunk({"content": "hel"}), error, stop, "[DONE]"), "an error between", "MI2")
    bad("error_document", "bad-stop", dump(error), "an error in place of an answer", "MI2")
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = chunk({"content": [thinking, {"type": "text", "text": "hel"}, {"type": "reference", "reference_ids": [1]}]})
    good("parts", hello, events(parts, chunk({"content": "lo"}), stop, "[DONE]"), "content in parts", "MI3")
    later = chunk({"content": [{"type": "later", "text": "x"}, {"type": "text", "text": "hello"}]})
    good("parts_later", hello, events(later, stop, "[DONE]"), "a part of a later type, though it has a text", "MI3")
    one, two = ("f", "a", '{"a":1}'), ("f", "b", '{"a":2}')
    whole = called(piece('{"a":1}', "f", id="a"), piece('{"a":2}', "f", id="b"))
    good("calls_one_index", answer(calls=[one, two], reason="tool_calls"), whole, "two calls, both index 0", "MI4")
    pieces = called(piece('{"a"', "f", id="a"), piece(":1}", id="null"))
    good("call_null_id", answer(calls=[one], reason="tool_calls"), pieces, "a piece whose id is null's name", "MI4")
    pieces = called(piece('{"a"', "f", id="a"), piece('{"a"', "f", 1, id="b"), piece(":1}"), piece(":2}", index=1))
    good("calls_mixed", answer(calls=[one, two], reason="tool_calls"), pieces, "pieces without an id", "MI4")
    renamed = called(piece('{"a"', "f", id="a"), piece(":1}", "g"))
    bad("call_renamed", "contradiction", renamed, "a piece with another name", "MI4")
    bad("call_index_text", "wrong-type", called(piece("{}", "f", "0", id="a")), "an index that is a text", "MI4")
    for reason in ("length", "model_length", "error", "content_filter", "tomorrow"):
        raw = events(chunk({"content": "hello"}, reason), "[DONE]")
        bad(f"reason_{reason}", "bad-stop", raw, f"the finish reason is {reason}", "MI5")
    said = {"role": "assistant", "content": "", "tool_calls": [piece('{"a":1}', "f", id="a")]}

    def document(reason):
        choice = {"index": 0, "message": said, "finish_reason": reason}
        return dump({"object": "chat.completion", "choices": [choice], "usage": SPENT})

    good("document", answer(calls=[one], reason="tool_calls"), document("tool_calls"), "one document", "MI5")
    bad("document_capped", "bad-stop", document("model_length"), "one document, at the limit", "MI5")
    whole = piece({"a": 1}, "f", id="a")
    good("call_object", answer(calls=[one], reason="tool_calls"), called(whole), "arguments as an object", "MI6")
    bad("call_object_twice", "contradiction", called(whole, piece({"a": 1})), "another object for the call", "MI6")
    bad("call_object_and_text", "contradiction", called(whole, piece(" ")), "text after the object", "MI6")
    bad("call_text_and_object", "contradiction", called(piece("{", "f", id="a"), piece({})), "text before it", "MI6")
    emptied = called(whole, piece(""))
    good("call_object_and_nothing", answer(calls=[one], reason="tool_calls"), emptied, "no text after it", "MI6")
    said = said | {"tool_calls": [whole]}
    good("document_object", answer(calls=[one], reason="tool_calls"), document("tool_calls"), "as an object", "MI6")


# --- Cohere


def cohere():
    def good(name, expect, raw, comment, rule, **more):
        case(f"cohere/{name}", expect, raw, comment, rule, **more)

    def bad(name, signal, raw, comment, rule, **more):
        case(f"cohere/{name}", signal, raw, comment, rule, **more)

    def event(kind, index=None, **message):
        made = {"type": kind} if index is None else {"type": kind, "index": index}
        return made | ({"delta": {"message": message}} if message else {})

    def end(reason="COMPLETE", **more):
        tokens = {"tokens": {"input_tokens": 9, "output_tokens": 7}}
        return {"type": "message-end", "delta": {"finish_reason": reason, "usage": tokens} | more}

    start = event("message-start", role="assistant")
    opened = event("content-start", 0, content={"type": "text", "text": ""})
    hel, lo = (event("content-delta", 0, content={"text": text}) for text in ("hel", "lo"))
    closed = event("content-end", 0)
    hello = [start, opened, hel, lo, closed]
    heard = answer("hello", reason="COMPLETE")
    good("text", heard, events(*hello, end(), named=True), "a text in two pieces", "CO1")
    bad("no_start", "no-terminal", events(*hello[1:], end()), "message-start is missing", "CO1")
    bad("start_twice", "contradiction", events(start, *hello, end()), "message-start twice", "CO1")
    late = [*hello[1:], start, end()]
    bad("start_late", "no-terminal", events(*late), "message-start after the content", "CO1")
    bad("end_alone", "no-terminal", events(end()), "nothing but message-end", "CO1")
    plan = event("tool-plan-delta", tool_plan="First")
    others = [start, plan, {"type": "debug", "prompt": "p"}, *hello[1:], {"type": "later"}]
    good("others", heard, events(*others, end(), named=True), "events of other types", "CO2")
    bad("error_event", "bad-stop", 'event: error\ndata: {"message":"overloaded"}\n\n', "an event named error", "CO2")
    f = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": ""}}
    call = event("tool-call-start", 0, tool_calls=f)
    piece, rest = (event("tool-call-delta", 0, tool_calls={"function": {"arguments": a}}) for a in ('{"a"', ":1}"))
    over = event("tool-call-end", 0)
    called = [call, piece, rest, over]
    ran = answer(calls=[("f", "c1", '{"a":1}')], reason="TOOL_CALL")
    good("call", ran, events(start, *called, end("TOOL_CALL"), named=True), "a call in two pieces", "CO3")
    both = answer("hello", [("f", "c1", '{"a":1}')], "TOOL_CALL")
    good("both", both, events(*hello, *called, end("TOOL_CALL")), "a text and a call, both number 0", "CO3")
    bad("started_twice", "contradiction", events(start, opened, opened), "one content starts twice", "CO3")
    nameless = event("tool-call-start", 0, tool_calls={"id": "c1", "function": {}})
    bad("call_nameless", "missing-key", events(start, nameless), "a call without a name", "CO3")
    bad("unopened", "contradiction", events(start, hel), "a piece of a content that has not begun", "CO4")
    bad("after_end", "contradiction", events(*hello, lo), "a piece of a content that has ended", "CO4")
    bad("index_missing", "wrong-type", events(start, event("content-start", content={})), "no index", "CO4")
    bad("index_negative", "wrong-type", events(start, opened | {"index": -1}), "an index below 0", "CO4")
    early = event("content-start", 0, content={"type": "text", "text": "hel"})
    good("text_in_start", heard, events(start, early, lo, closed, end()), "the start holds text", "CO5")
    thinking = event("content-start", 1, content={"type": "thinking"})
    hm = event("content-delta", 1, content={"thinking": "hm"})
    thought = [start, thinking, hm, event("content-end", 1), *hello[1:], end()]
    good("thinking", heard, events(*thought), "what was thought is no part of the answer", "CO5")
    bad("content_open", "no-terminal", events(*hello[:-1], end()), "the content never ended", "CO6")
    bad("call_open", "no-terminal", events(start, *called[:-1], end("TOOL_CALL")), "the call never ended", "CO6")
    bad("no_end", "no-terminal", events(*hello), "cut before message-end", "CO6")
    bad("end_error", "bad-stop", events(*hello, end(error="timed out")), "message-end with an error", "CO6")
    for reason in ("MAX_TOKENS", "ERROR", "TIMEOUT", "STOP_SEQUENCE", "complete"):
        bad(f"reason_{reason}", "bad-stop", events(*hello, end(reason)), f"the finish reason is {reason}", "CO7")
    stopped = answer("hello", reason="STOP_SEQUENCE")
    good("stop_sequence", stopped, events(*hello, end("STOP_SEQUENCE")), "asked for", "CO7", stop_sequences="yes")
    capped = events(*hello, end("MAX_TOKENS"))
    bad("sequence_asked", "bad-stop", capped, "a cap, though sequences were named", "CO7", stop_sequences="yes")
    good("done", heard, events(*hello, end(), "[DONE]"), "[DONE] follows", "CO8")
    bad("done_twice", "bytes-after-end", events(*hello, end(), "[DONE]", "[DONE]"), "[DONE] twice", "CO8")
    bad("done_cut", "bytes-after-end", events(*hello, end(), "[DONE]")[:-4], "[DONE] cut", "CO8")
    bad("done_early", "no-terminal", events(*hello, "[DONE]"), "[DONE] without message-end", "CO8")
    bad("after_message", "bytes-after-end", events(*hello, end(), plan), "an event after message-end", "CO8")
    bad("call_missing", "bad-stop", events(*hello, end("TOOL_CALL")), "TOOL_CALL without a call", "CO9")
    bad("at_the_cap", "token-cap", events(*hello, end()), "7 tokens of 7", "CO10", max_output_tokens=7)
    billed = end(usage={"billed_units": {"input_tokens": 9.0, "output_tokens": 7.0}})
    good("billed", heard, events(*hello, billed), "only billed units, spelled as 7.0", "CO10")
    function = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}
    content = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "later", "text": "x"},
        {"type": "text", "text": "hello"},
    ]
    said = {"role": "assistant", "content": content, "tool_calls": [function]}
    usage = {"tokens": {"input_tokens": 9, "output_tokens": 7}}
    document = {"id": "x", "finish_reason": "TOOL_CALL", "message": said, "usage": usage}
    good("document", both, dump(document), "one document", "CO11")
    bad("document_capped", "bad-stop", dump(document | {"finish_reason": "MAX_TOKENS"}), "at the limit", "CO11")
    bad("document_error", "bad-stop", '{"id":"x","message":"invalid api token"}', "an error of the service", "CO11")
