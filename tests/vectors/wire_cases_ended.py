"""The vectors of what is only asked whether it ended: A13, OC21, OR16, G13 and OL10."""

from tests.vectors.wire_cases import answer, case, dump, events


def ended():
    _nothing_said()
    _choices()
    _responses()
    _candidates()
    _loaded()


def _case(wire, name, expect, raw, comment, rule, **more):
    case(f"ended/{name}", expect, raw, comment, rule, wire=wire, ended_only="yes", **more)


def _choice(index, content=None, reason=None, **more):
    delta = {"content": content} if content is not None else {}
    return {"index": index, "delta": delta | more, "finish_reason": reason}


def _chunk(*choices):
    return {"id": "c1", "object": "chat.completion.chunk", "choices": list(choices)}


def _completion(*messages, reason="stop"):
    choices = [{"index": at, "message": message, "finish_reason": reason} for at, message in enumerate(messages)]
    return dump({"id": "c1", "object": "chat.completion", "choices": choices})


def _nothing_said():
    wire, stop = "openai-chat", _chunk(_choice(0, reason="stop"))
    _case(wire, "empty_stop", answer(), events(stop, "[DONE]"), "stop without a text", "A13")
    _case(wire, "empty_cut", "no-terminal", events(stop), "stop without a text, cut", "A13")
    _case(wire, "nothing", "empty", "", "no byte at all", "A1")
    audio = {"content": None, "audio": {"id": "a", "data": "AAAA"}}
    _case(wire, "audio", answer(), _completion(audio), "sound alone", "A13")
    picture = {"content": {"parts": [{"inlineData": {"data": "iVBO"}}]}, "finishReason": "STOP"}
    _case("gemini", "image", answer(reason="STOP"), dump({"candidates": [picture]}), "a picture alone", "A13")
    turn = {"type": "message", "content": [], "stop_reason": "end_turn"}
    _case("anthropic", "end_turn", answer(reason="end_turn"), dump(turn), "a turn without a text", "A13")
    _case("anthropic", "max_tokens", "bad-stop", dump(turn | {"stop_reason": "max_tokens"}), "a cap", "A13")


