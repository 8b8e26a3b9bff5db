"""Fetching into a clone that lacks some of a change, from a real repository; what is not there to be found."""

import os

import pytest
from tests.effects.git.repos import Import, git, make

from endmark.core.refusal import CannotTry
from endmark.effects import git as effects_git
from endmark.effects.git import Gate, Git, change, open_repository, read_change
from endmark.effects.git.fetch import fetch_change, fetch_missing
from endmark.effects.git.find import find_merge

MAIN = "refs/heads/main"


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """Seventy commits on main and two beside them: main's last but one has a topic."""
    folder = make(tmp_path_factory.mktemp("origin") / "it")
    new = Import()
    at = new.commit("main", {"a.txt": b"0\n"})
    for number in range(1, 70):
        at = new.commit("main", {"a.txt": b"%d\n" % number}, at)
    new.commit("topic", {"b.txt": b"b\n"}, at)
    new.commit("main", {"c.txt": b"c\n"}, at)
    new.into(folder)
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    return folder


def cloned(origin, folder, *options):
    git(folder, "clone", "-q", "--no-checkout", *options, f"file://{origin}", "clone")
    return open_repository(Git(os.environ), folder / "clone")


def test_a_shallow_clone_is_deepened_until_it_shows_where_they_parted(origin, tmp_path):
    shallow = cloned(origin, tmp_path, "--depth=1", "--branch=main", "--single-branch")
    main, topic = (git(origin, "rev-parse", name) for name in ("main", "topic"))
    before = git(tmp_path / "clone", "rev-parse", "main")
    found, base = fetch_change(shallow, "origin", MAIN, topic)
    assert (base, found.is_shallow) == (main, True)  # by fifty commits, and no further
    with Gate(found) as gate:
        assert read_change(gate, base=base, head=topic, ref=MAIN).head.oid == topic
    assert git(tmp_path / "clone", "rev-parse", "main") == before


def test_a_whole_clone_gets_what_it_asks_for_whatever_it_is(origin, tmp_path):
    whole = cloned(origin, tmp_path, "--branch=main", "--single-branch")
    for name in ("topic", "main:a.txt"):  # what is no commit is for the reader to say
        found, base = fetch_change(whole, "origin", MAIN, git(origin, "rev-parse", name))
        assert (base, found.is_shallow) == (git(origin, "rev-parse", "main"), False)


def test_what_cannot_be_fetched(origin, tmp_path):
    whole = cloned(origin, tmp_path)
    topic = git(origin, "rev-parse", "topic")
    for remote, ref, head, said in (
        ("origin", MAIN, "12" * 20, "could not be fetched"),
        ("origin", "refs/heads/none", topic, "could not be fetched"),
        ("--upload-pack=false", MAIN, topic, "looks like an option"),
        ("origin", f"{MAIN}:refs/heads/other", topic, "is no name"),
    ):
        with pytest.raises(CannotTry, match=said):
            fetch_change(whole, remote, ref, head)
    with pytest.raises(CannotTry, match="looks like an option"):
        fetch_missing(whole, "--upload-pack=false")


# --- what git answers in no known form

RECORD = b":100644 100644 " + b"1" * 40 + b" " + b"2" * 40 + b" M\0a.txt\0"


@pytest.mark.parametrize(
    "raw",
    [
        RECORD[:-1],
        RECORD[1:],
        RECORD + b":",
        b"\n" + RECORD,
        RECORD.replace(b" M", b" X"),
        RECORD.replace(b"a.txt", b""),
    ],
)
def test_records_in_another_form(raw):
    assert len(change.read_records(RECORD + RECORD, 40)) == 2
    with pytest.raises(CannotTry, match="in a form that is not known"):
        change.read_records(raw, 40)


def test_two_records_of_one_path(origin, monkeypatch):
    real = change.read_records
    monkeypatch.setattr(change, "read_records", lambda *given: real(*given) * 2)
    said = "no set of records: two records have one path"
    with Gate(open_repository(Git(os.environ), origin)) as gate, pytest.raises(CannotTry, match=said):
        read_change(gate, base="main", head="topic")


def test_a_name_that_the_room_does_not_have():
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        effects_git.nothing  # noqa: B018


# --- what is not there to be found


def test_a_merge_into_a_branch_that_is_gone_or_from_a_base_that_is(origin):
    main = git(origin, "rev-parse", "main")
    with Gate(open_repository(Git(os.environ), origin)) as gate:
        assert find_merge(gate, "refs/heads/gone", base=main, head=main, tree=main) is None
        with pytest.raises(CannotTry):
            find_merge(gate, MAIN, base="12" * 20, head=main, tree=main)


def test_an_interruption_while_the_gates_folder_is_made_leaves_none(origin, monkeypatch):
    gate = Gate(open_repository(Git(os.environ), origin))

    def interrupted(_self):
        raise KeyboardInterrupt

    monkeypatch.setattr(Gate, "_write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        gate.__enter__()
    assert gate.folder
    assert not os.path.exists(gate.folder)
