"""The model of a disk that crashes are staged on: what is sure, and what each kind of crash leaves."""

import random

import pytest
from tests.reliability.disk import Disk, Op, bytes_lost, grown, killed, names_lost, some_lost, synced_only, torn

OLD = {"d/a": b"old old ", "d/b": b"gone"}


def after(*ops, files=OLD):
    disk = Disk(files)
    for op in ops:
        disk.do(op)
    return disk


WRITE = Op("write", "d/a", 4, b"new new")
MADE = (Op("create", "d/c"), Op("write", "d/c", 2, b"xy"))
CASES = {
    # what was done: killed, synced only, names lost, bytes lost
    "a write": ((WRITE,), {"d/a": b"old new new"}, {}, {"d/a": b"old new new"}, {}),
    "a flushed write": ((WRITE, Op("sync", "d/a")), *[{"d/a": b"old new new"}] * 4),
    "a shortened file": ((Op("truncate", "d/a", 3),), {"d/a": b"old"}, {}, {"d/a": b"old"}, {}),
    "a grown file": ((Op("truncate", "d/b", 6),), {"d/b": b"gone\0\0"}, {}, {"d/b": b"gone\0\0"}, {}),
    "a new file": (MADE, {"d/c": b"\0\0xy"}, {}, {}, {"d/c": b""}),
    "its bytes flushed": ((*MADE, Op("sync", "d/c")), {"d/c": b"\0\0xy"}, {}, {}, {"d/c": b"\0\0xy"}),
    "its folder flushed": (
        (*MADE, Op("sync", "d")),
        {"d/c": b"\0\0xy"},
        {"d/c": b""},
        {"d/c": b"\0\0xy"},
        {"d/c": b""},
    ),
    "another folder flushed": ((*MADE, Op("sync", ".")), {"d/c": b"\0\0xy"}, {}, {}, {"d/c": b""}),
    "a removed file": ((Op("unlink", "d/b"),), {"d/b": None}, {}, {}, {"d/b": None}),
    "removed for good": ((Op("unlink", "d/b"), Op("sync", "d")), *[{"d/b": None}] * 4),
    "a renamed file": (
        (Op("rename", "d/a", to="d/b"),),
        {"d/a": None, "d/b": b"old old "},
        {},
        {},
        {"d/a": None, "d/b": b"old old "},
    ),
    "a second name": ((Op("link", "d/a", to="d/c"),), {"d/c": b"old old "}, {}, {}, {"d/c": b"old old "}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_a_crash_leaves(case):
    ops, *expected = case
    for variant, change in zip((killed, synced_only, names_lost, bytes_lost), expected, strict=True):
        state = {name: data for name, data in {**OLD, **change}.items() if data is not None}
        assert variant(after(*ops), random.Random(0)) == state, variant.__name__


def test_a_torn_write_lacks_a_sector_and_no_more():
    old, new = bytes(2000), b"n" * 1200
    seen = set()
    for seed in range(50):
        left = torn(after(Op("write", "f", 300, new), files={"f": old}), random.Random(seed))["f"]
        pieces = (left[300:512], left[512:1024], left[1024:1500])
        assert all(set(piece) in ({0}, {ord("n")}) for piece in pieces)
        assert left != old[:300] + new + old[1500:]
        seen.add(pieces)
    assert len(seen) == 7  # every choice of three but the whole


def test_by_chance_every_choice_of_unflushed_writes_and_names_comes():
    seen = set()
    for seed in range(400):
        ops = (Op("write", "d/a", 0, b"1"), Op("write", "d/a", 1, b"2"), Op("unlink", "d/b"), Op("create", "d/c"))
        state = some_lost(after(*ops), random.Random(seed))
        seen.add((state["d/a"][:2], "d/b" in state, "d/c" in state))
    assert len(seen) == 16


def test_a_name_is_never_newer_than_a_change_that_was_lost():
    ops = (Op("create", "d/c"), Op("unlink", "d/c"), Op("rename", "d/a", to="d/c"))
    for seed in range(100):
        state = some_lost(after(*ops), random.Random(seed))
        assert state.get("d/c") in (None, b"", OLD["d/a"])
    assert set(state) >= {"d/b"}


def test_a_file_that_grew_holds_garbage():
    left = grown(after(Op("write", "d/a", 6, bytes(100))), random.Random(0))["d/a"]
    assert (len(left), left[:8]) == (106, b"old old ")
    assert set(left[8:]) != {0}
