"""The table keeps its word: every row is tested where it says so, or waits and says for what; the page is in step."""

import re
import subprocess
import sys
from collections import Counter, defaultdict

import pytest
from tests.incidents import rows
from tests.incidents.rows import EXITS, HALF, PAGE, ROOMS, ROWS, RUNS, WAITS
from tests.incidents.world import ROOT, environment


@pytest.fixture(scope="module")
def collected():
    """Row id -> the files in which a test bears it, as pytest itself finds them."""
    listing = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", "tests/incidents"],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert listing.returncode == 0, listing.stdout + listing.stderr
    found = defaultdict(set)
    for line in listing.stdout.splitlines():
        file, separator, test = line.partition("::")
        if separator and not file.endswith("test_rows.py"):
            for number in re.findall(r"inc[-_](\d{3})", test.lower()):
                found[f"INC-{number}"].add(file.rpartition("/")[2])
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


def test_every_row_that_runs_is_borne_by_a_test_in_its_file(collected):
    missing = [row.id for row in ROWS.values() if row.tests and row.tests not in collected[row.id]]
    assert missing == []


def test_no_row_that_waits_is_tested_already(collected):
    assert [row.id for row in ROWS.values() if row.status == WAITS and row.id in collected] == []


def test_no_test_bears_an_unknown_row(collected):
    assert set(collected) - set(ROWS) == set()


def test_the_page_is_in_step():
    assert PAGE.read_text(encoding="utf-8") == rows.page(), "run: python -m tests.incidents.rows"
