"""Real repositories, built by `git fast-import`: one process for a whole history."""

import os
import subprocess
from pathlib import Path

from tests.vectors.build_diffsha import oid as made_up

PLAIN = {
    "PATH": os.environ["PATH"],
    "HOME": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "A",
    "GIT_AUTHOR_EMAIL": "a@example.com",
    "GIT_COMMITTER_NAME": "A",
    "GIT_COMMITTER_EMAIL": "a@example.com",
}
FORMATS = ["sha1", "sha256"]
LINK, SUBMODULE, PROGRAM, FILE = "120000", "160000", "100755", "100644"


def git(folder, *arguments, stdin=None, env=None, check=True):
    """What git says, without the last line break."""
    done = subprocess.run(
        ["git", *map(str, arguments)], cwd=folder, input=stdin, capture_output=True, env=PLAIN | (env or {})
    )
    assert not check or done.returncode == 0, done.stderr.decode(errors="replace")
    return os.fsdecode(done.stdout.removesuffix(b"\n"))


def _quoted(path):
    return b'"' + b"".join(b"\\%03o" % byte for byte in path) + b'"'


class Import:
    """A fast-import stream. A file is bytes, or (mode, bytes), or (SUBMODULE, id); None takes it away."""

    def __init__(self):
        self._out = []
        self._time = 1_700_000_000
        self.mark = 0

    def commit(self, ref, files, *parents, message=b"A commit.\n"):
        """A commit on `ref`, with these changes to the files of its first parent. Returns its mark."""
        self.mark += 1
        self._time += 60
        who = b"A <a@example.com> %d +0000\n" % self._time
        out = [b"commit %s\nmark :%d\n" % (f"refs/heads/{ref}".encode(), self.mark)]
        out += [b"author " + who, b"committer " + who, b"data %d\n%s" % (len(message), message)]
        out += [b"%s :%d\n" % (b"merge" if at else b"from", parent) for at, parent in enumerate(parents)]
        for path, what in files.items():
            path = _quoted(path if isinstance(path, bytes) else path.encode())
            mode, content = what if isinstance(what, tuple) else (FILE, what)
            if content is None:
                out.append(b"D %s\n" % path)
            elif mode == SUBMODULE:
                out.append(b"M 160000 %s %s\n" % (content.encode(), path))
            else:
                out.append(b"M %s inline %s\ndata %d\n%s\n" % (mode.encode(), path, len(content), content))
        if not parents:
            out.insert(0, b"reset %s\n" % f"refs/heads/{ref}".encode())
        self._out.append(b"".join(out) + b"\n")
        return self.mark

    def branch(self, ref, mark):
        self._out.append(b"reset %s\nfrom :%d\n\n" % (f"refs/heads/{ref}".encode(), mark))

    def tag(self, name, mark):
        self._out.append(
            b"tag %s\nfrom :%d\ntagger A <a@example.com> 1700000000 +0000\ndata 2\nT\n" % (name.encode(), mark)
        )

    def into(self, folder):
        git(folder, "fast-import", "--quiet", "--force", stdin=b"".join(self._out))


def make(folder, object_format="sha1", bare=False):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q", "-b", "main", f"--object-format={object_format}", *(["--bare"] if bare else []), ".")
    return folder


def lines(name, count=40, **changed):
    """A text of so many lines; `l7="x"` puts x in the place of line 7."""
    return "".join(f"{changed.get(f'l{at}', f'{name} line {at}')}\n" for at in range(count)).encode()


