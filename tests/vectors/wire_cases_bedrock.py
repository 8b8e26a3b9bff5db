"""The vectors of AWS event streams and of Bedrock: ES and B rules."""

import struct
import zlib

from tests.vectors.wire_cases import answer, case, dump


def header(name, value, kind=7):
    """A header; of another kind than a string, `value` is its bytes."""
    spelled = struct.pack(">H", len(value.encode())) + value.encode() if kind == 7 else value
    return bytes([len(name.encode())]) + name.encode() + bytes([kind]) + spelled


def frame(headers, payload=b"", *, total=None, size=None, first=None, last=None):
    """A frame; lengths and checksums are right unless given."""
    lengths = struct.pack(
        ">II", 16 + len(headers) + len(payload) if total is None else total, len(headers) if size is None else size
    )
    made = lengths + struct.pack(">I", zlib.crc32(lengths) if first is None else first) + headers + payload
    return made + struct.pack(">I", zlib.crc32(made) if last is None else last)


def prelude(total, headers):
    lengths = struct.pack(">II", total, headers)
    return lengths + struct.pack(">I", zlib.crc32(lengths))


def named(name, kind="event", key=":event-type"):
    return header(key, name) + header(":content-type", "application/json") + header(":message-type", kind)


def message(name, document):
    return frame(named(name), dump(document).encode())


def block(kind, index, **more):
    return message(kind, {"contentBlockIndex": index} | more)


def said(index, text):
    return block("contentBlockDelta", index, delta={"text": text})


def used(index, piece):
    return block("contentBlockDelta", index, delta={"toolUse": {"input": piece}})


def tool(index, name="f", **more):
    return block("contentBlockStart", index, start={"toolUse": {"toolUseId": "t1", "name": name} | more})


def over(index):
    return block("contentBlockStop", index)


def ended(reason="end_turn"):
    return message("messageStop", {"stopReason": reason})


START = message("messageStart", {"role": "assistant"})
COUNT = message("metadata", {"usage": {"inputTokens": 9, "outputTokens": 7, "totalTokens": 16}, "metrics": {}})
HELLO = START + said(0, "hel") + said(0, "lo") + over(0)
HEARD = answer("hello", reason="end_turn")
RAN = answer(calls=[("f", "t1", '{"a":1}')], reason="tool_use")


def eventstream():
    def bad(name, signal, raw, comment, rule):
        case(f"bedrock/{name}", signal, raw, comment, rule)

    case("bedrock/frames", HEARD, HELLO + ended() + COUNT, "a text in six frames", "ES1")
    bad("prelude_crc", "envelope-digest", HELLO + frame(named("x"), b"{}", first=1), "the first CRC is wrong", "ES2")
    bad("prelude_flip", "envelope-digest", b"\x80" + HELLO[1:], "one bit of a length is flipped", "ES2")
    bad("frame_of_15", "bad-header", prelude(15, 0) + b"\0" * 4, "a frame of 15 bytes cannot hold its checksums", "ES3")
    bad("headers_too_long", "bad-header", frame(named("x"), b"", size=4000), "more headers than the frame holds", "ES3")
    bad("headers_over", "over-cap", prelude(200_000, 131_073), "131,073 bytes of headers", "ES3")
    bad("payload_over", "over-cap", prelude(25_165_841, 0), "a payload one byte too long", "ES3")
    bad("largest", "body-cut", prelude(25_165_840 + 131_072, 131_072), "the longest frame there may be, cut", "ES3")
    bad("frame_crc", "envelope-digest", HELLO + frame(named("x"), b"{}", last=1), "the CRC of a frame is wrong", "ES4")
    bad("payload_flip", "envelope-digest", HELLO[:-6] + b"~" + HELLO[-5:], "one byte of a payload is another", "ES4")
    sizes = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
    every = b"".join(header(f"h{kind}", b"\0" * size, kind) for kind, size in sizes.items())
    later = frame(every + header("h6", b"\0\x02\xff\xff", 6) + named("later"))
    case("bedrock/header_types", HEARD, HELLO + later + ended() + COUNT, "a header of every type", "ES5")
    for name, headers, comment in (
        ("header_type_10", header("x", b"", 10) + named("x"), "a header of type 10"),
        ("header_twice", header("a", "1") + header("a", "1") + named("x"), "one name twice"),
        ("header_nameless", header("", "1") + named("x"), "a header without a name"),
        ("header_cut", named("x")[:-1], "the last header is a byte short"),
        ("header_beyond", named("x") + header("a", "bc")[:-1], "a header that ends beyond the headers"),
        ("header_number_cut", named("x") + header("a", b"\0\0\0", 4), "a number that ends beyond the headers"),
        ("header_not_utf8", b"\x01\xff\x07\0\x01x" + named("x"), "a name that is not UTF-8"),
        ("header_value_not_utf8", b"\x01a\x07\0\x01\xff" + named("x"), "a string that is not UTF-8"),
    ):
        bad(name, "bad-header", START + frame(headers), comment, "ES5")
    for name, headers, comment in (
        ("no_message_type", header(":event-type", "x"), "no message type"),
        ("message_type_other", named("x", "news"), "an unknown message type"),
        ("no_event_type", header(":message-type", "event"), "an event without a name"),
        ("message_type_bytes", header(":message-type", b"\0\x05event", 6), "a message type as bytes"),
    ):
        bad(name, "bad-header", START + frame(headers), comment, "ES6")
    nameless = frame(header(":message-type", "exception"))
    bad("nameless_exception", "bad-stop", START + nameless, "an exception without a name", "ES6")
    whole = HELLO + ended() + COUNT
    bad("cut_in_prelude", "body-cut", whole[: len(HELLO) + 7], "cut inside a prelude", "ES7")
    bad("cut_in_frame", "body-cut", whole[:-1], "cut in the last checksum", "ES7")


