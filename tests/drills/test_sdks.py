"""The official SDKs behind the guard: a whole answer is what it is without, and at no cut does one of them believe."""

import json

import pytest
from tests.drills.mocked import ERRORS, SDKS, asking, upstream, whole_upstream
from tests.drills.running import proxying

from endmark.drills.faults import End

every_sdk = pytest.mark.parametrize("name", SDKS)


@every_sdk
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "document"])
def test_a_whole_answer_is_the_same_with_the_guard(name, stream):
    with (upstream if stream else whole_upstream)(name) as url, proxying(url, guard=True) as guard:
        direct = asking(name, url, stream)
        assert direct[0]["stmt_count" if name not in ("ollama",) else "plan"]
        assert asking(name, guard.url, stream) == direct
        assert asking(name, guard.url, stream) == direct
    assert [line.partition(":")[0] for line in guard.said] == ["whole", "whole"]


def swept(name, kind, end, guarded, stream=True, step=1):
    """How many answers of a sweep the SDK took without an error, and how many there were."""
    believed = tried = 0
    with (
        (upstream if stream else whole_upstream)(name) as url,
        proxying(url, sweep=kind, end=end, step=step) as broken,
        proxying(broken.url, guard=True) as guard,
    ):
        while not broken.do(lambda: broken.proxy.sweep.is_over):
            tried += 1
            assert tried < 50_000
            try:
                asking(name, guard.url if guarded else broken.url, stream)
            except ERRORS:
                pass
            except json.JSONDecodeError:  # ours: the SDK had handed over arguments that are no JSON
                believed += 1
            else:
                believed += 1
    return believed, tried


@every_sdk
@pytest.mark.parametrize("end", list(End))
def test_behind_the_guard_no_cut_at_an_event_edge_is_believed(name, end, record_property):
    believed, tried = swept(name, "edge", end, guarded=True, step=1 if end is End.POLITE else 6)
    record_property("cut answers", tried)
    assert believed == 0
    assert tried >= 1


@every_sdk
def test_without_it_some_are(name):
    """What the guard is for: a cut stream with a polite end is taken for an answer."""
    believed, tried = swept(name, "edge", End.POLITE, guarded=False)
    assert 0 < believed <= tried


@every_sdk
def test_behind_the_guard_no_cut_document_is_believed(name, record_property):
    believed, tried = swept(name, "cut", End.POLITE, guarded=True, stream=False, step=29)
    record_property("cut answers", tried)
    assert believed == 0
    assert tried > 10


@pytest.mark.soak
@every_sdk
def test_behind_the_guard_no_cut_at_any_byte_is_believed(name, record_property):
    believed, tried = swept(name, "cut", End.POLITE, guarded=True)
    record_property("cut answers", tried)
    assert believed == 0
    assert tried > 300
