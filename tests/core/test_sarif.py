"""SARIF: what tools show of a review, and that an incomplete one can never be taken for a clean one.

The structure is checked by hand, from sections 3.13 to 3.58 of the standard; its schema comes with no package that is
used here.
"""

import pytest

from endmark.core import sarif, strictjson
from endmark.core.verdict import Finding

HOSTILE = "\x1b]0;owned\x07\x1b[2J\u202etxt.exe\u2066\u009b31m\u200b\x7f"


def run(findings=None, **changes):
    made = {"reviewer": "deep", "attempt_id": "att-1", "findings": findings, "verdict": "fail"} | changes
    return sarif.Run(**made)


def log(*runs):
    raw = sarif.dumps(list(runs), "0.1.0")
    assert raw.isascii()
    assert raw.decode().isprintable()
    return strictjson.loads(raw)


def check(document):
    """What the standard demands of the parts that are written here."""
    assert document["version"] == "2.1.0"
    assert document["$schema"].endswith("sarif-schema-2.1.0.json")
    for one in document["runs"]:
        driver = one["tool"]["driver"]
        assert driver["name"]
        rules = [rule["id"] for rule in driver["rules"]]
        assert len(set(rules)) == len(rules)
        for invocation in one["invocations"]:
            assert type(invocation["executionSuccessful"]) is bool
            for notification in invocation.get("toolExecutionNotifications", ()):
                assert notification["level"] in {"none", "note", "warning", "error"}
                assert notification["message"]["text"]
        for result in one["results"] or ():
            assert rules[result["ruleIndex"]] == result["ruleId"]
            assert result["level"] in {"none", "note", "warning", "error"}
            assert result["message"]["text"]
            for location in result.get("locations", ()):
                place = location["physicalLocation"]
                assert place["artifactLocation"]["uriBaseId"] == "%SRCROOT%"
                assert place.get("region", {"startLine": 1})["startLine"] >= 1
    return document


def test_findings_of_a_whole_verdict():
    found = [Finding("blocking", "src/a b.py", "breaks\nhere", 7), Finding("advisory", "größe.md", "could be shorter")]
    (one,) = check(log(run(found)))["runs"]
    assert one["invocations"] == [{"executionSuccessful": True}]
    assert [(result["ruleId"], result["level"]) for result in one["results"]] == [
        ("blocking", "error"),
        ("advisory", "note"),
    ]
    first, second = (result["locations"][0]["physicalLocation"] for result in one["results"])
    assert first["artifactLocation"]["uri"] == "src/a%20b.py"
    assert first["region"] == {"startLine": 7}
    assert second["artifactLocation"]["uri"] == "gr%C3%B6%C3%9Fe.md"
    assert "region" not in second
    assert one["results"][0]["message"]["text"] == "breaks\nhere"
    assert one["properties"] == {"verdict": "fail"}


def test_nothing_found_and_nothing_computed_are_two_things():
    whole, cut = check(log(run([], verdict="pass"), run(None, signal="idle", detail="it stopped", verdict="pass")))[
        "runs"
    ]
    assert (whole["results"], whole["invocations"][0]["executionSuccessful"]) == ([], True)
    assert cut["results"] is None
    (invocation,) = cut["invocations"]
    assert invocation["executionSuccessful"] is False
    (notification,) = invocation["toolExecutionNotifications"]
    assert notification["level"] == "error"
    assert notification["descriptor"] == {"id": "idle"}
    assert notification["message"]["text"] == "incomplete: no whole verdict of deep. it stopped"
    assert cut["properties"] == {"verdict": "incomplete"}


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../x", "a/../../x", "//host/x", "a//b", "./a", "", "a/", "a/."],
)
def test_a_path_that_leads_elsewhere_is_no_link(path):
    assert sarif.relative_uri(path) is None
    (one,) = check(log(run([Finding("blocking", path or "..", "m")])))["runs"]
    assert "locations" not in one["results"][0]
    assert one["results"][0]["message"]["text"] == f"{path or '..'}: m"


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("javascript:alert(1)", "javascript%3Aalert%281%29"),
        ("C:\\x", "C%3A%5Cx"),
        ("a?b#c", "a%3Fb%23c"),
        ("100%", "100%25"),
        ("a\nb", "a%0Ab"),
        (".github/x.yml", ".github/x.yml"),
    ],
)
def test_a_path_is_only_ever_a_path(path, uri):
    assert sarif.relative_uri(path) == uri


def test_hostile_findings_drive_nothing():
    document = check(
        log(
            run([Finding("blocking", HOSTILE, HOSTILE, 1), Finding("advisory", "/" + HOSTILE, HOSTILE)]),
            run(None, reviewer=HOSTILE, signal="idle", detail=HOSTILE),
        )
    )
    for result in document["runs"][0]["results"]:
        assert result["message"]["text"].isprintable()
        assert "\\x1b" in result["message"]["text"]
    (notification,) = document["runs"][1]["invocations"][0]["toolExecutionNotifications"]
    assert notification["message"]["text"].isprintable()


def test_five_thousand_findings():
    found = [Finding("blocking", f"src/{n}.py", "x" * 50, n + 1) for n in range(5_000)]
    (one,) = log(run(found))["runs"]
    assert len(one["results"]) == 5_000
    assert one["results"][-1]["locations"][0]["physicalLocation"]["region"]["startLine"] == 5_000