def _choices():
    wire = "openai-chat"
    two = [_chunk(_choice(0, "a")), _chunk(_choice(1, "b")), _chunk(_choice(0, reason="stop"))]
    last = _chunk(_choice(1, reason="stop"))
    _case(wire, "choices", answer("a"), events(*two, last, "[DONE]"), "two choices", "OC21")
    together = _chunk(_choice(0, "a", "stop"), _choice(1, "b", "stop"))
    _case(wire, "choices_together", answer("a"), events(together, "[DONE]"), "two in one chunk", "OC21")
    _case(wire, "choices_open", "no-terminal", events(*two, "[DONE]"), "the second has not ended", "OC21")
    _case(wire, "choices_cut", "no-terminal", events(*two, last), "no [DONE]", "OC21")
    more = _chunk(_choice(1, "c"))
    _case(wire, "choices_more", "bad-stop", events(*two, last, more), "more of a choice that ended", "OC21")
    cap = _chunk(_choice(1, reason="length"))
    _case(wire, "choices_length", "bad-stop", events(*two, cap, "[DONE]"), "the second is capped", "OC21")
    changed = _chunk(_choice(1, reason="tool_calls"))
    _case(wire, "choices_changed", "bad-stop", events(*two, last, changed), "the second ends in two ways", "OC21")
    no_call = events(*two, _chunk(_choice(1, reason="tool_calls")), "[DONE]")
    _case(wire, "choices_no_call", "bad-stop", no_call, "the second calls nothing", "OC21")
    called = _chunk(_choice(1, reason="tool_calls", tool_calls=[{"index": 0, "function": {"name": "f"}}]))
    _case(wire, "choices_call", answer("a"), events(*two, called, "[DONE]"), "the second calls", "OC21")
    capped = _chunk(_choice(1, reason="length", tool_calls=[{"index": 0, "function": {"name": "f"}}]))
    _case(wire, "choices_call_length", "bad-stop", events(*two, capped, "[DONE]"), "a call that is capped", "OC21")
    turned = events(*two, called, last, "[DONE]")
    _case(wire, "choices_call_changed", "bad-stop", turned, "the second calls, and then stops", "OC21")
    _case(wire, "choices_again", answer("a"), events(*two, last, last, "[DONE]"), "the second stops again", "OC21")
    twice = _chunk(_choice(0, "a", "stop"), _choice(0, "b", "stop"))
    _case(wire, "choices_twice", "wrong-count", events(twice, "[DONE]"), "two of one index", "OC21")
    none = _chunk(_choice(0, "a", "stop"), _choice(None, "b", "stop"))
    _case(wire, "choices_no_index", "wrong-count", events(none, "[DONE]"), "one without an index", "OC21")
    below = _chunk(_choice(0, "a", "stop"), _choice(-1, "b", "stop"))
    _case(wire, "choices_negative", "wrong-count", events(below, "[DONE]"), "an index below 0", "OC21")
    said = [{"content": "a"}, {"content": "b"}]
    _case(wire, "choices_document", answer("a"), _completion(*said), "two choices in a document", "OC21")
    open_ = _completion(*said, reason="stop").removesuffix('"stop"}]}') + "null}]}"
    _case(wire, "choices_document_open", "bad-stop", open_, "the second has no reason", "OC21")
    failing = _chunk(_choice(0, "a"), _choice(1) | {"error": {"message": "x"}})
    _case(wire, "choices_error", "bad-stop", events(failing), "an error in the second", "OC21")
    _case(wire, "refusal", answer(), _completion({"content": None, "refusal": "no"}), "a refusal", "OC21")
    after = [_chunk(_choice(0, reason="stop")), _chunk(_choice(0, refusal="no"))]
    _case(wire, "refusal_after", "bad-stop", events(*after), "a refusal after the end", "OC21")
    open_ended = events(*two)
    _case(f"{wire}+llamacpp", "profile_open", "no-terminal", open_ended, "the second has not ended", "OC21")
    _case(f"{wire}+llamacpp", "profile", answer("a"), events(*two, last), "both have ended", "OC21")
    _case("mistral", "choices_mistral", answer("a"), events(*two, last, "[DONE]"), "two choices", "OC21")


def _responses():
    wire = "openai-responses"
    queued = {"object": "response", "id": "r", "status": "queued", "background": True, "output": []}
    _case(wire, "queued", answer(reason="queued"), dump(queued), "in the background", "OR16")
    running = dump(queued | {"status": "in_progress"})
    _case(wire, "in_progress", answer(reason="in_progress"), running, "in the background", "OR16")
    _case(wire, "queued_before", "bad-stop", dump(queued | {"background": False}), "not there", "OR16")
    _case(wire, "queued_error", "bad-stop", dump(queued | {"error": {"code": "x"}}), "with an error", "OR16")
    cut = dump(queued | {"incomplete_details": {"reason": "max_output_tokens"}})
    _case(wire, "queued_incomplete", "bad-stop", cut, "with a reason why not", "OR16")
    failed = dump(queued | {"status": "failed"})
    _case(wire, "background_failed", "bad-stop", failed, "failed in the background", "OR16")
    picture = {"type": "image_generation_call", "status": "completed", "result": "AAAA"}
    drawn = {"object": "response", "status": "completed", "output": [picture]}
    _case(wire, "drawn", answer(reason="completed"), dump(drawn), "a picture alone", "A13")
    part: dict[str, object] = {"type": "refusal", "refusal": "no"}
    message = {"type": "message", "status": "completed", "content": [part]}
    declined = drawn | {"output": [message]}
    _case(wire, "declined", answer(reason="completed"), dump(declined), "a refusal", "OR16")
    place: dict[str, object] = {"output_index": 0, "content_index": 0}
    steps: list[dict[str, object]] = [
        {"type": "response.created", "response": {"id": "r"}},
        {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}},
        {"type": "response.content_part.added", "part": part | {"refusal": ""}} | place,
        {"type": "response.refusal.delta", "delta": "no"} | place,
        {"type": "response.refusal.done", "refusal": "no"} | place,
        {"type": "response.content_part.done", "part": part} | place,
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": declined},
    ]
    numbered = [step | {"sequence_number": at} for at, step in enumerate(steps)]
    _case(wire, "declined_stream", answer(reason="completed"), events(*numbered, named=True), "a refusal", "OR16")
    _case(wire, "declined_cut", "no-terminal", events(*numbered[:-1], named=True), "a refusal, cut", "OR16")


