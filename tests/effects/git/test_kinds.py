"""Every kind of change and of repository: the digest is the one that dulwich's objects give."""

import hashlib
import os
import shutil
import zlib

import pytest
from tests.effects.git import independent
from tests.effects.git.repos import FORMATS, KINDS, Import, git, lines, make

from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.effects.git import Gate, Git, objects, open_repository, read_blocks, read_change
from endmark.effects.git.fetch import fetch_missing


def ends(kind):
    return KINDS[kind] if isinstance(KINDS[kind], tuple) else ("main", KINDS[kind])


@pytest.mark.parametrize("object_format", FORMATS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_digest_is_the_independent_one(samples, gate, kind, object_format):
    base, head = ends(kind)
    change = read_change(gate(samples[object_format]), base=base, head=head)
    assert change.diff_sha == independent.diff_sha(samples[object_format], base, head, f"refs/heads/{base}")
    assert change.object_format == object_format


def test_no_two_kinds_share_a_digest(sample, gate):
    opened = gate(sample)
    found = {kind: read_change(opened, base=ends(kind)[0], head=ends(kind)[1]).diff_sha for kind in KINDS}
    del found["an annotated tag"]  # another name of "everything at once"
    assert len(set(found.values())) == len(found)


@pytest.mark.parametrize("object_format", FORMATS)
def test_changes_to_other_lines_of_one_file_merge(samples, gate, object_format):
    change = read_change(gate(samples[object_format]), base="main", head="lines")
    (record,) = change.records
    merged = lines("both", l2="by main", l35="by side")
    assert record.path == b"both.txt"
    assert record.new_oid.decode() == hashlib.new(object_format, b"blob %d\0" % len(merged) + merged).hexdigest()


def test_the_target_ref_is_part_of_it(sample, gate):
    opened = gate(sample)
    one = read_change(opened, base="main", head="topic")
    other = read_change(opened, base="main", head="topic", ref="release")
    assert (one.target_ref, other.target_ref) == ("refs/heads/main", "refs/heads/release")
    assert one.diff_sha != other.diff_sha
    assert one.records == other.records


@pytest.mark.parametrize("head", ["conflict", "orphan"])
def test_what_does_not_merge_is_incomplete(sample, gate, head):
    with pytest.raises(Refused) as refused:
        read_change(gate(sample), base="main", head=head)
    assert refused.value.signal is Signal.MERGE_CONFLICT
    assert ("both.txt" if head == "conflict" else "share no history") in refused.value.detail


def test_a_conflict_names_a_few_paths_and_counts_the_rest(tmp_path, gate):
    new = Import()
    make(tmp_path / "repo")
    start = new.commit("start", {f"f{at}\x1b[m": b"a\n" for at in range(9)})
    new.commit("main", {f"f{at}\x1b[m": b"b\n" for at in range(9)}, start)
    new.commit("topic", {f"f{at}\x1b[m": b"c\n" for at in range(9)}, start)
    new.into(tmp_path / "repo")
    with pytest.raises(Refused, match=r"f0\\x1b\[m, .* and 4 more"):
        read_change(gate(tmp_path / "repo"), base="main", head="topic")


def test_reading_writes_nothing(repo, gate):
    before = snapshot(repo)
    opened = gate(repo)
    read_blocks(opened, read_change(opened, base="main", head="side"))
    assert snapshot(repo) == before


def snapshot(folder):
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in folder.rglob("*")}


# --- where it lies


def bare(sample, to):
    git(to, "clone", "-q", "--bare", "--no-local", sample, "there")
    return to / "there"


def linked(sample, to):
    shutil.copytree(sample, to / "real", symlinks=True)
    git(to / "real", "worktree", "add", "-q", "--no-checkout", to / "there", "side")
    return to / "there"


def borrowed(sample, to):
    git(to, "clone", "-q", "--bare", "--shared", sample, "between")
    git(to, "clone", "-q", "--bare", "--shared", to / "between", "there")
    return to / "there"


def apart(sample, to):
    shutil.copytree(sample, to / "there", symlinks=True)
    (to / "there" / ".git").rename(to / "git")
    (to / "there" / ".git").write_text(f"gitdir: {to}/git\n")
    return to / "there"


