"""Writes every vector: `python tests/vectors/build.py [FOLDER]`. Shares no code with endmark, so no bug either."""

import hashlib
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
CASES: dict[str, bytes] = {}


def case(path, expect, raw, comment, rule, **more):
    """Remember one vector; `more` are further header lines, with `as_` for `as`."""
    if isinstance(raw, str):
        raw = raw.encode()
    lines = {"expect": expect, "comment": comment, "rule": rule, "received": len(raw)}
    lines |= {key.rstrip("_"): value for key, value in more.items()}
    header = "".join(f"{key}: {value}\n" for key, value in lines.items() if value is not None)
    assert path not in CASES, path
    CASES[path] = header.encode() + b"\n" + raw


def sha(data):
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def digest(statements):
    return sha("\n".join(statements))


def dump(value):
    return json.dumps(value, ensure_ascii=False)


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def envelope(text, *, length=None, hexes=None, sentinel=b"\nEND\n"):
    """`text` in an envelope; length and digest are right unless given."""
    body = (text.encode() if isinstance(text, str) else text) + sentinel
    return b"MC1 %s %s\n" % (str(length or len(body)).encode(), (hexes or sha(body)).encode()) + body


def expected(raw):
    """What the header of `raw` lets one expect."""
    line = raw.split(b"\n", 1)[0]
    return len(line) + 1 + int(line.split(b" ")[1])


THREE = [
    "CREATE TABLE IF NOT EXISTS schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)",
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
    "CREATE INDEX customers_name ON customers (name)",
]
TWO = ["CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1)"]
DOWN = ["DROP TABLE t", "DELETE FROM t"]
SEALED_ORDER = "tool job_id after retry_of base stmt_count sha256 statements down down_sha256 trailer".split()
ABSENT = object()


def plan(statements=TWO, /, **changes):
    """A whole plan with some keys changed, added or, where ABSENT, left out. The digests are right unless given."""
    made = {"tool": "apply_schema", "job_id": "job_1", "stmt_count": len(statements), "sha256": ABSENT}
    made |= {"statements": statements, "trailer": "END_APPLY"} | changes
    if made["sha256"] is ABSENT and "sha256" not in changes:
        made["sha256"] = digest(statements)
    if "down" in made and "down_sha256" not in changes:
        made["down_sha256"] = digest(made["down"])
    return {key: value for key, value in made.items() if value is not ABSENT}


def witness(*order, **changes):
    """A whole witness form, its keys in `order`, with some changed, added or left out; `trailer` stays last of these."""
    made = {"job_id": "job_1", "stmt_count": 2, "statements": TWO, "trailer": "END_APPLY"} | changes
    keys = order or (*(key for key in made if key != "trailer"), "trailer")
    return dump({key: made[key] for key in keys if made[key] is not ABSENT})


def verdict(**changes):
    made = {"verdict": "pass", "diff_sha": "d" * 64, "policy_version": "2026-11", "findings": []} | changes
    return {key: value for key, value in made.items() if value is not ABSENT}


# --- json.md


