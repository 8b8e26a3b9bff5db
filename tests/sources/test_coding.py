"""Content codings: undone to their very end and not a byte further, or refused (CA4)."""

import gzip
import random
import sys
import zlib

import brotli  # type: ignore[import-untyped]  # it has no types
import pytest
import zstandard
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from endmark.core.refusal import Refused
from endmark.sources.coding import decode

TEXT = random.Random(7).randbytes(1500) + b"data: {}\n\n" * 800
CAP = 1 << 20


def raw_deflate(data):
    made = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return made.compress(data) + made.flush()


def uninstall(monkeypatch, *modules):
    """As it is where these are not installed."""
    for name in modules:
        monkeypatch.setitem(sys.modules, name, None)


CODED = {
    "gzip": ("gzip", gzip.compress(TEXT)),
    "x-gzip": ("x-gzip", gzip.compress(TEXT)),
    "gzip with a name and a comment": ("GZIP", b"\x1f\x8b\x08\x18" + bytes(6) + b"n\0c\0" + gzip.compress(TEXT)[10:]),
    "deflate": ("deflate", zlib.compress(TEXT)),
    "deflate without its wrapper": ("deflate", raw_deflate(TEXT)),
    "br": ("br", brotli.compress(TEXT)),
    "zstd": ("zstd", zstd.compress(TEXT)),
    "zstd with a checksum": ("zstd", zstandard.ZstdCompressor(write_checksum=True).compress(TEXT)),
    "two, one on top of the other": ("gzip, br", brotli.compress(gzip.compress(TEXT))),
    "identity around it": ("identity, gzip ,", gzip.compress(TEXT)),
}


@pytest.mark.parametrize("kind", CODED)
def test_a_whole_body_is_decoded_and_every_cut_of_it_refused(kind):
    name, coded = CODED[kind]
    assert decode(coded, name, CAP) == TEXT
    for at in range(len(coded)):
        with pytest.raises(Refused) as refused:
            decode(coded[:at], name, CAP)
        assert refused.value.signal == "body-cut", at
        assert refused.value.received_bytes == at


@pytest.mark.parametrize("kind", CODED)
def test_nothing_may_stand_after_it(kind):
    name, coded = CODED[kind]
    for more in (b"\0", b"\n", b"x", b"\x1f", coded[:9], b"x" * 100):
        with pytest.raises(Refused) as refused:
            decode(coded + more, name, CAP)
        assert refused.value.signal in ("bytes-after-end", "body-cut")


@pytest.mark.parametrize("kind", ["gzip", "deflate", "zstd with a checksum"])
def test_a_flip_is_found_where_the_coding_has_a_checksum(kind):
    name, coded = CODED[kind]
    for at in range(40, len(coded), 7):
        flipped = coded[:at] + bytes([coded[at] ^ 16]) + coded[at + 1 :]
        with pytest.raises(Refused):
            decode(flipped, name, CAP)


@pytest.mark.parametrize(("name", "compress"), [("gzip", gzip.compress), ("zstd", zstd.compress)])
def test_several_members_are_one_body(name, compress):
    parts = [compress(TEXT[:700]), compress(b""), compress(TEXT[700:])]
    assert decode(b"".join(parts), name, CAP) == TEXT
    with pytest.raises(Refused):
        decode(b"".join(parts)[:-1], name, CAP)
    with pytest.raises(Refused, match="parts"):
        decode(compress(b"") * 2000, name, CAP)


@pytest.mark.parametrize(
    ("name", "bomb"),
    [
        ("gzip", gzip.compress(bytes(1 << 26))),
        ("deflate", zlib.compress(bytes(1 << 26))),
        ("br", brotli.compress(bytes(1 << 26), quality=4)),
        ("zstd", zstd.compress(bytes(1 << 26))),
    ],
)
def test_a_bomb_is_refused_before_it_has_grown(name, bomb):
    import tracemalloc

    tracemalloc.start()
    with pytest.raises(Refused) as refused:
        decode(bomb, name, 1 << 20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert refused.value.signal == "over-cap"
    assert peak < 8 << 20
    assert len(decode(bomb, name, 1 << 26)) == 1 << 26


def test_the_cap_is_the_most_that_comes_out():
    for name, coded in CODED.values():
        assert decode(coded, name, max(len(TEXT), len(gzip.compress(TEXT)))) == TEXT
        with pytest.raises(Refused, match="over the cap"):
            decode(coded, name, len(TEXT) - 1 if "," not in name else 100)


def test_no_coding_changes_nothing():
    assert decode(TEXT, "", CAP) is TEXT
    assert decode(TEXT, "identity", CAP) is TEXT


@pytest.mark.parametrize("name", ["compress", "aes128gcm", "gzip;q=1", "gz ip", "\x1b[31m"])
def test_an_unknown_coding_is_refused(name):
    with pytest.raises(Refused) as refused:
        decode(TEXT, name, CAP)
    assert refused.value.detail.isprintable()


def test_too_many_codings_are_refused():
    with pytest.raises(Refused, match="one on top of another"):
        decode(TEXT, "gzip, gzip, gzip, gzip", CAP)


def test_a_body_whose_decoder_is_missing_is_refused(monkeypatch):
    uninstall(monkeypatch, "brotli", "brotlicffi")
    with pytest.raises(Refused, match="is installed"):
        decode(brotli.compress(TEXT), "br", CAP)


def test_zstd_by_the_other_library(monkeypatch):
    uninstall(monkeypatch, "compression.zstd", "backports.zstd")
    for coded in (zstd.compress(TEXT), zstd.compress(TEXT[:9]) + zstd.compress(TEXT[9:])):
        assert decode(coded, "zstd", CAP) == TEXT
        for at in [*range(0, len(coded), 41), len(coded) - 1]:
            with pytest.raises(Refused):
                decode(coded[:at], "zstd", CAP)
        with pytest.raises(Refused):
            decode(coded + b"x", "zstd", CAP)
    with pytest.raises(Refused, match="over the cap"):
        decode(zstd.compress(bytes(1 << 26)), "zstd", CAP)


@given(st.binary(max_size=200), st.sampled_from(["gzip", "deflate", "br", "zstd", "gzip, zstd"]))
def test_any_bytes_are_decoded_or_refused(raw, name):
    try:
        decode(raw, name, CAP)
        said = None
    except Refused as refused:
        said = refused
    assert said is None or (said.received_bytes == len(raw) and said.detail.isprintable())
