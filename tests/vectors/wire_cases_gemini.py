"""The vectors of Gemini and of JSON arrays: G and JA rules."""

from tests.vectors.wire_cases import answer, case, dump, events


def response(*parts, reason=None, usage=None, **more):
    candidate = {"content": {"parts": list(parts), "role": "model"}}
    if reason is not None:
        candidate["finishReason"] = reason
    made = {"candidates": [candidate], "responseId": "r1"} | more
    return made | ({"usageMetadata": usage} if usage else {})


REASONS = (
    *("MAX_TOKENS", "SAFETY", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "CONTINUATION"),
    *("TOO_MANY_TOOL_CALLS", "ESCALATION", "TOMORROW"),
)
USAGE = {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 3, "totalTokenCount": 16}
HEL, LO = response({"text": "hel"}), response({"text": "lo"}, reason="STOP", usage=USAGE)
CALL = {"functionCall": {"name": "f", "args": {"a": 1}}}
GEMINI = answer("hello", reason="STOP")


def gemini():
    def good(name, expect, raw, comment, rule, **more):
        case(f"gemini/{name}", expect, raw, comment, rule, **more)

    def bad(name, signal, raw, comment, rule, **more):
        case(f"gemini/{name}", signal, raw, comment, rule, **more)

    bare = {"usageMetadata": USAGE, "responseId": "r1"}
    good("two_events", GEMINI, events(HEL, LO), "a text in two events", "G1")
    good("without_candidates", GEMINI, events(bare, {"candidates": []}, HEL, LO), "events without a candidate", "G1")
    blocked = {"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": USAGE}
    bad("prompt_blocked", "bad-stop", events(blocked), "the prompt was blocked", "G2")
    rated: dict[str, object] = {"promptFeedback": {"safetyRatings": []}}
    good("prompt_rated", GEMINI, events(rated, HEL, LO), "feedback that blocks nothing", "G2")
    bad("two_answers", "contradiction", events(HEL, LO | {"responseId": "r2"}), "events of two answers", "G3")
    second = {"candidates": [LO["candidates"][0] | {"index": 1}]}
    bad("candidate_one", "wrong-count", events(HEL, second), "candidate number 1", "G4")
    bad("two_candidates", "wrong-count", events({"candidates": LO["candidates"] * 2}), "two candidates", "G4")
    for reason in REASONS:
        stopped = events(HEL, response(reason=reason))
        bad(f"reason_{reason.lower()}", "bad-stop", stopped, f"the finish reason is {reason}", "G5")
    bad("reason_number", "bad-stop", events(HEL, response(reason=1)), "the finish reason is a number", "G5")
    bad("stop_then_text", "bytes-after-end", events(LO, HEL), "text after STOP", "G6")
    bad("stop_every_time", "bytes-after-end", events(response({"text": "hel"}, reason="STOP"), LO), "STOP twice", "G6")
    good("count_last", GEMINI, events(HEL, response({"text": "lo"}, reason="STOP"), bare), "a count after STOP", "G6")
    bad("after_stop", "bytes-after-end", events(HEL, LO, {"later": 1}), "something else after STOP", "G6")
    thought = response({"text": "hm", "thought": True}, {"executableCode": {"code": "1"}})
    good("thoughts", GEMINI, events(thought, HEL, LO), "a thought and code are no part of the answer", "G7")
    bad("thoughts_only", "empty", events(thought, response(reason="STOP")), "STOP after thoughts alone", "G7")
    done = response(reason="STOP", usage=USAGE)
    called = answer(calls=[("f", None, '{"a":1}')], reason="STOP")
    good("call", called, events(response(CALL), done), "a function call", "G8")
    good("call_signed", called, events(response(CALL | {"thoughtSignature": "c2ln"}), done), "with a signature", "G8")
    bare_call = response({"functionCall": {"name": "f", "id": "i"}})
    good("call_bare", answer(calls=[("f", "i", "{}")], reason="STOP"), events(bare_call, done), "no args", "G8")
    bad("call_nameless", "missing-key", events(response({"functionCall": {"args": {}}})), "no name", "G8")
    text = response({"functionCall": {"name": "f", "args": '{"a":1}'}})
    bad("call_args_text", "wrong-type", events(text), "arguments as a text", "G8")
    partial = {"functionCall": {"name": "f", "partialArgs": [{"jsonPath": "$.a", "stringValue": "x"}]}}
    bad("call_partial", "wrong-value", events(response(partial)), "arguments in pieces", "G9")
    going = response({"functionCall": {"name": "f", "willContinue": True}})
    bad("call_continues", "wrong-value", events(going, done), "a call that will continue", "G9")
    bad("at_the_cap", "token-cap", events(HEL, LO), "thoughts count too: 4 + 3 of 7", "G10", max_output_tokens=7)
    good("below_the_cap", GEMINI, events(HEL, LO), "7 tokens of 8", "G10", max_output_tokens=8)
    bad("no_stop", "no-terminal", events(HEL), "cut before STOP", "G11")
    bad("in_event", "no-terminal", events(HEL, LO)[:-1], "cut in the last line end", "G11")
    good("document", GEMINI, dump(response({"text": "hello"}, reason="STOP", usage=USAGE)), "generateContent", "G12")
    bad("document_unfinished", "bad-stop", dump(HEL), "a document without a finish reason", "G12")
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    bad("error_event", "bad-stop", events(HEL, error), "an error in the stream", "A8")
    bad("error_document", "bad-stop", dump(error), "an error in place of an answer", "A8")


