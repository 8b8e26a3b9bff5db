"""From a name to a commit: what is given is found as it is, or refused in clear words."""

import pytest
from tests.effects.git.repos import FORMATS, git, lines

from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.effects.git import read_change, read_file
from endmark.effects.git.refs import check_name, resolve_ends


def test_every_way_to_name_a_commit(samples, gate):
    for sample in samples.values():
        opened = gate(sample)
        main, topic = git(sample, "rev-parse", "main"), git(sample, "rev-parse", "topic")
        bases = ("main", "refs/heads/main", "HEAD", main)
        heads = ("topic", "refs/heads/topic", "v1", "refs/tags/v1", topic, git(sample, "rev-parse", "v1"))
        ways = [(base, "topic") for base in bases] + [("main", head) for head in heads]
        assert len({read_change(opened, base=base, head=head, ref="main").diff_sha for base, head in ways}) == 1


def test_a_remote_branch(sample, tmp_path, gate):
    git(tmp_path, "clone", "-q", sample, "clone", "--no-checkout")
    opened = gate(tmp_path / "clone")
    change = read_change(opened, base="origin/main", head="origin/topic", ref="main")
    assert change.diff_sha == read_change(gate(sample), base="main", head="topic").diff_sha
    with pytest.raises(CannotTry, match="no branch: --ref must name"):
        read_change(opened, base="origin/main", head="origin/topic")


def test_a_branch_by_another_name_is_that_branch(repo, gate):
    git(repo, "symbolic-ref", "refs/heads/alias", "refs/heads/main")
    git(repo, "symbolic-ref", "refs/heads/alias-of-it", "refs/heads/alias")
    expected = read_change(gate(repo), base="main", head="topic")
    for base, ref in (("alias", None), ("alias-of-it", None), ("main", "alias"), ("main", "refs/heads/alias-of-it")):
        change = read_change(gate(repo), base=base, head="topic", ref=ref)
        assert change == expected
        assert change.target_ref == "refs/heads/main"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("--all", "looks like an option"),
        ("-n1", "looks like an option"),
        ("", "is no name"),
        ("main topic", "is no name"),
        ("main..topic", "is no name"),
        ("main~1", "is no name"),
        ("main^{tree}", "is no name"),
        ("main@{1}", "is no name"),
        ("@", "is no name"),
        (":main.txt", "is no name"),
        ("main:main.txt", "is no name"),
        ("mai?", "is no name"),
        ("*", "is no name"),
        ("ma[i]n", "is no name"),
        ("main\n", "is no name"),
        ("a\x00b", "is no name"),
        ("main.lock", "is no name"),
        ("/main", "is no name"),
        ("main/", "is no name"),
        ("a//b", "is no name"),
        ("../main", "is no name"),
        ("nowhere", "there is no branch, tag or remote branch 'nowhere'"),
        ("refs/heads/nowhere", "there is no branch"),
        ("refs/heads", "there is no branch"),
        ("cad60ed0", "An object id is given in full, 40 lower-case hex digits"),
        ("0" * 40, "there is no commit 0000"),
        ("f" * 64, "An object id is given in full"),
    ],
)
def test_a_name_that_is_none(sample, gate, name, words):
    for given in ({"base": "main", "head": name}, {"base": name, "head": "topic", "ref": "main"}):
        with pytest.raises(CannotTry, match=words):
            read_change(gate(sample), **given)


def test_what_is_no_commit(sample, gate):
    for name in ("topic^{tree}", "topic:new.txt"):
        with pytest.raises(CannotTry, match="no commit"):
            read_change(gate(sample), base="main", head=git(sample, "rev-parse", name))


