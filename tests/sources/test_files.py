"""Reading files and standard input: all of it, in whatever pieces it comes, and never more than the limit."""

import io
import os
import sys
import tracemalloc

import pytest

from endmark.sources.files import Unreadable, read


class Dribble(io.BufferedIOBase):
    """A stream that hands over one byte a read, as a slow pipe may, and says its end once, as a terminal does."""

    def __init__(self, raw):
        self._rest = raw

    def read1(self, size=-1):
        assert self._rest is not None, "asked again after the end"
        if not self._rest:
            self._rest = None
            return b""
        piece, self._rest = self._rest[:1], self._rest[1:]
        return piece


@pytest.fixture
def stdin(monkeypatch):
    def put(stream):
        monkeypatch.setattr(sys, "stdin", type("Text", (), {"buffer": stream})())

    return put


@pytest.mark.parametrize("size", [0, 1, 4096, 3_000_000])
def test_a_whole_file(tmp_path, size):
    raw = os.urandom(size)
    (tmp_path / "f").write_bytes(raw)
    assert read(str(tmp_path / "f"), 10_000_000) == raw


@pytest.mark.parametrize("limit", [0, 1, 99, 100, 101])
def test_never_more_than_the_limit(tmp_path, stdin, limit):
    raw = os.urandom(100)
    (tmp_path / "f").write_bytes(raw)
    stdin(io.BytesIO(raw))
    assert read(str(tmp_path / "f"), limit) == read("-", limit) == raw[:limit]


def test_a_byte_at_a_time(stdin):
    stdin(Dribble(b"Nothing is judged before the end."))
    assert read("-", 1_000) == b"Nothing is judged before the end."


def test_a_huge_file_costs_no_more_than_the_limit(tmp_path):
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(10 * 1024**3)
    tracemalloc.start()
    assert len(read(str(tmp_path / "huge"), 8_000_000)) == 8_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3 * 8_000_000


@pytest.mark.parametrize(
    ("name", "why"), [(".", "folder"), ("gone", "No such file"), ("a\0", "null"), ("x" * 999, "long")]
)
def test_what_cannot_be_read(tmp_path, monkeypatch, name, why):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unreadable, match=why) as caught:
        read(name, 10)
    assert caught.value.name == name


def test_standard_input_that_is_closed(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(Unreadable, match="standard input: it is closed"):
        read("-", 10)