def strict_json():
    def good(name, raw, comment, rule):
        case(f"json/{name}", "object", raw, comment, rule, as_="json")

    def bad(name, signal, raw, comment, rule):
        case(f"json/{name}", signal, raw, comment, rule, as_="json")

    deepest = '{"a":' + "[" * 63 + "]" * 63 + "}"
    good("depth_64", deepest, "64 brackets deep", "J1")
    good("depth_siblings", '{"a":[' + "[]," * 99 + "[]]}", "a hundred lists side by side are not deep", "J1")
    good("depth_in_a_string", '{"a":"' + "[{" * 99 + '"}', "brackets in a string are no depth", "J1")
    good("depth_behind_escaped_quote", '{"a":"\\"' + "[" * 99 + '"}', "an escaped quote does not end a string", "J1")
    bad("depth_65", "too-deep", '{"a":' + "[" * 64 + "]" * 64 + "}", "65 brackets deep", "J1")
    bad("depth_65_objects", "too-deep", '{"a":' * 65 + "1" + "}" * 65, "65 objects deep", "J1")
    bad("depth_65_mixed", "too-deep", '{"a":[' * 33 + "]}" * 33, "66 deep, lists and objects in turn", "J1")
    bad("depth_65_cut", "too-deep", '{"a":' + "[" * 64, "65 deep and then cut: depth is judged first", "J1")
    bad("depth_65_malformed", "too-deep", "[" * 65 + "x", "65 deep and malformed: depth is judged first", "J1")
    bad("depth_65_not_utf8", "too-deep", b"\xff" + b"[" * 65, "not UTF-8, then 65 deep: depth is judged first", "J1")
    bad("depth_65_array", "too-deep", "[" * 65 + "]" * 65, "no object, and 65 deep", "J1")
    bad("depth_65_second_document", "too-deep", "{} " + "[" * 65, "the second document is too deep", "J1")
    bad(
        "depth_65_under_duplicate",
        "too-deep",
        '{"a":' + "[" * 64 + "]" * 64 + ',"a":1}',
        "the first of two values of one key is too deep",
        "J1",
    )
    bad("depth_backslash_outside", "too-deep", '\\"' + "[" * 65, "a backslash takes the next byte with it anywhere", "J1")
    bad("depth_open_string", "not-json", '{"a":"' + "[" * 99, "brackets in a string that never ends", "J1")
    bad("depth_closed_before", "not-json", "]" + "[" * 65, "a closing bracket too many makes room for one more", "J1")

    bad("two_objects", "two-documents", "{}{}", "two objects", "J2")
    bad("two_lines", "two-documents", '{"a":1}\n{"b":2}\n', "two lines of NDJSON", "J2")
    bad("then_comma", "two-documents", '{"a":1},', "an object and a comma", "J2")
    bad("then_brace", "two-documents", '{"a":1}}', "an object and a brace too many", "J2")
    bad("then_nul", "two-documents", '{"a":1}\0', "an object and a NUL", "J2")
    bad("then_not_utf8", "two-documents", b'{"a":1}\xff', "an object and a byte that is not UTF-8", "J2")
    bad("then_no_break_space", "two-documents", '{"a":1}\u00a0', "a no-break space is no white space", "J2")
    bad("then_bom", "two-documents", '{"a":1}\ufeff', "a byte order mark is no white space", "J2")
    bad("then_fence", "two-documents", '{"a":1}\n```\n', "an object and a code fence", "J2")
    bad("then_words_after_duplicate", "two-documents", '{"a":1,"a":2} x', "judged before the duplicate key", "J2")
    bad("then_words_after_nan", "two-documents", '{"a":NaN} x', "judged before the NaN", "J2")
    bad("array_then_more", "not-json", "[1] [2]", "two lists: the first is no object", "J2")
    bad("number_then_more", "not-json", "12 monkeys", "a number and words", "J2")

    good("utf8", '{"é":"€ 😀 \u2028 \x7f \uffff"}', "characters of one to four bytes", "J3")
    bad("lone_continuation", "not-json", b'{"a":"\x80"}', "a continuation byte without a start", "J3")
    bad("overlong", "not-json", b'{"a":"\xc0\xaf"}', "an overlong form", "J3")
    bad("encoded_surrogate", "not-json", b'{"a":"\xed\xa0\x80"}', "a surrogate, encoded", "J3")
    bad("above_unicode", "not-json", b'{"a":"\xf4\x90\x80\x80"}', "above U+10FFFF", "J3")
    bad("latin_1", "not-json", '{"a":"é"}'.encode("latin-1"), "Latin-1", "J3")
    bad("cut_character", "not-json", '{"a":"€'.encode()[:-1], "ended inside a character", "J3")
    bad("not_utf8_then_more", "not-json", b'{"a":"\xff"} x', "not UTF-8 inside the first object", "J3")
    bad("not_utf8_then_brace", "not-json", b'{"a":\xff"b"}}', "not UTF-8 before the object ends", "J3")

    good("empty_object", "{}", "the smallest object", "J4")
    good("white_space", " \t\r\n{ } \t\r\n", "all four kinds of white space around and inside", "J4")
    good("escapes", '{"a":"\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e9\\u0000"}', "every escape", "J4")
    good("literals", '{"a":[true,false,null,"",{},[]]}', "every kind of value", "J4")
    good("numbers", '{"a":[0,-0,10,0.5,-1.25e-3,1E5,1e+5]}', "every kind of number", "J4")
    for name, raw, comment in (
        ("white_space_only", " \n", "only white space"),
        ("cut_after_brace", "{", "ended after the first brace"),
        ("cut_in_key", '{"ke', "ended in a key"),
        ("cut_after_key", '{"key"', "ended after a key"),
        ("cut_after_colon", '{"key":', "ended after a colon"),
        ("cut_in_string", '{"key":"val', "ended in a string"),
        ("cut_in_escape", '{"key":"val\\', "ended in an escape"),
        ("cut_in_unicode_escape", '{"key":"val\\u00', "ended in a \\u escape"),
        ("cut_in_literal", '{"key":tru', "ended in a literal"),
        ("cut_in_number", '{"key":-', "ended in a number"),
        ("cut_after_value", '{"key":"value"', "ended before the last brace"),
        ("cut_after_comma", '{"key":"value",', "ended after a comma"),
        ("cut_in_list", '{"key":["a",', "ended in a list"),
        ("cut_after_inner", '{"key":{"a":1}', "ended after an inner brace"),
        ("raw_newline", '{"a":"b\nc"}', "a raw LF in a string"),
        ("raw_tab", '{"a":"b\tc"}', "a raw tab in a string"),
        ("raw_nul", '{"a":"b\0c"}', "a raw NUL in a string"),
        ("trailing_comma", '{"a":1,}', "a comma before the brace"),
        ("trailing_comma_list", '{"a":[1,]}', "a comma before the bracket"),
        ("missing_comma", '{"a":1 "b":2}', "no comma"),
        ("missing_colon", '{"a" 1}', "no colon"),
        ("single_quotes", "{'a':1}", "single quotes"),
        ("bare_key", "{a:1}", "a key without quotes"),
        ("number_key", "{1:1}", "a number as a key"),
        ("comment", '{"a":1/* one */}', "a comment"),
        ("bad_escape", '{"a":"\\x41"}', "an escape JSON does not have"),
        ("bad_unicode_escape", '{"a":"\\u00g0"}', "a \\u escape that is not hex"),
        ("leading_zero", '{"a":01}', "a number with a leading zero"),
        ("plus_sign", '{"a":+1}', "a number with a plus sign"),
        ("no_integer_part", '{"a":.5}', "a number that begins with a point"),
        ("no_fraction", '{"a":5.}', "a number that ends with a point"),
        ("no_exponent", '{"a":5e}', "an exponent without digits"),
        ("hex_number", '{"a":0x10}', "a hexadecimal number"),
        ("underscore", '{"a":1_000}', "a number with an underscore"),
        ("arabic_digit", '{"a":1\u0662}', "a digit that is not ASCII"),
        ("python_true", '{"a":True}', "True is not true"),
        ("lower_nan", '{"a":nan}', "nan is no word"),
        ("minus_nan", '{"a":-NaN}', "-NaN is no word"),
        ("form_feed", '{"a":\f1}', "a form feed is no white space"),
        ("no_break_space", '{"a":\u00a01}', "a no-break space is no white space"),
        ("mismatched", '{"a":[1}', "a list closed by a brace"),
        ("words", "Sure! Here is the plan:", "no JSON at all"),
        ("fenced", '```json\n{"a":1}\n```', "JSON in a code fence"),
        ("bom", '\ufeff{"a":1}', "a byte order mark"),
        ("utf16_bom", '{"a":1}'.encode("utf-16"), "UTF-16 with a byte order mark"),
        ("utf16_le", '{"a":1}'.encode("utf-16-le"), "UTF-16, little end first"),
        ("utf16_be", '{"a":1}'.encode("utf-16-be"), "UTF-16, big end first"),
        ("utf32", '{"a":1}'.encode("utf-32-le"), "UTF-32"),
    ):
        bad(name, "not-json", raw, comment, "J4")

    for name, raw in (("list", "[]"), ("string", '"{}"'), ("number", "1"), ("true", "true"), ("null", "null")):
        bad(f"top_{name}", "not-an-object", raw, f"a {name} at the top", "J5")
    bad("top_nan", "not-an-object", "NaN", "judged before the NaN", "J5")
    bad("top_list_of_objects", "not-an-object", '[{"a":1,"a":2}]', "judged before the duplicate key", "J5")

    good("keys_of_two_objects", '{"a":{"a":[{"a":1},{"a":2}]}}', "one key in several objects", "J6")
    good("keys_by_case", '{"a":1,"A":2}', "keys that differ in case", "J6")
    good("keys_by_normalization", '{"\u00e9":1,"e\u0301":2}', "keys that look alike and are not", "J6")
    for name, raw, comment in (
        ("duplicate", '{"a":1,"a":1}', "a key twice, with equal values"),
        ("duplicate_nested", '{"a":{"b":1,"c":2,"b":3}}', "a key twice in an inner object"),
        ("duplicate_in_list", '{"a":[{"b":1},{"b":1,"b":2}]}', "a key twice in an object in a list"),
        ("duplicate_escaped", '{"a":1,"\\u0061":2}', "a key twice, once escaped"),
        ("duplicate_empty", '{"":1,"":2}', "the empty key twice"),
        ("duplicate_pair", '{"😀":1,"\\ud83d\\ude00":2}', "a key twice, once as a surrogate pair"),
        ("duplicate_and_nan", '{"b":NaN,"a":1,"a":2}', "judged before the NaN"),
    ):
        bad(name, "duplicate-key", raw, comment, "J6")

    good("large_double", '{"a":[1.7976931348623157e308,-1e308,1e-999]}', "doubles that are finite", "J7")
    for name, number in (
        ("nan", "NaN"),
        ("infinity", "Infinity"),
        ("minus_infinity", "-Infinity"),
        ("overflow", "1e999"),
        ("minus_overflow", "-1e999"),
        ("overflow_just", "1.7976931348623159e308"),
        ("overflow_fraction", "1" * 400 + ".0"),
    ):
        bad(name, "not-finite", f'{{"a":[{number}]}}', f"{number[:24]} is not finite", "J7")
    bad("nan_and_integer", "not-finite", f'{{"b":{2**63},"a":NaN}}', "judged before the integer", "J7")

    good("integers", f'{{"a":[{2**63 - 1},{-(2**63)}]}}', "the largest and the smallest integer", "J8")
    for name, number in (
        ("above_64_bits", str(2**63)),
        ("below_64_bits", str(-(2**63) - 1)),
        ("unsigned_64_bits", str(2**64 - 1)),
        ("long_integer", "1" * 4400),
    ):
        bad(name, "integer-size", f'{{"a":{number}}}', f"an integer of {len(number)} characters", "J8")
    bad("integer_and_surrogate", "integer-size", f'{{"a":"\\ud800","b":{2**63}}}', "judged before the surrogate", "J8")

    good("surrogate_pair", '{"\\ud83d\\ude00":"\\uD83D\\uDE00"}', "pairs are characters, in either case", "J9")
    good("escaped_backslash", '{"a":"\\\\ud800"}', "an escaped backslash and letters", "J9")
    for name, raw, comment in (
        ("high_surrogate", '{"a":"\\ud800"}', "a high half alone"),
        ("low_surrogate", '{"a":"\\udfff"}', "a low half alone"),
        ("reversed_pair", '{"a":"\\ude00\\ud83d"}', "a pair in the wrong order"),
        ("two_high", '{"a":"\\ud83d\\ud83d\\ude00"}', "a high half and then a pair"),
        ("surrogate_key", '{"\\uD800":1}', "half a pair in a key"),
        ("surrogate_nested", '{"a":[{"b":["\\udc00"]}]}', "half a pair deep inside"),
        ("surrogate_then_letter", '{"a":"\\ud83dx"}', "a high half and a letter"),
        ("pair_split", '{"a":["\\ud83d","\\ude00"]}', "a pair split over two strings"),
    ):
        bad(name, "lone-surrogate", raw, comment, "J9")