def test_an_ambiguous_name(repo, gate):
    topic = git(repo, "rev-parse", "topic")
    for ref in ("refs/tags/main", "refs/remotes/topic", f"refs/heads/{topic}"):
        git(repo, "update-ref", ref, "side")
    with pytest.raises(CannotTry, match="'main' is ambiguous: refs/heads/main and refs/tags/main"):
        read_change(gate(repo), base="main", head="refs/heads/topic")
    with pytest.raises(CannotTry, match="ambiguous: refs/heads/topic and refs/remotes/topic"):
        read_change(gate(repo), base="refs/heads/main", head="topic")
    with pytest.raises(CannotTry, match="ambiguous: an object id and refs/heads/"):
        read_change(gate(repo), base="refs/heads/main", head=topic)
    change = read_change(gate(repo), base="refs/heads/main", head="refs/heads/topic")
    assert (change.target_ref, change.head.oid) == ("refs/heads/main", topic)


def test_a_target_that_is_no_branch(sample, gate):
    for ref in ("refs/tags/v1", "refs/remotes/origin/main", "-f", "a b"):
        with pytest.raises(CannotTry, match=r"no branch|is no name|option"):
            read_change(gate(sample), base="main", head="topic", ref=ref)


def test_head_of_a_work_tree_and_of_none(repo, gate):
    git(repo, "worktree", "add", "-q", "--no-checkout", "../linked", "side")
    linked = repo.parent / "linked"
    side, topic = git(repo, "rev-parse", "side"), git(repo, "rev-parse", "topic")
    assert resolve_ends(gate(linked).repository, "HEAD", "topic", None) == (side, topic, "refs/heads/side")
    git(linked, "update-ref", "--no-deref", "HEAD", "topic")
    assert resolve_ends(gate(linked).repository, "HEAD", "side", "main")[:2] == (topic, side)
    with pytest.raises(CannotTry, match="'HEAD' is no branch"):
        resolve_ends(gate(linked).repository, "HEAD", "side", None)
    git(repo, "symbolic-ref", "HEAD", "refs/heads/unborn")
    with pytest.raises(CannotTry, match="HEAD names no commit"):
        resolve_ends(gate(repo).repository, "HEAD", "topic", None)


def test_names_that_git_takes(sample):
    for name in ("main", "feature/a-b", "žluť", "a.b", "v1.0", "a@b", "x" * 200, "refs/heads/a"):
        check_name(name)
        git(sample, "check-ref-format", "--branch", name)


def test_a_broken_ref_is_missing(repo, gate):
    (repo / ".git" / "refs" / "heads" / "broken").write_bytes(b"junk\n")
    (repo / ".git" / "refs" / "heads" / "dangling").write_bytes(b"ref: refs/heads/none\n")
    for name in ("broken", "dangling"):
        with pytest.raises(CannotTry):
            read_change(gate(repo), base="main", head=name)
    assert read_change(gate(repo), base="main", head="topic").records


# --- files, read by commit and path: where a policy comes from


@pytest.mark.parametrize("object_format", FORMATS)
def test_a_file_of_a_commit(samples, gate, object_format):
    sample = samples[object_format]
    opened = gate(sample)
    topic = git(sample, "rev-parse", "topic")
    assert read_file(opened, topic, b"new.txt", 99) == b"no line break at the end"
    assert read_file(opened, topic, b"file-or-folder/inner", 99) == b"a file\n"
    assert read_file(opened, topic, b"caf\xe9.txt", 1 << 20) == lines("latin", l0="changed")
    assert read_file(opened, topic, b"empty", 0) == b""
    for absent in (b"gone.txt", b"none/such", b"*.txt", b":(glob)*"):
        assert read_file(opened, topic, absent, 99) is None


@pytest.mark.parametrize("path", [b"link", b"sub", b"file-or-folder", b"deep"])
def test_what_is_no_plain_file_is_refused(sample, gate, path):
    with pytest.raises(Refused) as refused:
        read_file(gate(sample), git(sample, "rev-parse", "topic"), path, 99)
    assert refused.value.signal is Signal.WRONG_TYPE


def test_a_file_over_the_cap_is_refused(sample, gate):
    with pytest.raises(Refused) as refused:
        read_file(gate(sample), git(sample, "rev-parse", "topic"), b"new.txt", 23)
    assert (refused.value.signal, refused.value.received_bytes, refused.value.expected_bytes) == (
        Signal.OVER_CAP,
        24,
        23,
    )
