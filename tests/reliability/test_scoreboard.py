"""The scoreboard writes what was counted and nothing else, row by row; and the page names tests that there are."""

import re
import sys

import pytest
from bench.scoreboard import page, rows, running
from bench.scoreboard.rows import Row
from bench.scoreboard.running import Found

TEXT = f"# Title\n\n{page.MARKS[0]}\n{page.MARKS[1]}\n\nAfter.\n"


def test_the_page_names_tests_that_there_are():
    named = re.findall(r"`(tests/[^`]+)::(\w+)`", page.PAGE.read_text(encoding="utf-8"))
    assert len(named) > 20
    for file, name in named:
        assert f"def {name}(" in (page.PAGE.parent.parent / file).read_text(encoding="utf-8"), (file, name)


def test_every_row_of_the_page_is_a_row_and_its_command_is_the_one_that_runs():
    text = page.PAGE.read_text(encoding="utf-8")
    assert page.renewed(text, {}) == text
    for row in rows.ROWS:
        line = page.kept(text)[row.name]
        assert "not measured yet" in line or all(command.replace(rows.BIN, "") in line for command in row.commands)
        for path in re.findall(r"tests/[\w/.]+", " ".join(row.commands)):
            assert (page.PAGE.parent.parent / path).exists(), path


def test_a_run_renews_its_own_rows_alone():
    first, second = rows.ROWS[:2]
    text = page.renewed(TEXT, {first.name: page.line(first, Found(True, "3 tried", 61.0), "2026-01-01", "1")})
    assert text.count("not measured yet") == len(rows.ROWS) - 1
    later = page.renewed(text, {second.name: page.line(second, Found(False, "4 accepted", 2.0), "2026-02-02", "2")})
    kept = page.kept(later)
    assert kept[first.name] == page.kept(text)[first.name]
    assert "holds | 3 tried | 2026-01-01" in kept[first.name]
    assert "**FAILS** | 4 accepted | 2026-02-02" in kept[second.name]
    assert (page.took(kept[first.name]), page.took(kept[rows.ROWS[2].name])) == (61.0, None)
    assert later.startswith("# Title\n")
    assert later.endswith("\n\nAfter.\n")


def test_unknown_rows_are_named():
    with pytest.raises(KeyError, match="nonsense"):
        rows.chosen(["cuts", "nonsense"])
    assert rows.chosen([]) == list(rows.ROWS)


def told(kind, *commands):
    found = running.run(Row("row", "", kind, commands), lambda seconds: None)
    return found.holds, found.words


REPORT = (
    '{"control": "accepted", "tried": %d, "refused": 5, "crashed": 0, "hung": 0, "inconclusive": 0, "accepted": [%s]}'
)


@pytest.mark.parametrize(
    ("kind", "program", "holds", "words"),
    [
        ("drill", f"print({REPORT % (5, '')!r})", True, "5 tried, 5 refused, 0 accepted"),
        ("drill", f"print({REPORT % (6, 1)!r})", False, "6 tried, 5 refused, 1 accepted"),
        ("drill", f"print({REPORT.replace('accepted', 'refused', 1) % (5, '')!r})", False, "not accepted: refused"),
        ("drill", "print(7)", False, "did not run"),
        ("drill", "raise SystemExit(3)", False, "did not run: exit 3, and no report"),
        ("figures", 'print("a word"); print({"checks": 9, "noticed": 9, "survived": []})', False, "no figures"),
        ("figures", 'print("{\\"checks\\": 9, \\"survived\\": []}")', True, "9 checks, 0 missed"),
        ("figures", 'print("{\\"checks\\": 9, \\"survived\\": [1]}")', False, "9 checks, 1 missed"),
        ("figures", 'print("{\\"checks\\": 9}"); raise SystemExit(1)', False, "9 checks, 1 failed"),
    ],
)
def test_what_was_counted_is_what_is_said(kind, program, holds, words, tmp_path):
    script = tmp_path / "told.py"
    script.write_text(program)
    said = told(kind, f"{sys.executable} {script}")
    assert said[0] is holds
    assert words in said[1]


@pytest.mark.parametrize(
    ("body", "holds", "words"),
    [
        ("def test_a(record_property):\n    record_property('kills', 7)", True, "1 tests, 0 failed, 7 kills"),
        ("def test_a(): assert False", False, "1 tests, 1 failed"),
        ("import pytest\ndef test_a(): pytest.skip('no server')", False, "1 tests, 0 failed, 1 not run"),
        ("", False, "did not run: pytest ended with exit 5"),
    ],
)
def test_tests_are_counted_and_what_they_counted(tmp_path, body, holds, words, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # which take seconds to load
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_told.py").write_text(body)
    assert told("tests", f"{sys.executable} -m pytest -q -c {tmp_path}/pytest.ini {tmp_path}") == (holds, words)
