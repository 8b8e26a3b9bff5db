"""Vectors of the plan and its witness form (spec/plan.md)."""

import json

from tests.vectors.parts import (
    ABSENT,
    DOWN,
    SEALED_ORDER,
    THREE,
    TWO,
    case,
    compact,
    digest,
    dump,
    envelope,
    plan,
    sha,
    witness,
)


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

    for name, tool in (
        ("other", "apply_schemas"),
        ("null", None),
        ("list", ["apply_schema"]),
        ("case", "Apply_Schema"),
    ):
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
