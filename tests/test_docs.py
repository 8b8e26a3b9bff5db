"""The pages keep their word: links lead somewhere, and every command they show exists, with its options."""

import re
import shlex
from pathlib import Path

import click
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("spec/**/*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]

FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<!\\)\[[^\]\n]*\]\(([^)\s]+)(?: \"[^\"]*\")?\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
SHELLS = {"", "sh", "shell", "bash", "console", "text"}
ENDS_A_COMMAND = re.compile(r"\|\||&&|[|;&)`]")


def anchors(page):
    """The fragments that a page's headings answer to, spelled as forges spell them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    found = []
    for heading in HEADING.findall(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        found.append(re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page):
    broken = []
    for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        name, _, fragment = target.partition("#")
        goal = (page.parent / name).resolve() if name else page
        if not goal.exists():
            broken.append(f"{target}: no such file")
        elif not goal.is_relative_to(ROOT):
            broken.append(f"{target}: outside the project")
        elif fragment and goal.suffix == ".md" and fragment not in anchors(goal):
            broken.append(f"{target}: no such heading")
    assert broken == []


def commands(page):
    """Every `endmark ...` command line in a page's shell blocks, as words."""
    for language, block in FENCE.findall(page.read_text(encoding="utf-8")):
        if language not in SHELLS:
            continue
        for line in block.replace("\\\n", " ").splitlines():
            for piece in ENDS_A_COMMAND.split(line):
                shown = re.match(r"\s*(?:[$#>] +)?(?:\w+=\S* +)*endmark(?: +(.*))?$", piece)
                if shown:
                    yield piece.strip(), words(shown[1] or "")


def words(text):
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def what_is_wrong(said):
    """Why the command line does not know these words, or None."""
    from endmark.faces import cli

    command: click.Command = next(face for face in vars(cli).values() if isinstance(face, click.Group))
    context = click.Context(command, info_name="endmark")
    known = options(context)
    rest = list(said)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        verb = rest.pop(0)
        inner = command.get_command(context, verb)
        if inner is None:
            return f"`{context.command_path}` has no verb {verb!r}, only: {', '.join(command.list_commands(context))}"
        command, context = inner, click.Context(inner, info_name=verb, parent=context)
        known |= options(context)
    given = {word.partition("=")[0] for word in rest if re.match(r"--\w", word)}
    return f"`{context.command_path}` has no option {min(given - known)}" if given - known else None


def options(context):
    return {
        spelling
        for parameter in context.command.get_params(context)
        for spelling in (*parameter.opts, *parameter.secondary_opts)
    }


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_commands_shown_exist(page):
    wrong = [f"{shown}: {why}" for shown, said in commands(page) if (why := what_is_wrong(said))]
    assert wrong == []


def test_the_first_screen_shows_a_command():
    assert "make demo" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_a_wrong_command_would_be_found():
    assert "no verb" in what_is_wrong(["conjure", "x"])
    assert "no option" in what_is_wrong(["check", "--conjure", "x"])
    assert what_is_wrong(["check", "-"]) is None


def test_every_decision_record_is_listed():
    folder = ROOT / "docs" / "decisions"
    index = (folder / "README.md").read_text(encoding="utf-8")
    records = sorted(path.name for path in folder.glob("[0-9]*.md"))
    assert [name for name in records if f"({name})" not in index] == []
    assert len({name[:4] for name in records}) == len(records), "two records share a number"
