"""Vectors of the MC1 envelope (spec/mc1.md)."""

from tests.vectors.parts import (
    ABSENT,
    TWO,
    case,
    compact,
    digest,
    dump,
    envelope,
    expected,
    plan,
    sha,
    verdict,
    witness,
)


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
        ("length_of_end", envelope(b"", sentinel=b"END\n"), "the header's own LF is no part of the sentinel"),
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
    case(
        "mc1/text_sentinel_in_string", "body", envelope('{"a":"\\nEND\\n"}'), "a sentinel, escaped, in a string", "M10"
    )

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
