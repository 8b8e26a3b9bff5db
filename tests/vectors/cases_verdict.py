"""Vectors of the verdict (spec/verdict.md)."""

from tests.vectors.parts import ABSENT, case, compact, envelope, expected, plan, verdict

BLOCKING = {"severity": "blocking", "path": "a.py", "message": "breaks", "line": 1}


def verdicts():
    def good(name, made, comment, rule, **more):
        case(f"verdict/{name}", "verdict", envelope(compact(made)), comment, rule, **more)

    def bad(name, signal, made, comment, rule, **more):
        raw = envelope(compact(made))
        case(f"verdict/{name}", signal, raw, comment, rule, expected=expected(raw), **more)

    advisory = {"severity": "advisory", "path": "é/b.py", "message": "could be shorter"}
    asked = {"as_": "verdict-with-marks:m1,m2"}

    good("pass", verdict(), "a pass", "V5")
    good("fail", verdict(verdict="fail", findings=[BLOCKING, advisory]), "a fail", "V5")

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

    for name, marks in (
        ("empty", []),
        ("null", None),
        ("string", "m1"),
        ("number_inside", [1]),
        ("empty_inside", [""]),
    ):
        bad(f"unasked_marks_{name}", "wrong-type", verdict(marks=marks), f"marks nobody asked for: {name}", "V9")

    good("pass_advisory", verdict(findings=[advisory]), "a pass with advice", "V10")
    bad("pass_blocking", "contradiction", verdict(findings=[advisory, BLOCKING]), "a pass that blocks", "V10")

    good("no_findings", verdict(findings=ABSENT), "made elsewhere, without findings", "V11", evidence="no-findings")
    good("no_marks", verdict(), "made elsewhere, without marks", "V11", evidence="no-marks")
    decisions(good, bad)


def decisions(good, bad):
    """V12 to V15: what a whole verdict must be bound to."""
    here = "d" * 64
    to = {"as_": f"decision:sealed,{here},2026-11"}
    marked = {"as_": to["as_"] + ",m1,m2"}
    good("decides", verdict(), "for this diff, by this policy", "V14", **to)
    good("decides_fail", verdict(verdict="fail"), "a fail decides as well", "V15", **to)
    good("decides_marked", verdict(marks=["m1", "m2"]), "with its marks", "V2", evidence="marks-echoed", **marked)
    bad("decides_unmarked", "marks", verdict(diff_sha="x"), "judged before the other diff", "V2", **marked)
    bad("decides_swapped", "marks", verdict(marks=["m2", "m1"]), "marks out of order", "V2", **marked)
    bad("decides_blocking", "contradiction", verdict(findings=[BLOCKING]), "a pass that blocks", "V10", **to)
    bad("decides_body", "wrong-value", {"status": "pass"}, "whole, and no verdict", "V12", **to)
    bad("decides_plan", "wrong-value", plan(), "whole, and a plan", "V12", **to)
    bad(
        "decides_unsigned",
        "weak-evidence",
        verdict(),
        "sealed, where a signature is demanded",
        "V13",
        as_=f"decision:signed,{here},2026-11",
    )
    for name, diff_sha in (("other", "e" * 64), ("short", here[:12]), ("long", here + "d"), ("upper", "D" * 64)):
        bad(f"decides_diff_{name}", "stale-diff", verdict(diff_sha=diff_sha), f"another diff: {name}", "V14", **to)
    both = verdict(diff_sha="e" * 64, policy_version="2026-10")
    bad("decides_diff_first", "stale-diff", both, "judged before the policy", "V14", **to)
    for name, version in (("other", "2026-10"), ("longer", "2026-11 "), ("upper", "2026-11A")):
        made = verdict(policy_version=version)
        bad(f"decides_policy_{name}", "stale-policy", made, f"another policy: {name}", "V15", **to)
