"""The folder of drills, into which anybody may have written."""

import os
import subprocess
import sys
from typing import Any

import pytest
from tests.faces.pages.reading import Page
from tests.faces.pages.site import envelope

from endmark.core import strictjson
from endmark.faces.pages.drills import Shelf

GOOD = {
    "version": 1, "target": "gate", "seed": 0, "control": "accepted", "planned": 9, "tried": 9, "refused": 9,
    "crashed": 0, "hung": 0, "inconclusive": 0, "accepted": [], "exit_code": 0,
}  # fmt: skip
STATES = {
    "no hole": {},
    "hole": {"accepted": [{"fault": "cut:3"}], "exit_code": 1},
    "inconclusive": {"control": "exit 1", "exit_code": 1},
}
UNSURE = {
    "nothing was tried": {"tried": 0},
    "an exit code that knows better": {"exit_code": 1},
    "some could not be judged": {"inconclusive": 1},
}
UNREADABLE = {
    "cut": strictjson.dumps(GOOD)[:-9],
    "two keys": strictjson.dumps(GOOD)[:-1] + b',"tried":1}',
    "a list": b"[]",
    "nothing": b"",
    "another version": strictjson.dumps(GOOD | {"version": 2}),
    "a word for a number": strictjson.dumps(GOOD | {"tried": "9"}),
    "no holes": strictjson.dumps({key: value for key, value in GOOD.items() if key != "accepted"}),
    "too long": b'{"a":"' + b"x" * (4 << 20) + b'"}',
    "deep": b'{"a":' + b"[" * 100_000,
}


def kept(shelf) -> Any:
    return shelf.one("a")


@pytest.mark.parametrize("name", [*STATES, *UNSURE])
def test_a_report_is_green_only_where_it_proves_something(tmp_path, name):
    facts = STATES.get(name) or UNSURE.get(name) or {}
    (tmp_path / "a.json").write_bytes(strictjson.dumps(GOOD | facts))
    assert kept(Shelf(tmp_path)).report.state == (name if name in STATES else "inconclusive")


@pytest.mark.parametrize("name", UNREADABLE)
def test_what_is_no_report_is_said_and_not_shown(tmp_path, name):
    (tmp_path / "a.json").write_bytes(UNREADABLE[name])
    found = kept(Shelf(tmp_path))
    assert (found.report, found.why != "") == (None, True)


def test_nothing_outside_of_the_folder_is_read(tmp_path):
    folder = tmp_path / "drills"
    folder.mkdir()
    (tmp_path / "secret.json").write_bytes(strictjson.dumps(GOOD))
    (tmp_path / "secret.svg").write_bytes(b"<svg/>")
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    (folder / "link.svg").symlink_to(tmp_path / "secret.svg")
    os.mkfifo(folder / "pipe.json")
    (folder / "folder.json").mkdir()
    (folder / "\u202e.json").write_bytes(b"{}")
    shelf = Shelf(folder)
    assert shelf.all() == ([], "")
    for name in ("link", "pipe", "folder", "../secret", "", ".", "a" * 101):
        assert (shelf.one(name), shelf.map(name)) == (None, None)
    assert "cannot be read" in Shelf(tmp_path / "none").all()[1]
    assert "No folder is configured" in Shelf(None).all()[1]


def test_a_report_that_was_written_again_is_read_again(tmp_path):
    shelf = Shelf(tmp_path)
    for target in ("first", "second!"):
        (tmp_path / "a.json").write_bytes(strictjson.dumps(GOOD | {"target": target}))
        assert kept(shelf).report.target == target


def test_a_real_drill_and_its_map(empty):
    (empty.folder / "plan.mc1").write_bytes(envelope("job-1"))
    drills = empty.folder / "drills"
    command = ["drill", "plan", "--payload", "plan.mc1", "--faults", "cuts", "--json", "--svg", "drills/plan.svg"]
    done = subprocess.run(
        [sys.executable, "-m", "endmark", *command], cwd=empty.folder, capture_output=True, check=True
    )
    (drills / "plan.json").write_bytes(done.stdout)
    with empty.browser() as browser:
        page = Page(browser.get("/drills/plan").text)
        assert page.faults() == []
        assert [said[1:] for _, said in page.states()] == [["no", "hole"]]
        picture = browser.get(page.all("img")[0]["attrs"]["src"])
    assert picture.content == (drills / "plan.svg").read_bytes()
    assert picture.headers["content-type"] == "image/svg+xml"
    assert picture.headers["content-security-policy"].startswith(
        "default-src 'none'; style-src 'unsafe-inline'; sandbox;"
    )
    assert picture.headers["x-content-type-options"] == "nosniff"