def gemini_array():
    def case_(name, expect, raw, comment, rule, **more):
        case(f"gemini-array/{name}", expect, raw, comment, rule, **more)

    both = f"{dump(HEL)},{dump(LO)}"
    case_("whole", GEMINI, f"[{both}]", "two elements", "G11", evidence="array-closed")
    case_("stop_unclosed", "no-terminal", f"[{both}", "STOP has come, the bracket has not", "G11")
    case_("closed_early", "no-terminal", f"[{dump(HEL)}]", "closed before any STOP", "G11")
    case_("empty_list", "no-terminal", "[]", "nothing in it", "G11")
    case_("document", GEMINI, dump(response({"text": "hello"}, reason="STOP", usage=USAGE)), "one document", "G12")
    case_("error", "bad-stop", '[{"error":{"code":429,"message":"quota"}}]', "an error as the only element", "A8")
    case_("white_space", GEMINI, f" \r\n[\n{dump(HEL)}\n,\r\n{dump(LO)}\n]\n", "white space wherever it may be", "JA1")
    case_("no_bracket", "not-json", f"x{both}]", "it opens with something else", "JA1")
    case_("byte_order_mark", "not-json", f"\ufeff[{both}]", "a byte order mark", "JA1")
    case_("no_comma", "not-json", f"[{dump(HEL)}{dump(LO)}]", "no comma between two", "JA2")
    case_("two_commas", "not-json", f"[{dump(HEL)},,{dump(LO)}]", "two commas", "JA2")
    case_("comma_last", "not-json", f"[{both},]", "a comma before the bracket", "JA2")
    case_("comma_first", "not-json", f"[,{both}]", "a comma after the bracket", "JA2")
    case_("element_list", "not-json", f"[[{dump(HEL)}],{dump(LO)}]", "an element that is a list", "JA2")
    case_("element_null", "not-json", f"[null,{both}]", "an element that is null", "JA2")
    brackets = 'a"]}[{\\'
    tricky = response({"text": brackets}, reason="STOP", usage=USAGE)
    case_("brackets_in_text", answer(brackets, reason="STOP"), f"[{dump(tricky)}]", "brackets in a string", "JA3")
    case_("mismatched", "not-json", f'[{{"a":[1}}],{both}]', "brackets that do not match", "JA3")
    case_("duplicate_key", "duplicate-key", f'[{{"a":1,"a":1}},{both}]', "an element that is not strict", "JA3")
    case_("in_element", "no-terminal", f"[{both}"[:-3], "cut inside an element", "JA4")
    case_("in_comma", "no-terminal", f"[{dump(HEL)},", "cut after a comma", "JA4")
    case_("after", "bytes-after-end", f"[{both}]x", "something after the array", "JA5")
    case_("two_arrays", "bytes-after-end", f"[{both}]\n[{both}]", "a second array", "JA5")