def bedrock():
    def good(name, expect, raw, comment, rule, **more):
        case(f"bedrock/{name}", expect, raw, comment, rule, **more)

    def bad(name, signal, raw, comment, rule, **more):
        case(f"bedrock/{name}", signal, raw, comment, rule, **more)

    tail = ended() + COUNT
    exception = frame(named("throttlingException", "exception", ":exception-type"), b'{"message":"slow down"}')
    error = frame(named("InternalError", "error", ":error-code") + header(":error-message", "oh"), b"")
    bad("exception", "bad-stop", HELLO + exception, "an exception in the stream", "B1")
    bad("exception_first", "bad-stop", exception, "nothing but an exception", "B1")
    bad("exception_before_metadata", "bad-stop", HELLO + ended() + exception, "an exception after messageStop", "B1")
    bad("error", "bad-stop", HELLO + error, "an error frame", "B1")
    good("unknown_event", HEARD, HELLO + message("later", {"a": 1}) + tail, "an event of an unknown type", "B1")
    bad("no_start", "no-terminal", HELLO[len(START) :] + tail, "messageStart is missing", "B2")
    bad("start_twice", "contradiction", START + HELLO + tail, "messageStart twice", "B2")
    bad("start_as_user", "contradiction", message("messageStart", {"role": "user"}), "the role is user", "B2")
    ran = START + tool(0) + used(0, '{"a"') + used(0, ":1}") + over(0) + ended("tool_use") + COUNT
    good("tool_use", RAN, ran, "a tool use in two pieces", "B3")
    bad("tool_nameless", "missing-key", START + tool(0, name=""), "a tool use without a name", "B3")
    bad("started_twice", "contradiction", START + tool(0) + tool(0), "one block is announced twice", "B3")
    served = START + tool(0, type="server_tool_use") + used(0, "{}") + over(0) + said(1, "hello") + over(1) + tail
    good("server_tool", HEARD, served, "a tool that the provider runs is no call", "B3")
    empty = START + block("contentBlockStart", 0, start={}) + said(0, "hello") + over(0) + tail
    good("empty_start", HEARD, empty, "a gateway announces text with an empty start", "B3")
    bad("after_block", "contradiction", HELLO + said(0, "!"), "a delta after its block stopped", "B4")
    bad("stopped_twice", "contradiction", HELLO + over(0), "a block stops twice", "B4")
    good("silent_block", HEARD, HELLO + over(1) + tail, "a block that stops without a delta", "B4")
    bad("index_text", "wrong-type", START + said("0", "a"), "the index is a string", "B4")
    bad("index_negative", "wrong-type", START + said(-1, "a"), "the index is below 0", "B4")
    bad("text_in_tool", "contradiction", START + tool(0) + said(0, "a"), "text for a tool use", "B5")
    bad("tool_in_text", "contradiction", START + said(0, "a") + used(0, "{}"), "tool input for a text", "B5")
    bad("tool_unannounced", "contradiction", START + used(0, "{}"), "input for a block not announced", "B5")
    reasoned = block("contentBlockDelta", 0, delta={"reasoningContent": {"text": "hm"}}) + over(0)
    good("reasoning", HEARD, START + reasoned + said(1, "hello") + over(1) + tail, "reasoning is no answer", "B5")
    bad("block_open", "no-terminal", START + said(0, "hello") + tail, "the text block never stopped", "B6")
    bad("after_stop", "bytes-after-end", HELLO + ended() + said(1, "a") + COUNT, "a delta after messageStop", "B6")
    bad("stop_twice", "bytes-after-end", HELLO + ended() + ended() + COUNT, "messageStop twice", "B6")
    for reason in (
        "max_tokens",
        "model_context_window_exceeded",
        "guardrail_intervened",
        "content_filtered",
        "malformed_model_output",
        "malformed_tool_use",
        "stop_sequence",
        "tomorrow",
    ):
        bad(f"reason_{reason}", "bad-stop", HELLO + ended(reason) + COUNT, f"the stop reason is {reason}", "B7")
    bad("no_reason", "bad-stop", HELLO + message("messageStop", {}) + COUNT, "no stop reason", "B7")
    stopped = HELLO + ended("stop_sequence") + COUNT
    good("stop_sequence", answer("hello", reason="stop_sequence"), stopped, "asked for", "B7", stop_sequences="yes")
    bad("metadata_twice", "contradiction", HELLO + COUNT + COUNT + ended(), "metadata twice", "B8")
    bad("at_the_cap", "token-cap", HELLO + tail, "seven tokens, and seven were the cap", "B8", max_output_tokens=7)
    bad("no_metadata", "no-terminal", HELLO + ended(), "cut between messageStop and metadata", "B9")
    good("metadata_first", HEARD, HELLO + COUNT + ended(), "metadata before messageStop", "B9")
    bad("after_metadata", "bytes-after-end", HELLO + tail + COUNT, "another frame after the end", "B9")
    bad("part_of_a_frame_after", "bytes-after-end", HELLO + tail + COUNT[:9], "part of a frame after the end", "B9")
    bad("tool_use_without", "bad-stop", HELLO + ended("tool_use") + COUNT, "tool_use without a tool use", "B10")
    mixed = START + tool(1) + said(0, "he") + used(1, '{"a":1}') + said(0, "llo") + over(1) + over(0)
    both = answer("hello", [("f", "t1", '{"a":1}')], "tool_use")
    good("interleaved", both, mixed + ended("tool_use") + COUNT, "two blocks interleaved", "B11")
    good("checksums", HEARD, HELLO + tail, "the checksums are evidence", "B12", evidence="frame-checksums")
    content = [{"text": "hel"}, {"citationsContent": {"content": [{"text": "lo"}]}}]
    content.append({"toolUse": {"toolUseId": "t1", "name": "f", "input": {"a": 1}}})
    document = {"output": {"message": {"role": "assistant", "content": content}}, "stopReason": "tool_use"}
    document["usage"] = {"inputTokens": 9, "outputTokens": 7, "totalTokens": 16}
    whole = answer("hello", [("f", "t1", '{"a":1}')], "tool_use")
    good("document", whole, dump(document), "Converse", "B13", ending="length-met")
    bad("document_capped", "bad-stop", dump(document | {"stopReason": "max_tokens"}), "Converse, at the cap", "B13")
    bad("document_error", "bad-stop", '{"message":"not authorized"}', "an error of the service", "B13")
    without = {"wire": "bedrock+no-metadata", "rule": "B14"}
    good("without_metadata", HEARD, HELLO + ended(), "no metadata", evidence="gave-up:metadata", **without)
    good("without_need_of_it", HEARD, HELLO + tail, "metadata all the same", evidence="usage", **without)
    bad("without_metadata_unstopped", "no-terminal", HELLO, "cut before messageStop", **without)
    bad("without_metadata_cut", "body-cut", HELLO + ended() + COUNT[:30], "metadata cut", **without)