def _candidates():
    def candidate(index, text, reason=None):
        made = {"index": index, "content": {"parts": [{"text": text}]}}
        return made | ({"finishReason": reason} if reason else {})

    def response(*candidates):
        return {"candidates": list(candidates)}

    both = response(candidate(0, "a", "STOP"), candidate(1, "b", "STOP"))
    said = answer("ab", reason="STOP")
    first, second = response(candidate(0, "a", "STOP")), response(candidate(1, "b", "STOP"))
    usage = {"usageMetadata": {"promptTokenCount": 1}}
    for wire, framed in (("gemini", events), ("gemini-array", lambda *made: dump(list(made)))):
        case_ = f"{wire.replace('-', '_')}_two"
        _case(wire, f"{case_}_document", said, dump(both), "two candidates", "G13")
        half = response(candidate(0, "a", "STOP"), candidate(1, "b"))
        _case(wire, f"{case_}_document_open", "bad-stop", dump(half), "the second has not stopped", "G13")
        _case(wire, case_, said, framed(first, second, usage), "one after the other", "G13", choices=2)
        _case(wire, f"{case_}_cut", "no-terminal", framed(first), "one of two", "G13", choices=2)
        _case(wire, f"{case_}_unasked", "wrong-count", framed(both), "two where one was asked for", "G13")
        true = framed(first, response(candidate(True, "b", "STOP")))
        _case(wire, f"{case_}_true", "wrong-count", true, "true is no number", "G13", choices=2)
        third = framed(first, second, response(candidate(2, "c")) | usage)
        _case(wire, f"{case_}_third", "bytes-after-end", third, "a third after both stopped", "G6", choices=2)
        begun = response(candidate(0, "a", "STOP"), candidate(1, "b"))
        _case(wire, f"{case_}_open", "no-terminal", framed(begun), "the second has not stopped", "G13", choices=2)
        again = framed(first, response(candidate(0, "c")), second)
        _case(wire, f"{case_}_more", "bytes-after-end", again, "more of one that stopped", "G13", choices=2)
        capped = framed(first, response(candidate(1, "b", "MAX_TOKENS")))
        _case(wire, f"{case_}_capped", "bad-stop", capped, "the second is capped", "G13", choices=2)


def _loaded():
    for reason in ("load", "unload"):
        done = {"model": "m", "response": "", "done": True, "done_reason": reason}
        _case("ollama", reason, answer(reason=reason), dump(done), "a model is loaded or unloaded", "OL10")
        _case("ollama", f"{reason}_line", answer(reason=reason), dump(done) + "\n", "the same in a stream", "OL10")
        said = [{"response": "a", "done": False}, done]
        cut = "".join(dump(line) + "\n" for line in said)
        _case("ollama", f"{reason}_after", "bad-stop", cut, "after some of an answer", "OL10")
        _case("ollama", f"{reason}_with", "bad-stop", dump(done | {"response": "a"}), "with an answer", "OL10")
        call = {"message": {"tool_calls": [{"function": {"name": "f", "arguments": {}}}]}}
        raw = dump({"model": "m", "done": True, "done_reason": reason} | call)
        _case("ollama", f"{reason}_with_call", "bad-stop", raw, "with a call", "OL10")
    capped = {"response": "", "done": True, "done_reason": "length"}
    _case("ollama", "length", "bad-stop", dump(capped), "a cap is no end", "OL10")
