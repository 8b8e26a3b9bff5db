"""The incident end to end, over real parts: llmock answers, the fault proxy cuts politely, an SDK's helper believes.

endmark refuses the same bytes and nothing reaches the database; with the guard in front, the SDK itself raises.
"""

import sqlite3
from contextlib import closing

import httpx2
import pytest
from tests.drills.mocked import ERRORS, STATEMENTS, TOOL, WITNESS, asking, upstream
from tests.drills.running import proxying
from tests.support.world import dump, files, make_database

import endmark


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "shop.db"
    make_database(path)
    return path


def run_as_jobs_do(path, statements):
    with closing(sqlite3.connect(path, isolation_level=None)) as conn:
        for statement in statements:
            conn.execute(statement)


def edges_of_statements(url):
    """The number of events after which the SDK sees some statements, and not all."""
    with proxying(url, sweep="edge") as broken:
        count = 0
        while not broken.do(lambda: broken.proxy.sweep.is_over):
            try:
                arguments, _ = asking("anthropic", broken.url)
            except ERRORS:
                arguments = None
            if arguments and 0 < len(arguments.get("statements", [])) < len(STATEMENTS):
                return count
            count += 1
            assert count < 1_000
    raise AssertionError("the SDK believed none of them")


def test_the_incident(database, tmp_path):
    before = files(database)
    target = f"sqlite:///{database}"
    with upstream("anthropic") as url:
        edge = edges_of_statements(url)
        with proxying(url, fault=f"edge:{edge}") as broken:
            # The SDK takes the cut call for a dict, and says nothing.
            arguments, _ = asking("anthropic", broken.url)
            assert arguments["stmt_count"] == len(STATEMENTS) > len(arguments["statements"]) > 0
            # endmark, below the same SDK: refused, and nothing is written.
            with endmark.capture() as c, endmark.Gate(tmp_path / "ledger.db") as gate:
                asking("anthropic", broken.url, transport=c.transport(httpx2.HTTPTransport()))
                with pytest.raises(endmark.AnswerRefused) as refused:
                    gate.apply(c.seal(tool=TOOL), target)
            assert refused.value.received_bytes == len(c.taken.raw)
            assert files(database) == before
            # The guard in front: the SDK itself raises.
            with proxying(broken.url, guard=True) as guard, pytest.raises(ERRORS):
                asking("anthropic", guard.url)
            assert guard.said[0].startswith("withheld: POST /v1/messages, anthropic, ")
        # Whole, through all of it: the SDK works as ever, and the plan is applied.
        with (
            proxying(url, guard=True) as guard,
            endmark.capture() as c,
            endmark.Gate(tmp_path / "ledger.db") as gate,
        ):
            whole, _ = asking("anthropic", guard.url, transport=c.transport(httpx2.HTTPTransport()))
            assert whole == WITNESS
            assert gate.apply(c.seal(tool=TOOL), target).state == "applied"
    # What a job that believed would have done: a part of it, for good.
    other = database.with_name("other.db")
    make_database(other)
    run_as_jobs_do(other, arguments["statements"])
    made = [line for line in dump(other) if "CREATE TABLE a" in line or "CREATE TABLE b" in line]
    assert len(made) > 0
    assert len(arguments["statements"]) < len(STATEMENTS)


def test_a_lie_passes_the_guard_and_is_refused_by_the_witness(database, tmp_path):
    before = files(database)
    with (
        upstream("anthropic") as url,
        proxying(url, fault="lie:2600") as liar,
        proxying(liar.url, guard=True) as guard,
        endmark.capture() as c,
        endmark.Gate(tmp_path / "ledger.db") as gate,
    ):
        arguments, _ = asking("anthropic", guard.url, transport=c.transport(httpx2.HTTPTransport()))
        assert guard.said[0].startswith("whole: ")
        assert arguments != WITNESS
        with pytest.raises(endmark.AnswerRefused) as refused:
            gate.apply(c.seal(tool=TOOL), f"sqlite:///{database}")
    assert refused.value.signal == "no-trailer"
    assert files(database) == before
