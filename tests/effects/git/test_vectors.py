"""The layout of `diff_sha`, against vectors that were written without endmark."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.vectors import build_diffsha

from endmark.core import strictjson
from endmark.core.diffsha import Identity, Record, diff_sha

KEYS = {"expect", "comment", "rule", "received", "hashed", "sha256"}
FILES = sorted(build_diffsha.FOLDER.iterdir())


def read(content):
    head, _, raw = content.partition(b"\n\n")
    header = dict(line.split(": ", 1) for line in head.decode().splitlines())
    assert set(header) <= KEYS
    assert int(header["received"]) == len(raw)
    document = strictjson.loads(raw)
    records = [record(row) for row in document.pop("records")]
    return header, Identity(**document), records


def record(row):
    old_mode, new_mode, old_oid, new_oid = (field.encode() for field in row[:4])
    return Record(old_mode, new_mode, old_oid, new_oid, bytes.fromhex(row[4]))


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
def test_a_vector(path):
    header, identity, records = read(path.read_bytes())
    if header["expect"] == "digest":
        assert diff_sha(identity, records) == header["sha256"]
    else:
        assert header["expect"] == "no-digest"
        with pytest.raises(ValueError, match=rf"\({header['rule']}\)"):
            diff_sha(identity, records)


def test_an_unknown_format_is_named():
    _, identity, records = read((build_diffsha.FOLDER / "bad_format").read_bytes())
    with pytest.raises(ValueError, match="'md5' is no object format"):
        diff_sha(identity, records)


def test_the_files_are_what_the_builder_writes():
    assert {path.name: path.read_bytes() for path in FILES} == build_diffsha.build()


def test_every_rule_has_a_vector():
    rules = {read(path.read_bytes())[0]["rule"] for path in FILES}
    assert rules == {f"DS{number}" for number in range(1, 7)}


oids = st.text("0123456789abcdef", min_size=40, max_size=40)
fields = st.fixed_dictionaries(
    dict.fromkeys(build_diffsha.NAMES[2:], oids)
    | {"object_format": st.just("sha1"), "target_ref": st.text().map(lambda t: "refs/" + t.replace("\0", ""))}
)
modes = st.sampled_from(["000000", "100644", "100755", "120000", "160000"])
paths = st.binary(min_size=1).filter(lambda path: b"\0" not in path).map(bytes.hex)
rows = st.lists(st.tuples(modes, modes, oids, oids, paths).map(list), unique_by=lambda row: row[4], max_size=4)


def sha(document, records):
    identity = Identity(**document)
    return diff_sha(identity, [record(row) for row in records])


@settings(max_examples=50)
@given(fields, rows, fields, rows)
def test_two_changes_never_hash_the_same_bytes(one, some, other, more):
    same = one == other and sorted(some, key=lambda r: bytes.fromhex(r[4])) == sorted(
        more, key=lambda r: bytes.fromhex(r[4])
    )
    assert (sha(one, some) == sha(other, more)) is same


@given(fields, rows, st.randoms(use_true_random=False))
def test_the_order_of_the_records_does_not_matter(one, some, chance):
    mixed = list(some)
    chance.shuffle(mixed)
    assert sha(one, mixed) == sha(one, some)
