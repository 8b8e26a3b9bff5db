"""What strace says is read whole or not at all: a change that is not understood is never left out."""

import pytest
from tests.reliability.disk import Op
from tests.reliability.traced import _op

ROOT = "/w"


def told(text):
    """A line of strace -xx: what stands between quotes or angle brackets, in hex."""
    made, inside = [], False
    for mark in text:
        if mark in '"<>':
            inside = mark == "<" or (mark == '"' and not inside)
            made.append(mark)
        else:
            made.append(f"\\x{ord(mark):02x}" if inside else mark)
    return "".join(made)


CASES = {
    '7 pwrite64(3</w/a.db>, "xyz", 3, 512) = 3': Op("write", "a.db", 512, b"xyz"),
    '7 openat(AT_FDCWD</>, "/w/b/new", O_RDWR|O_CREAT|O_CLOEXEC, 0644) = 4</w/b/new>': Op("create", "b/new"),
    "7 fdatasync(3</w/a.db>) = 0": Op("sync", "a.db"),
    "7 fsync(4</w>) = 0": Op("sync", "."),
    "7 ftruncate(3</w/a.db>, 4096) = 0": Op("truncate", "a.db", 4096),
    '7 unlink("/w/a.db-journal") = 0': Op("unlink", "a.db-journal"),
    '7 unlinkat(AT_FDCWD</>, "/w/a.db-journal", 0) = 0': Op("unlink", "a.db-journal"),
    '7 rename("/w/a.part", "/w/a") = 0': Op("rename", "a.part", to="a"),
    '7 write(1<pipe:[9]>, "ok", 2) = 2': Op("said", "", data=b"ok"),
    # nothing of ours
    '7 openat(AT_FDCWD</>, "/w/a.db", O_RDONLY|O_CLOEXEC) = 3</w/a.db>': None,
    '7 openat(AT_FDCWD</>, "/w/b/new", O_RDWR|O_CREAT, 0644) = -1 ENOENT (No such file)': None,
    '7 pwrite64(3</elsewhere/a.db>, "xyz", 3, 0) = 3': None,
    '7 pwrite64(5</w/a.db-shm>, "x", 1, 4095) = 1': None,
    "7 mmap(NULL, 32768, PROT_READ|PROT_WRITE, MAP_SHARED, 5</w/a.db-shm>, 0) = 0x7f58": None,
    "7 +++ exited with 0 +++": None,
}


@pytest.mark.parametrize("line", CASES)
def test_a_call_is_read(line):
    assert _op(told(line), ROOT) == CASES[line]


@pytest.mark.parametrize(
    "line",
    [
        '7 write(3</w/a.db>, "xyz", 3) = 3',  # where to is not told
        '7 pwrite64(3</w/a.db>, "xyz"..., 9, 0) = 9',
        '7 pwrite64(3</w/a.db>, "xyz", 9, 0) = 9',
        '7 pwritev(3</w/a.db>, [{iov_base="xyz", iov_len=3}], 1, 0) = 3',
        "7 fallocate(3</w/a.db>, 0, 0, 4096) = 0",
        "7 mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3</w/a.db>, 0) = 0x7f58",
        '7 openat(AT_FDCWD</>, "/w/a.db", O_WRONLY|O_TRUNC) = 3</w/a.db>',
        '7 rename("/w/a", "/elsewhere/a") = 0',
        '7 pwrite64(3</w/a.db>, "xyz", 3, 0 UNFINISHED',
    ],
)
def test_what_cannot_be_followed_ends_the_reading(line):
    with pytest.raises(AssertionError):
        _op(told(line).replace("UNFINISHED", "<unfinished ...>"), ROOT)
