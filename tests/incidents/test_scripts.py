"""Scripts and patches that end too early and are legal all the same."""

import subprocess

import pytest
from tests.incidents import payloads, repair
from tests.incidents.rows import agrees
from tests.incidents.world import refusal, state_of, sweep

import endmark

DUMP = [
    "CREATE TABLE city (id INTEGER, name TEXT)",
    "INSERT INTO city VALUES (1, 'Paris')",
    "INSERT INTO city VALUES (2, 'Oslo')",
    "CREATE UNIQUE INDEX by_id ON city (id)",
]
PG_DUMP = b"""\
-- dump
CREATE TABLE city (id integer, name text);
COPY city (id, name) FROM stdin;
1\tParis
2\tOslo
3\tQuito
\\.
CREATE UNIQUE INDEX by_id ON city (id);
-- dump complete
"""


def test_inc_158_a_dump_cut_inside_its_data(world):
    """As a plan no cut is accepted; as a bare script not even the whole is, for nothing in it says that it is whole."""
    sweep(world, "INC-158", DUMP)
    for n in range(len(PG_DUMP) + 1):
        assert agrees("INC-158", state_of(refusal(PG_DUMP[:n])))
    cut = PG_DUMP[: PG_DUMP.index(b"3\tQuito")]
    assert agrees("INC-158", world.refuses(cut).state)
    # in an envelope the script is whole or refused; what is cut inside COPY is cut
    sealed = endmark.seal(payloads.compact({"script": PG_DUMP.decode()}))
    for n in range(len(sealed)):
        assert agrees("INC-158", state_of(refusal(sealed[:n])))
    assert world.apply(payloads.envelope("control", DUMP)).state == "applied"
    assert world.ask("SELECT count(*) FROM city") == [(2,)]


def test_inc_160_a_dump_without_its_last_line(world):
    for form, whole in payloads.forms("JOB", DUMP).items():
        if form == "envelope":
            short = whole.replace(b',"' + DUMP[-1].encode() + b'"', b"")
            assert short != whole
            assert agrees("INC-160", world.refuses(short).state)
            continue
        cut = whole[: whole.index(DUMP[-1].encode()) - 2]
        for text in (
            cut,
            repair.close(cut.decode()).encode(),
            repair.fill(cut.decode(), repair.document(whole)).encode(),
        ):
            assert agrees("INC-160", state_of(refusal(text))) or form == "proof-first"
            world.refuses(text)
    assert "city" not in world.tables()


# --- patches. What git makes of them comes with the patch gate; here a body that holds one arrives whole or not at all.

BEFORE = {"a.txt": "one\ntwo\nthree\n", "b.txt": "red\ngreen\nblue\n"}
PATCH = """\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,3 +1,4 @@
 one
-two
+2
+2 and a half
 three
diff --git a/b.txt b/b.txt
--- a/b.txt
+++ b/b.txt
@@ -1,3 +1,3 @@
 red
-green
+GREEN
 blue
"""
HUNK = "--- a/big\n+++ b/big\n@@ -1,10 +1,12 @@\n" + "".join(f" line {n}\n" for n in range(1, 8))


def git_accepts(folder, text):
    done = subprocess.run(["git", "apply", "--check"], cwd=folder, input=text.encode(), capture_output=True)
    return done.returncode == 0


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    folder.mkdir()
    for name, text in BEFORE.items():
        (folder / name).write_text(text)
    return folder


def test_inc_161_a_hunk_shorter_than_its_header(world, tree):
    sealed = endmark.seal(payloads.compact({"diff": HUNK}))
    (tree / "big").write_text("".join(f"line {n}\n" for n in range(1, 11)))
    assert not git_accepts(tree, HUNK)
    whole = endmark.seal(payloads.compact({"diff": HUNK + "+8\n+9\n line 8\n line 9\n line 10\n"}))
    for body in (sealed, whole):
        for n in range(len(body)):
            assert agrees("INC-161", state_of(refusal(body[:n])))
    assert agrees("INC-161", world.refuses(whole[: len(sealed)]).state)


def test_inc_163_the_cuts_that_git_accepts_are_refused(world, tree):
    """At the end of each line, and one character around it, git is asked too; it accepts some, and each is refused."""
    sealed = endmark.seal(payloads.compact({"diff": PATCH}))
    offset = sealed.index(b"diff --git")
    ends = [at for at, mark in enumerate(PATCH) if mark == "\n"]
    accepted = [
        n for n in sorted({n + d for n in ends for d in (0, 1)}) if n < len(PATCH) and git_accepts(tree, PATCH[:n])
    ]
    assert len(accepted) > 1
    assert git_accepts(tree, PATCH)
    for n in accepted:
        arrived = offset + len(payloads.compact(PATCH[:n])) - 2
        assert agrees("INC-163", world.refuses(sealed[:arrived]).state)
        closed = sealed[:arrived] + b'"}\nEND\n'
        assert agrees("INC-163", world.refuses(closed).state)
    for n in range(len(sealed)):
        assert agrees("INC-163", state_of(refusal(sealed[:n])))
