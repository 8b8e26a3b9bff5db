"""What a reviewer is shown: every changed path, in whole, in the same bytes everywhere; or nothing."""

import time

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.effects.git.repos import FORMATS, Import, git, make

from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.effects.git import read_blocks, read_change
from endmark.effects.git.quoting import spelled


def blocks(gate, folder, head="topic", **more):
    opened = gate(folder)
    return read_blocks(opened, read_change(opened, base="main", head=head), **more)


def by_path(found):
    return {block.record.path: block for block in found}


@pytest.mark.parametrize("object_format", FORMATS)
def test_every_record_has_its_block(samples, gate, object_format):
    opened = gate(samples[object_format])
    change = read_change(opened, base="main", head="topic")
    found = read_blocks(opened, change)
    assert tuple(block.record for block in found) == change.records
    for block in found:
        ids = (block.record.old_oid, block.record.new_oid)
        assert all(oid in block.patch or not oid.strip(b"0") for oid in ids) or ids[0] == ids[1]


def test_what_is_shown(sample, gate):
    found = by_path(blocks(gate, sample))
    assert b"+eval(payload)\n" in found[b"hidden.log"].patch  # `*.log -diff` is tracked, and hides nothing
    assert found[b"gone.txt"].patch.count(b"\n-gone line") == 40
    assert found[b"run.sh"].patch.splitlines()[1:] == [b"old mode 100755", b"new mode 100644"]
    assert b"\\ No newline at end of file" in found[b"new.txt"].patch
    assert b"-Subproject commit " in found[b"sub"].patch
    assert found[b"becomes-link"].patch.count(b"diff --git ") == 2
    assert b"\n+\x1b[2J" in found[b"escapes.txt"].patch
    assert b"-one\r\n" in found[b"crlf.txt"].patch
    assert b"\n+diff --git a/x b/x\n" in found[b"deep/er/down.txt"].patch
    assert found[b"caf\xe9.txt"].patch.startswith(b'diff --git "a/caf\\351.txt" "b/caf\\351.txt"\n')
    assert found[b"line\nbreak"].patch.startswith(b'diff --git "a/line\\nbreak" "b/line\\nbreak"\n')


def test_what_is_no_text_is_said_to_be_none(sample, gate):
    found = blocks(gate, sample)
    assert [block.record.path for block in found if block.is_binary] == [b"data.bin"]
    patch = by_path(found)[b"data.bin"].patch
    assert patch.splitlines()[-1] == b"Binary files a/data.bin and b/data.bin differ"


def test_a_text_that_says_it_is_binary_is_text(tmp_path, gate):
    make(tmp_path / "repo")
    new = Import()
    start = new.commit("main", {"a": b"Binary files a/a and b/a differ\nx\n"})
    new.commit("topic", {"a": b"Binary files a/a and b/a differ\ny\n", "b": b"Binary files a and b differ\n"}, start)
    new.into(tmp_path / "repo")
    assert not any(block.is_binary for block in blocks(gate, tmp_path / "repo"))


def test_the_merge_is_shown_and_not_the_head(sample, gate):
    """What main has changed since is no part of what the merge does to main."""
    (block,) = blocks(gate, sample, head="lines")
    assert b"+by side\n" in block.patch
    assert b"by main" not in block.patch.replace(b" by main", b"")


def test_the_patches_make_the_tree(sample, gate, tmp_path):
    """git itself applies what is shown, and comes to the tree that was judged. Binary files are not shown."""
    opened = gate(sample)
    change = read_change(opened, base="main", head="topic")
    text = b"".join(block.patch for block in read_blocks(opened, change) if not block.is_binary)
    index = {"GIT_INDEX_FILE": str(tmp_path / "index"), "GIT_OBJECT_DIRECTORY": str(tmp_path)}
    index["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = str(sample / ".git" / "objects")
    git(sample, "read-tree", change.base.tree, env=index)
    git(sample, "apply", "--cached", "--whitespace=nowarn", stdin=text, env=index)
    binary = git(sample, "rev-parse", "topic:data.bin")
    git(sample, "update-index", "--cacheinfo", f"100644,{binary},data.bin", env=index)
    assert git(sample, "write-tree", env=index) == change.merge_tree


def test_nothing_changed_shows_nothing(sample, gate):
    assert blocks(gate, sample, head="same") == ()


def test_the_cap_is_exact(sample, gate):
    total = sum(len(block.patch) for block in blocks(gate, sample))
    assert blocks(gate, sample, cap=total)
    with pytest.raises(Refused) as refused:
        blocks(gate, sample, cap=total - 1)
    assert refused.value.signal is Signal.DIFF_OVER_CAP
    assert refused.value.received_bytes >= total
    assert f"{total - 1:,} bytes" in refused.value.detail


def test_a_huge_diff_is_ended_early(tmp_path, gate):
    make(tmp_path / "repo")
    new = Import()
    start = new.commit("main", {"a": b""})
    new.commit("topic", {"huge": (b"y" * 79 + b"\n") * 200_000}, start)
    new.into(tmp_path / "repo")
    began = time.monotonic()
    with pytest.raises(Refused) as refused:
        blocks(gate, tmp_path / "repo", cap=100_000)
    assert refused.value.signal is Signal.DIFF_OVER_CAP
    assert refused.value.received_bytes < 1_000_000
    assert time.monotonic() - began < 30


def test_an_unknown_answer_shows_nothing(sample, gate):
    """Any record without its patch, or patch without its record, and nothing is shown."""
    opened = gate(sample)
    change = read_change(opened, base="main", head="topic")
    fewer = msgspec.structs.replace(change, records=change.records[:-1])
    more = msgspec.structs.replace(change, records=(*change.records, change.records[0]))
    swapped = msgspec.structs.replace(change, records=change.records[::-1])
    for wrong in (fewer, more, swapped):
        with pytest.raises(CannotTry, match="not known"):
            read_blocks(opened, wrong)


paths = st.lists(
    st.binary(min_size=1, max_size=12).filter(lambda p: not {0, 47} & set(p) and p not in (b".", b"..", b".git")),
    min_size=1,
    max_size=8,
    unique=True,
)


def test_any_path_is_spelled_as_git_spells_it(tmp_path, gate):
    found: list[bytes] = []

    @given(paths)
    def collect(some):
        found.extend(some)

    collect()
    names = sorted(path for path in {*found, *(bytes([byte]) for byte in range(1, 256))} if path not in (b"/", b"."))
    make(tmp_path / "repo")
    new = Import()
    start = new.commit("main", {"zzz": b""})
    new.commit("topic", {name: b"x\n" for name in names if name.lower() != b".git"}, start)
    new.into(tmp_path / "repo")
    shown = blocks(gate, tmp_path / "repo", cap=1 << 24)
    assert {block.record.path for block in shown} == {name for name in names if name.lower() != b".git"}
    assert all(spelled(b"b/" + block.record.path) in block.patch for block in shown)
