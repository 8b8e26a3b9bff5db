"""What spec/ prints is what the code has: its generated tables, and the examples it works out."""

import re

import pytest
from tests.core import payloads, spec_tables
from tests.core.spec_tables import SPEC

from endmark.core import evidence, mc1, outcome, plan, verdict
from endmark.core.decision import Next
from endmark.core.refusal import Signal

PAGES = {page.name: page.read_text() for page in sorted(SPEC.glob("*.md"))}


@pytest.mark.parametrize("page", PAGES)
def test_generated_tables_are_current(page):
    """If not: python -m tests.core.spec_tables"""
    assert spec_tables.rendered(PAGES[page]) == PAGES[page]


def test_every_generated_table_is_somewhere():
    printed = re.findall(r"<!-- ([a-z ]+): generated -->", "".join(PAGES.values()))
    assert sorted(printed) == sorted(spec_tables.TABLES)


def test_worked_examples():
    page = PAGES["plan.md"]
    statements = ["CREATE TABLE t (id INTEGER)", "INSERT INTO t VALUES (1)"]
    assert plan.digest(statements) in page
    assert len("\n".join(statements)) == 52
    assert plan.digest(["a\nb", "c"]) == plan.digest(["a", "b\nc"])
    assert f"`{plan.digest(['a', 'b', 'c'])}`" in page
    assert f"`{evidence.UNCOVERED}`" in page
    header, _, body = mc1.seal(b'{"a":1}').partition(b"\n")
    assert f"{header.decode()} LF {body.decode().rstrip().replace(chr(10), ' LF ')} LF" in PAGES["mc1.md"]
    hashed = (
        b"endmark-fingerprint-sqlite-1\n"
        b"5:index,14:customers_name,9:customers,47:CREATE INDEX customers_name ON customers (name),"
        b"5:table,9:customers,9:customers,58:CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT),"
    )
    assert len(hashed) == 212
    assert payloads.sha(hashed) in page
    assert all(line.decode() in page for line in hashed.replace(b"),", b"),\n").split(b"\n"))


def test_keys_are_those_of_the_pages():
    table = set(re.findall(r"^\| `([a-z_0-9]+)`(?:, `([a-z_0-9]+)`)? \|", PAGES["plan.md"], re.MULTILINE))
    assert {key for keys in table for key in keys if key} == {*plan.REQUIRED, *plan.OPTIONAL}
    order = re.search(r"\*\*P21\.\*\*.*?:\n(.*?)\.\n", PAGES["plan.md"], re.DOTALL)
    assert order is not None
    assert tuple(re.findall(r"`([a-z_0-9]+)`", order[1])) == plan.ORDER
    assert tuple(re.findall(r"^\| `([a-z_]+)` \|", PAGES["verdict.md"], re.MULTILINE)) == verdict.KEYS
    keys = re.search(r"\*\*X3\.\*\*(.*?)\*\*X4", PAGES["exit-codes.md"], re.DOTALL)
    assert keys is not None
    assert tuple(re.findall(r"^\| `([a-z_0-9]+)` \|", keys[1], re.MULTILINE)) == outcome.Outcome.__struct_fields__
    words = PAGES["exit-codes.md"].partition("**X4.**")[2]
    assert re.findall(r"^\| `([a-z-]+)` \|", words, re.MULTILINE) == [word.value for word in Next]


def test_every_signal_a_page_names_exists():
    """A word in code quotes after 'else', a colon or 'as' is the name of a signal."""
    word = r"(?:else|refused as|refused,|:)\s`([a-z]+(?:-[a-z0-9]+)+|empty|marks)`"
    for page in ("json.md", "mc1.md", "plan.md", "verdict.md"):
        named = re.findall(word, PAGES[page])
        assert named
        assert set(named) <= {signal.value for signal in Signal}, page
