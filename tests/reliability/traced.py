"""Every call by which a program changes the files of a folder, in order and with its bytes: told by the kernel.

`strace` sees what the process asked of the system, whichever library asked for it. Nothing is taken for granted: a call
that this reader does not know, or that it cannot follow, ends the reading, and what was read must add up to the files
that the program left.
"""

import os
import re
import shutil
import subprocess
import sys

import pytest
from tests.reliability.disk import Disk, Op, killed

_FOLLOWED = "openat,open,creat,pwrite64,write,fsync,fdatasync,ftruncate,unlink,unlinkat,rename,link"
_UNKNOWN = "renameat,renameat2,linkat,symlink,symlinkat,truncate,writev,pwritev,pwritev2,fallocate,sendfile,splice"
_UNKNOWN += ",copy_file_range,sync_file_range,mknod,mknodat,mmap"
_LINE = re.compile(r"\d+ +(\w+)\((.*)\) += (-?\d+)")
_HEX = re.compile(r"(?:\\x[0-9a-f]{2})+")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"(\.\.\.)?')
_OPENED = re.compile(r"(\d+)<((?:\\x[0-9a-f]{2})*)>")
_PASSING = "-shm"  # shared memory: rebuilt by whoever comes first, and worth nothing after a crash
SAID = 1  # standard output


def traced(folder, module, *words):
    """Run `python -m module folder words` and return (files before, calls). Skips where there is no strace."""
    program = shutil.which("strace")
    if program is None:
        pytest.skip("not tested: crash points need strace (apt-get install strace)")
    before = read(folder)
    log = folder.with_name(folder.name + ".trace")
    command = [
        program,
        "-f",
        "-y",
        "-xx",
        "-s",
        str(1 << 26),
        "-e",
        f"trace={_FOLLOWED},{_UNKNOWN}",
        "-e",
        "signal=none",
    ]
    ran = subprocess.run(
        [*command, "-o", log, sys.executable, "-m", module, folder, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    if ran.returncode and "ptrace" in ran.stderr.lower():
        pytest.skip("not tested: crash points, for this system lets no program be traced")
    assert ran.returncode == 0, ran.stderr
    with log.open() as lines:
        ops = [op for line in lines if (op := _op(line, str(folder))) is not None]
    log.unlink()
    disk = Disk(before)
    for op in ops:
        disk.do(op)
    assert killed(disk, None) == read(folder), "the trace does not add up to the files that were left"
    return before, ops


def read(folder):
    """Every file of a folder, by its name in it, but for shared memory."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.endswith(_PASSING))
    return {str(path.relative_to(folder)): path.read_bytes() for path in found}


def _text(part):
    return _HEX.sub(lambda found: bytes.fromhex(found[0].replace("\\x", "")).decode(), part)


def _op(line, root):
    """The change that a line tells of, or None where it is none of ours."""
    found = _LINE.match(line)
    if found is None:
        assert not _ours(line, root), f"cannot be followed: {line[:200]}"  # cut in two, or no call at all
        return None
    call, given, result = found[1], found[2], int(found[3])
    if result < 0:
        return None
    if call == "write":
        descriptor = _OPENED.match(given)
        if descriptor and int(descriptor[1]) == SAID:
            return Op("said", "", data=_bytes(given))
        assert not descriptor or not _named(_text(descriptor[2]), root), f"cannot be followed: {line[:200]}"
        return None
    if call in ("unlink", "rename", "link", "unlinkat"):
        names = [_named(bytes.fromhex(text.replace("\\x", "")).decode(), root) for text, _ in _STRING.findall(given)]
        if not any(names) or names[0].endswith(_PASSING):
            return None
        assert all(names), f"cannot be followed: {line[:200]}"
        return Op("unlink" if call == "unlinkat" else call, names[0], to=names[1] if len(names) > 1 else "")
    return (
        _by_name(line, given, root) if call in ("openat", "open", "creat") else _by_descriptor(line, call, given, root)
    )


def _by_name(line, given, root):
    name = _named(_bytes(given).decode(), root)
    if not name or name.endswith(_PASSING) or "O_CREAT" not in given:
        assert not name or "O_TRUNC" not in given, f"cannot be followed: {line[:200]}"
        return None
    assert "O_TRUNC" not in given, f"cannot be followed: {line[:200]}"
    return Op("create", name)


def _by_descriptor(line, call, given, root):
    opened = _OPENED.search(given)
    name = _named(_text(opened[2]), root) if opened else None
    if name is None or name.endswith(_PASSING):
        return None
    if call == "mmap":
        assert "MAP_SHARED" not in given or "PROT_WRITE" not in given, f"cannot be followed: {line[:200]}"
        return None
    assert call in _FOLLOWED.split(","), f"cannot be followed: {line[:200]}"
    if call in ("fsync", "fdatasync"):
        return Op("sync", name)
    if call == "ftruncate":
        return Op("truncate", name, int(given.rpartition(",")[2]))
    assert call == "pwrite64", f"cannot be followed: {line[:200]}"
    *_, size, at = given.split(",")
    data = _bytes(given)
    assert len(data) == int(size), f"not all bytes were told: {line[:200]}"
    return Op("write", name, int(at), data)


def _bytes(given):
    found = _STRING.search(given)
    assert found is not None, given[:200]
    assert not found[2], "not all bytes were told"
    return bytes.fromhex(found[1].replace("\\x", ""))


def _ours(line, root):
    return root in _text(line) if len(line) < 10_000 else True


def _named(path, root):
    """The name in our folder of a path, "." for the folder itself; None for any other."""
    if path == root:
        return "."
    return path.removeprefix(root + "/") if path.startswith(root + "/") else None
