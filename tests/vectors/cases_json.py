"""Vectors of strict JSON (spec/json.md)."""

from tests.vectors.parts import case


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
    bad(
        "depth_backslash_outside",
        "too-deep",
        '\\"' + "[" * 65,
        "a backslash takes the next byte with it anywhere",
        "J1",
    )
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
        ("duplicate_text", '{"a":"x","b":[],"a":"x"}', "a key twice with the same text"),
        ("duplicate_number_hides", '{"a":"x","a":1,"b":[2,3]}', "numbers where the lost text would be missed"),
        ("duplicate_list_hides", '{"b":["x","y"],"b":[["x"]],"c":["z"]}', "a list where lost texts would be missed"),
        ("duplicate_spaced", '{ "a" : "x" , "b" : ["y"] , "b" : ["y"] }', "a list of text twice, with spaces"),
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