def sample(folder, object_format="sha1", bare=False):
    """One repository with a branch for every kind of change. See KINDS."""
    make(folder, object_format, bare)
    digits = 40 if object_format == "sha1" else 64
    sub = [made_up(f"submodule {at}", digits) for at in range(2)]
    new = Import()
    start = new.commit(
        "start",
        {
            ".gitattributes": b"*.txt diff=evil merge=evil filter=evil\n*.bin binary\n*.log -diff\n",
            ".gitmodules": b'[submodule "sub"]\n\tpath = sub\n\turl = ../sub\n\tignore = all\n',
            "text.txt": lines("text"),
            "both.txt": lines("both"),
            "moved.txt": lines("moved"),
            "hidden.log": lines("hidden"),
            "run.sh": (PROGRAM, b"#!/bin/sh\n"),
            "plain.sh": b"#!/bin/sh\n",
            "link": (LINK, b"text.txt"),
            "becomes-link": lines("becomes"),
            "data.bin": bytes(range(256)) * 8,
            "sub": (SUBMODULE, sub[0]),
            "gone.txt": lines("gone"),
            "deep/er/down.txt": lines("down"),
            b"caf\xe9.txt": lines("latin"),
            "žluť ∎.txt": lines("utf8"),
            b"line\nbreak": lines("break"),
            'tab\tquote"back\\.txt': lines("quote"),
            "file-or-folder": b"a file\n",
            "crlf.txt": b"one\r\ntwo\r\n",
        },
    )
    main = new.commit("main", {"main.txt": lines("main"), "both.txt": lines("both", l2="by main")}, start)
    everything = {
        "text.txt": lines("text", l3="changed", l30="changed too"),
        "moved.txt": None,
        "elsewhere.txt": lines("moved", l5="and changed"),
        "hidden.log": lines("hidden", l1="eval(payload)"),
        "run.sh": b"#!/bin/sh\n",
        "plain.sh": (PROGRAM, b"#!/bin/sh\n"),
        "link": (LINK, b"moved.txt"),
        "becomes-link": (LINK, b"text.txt"),
        "data.bin": bytes(range(255, -1, -1)) * 8,
        "sub": (SUBMODULE, sub[1]),
        "gone.txt": None,
        "deep/er/down.txt": lines("down", l0="diff --git a/x b/x", l9="-- \nbreak"),
        b"caf\xe9.txt": lines("latin", l0="changed"),
        "žluť ∎.txt": lines("utf8", l0="změna"),
        b"line\nbreak": lines("break", l0="changed"),
        'tab\tquote"back\\.txt': lines("quote", l0="changed"),
        "file-or-folder": None,
        "file-or-folder/inner": b"a file\n",
        "new.txt": b"no line break at the end",
        "empty": b"",
        "crlf.txt": b"one\ntwo\n",
        "escapes.txt": b"\x1b[2J\x1b]0;title\x07\n",
        ".gitattributes": b"* -diff binary\n",
    }
    topic = new.commit("topic", everything, main)
    new.tag("v1", topic)
    new.commit("side", {"side.txt": b"side\n", "text.txt": lines("text", l3="side")}, start)
    new.commit("lines", {"both.txt": lines("both", l35="by side")}, start)
    new.commit("conflict", {"both.txt": lines("both", l2="by conflict")}, start)
    new.branch("same", main)
    new.branch("behind", start)
    new.commit("mode-only", {"plain.sh": (PROGRAM, b"#!/bin/sh\n")}, main)
    new.commit("sub-only", {"sub": (SUBMODULE, sub[1])}, main)
    new.commit("rename-only", {"moved.txt": None, "elsewhere.txt": lines("moved")}, main)
    new.commit("empty-commit", {}, main)
    new.commit("orphan", {"text.txt": lines("orphan")})
    ours = new.commit("cross-main", {"f1": b"1\n"}, main)
    theirs = new.commit("cross-topic", {"f2": b"2\n"}, main)
    ours_too = new.commit("cross-main", {"f2": b"2\n"}, ours, theirs)
    theirs_too = new.commit("cross-topic", {"f1": b"1\n"}, theirs, ours)
    new.commit("cross-main", {"f3": b"3\n"}, ours_too)
    new.commit("cross-topic", {"f4": b"4\n"}, theirs_too)
    a, b = new.commit("arm-a", {"a": b"a\n"}, main), new.commit("arm-b", {"b": b"b\n"}, main)
    new.commit("octopus", {"a": b"a\n", "b": b"b\n"}, main, a, b)
    new.commit("octopus-child", {"c": b"c\n"}, new.mark)
    new.into(folder)
    if not bare:
        git(folder, "read-tree", "main")  # an index, so that it is a work tree like any other; no file is written
    return folder


# head, or (base, head)
KINDS = {
    "everything at once": "topic",
    "an annotated tag": "v1",
    "a merge of two sides": "side",
    "nothing differs": "same",
    "head is behind": "behind",
    "a mode alone": "mode-only",
    "a submodule alone": "sub-only",
    "a rename alone": "rename-only",
    "an empty commit": "empty-commit",
    "criss-cross": ("cross-main", "cross-topic"),
    "an octopus": "octopus",
    "a child of an octopus": "octopus-child",
    "backwards": ("topic", "start"),
    "from the root": ("start", "topic"),
}