# --- mc1.md


def mc1():
    def bad(name, signal, raw, comment, rule, *, whole_header=False, **more):
        more |= {"expected": expected(raw)} if whole_header else {}
        case(f"mc1/{name}", signal, raw, comment, rule, **more)

    text = compact(plan())
    whole = envelope(text)
    header = whole[: whole.index(b"\n") + 1]
    hexes = header[-65:-1]

    def head(line):
        return line if isinstance(line, bytes) else line.encode()

    bad("empty", "empty", b"", "0 bytes", "M1")
    for name, raw, comment in (
        ("lower_case", whole.replace(b"MC1", b"mc1", 1), "mc1 is no envelope, so it is read as JSON"),
        ("space_before", b" " + whole, "a space before the header"),
        ("newline_before", b"\n" + whole, "an LF before the header"),
        ("bom_before", b"\xef\xbb\xbf" + whole, "a byte order mark before the header"),
        ("fence_before", b"```\n" + whole, "a code fence before the header"),
    ):
        bad(name, "not-json", raw, comment, "M2")
    bad("utf16", "bad-header", whole.decode().encode("utf-16-le"), "UTF-16 begins with M too", "M2")

    size = header[4:-66]
    for name, line, comment in (
        ("other_version", b"MC2 " + size + b" " + hexes, "another version"),
        ("word", b"Make the plan whole", "words that begin with M"),
        ("no_space", b"MC1" + size + b" " + hexes, "no space after MC1"),
        ("tab", b"MC1\t" + size + b" " + hexes, "a tab"),
        ("two_spaces", b"MC1  " + size + b" " + hexes, "two spaces"),
        ("two_spaces_later", b"MC1 " + size + b"  " + hexes, "two spaces before the digest"),
        ("zero", b"MC1 0 " + hexes, "length 0"),
        ("leading_zero", b"MC1 0" + size + b" " + hexes, "a leading zero"),
        ("zeros", b"MC1 " + b"0" * 200, "zeros without end"),
        ("plus", b"MC1 +" + size + b" " + hexes, "a plus sign"),
        ("minus", b"MC1 -" + size + b" " + hexes, "a minus sign"),
        ("underscore", b"MC1 2_7 " + hexes, "an underscore"),
        ("comma", b"MC1 1,234 " + hexes, "a thousands separator"),
        ("point", b"MC1 " + size + b".0 " + hexes, "a fraction"),
        ("arabic_digit", "MC1 2\u0667 ".encode() + hexes, "a digit that is not ASCII"),
        ("eleven_digits", b"MC1 12345678901 " + hexes, "eleven digits"),
        ("many_digits", b"MC1 " + b"9" * 4400 + b" " + hexes, "4,400 digits"),
        ("upper_hex", b"MC1 " + size + b" " + hexes.upper(), "upper-case hex"),
        ("short_digest", b"MC1 " + size + b" " + hexes[1:], "63 hex digits"),
        ("long_digest", b"MC1 " + size + b" " + hexes + b"0", "65 hex digits"),
        ("not_hex", b"MC1 " + size + b" g" + hexes[1:], "a digit that is not hex"),
        ("no_digest", b"MC1 " + size, "no digest"),
        ("space_at_end", b"MC1 " + size + b" " + hexes + b" ", "a space before the LF"),
        ("third_field", b"MC1 " + size + b" " + hexes + b" x", "a third field"),
        ("crlf", b"MC1 " + size + b" " + hexes + b"\r", "CR LF"),
    ):
        bad(f"header_{name}", "bad-header", line + b"\n" + whole[len(header) :], comment, "M3")
    bad("header_cr", "bad-header", header[:-1] + b"\r" + whole[len(header) :], "CR instead of LF", "M3")

    for at in (1, 2, 3, 4, 5, len(size) + 4, len(size) + 5, len(size) + 30, len(header) - 1):
        bad(f"header_cut_{at:02}", "header-cut", header[:at], f"the first {at} bytes of a header", "M4")
    bad("header_cut_ten_digits", "header-cut", b"MC1 9999999999", "ended after ten digits", "M4")

    cap = 64 * 1024 * 1024
    zeros = "0" * 64
    for name, raw, comment, more in (
        ("over_cap", head(f"MC1 {cap + 1} {zeros}\n"), "one byte over the cap, nothing of the body is there", {}),
        ("over_cap_most", head(f"MC1 9999999999 {zeros}\n{{}}"), "ten nines", {}),
        ("over_cap_small", whole, "whole, and over the cap in force", {"cap": len(whole) - len(header) - 1}),
    ):
        bad(name, "over-cap", raw, comment, "M5", whole_header=True, **more)
    bad("at_cap", "body-cut", head(f"MC1 {cap} {zeros}\n"), "as large as the cap allows", "M5", whole_header=True)
    case("mc1/at_cap_small", "plan", whole, "whole, and just as large as the cap", "M5", cap=len(whole) - len(header))

    for name, at in (("none", len(header)), ("one", len(header) + 1), ("half", len(whole) // 2), ("all_but_one", -1)):
        bad(f"body_cut_{name}", "body-cut", whole[:at], f"cut: {name} of the body", "M6", whole_header=True)
    bad("body_cut_sentinel", "body-cut", whole[:-5], "cut before the sentinel", "M6", whole_header=True)

    for name, raw, comment in (
        ("no_sentinel", envelope(text, sentinel=b""), "length and digest made right, the sentinel removed"),
        ("sentinel_no_last_lf", envelope(text, sentinel=b"\nEND"), "the sentinel without its last LF"),
        ("sentinel_no_first_lf", envelope(text, sentinel=b"END\n"), "the sentinel without its first LF"),
        ("sentinel_lower", envelope(text, sentinel=b"\nend\n"), "a sentinel in lower case"),
        ("sentinel_crlf", envelope(text, sentinel=b"\r\nEND\r\n"), "a sentinel with CR LF"),
        ("sentinel_space", envelope(text, sentinel=b"\nEND \n"), "a sentinel with a space"),
        ("sentinel_early", envelope(text, sentinel=b"\nEND\n\n"), "an LF declared after the sentinel"),
        ("length_short", envelope(text, length=len(text) + 4), "a declared length one too small"),
        ("length_4", envelope(text, length=4), "a declared length with no room for a sentinel"),
        ("length_1", envelope(b"", sentinel=b"x"), "a body of one byte"),
    ):
        bad(name, "no-sentinel", raw, comment, "M7", whole_header=True)

    for name, after, comment in (
        ("lf", b"\n", "one LF after the end"),
        ("nul", b"\0", "a NUL after the end"),
        ("sentinel", b"END\n", "a second sentinel"),
        ("json", text.encode(), "more JSON"),
        ("envelope", whole, "a second envelope"),
    ):
        bad(f"then_{name}", "bytes-after-end", whole + after, comment, "M8", whole_header=True)

    flipped = bytearray(whole)
    flipped[-20] ^= 1
    for name, raw, comment in (
        ("digest_zero", envelope(text, hexes=zeros), "a digest of zeros"),
        ("digest_of_text", envelope(text, hexes=sha(text)), "the digest of the text without the sentinel"),
        ("digest_of_statements", envelope(text, hexes=digest(TWO)), "the digest of the statements"),
        ("digest_of_other", envelope(text, hexes=sha(text + " \nEND\n")), "the digest of another body"),
        ("bit_flip", bytes(flipped), "one bit of the body flipped"),
        ("not_json_and_digest", envelope(text[:-1], hexes=zeros), "not JSON either: the digest is judged first"),
    ):
        bad(name, "envelope-digest", raw, comment, "M9", whole_header=True)

    for name, signal, inner, comment in (
        ("text_empty", "not-json", b"", "no text"),
        ("text_cut", "not-json", text[:-1], "a text cut before it was sealed"),
        ("text_bom", "not-json", "\ufeff" + text, "a byte order mark in the text"),
        ("text_not_utf8", "not-json", b'{"a":"\xff"}', "a text that is not UTF-8"),
        ("text_list", "not-an-object", "[]", "a list"),
        ("text_two", "two-documents", "{}{}", "two objects"),
        ("text_duplicate", "duplicate-key", '{"a":1,"a":2}', "a key twice"),
        ("text_nan", "not-finite", '{"a":NaN}', "NaN"),
        ("text_integer", "integer-size", '{"a":9223372036854775808}', "an integer too large"),
        ("text_surrogate", "lone-surrogate", '{"a":"\\ud800"}', "half a surrogate pair"),
        ("text_deep", "too-deep", '{"a":' + "[" * 64 + "]" * 64 + "}", "65 brackets deep"),
        ("text_then_sentinel", "two-documents", "{}\nEND\n", "a sentinel in the text"),
    ):
        bad(name, signal, envelope(inner), comment, "M10", whole_header=True)
    case("mc1/text_white_space", "body", envelope(' {"a":1}\n\n'), "white space around the text", "M10")
    case("mc1/text_sentinel_in_string", "body", envelope('{"a":"\\nEND\\n"}'), "a sentinel, escaped, in a string", "M10")

    for name, raw, comment in (
        ("seal_body", '{"a":1}', "any object is sealed as it stands"),
        ("seal_white_space", ' {"a" : 1.0}\n', "white space and spelling are kept"),
        ("seal_plan", dump(plan()), "a whole bare plan is sealed as it stands"),
        ("seal_verdict", compact(verdict()), "a whole verdict is sealed as it stands"),
    ):
        case(f"mc1/{name}", "sealed", raw, comment, "M11", as_="seal", sealed=sha(envelope(raw)))
    case("mc1/seal_over_cap", "over-cap", '{"a":1}', "the body would be over the cap", "M11", as_="seal", cap=11)
    case("mc1/seal_cut", "not-json", '{"a":1', "what is not whole is not sealed", "M11", as_="seal")
    case("mc1/seal_duplicate", "duplicate-key", '{"a":1,"a":1}', "nor what is not strict", "M11", as_="seal")
    case("mc1/seal_empty", "empty", b"", "nor nothing", "M11", as_="seal")

    bare = dump(plan())
    case("mc1/bare_over_cap", "over-cap", bare, "a bare text one byte over the cap", "M12", cap=len(bare) - 1)
    case("mc1/bare_at_cap", "plan", bare, "a bare text as large as the cap", "M12", cap=len(bare))

    for name, form, inner, comment in (
        ("form_plan", "plan", plan(), "a plan"),
        ("form_verdict", "verdict", verdict(), "a verdict"),
        ("form_body", "body", {"a": 1}, "a body that is not ours"),
        ("form_other_tool", "body", {"tool": "write_file", "trailer": "END_WRITE"}, "another tool's body"),
        ("form_nothing", "body", {}, "an empty object"),
    ):
        case(f"mc1/{name}", form, envelope(compact(inner)), comment, "M13", evidence="sentinel")
    for name, signal, inner, comment in (
        ("form_witness", "missing-key", plan(tool=ABSENT, sha256=ABSENT), "a witness form in an envelope is no plan"),
        ("form_statements", "no-trailer", {"statements": TWO}, "statements set out to be a plan"),
        ("form_count", "no-trailer", {"stmt_count": 2, "verdict": "pass"}, "so does a count"),
        ("form_tool", "no-trailer", {"tool": "apply_schema"}, "so does our tool"),
        ("form_trailer", "missing-key", {"trailer": "END_APPLY"}, "so does a trailer without a tool"),
        ("form_both", "unknown-key", plan(verdict="pass"), "a plan with a verdict in it"),
        ("form_wrong_tool", "wrong-value", plan(tool="apply_schemas"), "statements for another tool"),
    ):
        bad(name, signal, envelope(compact(inner)), comment, "M13", whole_header=True)

    case("mc1/bare_verdict", "no-envelope", compact(verdict()), "a verdict without an envelope", "M14")
    case("mc1/bare_body", "no-trailer", '{"a":1}', "there is no bare body", "M14")
    case("mc1/bare_other_tool", "no-trailer", '{"tool":"write_file"}', "nor one of another tool", "M14")
    case("mc1/bare_no_tool", "missing-key", dump(plan(tool=ABSENT)), "a digest makes it a plan, not a witness", "M14")
    case("mc1/bare_plan", "plan", bare, "a bare plan", "M14", evidence="bare")
    case("mc1/bare_witness", "witness", witness(), "a witness form", "M14", evidence="witness")


# --- plan.md


def plans():
    def good(name, raw, comment, rule, statements=TWO, **more):
        raw = raw if isinstance(raw, str | bytes) else dump(raw)
        case(f"plan/{name}", "plan", raw, comment, rule, sha256=digest(statements), **more)

    def bad(name, signal, made, comment, rule):
        case(f"plan/{name}", signal, made if isinstance(made, str) else dump(made), comment, rule)

    backwards = ("trailer", "statements", "sha256", "stmt_count", "job_id", "tool")
    good("another_order", {key: plan()[key] for key in backwards}, "bare, the keys in another order", "P1")
    good("interoperable", plan(THREE, job_id="job_2026_11_30"), "as published elsewhere", "P1", THREE)
    good("interoperable_sealed", envelope(dump(plan(THREE))), "as published elsewhere, sealed", "P1", THREE)
    good("indented", json.dumps(plan(), indent=2), "over several lines", "P1")
    good("trailing_white_space", dump(plan()) + " \r\n\t\n", "white space at the end", "P1")
    for name, trailer in (
        ("absent", ABSENT),
        ("null", None),
        ("empty", ""),
        ("cut", "END_APPL"),
        ("longer", "END_APPLY "),
        ("lower", "end_apply"),
        ("other", "END"),
        ("list", ["END_APPLY"]),
        ("true", True),
    ):
        bad(f"trailer_{name}", "no-trailer", plan(trailer=trailer), f"trailer: {name}", "P1")
    bad("trailer_and_unknown", "no-trailer", plan(trailer=ABSENT, extra=1), "judged before the unknown key", "P1")

    bad("unknown_key", "unknown-key", plan(comment="please"), "a key that is not in the table", "P2")
    bad("unknown_case", "unknown-key", plan(Down=DOWN), "keys have one case", "P2")
    bad("unknown_empty", "unknown-key", plan() | {"": 1}, "the empty key", "P2")
    bad("unknown_verdict", "unknown-key", plan(verdict="pass"), "a plan is no verdict", "P2")

    for key in ("tool", "job_id", "stmt_count", "sha256", "statements"):
        bad(f"no_{key}", "missing-key", plan(**{key: ABSENT}), f"without {key}", "P3")

    for name, tool in (("other", "apply_schemas"), ("null", None), ("list", ["apply_schema"]), ("case", "Apply_Schema")):
        bad(f"tool_{name}", "wrong-value", plan(tool=tool), f"tool: {name}", "P4")

    bad("down_alone", "missing-key", plan(down=DOWN, down_sha256=ABSENT), "down without its digest", "P5")
    bad("down_sha256_alone", "missing-key", plan(down_sha256=digest(DOWN)), "a digest without down", "P5")

    right = digest(TWO)
    for name, value in (
        ("upper", right.upper()),
        ("short", right[1:]),
        ("long", right + "0"),
        ("not_hex", "g" + right[1:]),
        ("newline", right + "\n"),
        ("prefixed", "sha256:" + right),
        ("empty", ""),
        ("null", None),
        ("number", 0),
    ):
        bad(f"sha256_{name}", "wrong-value", plan(sha256=value), f"sha256: {name}", "P6")
    bad("down_sha256_short", "wrong-value", plan(down=DOWN, down_sha256=digest(DOWN)[1:]), "a digest too short", "P6")
    bad("base_short", "wrong-value", plan(base="0" * 63), "a base too short", "P6")
    bad("base_null", "wrong-value", plan(base=None), "no base is no key, not null", "P6")
    bad("base_upper", "wrong-value", plan(base="A" * 64), "a base in upper case", "P6")

    good("id_all_characters", plan(job_id="aZ09._:-"), "every kind of character", "P7")
    good("id_longest", plan(job_id="j" * 128), "128 characters", "P7")
    for name, value in (
        ("empty", ""),
        ("long", "j" * 129),
        ("space", "job 1"),
        ("slash", "job/1"),
        ("newline", "job_1\n"),
        ("not_ascii", "job_é"),
        ("arabic_digit", "job_\u0661"),
        ("number", 1),
        ("null", None),
        ("list", ["job_1"]),
    ):
        bad(f"id_{name}", "bad-id", plan(job_id=value), f"job_id: {name}", "P7")

    for name, signal, value in (
        ("empty", "wrong-value", []),
        ("null", "wrong-type", None),
        ("string", "wrong-type", "SELECT 1"),
        ("object", "wrong-type", {"0": "SELECT 1"}),
        ("number_inside", "wrong-type", ["SELECT 1", 2]),
        ("null_inside", "wrong-type", ["SELECT 1", None]),
        ("list_inside", "wrong-type", [["SELECT 1"]]),
        ("true_inside", "wrong-type", [True]),
    ):
        made = plan(sha256=right, stmt_count=len(value or []), statements=value)
        bad(f"statements_{name}", signal, made, f"statements: {name}", "P8")

    says = [
        "-- why\nSELECT 1",
        "/* why */ SELECT 1",
        "/* * / */SELECT 1",
        "--\n/**/--x\n;SELECT 1",
        "(SELECT 1)",
        "- 1",
        "/",
        "'",
        "\u00a0",
        "\u2028",
    ]
    good("statements_with_comments", plan(says), "comments and then something", "P9", says)
    nested = ["/* /* */ x */"]
    good("statement_nested_comment", plan(nested), "a comment ends at the first */", "P9", nested)
    for name, value in (
        ("empty", ""),
        ("spaces", " \t\r\n\v\f"),
        ("semicolons", " ; ;; "),
        ("line_comment", "-- nothing"),
        ("line_comments", "-- one\n-- two\n"),
        ("block_comment", "/* nothing */"),
        ("open_comment", "/* SELECT 1"),
        ("open_comment_slash", "/*/ SELECT 1"),
        ("comments", "/*a*/;--b\n/***/ ;\t-- c"),
    ):
        bad(f"blank_{name}", "blank-statement", plan(["SELECT 1", value]), f"a statement of {name}", "P9")

    bad("nul", "wrong-value", plan(["SELECT '\0'"]), "a statement that holds NUL", "P10")
    bad("nul_only", "wrong-value", plan(["\0"]), "a statement that is NUL", "P10")

    count = '"stmt_count": 2'
    for name, spelling in (
        ("true", "true"),
        ("null", "null"),
        ("float", "2.0"),
        ("exponent", "2e0"),
        ("string", '"2"'),
        ("list", "[2]"),
    ):
        made = dump(plan()).replace(count, f'"stmt_count": {spelling}')
        bad(f"count_{name}", "wrong-type", made, f"stmt_count: {spelling}", "P11")
    one = dump(plan(["SELECT 1"])).replace('"stmt_count": 1', '"stmt_count": true')
    bad("count_true_for_one", "wrong-type", one, "true is not 1", "P11")

    for name, number in (("less", 1), ("more", 3), ("zero", 0), ("negative", -2), ("largest", 2**63 - 1)):
        bad(f"count_{name}", "wrong-count", plan(stmt_count=number), f"stmt_count: {number}", "P12")

    good("down", plan(down=DOWN), "a down for every statement", "P13")
    for name, signal, value in (
        ("short", "wrong-count", DOWN[:1]),
        ("long", "wrong-count", [*DOWN, "SELECT 1"]),
        ("empty", "wrong-value", []),
        ("null", "wrong-type", None),
        ("number_inside", "wrong-type", ["DROP TABLE t", 1]),
        ("blank", "blank-statement", ["DROP TABLE t", "--"]),
        ("nul", "wrong-value", ["DROP TABLE t", "\0"]),
    ):
        made = plan(down=value, down_sha256=right)
        bad(f"down_{name}", signal, made, f"down: {name}", "P13")

    good("retry", plan(retry_of="job_0"), "a retry of another job", "P14")
    for name, value in (("itself", "job_1"), ("null", None), ("empty", ""), ("list", ["job_0"])):
        bad(f"retry_{name}", "bad-id", plan(retry_of=value), f"retry_of: {name}", "P14")

    good("after", plan(after=["job_0", "job_00"]), "after two other jobs", "P15")
    for name, signal, value in (
        ("itself", "bad-id", ["job_0", "job_1"]),
        ("twice", "bad-id", ["job_0", "job_0"]),
        ("bad_id", "bad-id", ["job 0"]),
        ("number_inside", "bad-id", [0]),
        ("empty", "wrong-value", []),
        ("string", "wrong-type", "job_0"),
        ("null", "wrong-type", None),
    ):
        bad(f"after_{name}", signal, plan(after=value), f"after: {name}", "P15")

    good("base", plan(base="0" * 64), "bound to a schema", "P16")

    accents = ["INSERT INTO t VALUES ('é € 😀')", "INSERT INTO t VALUES ('e\u0301')"]
    good("unicode", plan(accents), "characters of every length", "P17", accents)
    good("unicode_escaped", json.dumps(plan(accents)), "the same, escaped", "P17", accents)
    controls = ["SELECT 'tab\t, line\n, return\r, quote \" and \\ and \x01'"]
    good("escapes", plan(controls), "escapes in a statement", "P17", controls)
    braces = ["INSERT INTO t VALUES ('{\"a\": [1]}')", "SELECT '}' || ']'"]
    good("braces", plan(braces), "braces and brackets in SQL", "P17", braces)
    brackets = [f"CREATE TABLE [t{at}] ([a] INT, [b] INT)" for at in range(12)]
    good("many_brackets", plan(brackets), "36 brackets in SQL are no depth", "P17", brackets)
    spaces = ["  SELECT 1  ", "\nSELECT 2\n"]
    good("outer_spaces", plan(spaces), "white space around a statement is hashed", "P17", spaces)
    good("boundary_here", plan(["a\nb", "c"]), "shares its digest with boundary_there", "P17", ["a\nb", "c"])
    good("boundary_there", plan(["a", "b\nc"]), "shares its digest with boundary_here", "P17", ["a\nb", "c"])

    for name, value, comment in (
        ("other", sha("x"), "another digest"),
        ("newline", sha("\n".join(TWO) + "\n"), "the digest with a newline at the end"),
        ("separator", sha("".join(TWO)), "the digest without separators"),
        ("semicolon", sha(";".join(TWO)), "the digest of statements joined by a semicolon"),
        ("json", sha(compact(TWO)), "the digest of the list's JSON"),
        ("order", digest(TWO[::-1]), "the digest in another order"),
    ):
        bad(f"digest_{name}", "statements-digest", plan(sha256=value), comment, "P18")
    swapped = plan(statements=TWO[::-1]) | {"sha256": right}
    bad("digest_swapped", "statements-digest", swapped, "two statements changed places", "P18")
    changed = plan(["CREATE TABLE u (id INTEGER)", TWO[1]]) | {"sha256": right}
    bad("digest_changed", "statements-digest", changed, "one character changed", "P18")

    bad("down_digest", "down-digest", plan(down=DOWN, down_sha256=right), "the digest of the statements", "P19")
    bad("down_digest_order", "down-digest", plan(down=DOWN, down_sha256=digest(DOWN[::-1])), "of downs reversed", "P19")

    uncovered = "digest-does-not-cover:job_id,after,retry_of,base"
    every = plan(THREE, after=["job_0"], retry_of="job_00", base="f" * 64, down=["SELECT 1"] * 3)
    good("every_key", every, "every key there is", "P20", THREE, evidence=uncovered)

    text = compact({key: every[key] for key in SEALED_ORDER})
    good("sealed", envelope(text), "sealed, with every key in its order", "P21", THREE, evidence="sealed")


def witnesses():
    def good(name, raw, comment, rule, **more):
        case(f"witness/{name}", "witness", raw, comment, rule, sha256=digest(TWO), evidence="trailer-last", **more)

    def bad(name, signal, raw, comment, rule, **more):
        case(f"witness/{name}", signal, raw, comment, rule, **more)

    good("whole", witness(), "as a model writes it", "W1")
    good("indented", json.dumps(json.loads(witness()), indent=2) + "\n", "over several lines", "W1")
    bad("trailer_absent", "no-trailer", witness(trailer=ABSENT), "no trailer", "W1")
    bad("trailer_cut", "no-trailer", witness(trailer="END_APP"), "a trailer cut and closed", "W1")
    bad("trailer_null", "no-trailer", witness(trailer=None), "no word", "W1")
    cut = witness()[: witness().index("INSERT") + 9]
    bad("cut", "not-json", cut, "cut in a statement", "J4")
    bad("cut_and_closed", "no-trailer", cut + '"]}', "cut in a statement and closed by somebody else", "W1")

    for name, keys in (
        ("id_first", ("job_id", "stmt_count", "statements", "trailer")),
        ("id_second", ("stmt_count", "job_id", "statements", "trailer")),
        ("id_third", ("stmt_count", "statements", "job_id", "trailer")),
    ):
        good(f"order_{name}", witness(*keys), f"the order {' '.join(keys)}", "W2")
    for name, keys in (
        ("trailer_first", ("trailer", "job_id", "stmt_count", "statements")),
        ("trailer_second", ("job_id", "trailer", "stmt_count", "statements")),
        ("trailer_third", ("stmt_count", "statements", "trailer", "job_id")),
    ):
        bad(name, "trailer-not-last", witness(*keys), f"the order {' '.join(keys)}", "W2")
    closed = '{"trailer":"END_APPLY","job_id":"job_1","stmt_count":1,"statements":["SELECT 1"]}'
    bad("trailer_first_closed", "trailer-not-last", closed, "cut after one statement of many and closed", "W2")
    late = witness("job_id", "stmt_count", "statements", "trailer", "after", after=["job_0"])
    bad("option_last", "trailer-not-last", late, "an optional key after the trailer", "W2")
    unknown = witness("job_id", "stmt_count", "statements", "trailer", "note", note="done")
    bad("unknown_last", "trailer-not-last", unknown, "an unknown key after the trailer: judged first", "W2")

    late = witness("job_id", "statements", "stmt_count", "trailer")
    bad("count_late", "count-not-first", late, "stmt_count after statements", "W3")
    bad("count_absent", "count-not-first", witness(stmt_count=ABSENT), "no stmt_count", "W3")

    bad("unknown_key", "unknown-key", witness(note="x"), "an unknown key", "W4")
    bad("down_sha256", "unknown-key", witness(down=DOWN, down_sha256=digest(DOWN)), "a digest", "W4")
    bad("tool", "unknown-key", witness(tool="apply_schema"), "a tool, read as a witness", "W4", as_="witness")
    bad("sha256", "unknown-key", witness(sha256=digest(TWO)), "a digest, read as a witness", "W4", as_="witness")
    bad("no_statements", "missing-key", witness(statements=ABSENT), "no statements", "W4")
    bad("no_job_id", "missing-key", witness(job_id=ABSENT), "no job id", "W4")

    every = {"after": ["job_0"], "retry_of": "job_00", "base": "0" * 64, "down": DOWN}
    good("every_key", witness(**every), "every key there is", "W5")
    for name, signal, changes in (
        ("count_less", "wrong-count", {"stmt_count": 1}),
        ("count_true", "wrong-type", {"stmt_count": True}),
        ("bad_id", "bad-id", {"job_id": "job 1"}),
        ("statements_empty", "wrong-value", {"stmt_count": 0, "statements": []}),
        ("statements_string", "wrong-type", {"statements": "SELECT 1; SELECT 2"}),
        ("blank", "blank-statement", {"statements": ["SELECT 1", " "]}),
        ("nul", "wrong-value", {"statements": ["SELECT 1", "SELECT '\0'"]}),
        ("down_short", "wrong-count", {"down": DOWN[:1]}),
        ("retry_itself", "bad-id", {"retry_of": "job_1"}),
        ("after_empty", "wrong-value", {"after": []}),
        ("base_short", "wrong-value", {"base": "0"}),
    ):
        bad(name, signal, witness(**changes), f"as for a plan: {name}", "W5")

    def sealed(made):
        return sha(envelope(compact({key: made[key] for key in SEALED_ORDER if key in made})))

    seal = {"as_": "seal"}
    case("witness/seal", "sealed", witness(), "a witness seals to a plan", "W6", sealed=sealed(plan()), **seal)
    made = sealed(plan(**every))
    case("witness/seal_every_key", "sealed", witness(**every), "with every key", "W6", sealed=made, **seal)
    odd = ["SELECT '\x01 \x1f \x7f \u2028 é 😀 / \\ \" \b\f\n\r\t'"]
    made = sealed(plan(odd))
    raw = json.dumps(json.loads(witness(stmt_count=1, statements=odd)))
    case("witness/seal_escapes", "sealed", raw, "canonical escapes", "J10", sealed=made, **seal)
    case("witness/seal_cut", "no-trailer", cut + '"]}', "what was closed is not sealed", "W6", **seal)
    case("witness/seal_late", "count-not-first", late, "nor what may have been", "W6", **seal)


# --- verdict.md


def verdicts():
    def good(name, made, comment, rule, **more):
        case(f"verdict/{name}", "verdict", envelope(compact(made)), comment, rule, **more)

    def bad(name, signal, made, comment, rule, **more):
        raw = envelope(compact(made))
        case(f"verdict/{name}", signal, raw, comment, rule, expected=expected(raw), **more)

    blocking = {"severity": "blocking", "path": "a.py", "message": "breaks", "line": 1}
    advisory = {"severity": "advisory", "path": "é/b.py", "message": "could be shorter"}
    asked = {"as_": "verdict-with-marks:m1,m2"}

    good("pass", verdict(), "a pass", "V5")
    good("fail", verdict(verdict="fail", findings=[blocking, advisory]), "a fail", "V5")

    good("marks_last", verdict(marks=["m1"]), "marks as the last key", "V1")
    early = {"marks": ["m1"]} | verdict()
    bad("marks_first", "marks", early, "marks before another key", "V1")
    bad("marks_not_last", "marks", verdict(marks=["m1"], summary="x"), "judged before the unknown key", "V1")

    good("marks_asked", verdict(marks=["m1", "m2"]), "exactly the marks asked for", "V2", **asked)
    for name, marks in (
        ("absent", ABSENT),
        ("missing", ["m1"]),
        ("order", ["m2", "m1"]),
        ("more", ["m1", "m2", "m3"]),
        ("altered", ["m1", "M2"]),
        ("string", "m1,m2"),
        ("null", None),
    ):
        bad(f"marks_{name}", "marks", verdict(marks=marks), f"asked-for marks: {name}", "V2", **asked)

    bad("unknown_key", "unknown-key", verdict(summary="fine"), "a key that is not in the table", "V3")
    bad("second_verdict", "unknown-key", verdict(Verdict="fail"), "keys have one case", "V3")
    for key in ("diff_sha", "policy_version"):
        bad(f"no_{key}", "missing-key", verdict(**{key: ABSENT}), f"without {key}", "V4")

    for name, word in (
        ("upper", "PASS"),
        ("space", "pass "),
        ("passed", "passed"),
        ("approve", "approve"),
        ("empty", ""),
        ("true", True),
        ("null", None),
        ("list", ["pass"]),
    ):
        bad(f"word_{name}", "wrong-value", verdict(verdict=word), f"verdict: {word!r}", "V5")

    for key in ("diff_sha", "policy_version"):
        for name, value in (("empty", ""), ("null", None), ("number", 1)):
            bad(f"{key}_{name}", "wrong-type", verdict(**{key: value}), f"{key}: {name}", "V6")
    good("diff_sha_any", verdict(diff_sha="abc"), "any diff_sha that says something", "V6")

    good("line_null", verdict(findings=[advisory | {"line": None}]), "a finding of no line", "V7")
    for name, findings in (
        ("null", None),
        ("object", {}),
        ("string", "none"),
        ("of_strings", ["bad"]),
        ("no_severity", [{"path": "a", "message": "m"}]),
        ("other_severity", [advisory | {"severity": "minor"}]),
        ("no_path", [{"severity": "advisory", "message": "m"}]),
        ("no_message", [{"severity": "advisory", "path": "a"}]),
        ("unknown_key", [advisory | {"col": 3}]),
        ("line_string", [advisory | {"line": "3"}]),
        ("line_float", [advisory | {"line": 3.0}]),
        ("line_true", [advisory | {"line": True}]),
        ("path_null", [advisory | {"path": None}]),
    ):
        bad(f"findings_{name}", "wrong-type", verdict(findings=findings), f"findings: {name}", "V7")

    for name, change in (
        ("path_empty", {"path": ""}),
        ("message_empty", {"message": ""}),
        ("line_zero", {"line": 0}),
        ("line_negative", {"line": -1}),
    ):
        bad(f"finding_{name}", "wrong-value", verdict(findings=[advisory | change]), f"a finding: {name}", "V8")

    for name, marks in (("empty", []), ("null", None), ("string", "m1"), ("number_inside", [1]), ("empty_inside", [""])):
        bad(f"unasked_marks_{name}", "wrong-type", verdict(marks=marks), f"marks nobody asked for: {name}", "V9")

    good("pass_advisory", verdict(findings=[advisory]), "a pass with advice", "V10")
    bad("pass_blocking", "contradiction", verdict(findings=[advisory, blocking]), "a pass that blocks", "V10")

    good("no_findings", verdict(findings=ABSENT), "made elsewhere, without findings", "V11", evidence="no-findings")
    good("no_marks", verdict(), "made elsewhere, without marks", "V11", evidence="no-marks")


# --- digests


def digests():
    for name, statements, comment in (
        ("two", TWO, "the example of P17"),
        ("one", ["SELECT 1"], "one statement: nothing is joined"),
        ("unicode", ["é", "e\u0301", "😀"], "UTF-8, not normalized"),
        ("newline_at_end", ["SELECT 1\n"], "a newline of the statement's own"),
        ("boundary_here", ["a\nb", "c"], "shares its digest with boundary_there"),
        ("boundary_there", ["a", "b\nc"], "shares its digest with boundary_here"),
        ("empty_ends", ["", ""], "the digest itself judges nothing"),
    ):
        raw = dump(statements)
        case(f"digest/{name}", "digest", raw, comment, "P17", as_="statements", sha256=digest(statements))


def fingerprint(rows):
    """P22 once more, in other words."""
    ours = {"schema_jobs", "endmark_receipts"}
    kept = [
        [field or "" for field in row]
        for row in rows
        if not row[1].startswith("sqlite_") and row[1].lower() not in ours and row[2].lower() not in ours
    ]
    out = b"endmark-fingerprint-sqlite-1\n"
    for row in sorted(kept, key=lambda row: (row[0].encode(), row[1].encode())):
        for field in row:
            out += str(len(field.encode())).encode() + b":" + field.encode() + b","
    return sha(out)


def fingerprints():
    table = "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)"
    index = "CREATE INDEX customers_name ON customers (name)"
    both = [["table", "customers", "customers", table], ["index", "customers_name", "customers", index]]
    auto = ["index", "sqlite_autoindex_t_1", "t", None]
    jobs = "CREATE TABLE schema_jobs (job_id TEXT PRIMARY KEY, stmt_count INT, sha256 TEXT, status TEXT)"
    ours = [
        ["table", "Schema_Jobs", "Schema_Jobs", jobs.replace("schema_jobs", "Schema_Jobs")],
        ["index", "sqlite_autoindex_Schema_Jobs_1", "Schema_Jobs", None],
        ["index", "by_status", "Schema_Jobs", "CREATE INDEX by_status ON Schema_Jobs (status)"],
        ["table", "endmark_receipts", "endmark_receipts", "CREATE TABLE endmark_receipts (job_id TEXT)"],
    ]
    accents = [
        ["table", "é", "é", 'CREATE TABLE "é" (a)'],
        ["table", "z", "z", "CREATE TABLE z (a)"],
        ["table", "\uffee", "\uffee", 'CREATE TABLE "\uffee" (a)'],
        ["table", "😀", "😀", 'CREATE TABLE "😀" (a)'],
    ]
    for name, rows, comment in (
        ("empty", [], "nothing but the first line"),
        ("two_rows", both, "the example of P22"),
        ("order", both[::-1], "the same rows in another order"),
        ("our_own", both + ours, "our own tables, and what hangs on them, are left out"),
        ("automatic", [["table", "t", "t", "CREATE TABLE t (a UNIQUE)"], auto], "SQLite's own rows are left out"),
        ("by_bytes", accents, "names are sorted as UTF-8 bytes: an astral one after U+FFEE"),
        ("no_sql", [["table", "t", "t", None]], "NULL is hashed as the empty string"),
    ):
        raw = dump(rows)
        case(f"fingerprint/{name}", "digest", raw, comment, "P22", as_="schema-rows", sha256=fingerprint(rows))
    view = "CREATE VIEW names AS SELECT name FROM customers"
    trigger = "CREATE TRIGGER keep BEFORE DELETE ON customers BEGIN SELECT RAISE(ABORT, 'kept'); END"
    more = [["view", "names", "names", view], ["trigger", "keep", "customers", trigger]]
    unique = "CREATE TABLE t (a UNIQUE)"
    for name, statements, rows, comment in (
        ("sql_two", [table, index], both, "the example of P22, from its statements"),
        ("sql_kinds", [table, index, view, trigger], both + more, "all four kinds of row"),
        ("sql_our_own", [jobs, table, index], both, "a table of ours changes nothing"),
        ("sql_automatic", [unique], [["table", "t", "t", unique]], "SQLite's own index changes nothing"),
        ("sql_by_bytes", [row[3] for row in reversed(accents)], accents, "sorted as UTF-8 bytes"),
        (
            "sql_lower_case",
            ["create  table customers (id INTEGER PRIMARY KEY, name TEXT)"],
            both[:1],
            "SQLite itself spells the first words alike",
        ),
    ):
        raw = dump(statements)
        case(f"fingerprint/{name}", "digest", raw, comment, "P22", as_="schema-sql", sha256=fingerprint(rows))


def build():
    CASES.clear()
    for write in (strict_json, mc1, plans, witnesses, verdicts, digests, fingerprints):
        write()
    return CASES


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for path, content in build().items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
