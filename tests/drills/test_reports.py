"""The reports: what each says is what the sweep found, and nothing in a payload or a target drives who reads it."""

import re
import xml.etree.ElementTree as ET

import pytest
from tests.drills.sweeping import VERDICT, calling, drill, holes, shell

from endmark.core import strictjson
from endmark.drills import minimise
from endmark.drills.body import Body
from endmark.drills.report import document, junit, sarif, strips, svg, terminal
from endmark.drills.report.document import report
from endmark.drills.targets.answer import Answer
from endmark.drills.targets.calling import CallPlayer, HereTarget

SVG = "{http://www.w3.org/2000/svg}"
EVIL = b'{"\\u001b[31m<&\\"\\u202e]]>": 1, "b": [1,2,3]}'


def gate(data):
    """Accepts at 5 to 7, crashes at 9; a real verdict is a whole one."""
    if len(data) in (5, 6, 7):
        return
    if len(data) == 9:
        raise KeyError
    strictjson.loads(data)


@pytest.fixture
def found():
    return report(calling(gate, VERDICT, "cuts"))


def test_the_document(found):
    assert document.document(found) == {
        "version": 1,
        "target": "function",
        "seed": 0,
        "control": "accepted",
        "planned": 73,
        "tried": 73,
        "refused": 69,
        "crashed": 1,
        "hung": 0,
        "inconclusive": 0,
        "accepted": [{"fault": f"cut:{at}", "note": "returned"} for at in (5, 6, 7)],
        "exit_code": 1,
    }


def test_every_fault_is_counted_once(found):
    made = document.document(found)
    parts = sum(made[name] for name in ("refused", "crashed", "hung", "inconclusive")) + len(made["accepted"])
    assert parts == made["tried"]


def test_the_map_has_a_cell_for_each_byte(found):
    (strip,) = strips.strips(found.swept)
    assert strip.cells == "rrrrrAAArc" + "r" * 63


@pytest.mark.parametrize("width", [1, 24, 40, 80, 200])
def test_the_terminal_report_fits_and_has_a_mark_for_each_byte(found, width):
    text = terminal.show(found, width)
    rows = [line for line in text.splitlines() if re.match(r" +\d+ [·█x]+", line)]
    cells = "".join(line.split()[1] for line in rows)
    assert cells == "·····███·x" + "·" * 63
    assert all(len(line) <= max(width, 24) for line in rows)
    assert "\x1b" not in text
    assert "└verdict" in text
    assert "3 holes in function." in text
    assert "crashed: cut:9 (raised KeyError)" in text


def test_colours_are_whose_who_asks():
    painted = terminal.show(report(calling(gate)), 80, lambda text, colour: f"<{colour}>{text}</>" if colour else text)
    assert "<red>███</>" in painted
    assert "<yellow>x</>" in painted


def test_a_large_payload_shows_the_worst_of_each_cell():
    data = b'{"a": "%b"}' % (b"x" * 40_000)
    text = terminal.show(report(calling(lambda raw: None if len(raw) == 20_001 else strictjson.loads(raw), data)), 80)
    assert text.count("█") == 2  # one cell, and the legend
    assert "the worst shown" in text
    assert len(text.splitlines()) < 110


def test_it_says_how_to_see_a_hole_again(found):
    text = terminal.show(found, 80, again="endmark drill python x:y {}")
    assert "  endmark drill python x:y --only cut:5" in text
    small = report(calling(gate))
    bench = HereTarget("function", CallPlayer(gate))
    from endmark.drills.sweep.batch import Bench

    made = minimise.minimise(Bench(bench.open(0), None, Body(VERDICT), 5.0), small.holes[0].fault, Answer.ACCEPTED)
    assert made is not None
    assert len(made.data) == 5


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: calling(strictjson.loads), "No hole."),
        (lambda: drill(shell("exit 1"), VERDICT), "No drill: the whole payload was not accepted: refused (exit 1)."),
        (lambda: calling(strictjson.loads, VERDICT, "events"), "Nothing was tried"),
        (lambda: calling(strictjson.loads, budget=1e-9, batch=10), "No hole in what was tried; 63 faults were not."),
    ],
)
def test_the_first_line_says_how_it_stands(make, says):
    assert terminal.show(report(make()), 80).startswith(says)


