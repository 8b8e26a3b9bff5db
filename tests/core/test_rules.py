"""Every rule in spec/ has one number, a line of code that cites it, and a vector or a test that shows it."""

import re
import tokenize
from pathlib import Path

from tests.core import vectors


def letters(rule: str) -> str:
    """Whose rule it is: each page, or part of one, has letters of its own."""
    return rule.rstrip("0123456789")


def shown_by(vector: Path) -> list[str]:
    """The rule that the header of a vector names; none in any other file."""
    header = vector.read_bytes().partition(b"\n\n")[0] if vector.is_file() and not vector.suffix else b""
    return re.findall(r"^rule: (\w+)$", header.decode(errors="replace"), re.MULTILINE)


ROOT = Path(__file__).parents[2]
PAGES = {page.name: page.read_text() for page in sorted((ROOT / "spec").glob("*.md"))}
RULES = [rule for page in PAGES.values() for rule in re.findall(r"^\*\*([A-Z]+[0-9]+)\.\*\*", page, re.MULTILINE)]
LETTERS = sorted({letters(rule) for rule in RULES})
NUMBER = re.compile(rf"\b((?:{'|'.join(LETTERS)})[1-9][0-9]?)\b")
# These letters' rules speak of input alone. Of the others some speak of states, codes and keys, which tests show.
OF_INPUT = {"J", "M", "P", "W", "V"}
IN_VECTORS = {rule for path in vectors.FOLDER.rglob("*") for rule in shown_by(path)}


def cited_in(*folders: str) -> dict[str, set[str]]:
    """Every number in a comment or a docstring, with the files it stands in."""
    found: dict[str, set[str]] = {}
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            with file.open("rb") as source:
                for token in tokenize.tokenize(source.readline):
                    prose = token.type == tokenize.COMMENT or (
                        token.type == tokenize.STRING and token.string.startswith('"""')
                    )
                    for rule in ranged(token.string) if prose else ():
                        found.setdefault(rule, set()).add(file.name)
    return found


def ranged(text: str) -> set[str]:
    """The numbers in a text. The ends of a range such as J1-J10 name a page's rules and cite none."""
    return set(NUMBER.findall(re.sub(r"\b[A-Z]+[0-9]+-[A-Z]+[0-9]+\b", "", text)))


def test_every_rule_has_one_number():
    assert len(RULES) == len(set(RULES))
    assert set("JMPWVSX") <= set(LETTERS)
    for letter in LETTERS:
        numbers = sorted(int(rule.removeprefix(letter)) for rule in RULES if letters(rule) == letter)
        assert numbers == list(range(1, len(numbers) + 1)), letter


def test_every_rule_is_cited_by_the_code_that_keeps_it():
    assert sorted(set(RULES) - set(cited_in("src"))) == []


def test_every_rule_is_shown_by_a_vector_or_a_test():
    tested = {rule for rule in cited_in("tests") if letters(rule) not in OF_INPUT}
    assert sorted(set(RULES) - IN_VECTORS - tested) == []


def test_no_rule_is_cited_that_does_not_exist():
    rules = set(RULES)
    assert {rule: files for rule, files in cited_in("src", "tests").items() if rule not in rules} == {}
    assert IN_VECTORS - rules == set()
    named = {name: set(NUMBER.findall(page)) - rules for name, page in PAGES.items()}
    assert {name: missing for name, missing in named.items() if missing} == {}


def test_the_head_of_a_file_names_the_range_there_is():
    for file in sorted((ROOT / "src").rglob("*.py")):
        for first, last in re.findall(r"\b([A-Z]+[0-9]+)-([A-Z]+[0-9]+)\b", file.read_text()):
            if NUMBER.fullmatch(first):
                assert {first, last} <= set(RULES), file.name
