"""Help, completion, the reference verbs, and what a start costs."""

import subprocess
import sys

import click
import pytest

from endmark import __version__
from endmark.core.decision import TABLE
from endmark.faces import cli

MATTER = ["check", "seal", "apply", "show", "approve"]


def commands(group=cli.commands, path=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command.hidden:  # a hook calls it, people do not
            continue
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


VERBS = dict(commands())
GROUPS = [path for path, command in VERBS.items() if isinstance(command, click.Group)]


def test_the_first_screen(shell):
    said = shell.run("--help")
    assert said.code == 0
    shown = [line.split()[0] for line in said.text.split("Commands:")[1].split("Jobs:")[0].splitlines() if line.strip()]
    assert shown == MATTER
    for path in VERBS:
        assert f"  {path[0]} " in said.text
    assert max(map(len, said.text.splitlines())) <= 80
    assert shell.run("-h").text == said.text
    assert shell.run("ledger", "-h").text == shell.run("ledger", "--help").text != ""


def test_a_verb_has_the_name_it_is_called_by():
    assert [path[-1] for path, command in VERBS.items() if command.name != path[-1]] == []


@pytest.mark.parametrize("path", sorted(VERBS.keys() - GROUPS), ids=" ".join)
def test_every_verb_explains_itself_with_an_example(shell, path):
    said = shell.run(*path, "--help")
    assert said.code == 0
    assert "Example" in said.text
    assert f"endmark {path[0]}" in said.text.split("Example")[1]
    for parameter in VERBS[path].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{parameter.name} has no help"


def test_version(shell):
    assert shell.run("--version").text == f"endmark {__version__}\n"


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_completion_scripts(shell, name):
    said = shell.run("completion", name)
    assert said.code == 0
    assert "_ENDMARK_COMPLETE" in said.text


def test_words_are_completed(shell):
    shell.setenv(_ENDMARK_COMPLETE="bash_complete", COMP_WORDS="endmark app", COMP_CWORD="1")
    assert shell.program().text.split() == ["plain,apply", "plain,approve"]


def test_decisions_show_the_table(shell):
    said = shell.run("decisions")
    lines = said.text.splitlines()
    assert len(lines) == 2 * len(TABLE) + 3
    for row in TABLE:
        assert lines[len(TABLE) + 2 + row.number].split() == [str(row.number), *row.signals]
    rows = shell.run("decisions", "--json").object["rows"]
    assert [(row["number"], row["state"], row["exit_code"]) for row in rows] == [
        (row.number, row.state, row.exit_code) for row in TABLE
    ]


def test_rules_are_lines(shell):
    said = shell.run("rules")
    assert all(line.startswith("- ") for line in said.text.splitlines())
    assert "A closed stream is not success" in said.text
    assert "never a hint to continue" in said.text
    assert shell.run("rules", "--json").object["rules"]


def test_fingerprint(shell):
    said = shell.run("fingerprint", "sqlite:///app.db", "--json")
    assert (said.code, list(said.object)) == (0, ["version", "target", "fingerprint", "exit_code", "at"])
    assert shell.run("fingerprint", "sqlite:///app.db").text.strip() == said.object["fingerprint"]
    assert shell.run("fingerprint", "sqlite:///gone.db").code == 20


# --- what a start costs: figures belong to the bench, what is imported belongs here


def imported(shell, *arguments):
    script = (
        "import sys; from endmark.faces.cli import run; "
        f"code = run({list(arguments)!r}); print(code, *sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], cwd=shell.folder, capture_output=True, text=True, check=True
    )
    return set(done.stderr.split()[1:])


HEAVY = {
    "sqlite3",
    "sqlglot",
    "dataclasses",
    "importlib.metadata",
    "asyncio",
    "logging",
    "pathlib",
    "subprocess",
    "ssl",
}


def test_help_imports_no_verb(shell):
    found = imported(shell, "--help")
    assert found & (HEAVY | {"msgspec", "hashlib"}) == set()
    assert [name for name in found if name.startswith("endmark.faces.cli.")] == []


def test_check_imports_no_database(shell):
    shell.plan()
    assert imported(shell, "check", "job-1.json") & HEAVY == set()
    assert imported(shell, "seal", "job-1.json") & HEAVY == set()


def test_an_apply_without_a_question_imports_no_parser(shell):
    shell.plan()
    found = imported(shell, "apply", "job-1.json", "--to", "sqlite:///app.db", "--yes", "--json")
    assert "sqlite3" in found
    assert "sqlglot" not in found


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["check", "--json"], "Missing argument 'FILE|-'"),
        (["jobs", "--json", "--nothing"], "No such option"),
        (["chekc", "x", "--json"], "Did you mean 'check'?"),
    ],
    ids=["missing", "unknown", "typo"],
)
def test_a_line_that_cannot_be_read_is_answered_in_json_too(shell, arguments, part):
    said = shell.run(*arguments)
    assert said.code == 2
    assert said.object["state"] == "not-tried"
    assert said.object["signal"] == "usage"
    assert part in said.object["detail"]
    assert said.object["exit_code"] == 2