def test_junit(found):
    tree = ET.fromstring(junit.dumps(found))
    cases = {case.get("name"): case for case in tree.iter("testcase")}
    assert list(cases) == ["the whole payload is accepted", "cuts"]
    failure = cases["cuts"].find("failure")
    assert failure is not None
    assert failure.text is not None
    assert failure.text.split() == ["cut:5", "cut:6", "cut:7"]
    assert (tree.get("tests"), tree.get("failures"), tree.get("errors")) == ("2", "1", "0")
    clean = ET.fromstring(junit.dumps(report(calling(strictjson.loads))))
    assert (clean.get("failures"), clean.get("errors")) == ("0", "0")
    failed = ET.fromstring(junit.dumps(report(drill(shell("exit 1"), VERDICT))))
    assert failed.get("errors") == "2"
    half = ET.fromstring(junit.dumps(report(calling(strictjson.loads, budget=1e-9, batch=10))))
    assert half.get("errors") == "1"


def test_sarif(found):
    log = strictjson.loads(sarif.dumps(found))
    (run,) = log["runs"]
    assert [(result["ruleId"], result["message"]["text"]) for result in run["results"]] == [
        ("accepted", f"cut:{at} was taken for whole by function.") for at in (5, 6, 7)
    ]
    region = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    assert region == {"byteOffset": 5, "byteLength": 0}
    assert run["invocations"][0]["executionSuccessful"] is True
    failed = strictjson.loads(sarif.dumps(report(drill(shell("exit 1"), VERDICT))))["runs"][0]
    assert failed["invocations"][0]["executionSuccessful"] is False
    assert failed["results"] == []


def bars(found, kind):
    """Where the marks of one kind stand in the first strip, as cells."""
    tree = ET.fromstring(svg.dumps(found))
    wide = min(14.0, (960 - 72 - 32) / min(128, len(found.swept.body.data)))
    marks = [mark for mark in tree.iter(f"{SVG}rect") if mark.get("class") == kind and float(mark.get("x", 0)) >= 72]
    legend = max(float(mark.get("y", 0)) for mark in tree.iter(f"{SVG}rect"))
    return [
        (round((float(mark.get("x", 0)) - 72) / wide), round(float(mark.get("width", 0)) / wide))
        for mark in marks
        if abs(float(mark.get("y", 0)) + float(mark.get("height", 0)) - legend - 16) > 17
    ]


def test_the_picture_has_its_marks_where_the_holes_are(found):
    assert bars(found, "accepted") == [(5, 3)]
    assert bars(found, "crashed") == [(9, 1)]
    assert bars(found, "refused") == [(0, 5), (8, 1), (10, 63)]


def test_the_picture_says_what_it_shows(found):
    tree = ET.fromstring(svg.dumps(found))
    texts = [text.text for text in tree.iter(f"{SVG}text")]
    for said in ("3 holes in function", "73", "69", "faults tried", "accepted", "crashed", "verdict", "policy_version"):
        assert said in texts
    assert tree.get("aria-label") == "Truncation map of function: 3 holes"
    assert b"prefers-color-scheme: dark" in svg.dumps(found)
    assert b"http" not in svg.dumps(found).replace(b'xmlns="http://www.w3.org/2000/svg"', b"")


def test_nothing_that_others_wrote_gets_out_of_its_place():
    target = HereTarget("\x1b[31m<&\"'>\u202e", CallPlayer(strictjson.loads))
    swept = drill(target, EVIL, "cuts,keys")
    made = report(swept)
    for raw in (svg.dumps(made), junit.dumps(made), sarif.dumps(made)):
        assert raw.isascii()
        assert b"\x1b" not in raw
    ET.fromstring(svg.dumps(made))
    ET.fromstring(junit.dumps(made))
    strictjson.loads(sarif.dumps(made))
    assert "\x1b" not in terminal.show(made, 80)
    assert "\u202e" not in terminal.show(made, 80)


def test_a_sweep_without_a_map_has_a_picture_too():
    made = report(calling(lambda data: None, VERDICT, "keys"))
    assert b"have no place on a map" in svg.dumps(made)
    assert len(holes(made.swept)) == 9