def submodule(sample, to):
    make(to / "super")
    shutil.copytree(sample / ".git", to / "super" / ".git" / "modules" / "sub")
    git(to / "super", "--git-dir=.git/modules/sub", "config", "core.worktree", "../../../sub")
    (to / "super" / "sub").mkdir()
    (to / "super" / "sub" / ".git").write_text("gitdir: ../.git/modules/sub\n")
    return to / "super" / "sub"


def packed(sample, to):
    shutil.copytree(sample, to / "there", symlinks=True)
    git(to / "there", "gc", "-q", "--prune=now")
    git(to / "there", "multi-pack-index", "write")
    return to / "there"


def folder_in_it(sample, to):
    shutil.copytree(sample, to / "there", symlinks=True)
    (to / "there" / "deep" / "er").mkdir(parents=True)
    return to / "there" / "deep" / "er"


def odd_name(name):
    def place(sample, to):
        return shutil.copytree(sample, to / name, symlinks=True)

    return place


def partial(sample, to):
    """Only commits, and trees: no file was ever fetched."""
    served = shutil.copytree(sample, to / "served", symlinks=True)
    git(served, "config", "uploadpack.allowFilter", "true")
    git(to, "clone", "-q", "--bare", "--filter=blob:none", f"file://{served}", "there")
    return to / "there"


PLACES = {
    "bare": bare,
    "a linked work tree": linked,
    "objects borrowed twice": borrowed,
    "a .git file": apart,
    "a submodule": submodule,
    "packed, with a multi-pack index": packed,
    "a folder in it": folder_in_it,
    "a partial clone": partial,
    "a colon": odd_name("a:b"),
    "a space": odd_name(" a b "),
    "quotes": odd_name("\"a'b\\"),
    "a line break": odd_name("a\nb"),
    "a hash sign": odd_name("#a"),
    "not ASCII": odd_name("žluť ∎"),
    "a dash": odd_name("-rf"),
}


@pytest.mark.parametrize("place", PLACES)
def test_it_is_the_same_wherever_it_lies(sample, tmp_path, gate, place):
    there = PLACES[place](sample, tmp_path)
    opened = gate(there)
    for head in ("topic", "side"):
        name = f"refs/heads/{head}"
        change = read_change(opened, base="main", head=name)
        assert change.diff_sha == read_change(gate(sample), base="main", head=head).diff_sha
    assert (os.stat(opened.folder).st_mode & 0o777) == 0o700


def test_what_a_gate_leaves_behind(sample):
    with Gate(open_repository(Git(os.environ), sample)) as opened:
        read_change(opened, base="main", head="side")
        folder = opened.folder
        assert os.path.exists(folder)
    assert not os.path.exists(folder)


def test_a_partial_clone_lacks_what_would_be_shown(sample, tmp_path, gate):
    opened = gate(partial(sample, tmp_path))
    change = read_change(opened, base="main", head="topic")
    with pytest.raises(CannotTry, match=r"partial clone lacks an object.*--refetch"):
        read_blocks(opened, change)


def test_quarantine(sample, bare, tmp_path, gate):
    """What a push brings lies apart until a pre-receive hook has judged it."""
    pushed = tmp_path / "pushed"
    git(tmp_path, "clone", "-q", "--shared", "--bare", bare, pushed)
    head = git(pushed, "commit-tree", "-p", "main", "-m", "fresh", "topic^{tree}")
    with pytest.raises(CannotTry, match=f"no commit {head}"):
        read_change(gate(bare), base="main", head=head)
    opened = gate(bare, quarantine=str(pushed / "objects"))
    change = read_change(opened, base="main", head=head)
    assert change.merge_tree == git(bare, "rev-parse", "topic^{tree}")


# --- shallow clones


def shallow(sample, to, depth):
    git(to, "clone", "-q", "--no-single-branch", f"--depth={depth}", f"file://{sample}", "shallow")
    return to / "shallow"


@pytest.mark.parametrize(("head", "depth"), [("side", 1), ("cross-topic", 3), ("orphan", 1)])
def test_a_clone_too_shallow_to_tell_is_refused(sample, tmp_path, gate, head, depth):
    base = "cross-main" if head == "cross-topic" else "main"
    opened = gate(shallow(sample, tmp_path, depth))
    with pytest.raises(CannotTry, match=r"too shallow.*git fetch --unshallow"):
        read_change(opened, base=f"origin/{base}", head=f"origin/{head}", ref=base)


