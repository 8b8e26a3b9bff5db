"""The table keeps its word: every row is tested where it says so, or waits and says for what; the page is in step."""

import re
import subprocess
import sys
from collections import Counter, defaultdict

import pytest
from tests.incidents import rows
from tests.incidents.rows import EXITS, HALF, PAGE, ROOMS, ROWS, RUNS, WAITS
from tests.incidents.world import ROOT, environment

FOLDERS = ["tests/gates/patches", "tests/incidents", "tests/wires", "tests/sources", "tests/seal"]


def borne(test):
    """The rows that a test bears in its name or in the id of a case: INC-002, inc_002 or inc_002_003_007."""
    chains = re.findall(r"inc((?:[-_]\d{3}(?!\d))+)", test.lower())
    return [f"INC-{number}" for chain in chains for number in re.findall(r"\d{3}", chain)]


def listed(session):
    """`file::test` of every test in the folders, as pytest itself finds them: in this run, if it has all of them."""
    config = session.config
    if config.args == config.getini("testpaths") and config.option.markexpr == "not soak" and not config.option.keyword:
        return [item.nodeid for item in session.items if item.nodeid.startswith(tuple(f"{name}/" for name in FOLDERS))]
    listing = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *FOLDERS],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert listing.returncode == 0, listing.stdout + listing.stderr
    return listing.stdout.splitlines()


@pytest.fixture(scope="module")
def collected(request):
    """Row id -> the files in which a test bears it, below tests/."""
    found = defaultdict(set)
    for line in listed(request.session):
        file, separator, test = line.partition("::")
        if separator and not file.endswith("test_rows.py"):
            for row_id in borne(test):
                found[row_id].add(file.removeprefix("tests/"))
    assert found
    return found


def test_there_are_109_rows_with_ids_of_their_own():
    assert len(ROWS) == 109
    assert list(ROWS) == sorted(ROWS)
    assert [row_id for row_id in ROWS if not re.fullmatch(r"INC-\d{3}", row_id)] == []
    shapes = Counter(row.shape for row in ROWS.values())
    assert max(shapes.values()) == 1
    addresses = [row.url for row in ROWS.values() if row.url]
    assert len(addresses) == 108, "one row was measured and has no address"
    assert all(re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+", address) for address in addresses)


def test_each_row_is_complete():
    for row in ROWS.values():
        assert row.status in (RUNS, HALF, WAITS), row.id
        assert bool(row.tests) == (row.status != WAITS), row.id
        assert bool(row.waits) == (row.status != RUNS), row.id
        assert not row.waits or row.waits.partition(": ")[0] in ROOMS, row.id
        assert row.shape.endswith("."), row.id
        assert len(row.shape) <= 200, row.id
        assert row.states, row.id
        assert set(row.states) <= set(EXITS), row.id


def test_every_row_names_the_files_whose_tests_bear_it_and_no_other(collected):
    found = {row_id: sorted(collected.get(row_id, ())) for row_id in ROWS}
    assert {row.id: found[row.id] for row in ROWS.values() if row.tests != found[row.id]} == {}


def test_how_a_test_bears_its_rows():
    assert borne("test_inc_002_003_007_a_reason[x-16]") == ["INC-002", "INC-003", "INC-007"]
    assert borne("test_no_cut[INC-013]") == ["INC-013"]
    assert borne("test_inc_005_inc_007_nothing") == ["INC-005", "INC-007"]
    assert borne("test_since_2024[inc-1234]") == []


def test_no_row_that_waits_is_tested_already(collected):
    assert [row.id for row in ROWS.values() if row.status == WAITS and row.id in collected] == []


def test_no_test_bears_an_unknown_row(collected):
    assert set(collected) - set(ROWS) == set()


def test_the_page_is_in_step():
    assert PAGE.read_text(encoding="utf-8") == rows.page(), "run: python -m tests.incidents.rows"
