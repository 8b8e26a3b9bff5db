"""`diff_sha`: the identity of a change that a verdict is bound to (spec/verdict.md, DS1-DS6)."""

import hashlib
import re
from collections.abc import Sequence
from operator import attrgetter

import msgspec

OID_LENGTH = {"sha1": 40, "sha256": 64}
"""Hex digits of an object id, by object format."""

_MODES = frozenset((b"000000", b"100644", b"100755", b"120000", b"160000"))
_PATH = attrgetter("path")


class Record(msgspec.Struct, frozen=True, gc=False):
    """One path that differs, as git spells it: modes and ids of zeros stand for a side that has no such path."""

    old_mode: bytes
    new_mode: bytes
    old_oid: bytes
    new_oid: bytes
    path: bytes


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What `diff_sha` covers beside the records. Ids are full lower-case hex; `target_ref` is a full ref name."""

    object_format: str
    target_ref: str
    base_commit: str
    base_tree: str
    head_commit: str
    head_tree: str
    merge_tree: str


def diff_sha(identity: Identity, records: Sequence[Record]) -> str:
    """64 lower-case hex. The order of `records` does not matter.

    Raises ValueError for what is no identity or no set of records: DS3, DS4 or DS5 is broken.
    """
    digits = OID_LENGTH.get(identity.object_format)
    if digits is None:
        raise ValueError(f"{identity.object_format!r} is no object format (DS3)")
    ids = (identity.base_commit, identity.base_tree, identity.head_commit, identity.head_tree, identity.merge_tree)
    if not all(re.fullmatch(rf"[0-9a-f]{{{digits}}}", oid) for oid in ids):
        raise ValueError(f"an object id is not {digits} lower-case hex digits (DS3)")
    if not identity.target_ref.startswith("refs/") or "\0" in identity.target_ref:
        raise ValueError(f"{identity.target_ref!r} is no full ref name (DS3)")
    ordered = sorted(records, key=_PATH)  # DS5
    _check(ordered, digits)
    sha = hashlib.sha256(b"endmark-diff-1\n")  # DS1
    for field in (identity.object_format, identity.target_ref, *ids, str(len(ordered))):  # DS2
        encoded = field.encode()
        sha.update(b"%d:%s," % (len(encoded), encoded))
    sha.update(
        b"".join([b"%s %s %s %s\0%s\0" % (r.old_mode, r.new_mode, r.old_oid, r.new_oid, r.path) for r in ordered])
    )
    return sha.hexdigest()


def _check(records: Sequence[Record], digits: int) -> None:
    """Raises ValueError for what is no set of records. Changes have thousands: all are looked at together."""
    modes = {record.old_mode for record in records} | {record.new_mode for record in records}
    if not modes <= _MODES:
        raise ValueError(f"a record has the mode {min(modes - _MODES)!r}, which none may have (DS4)")
    oids = [record.old_oid for record in records] + [record.new_oid for record in records]
    if not set(map(len, oids)) <= {digits} or b"".join(oids).translate(None, b"0123456789abcdef"):
        raise ValueError(f"a record has an id that is not {digits} lower-case hex digits (DS4)")
    paths = {record.path for record in records}
    if b"" in paths or b"\0" in b"".join(paths):
        raise ValueError("a record has a path that git cannot hold: empty, or with a NUL byte (DS4)")
    if len(paths) != len(records):
        raise ValueError("two records have one path (DS5)")