@pytest.mark.parametrize(("head", "depth"), [("side", 2), ("topic", 2), ("octopus-child", 3)])
def test_a_shallow_clone_that_is_deep_enough(sample, tmp_path, gate, head, depth):
    opened = gate(shallow(sample, tmp_path, depth))
    assert opened.shallow
    change = read_change(opened, base="origin/main", head=f"origin/{head}", ref="main")
    assert change.diff_sha == read_change(gate(sample), base="main", head=head).diff_sha


def test_a_shallow_clone_is_mended_where_somebody_asks(sample, tmp_path, gate):
    repository = open_repository(Git(os.environ), shallow(sample, tmp_path, 1))
    whole = fetch_missing(repository, "origin")
    assert (repository.is_shallow, whole.is_shallow) == (True, False)
    change = read_change(gate(whole.git_dir), base="origin/main", head="origin/side", ref="main")
    assert change.diff_sha == read_change(gate(sample), base="main", head="side").diff_sha
    with pytest.raises(CannotTry, match="could not be fetched from 'nowhere'"):
        fetch_missing(whole, "nowhere")


# --- damage


def test_a_commit_that_is_not_its_id_is_refused(repo, gate):
    oid = git(repo, "rev-parse", "topic")
    body = git(repo, "cat-file", "commit", "main").encode() + b"\n"
    loose = repo / ".git" / "objects" / oid[:2] / oid[2:]
    loose.parent.mkdir(exist_ok=True)
    pack_all_but(repo, oid)
    loose.write_bytes(zlib.compress(b"commit %d\0" % len(body) + body))
    with pytest.raises(CannotTry, match="damaged"):
        read_change(gate(repo), base="main", head="topic")


def test_a_commit_is_hashed_again(sample, gate):
    opened = gate(sample)
    oids = [git(sample, "rev-parse", name) for name in ("main", "topic")]
    with objects.start_commits(opened, oids) as running:
        answer = running.finish()
    assert [commit.oid for commit in objects.commits(opened, oids, answer)] == oids
    lie = answer._replace(out=answer.out.replace(b"a@example.com", b"b@example.com"))
    with pytest.raises(CannotTry, match="damaged"):
        objects.commits(opened, oids, lie)
    for cut in range(len(answer.out)):
        with pytest.raises(CannotTry):
            objects.commits(opened, oids, answer._replace(out=answer.out[:cut]))


def pack_all_but(repo, oid):
    """Unpack everything, and take one object away."""
    packs = list((repo / ".git" / "objects" / "pack").glob("*.pack"))
    for pack in packs:
        content = pack.read_bytes()
        for part in pack.parent.glob(pack.stem + ".*"):
            part.unlink()
        git(repo, "unpack-objects", "-q", stdin=content)
    (repo / ".git" / "objects" / oid[:2] / oid[2:]).unlink()


def test_a_missing_tree_is_refused(repo, gate):
    pack_all_but(repo, git(repo, "rev-parse", "topic^{tree}"))
    with pytest.raises(CannotTry, match="unable to read tree"):
        read_change(gate(repo), base="main", head="topic")


def test_a_commit_graph_is_not_believed(repo, gate):
    """A cache in the store says whose parent is whose. Here it says that main, and with it topic, came after lines."""
    expected = read_change(gate(repo), base="lines", head="topic")
    git(repo, "commit-graph", "write", "--reachable")
    graph = repo / ".git" / "objects" / "info" / "commit-graph"
    graph.chmod(0o600)
    content = bytearray(graph.read_bytes())
    positions = sorted(git(repo, "rev-list", "--all").split())
    parent = content.rindex(bytes.fromhex(git(repo, "rev-parse", "main^{tree}"))) + 20
    content[parent : parent + 4] = positions.index(expected.base.oid).to_bytes(4, "big")
    graph.write_bytes(content)
    assert git(repo, "merge-base", "lines", "topic") == expected.base.oid  # plain git believes it
    assert read_change(gate(repo), base="lines", head="topic") == expected
