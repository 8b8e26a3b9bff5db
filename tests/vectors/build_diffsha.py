"""Writes the vectors of `diff_sha`: `python -m tests.vectors.build_diffsha [FOLDER]`. Shares no code with endmark."""

import hashlib
import json
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "diffsha"
NAMES = ("object_format", "target_ref", "base_commit", "base_tree", "head_commit", "head_tree", "merge_tree")


def oid(seed, digits=40):
    return hashlib.sha256(seed.encode()).hexdigest()[:digits]


def change(digits=40, **other):
    fields = {
        "object_format": "sha1" if digits == 40 else "sha256",
        "target_ref": "refs/heads/main",
        "base_commit": oid("base", digits),
        "base_tree": oid("base tree", digits),
        "head_commit": oid("head", digits),
        "head_tree": oid("head tree", digits),
        "merge_tree": oid("head tree", digits),
    }
    return fields | other


def record(path, old="100644", new="100644", digits=40, old_id=None, new_id=None):
    zeros = "0" * digits
    old_id = old_id or (zeros if old == "000000" else oid(f"old {path!r}", digits))
    new_id = new_id or (zeros if new == "000000" else oid(f"new {path!r}", digits))
    return [old, new, old_id, new_id, path.hex()]


def hashed(fields, records):
    """DS1, DS2, DS4 and DS5 once more, in other words."""
    text = b"endmark-diff-1\n"
    for field in [*(fields[name] for name in NAMES), str(len(records))]:
        raw = field.encode()
        text += str(len(raw)).encode() + b":" + raw + b","
    for old, new, old_id, new_id, path in sorted(records, key=lambda one: bytes.fromhex(one[4])):
        text += f"{old} {new} {old_id} {new_id}".encode() + b"\0" + bytes.fromhex(path) + b"\0"
    return text


A, B, C = record(b"a.py"), record(b"b/c.py", old="000000"), record(b"d", new="000000")
KINDS = [
    record(b"mode", new="100755"),
    record(b"link", new="120000"),
    record(b"sub", old="160000", new="160000"),
    record(b"from-sub", old="160000"),
]
ODD = [record(b"\xff\xfe"), record("é".encode()), record(b"a b\n:c,"), record(b"-rf"), record(b'"q"')]

WHOLE = {
    "one": ("DS1", change(), [A], "one changed file"),
    "empty": ("DS1", change(merge_tree=oid("base tree")), [], "nothing differs"),
    "fields": ("DS2", change(target_ref="refs/heads/a,b:1"), [A], "no character of a field ends it"),
    "unicode_ref": ("DS3", change(target_ref="refs/heads/žluť"), [A], "a ref's length is counted in bytes of UTF-8"),
    "sha256": ("DS3", change(64), [record(b"a.py", digits=64)], "a repository in the SHA-256 format"),
    "came_and_went": ("DS4", change(), [A, B, C], "zeros stand for what is not there"),
    "kinds": ("DS4", change(), KINDS, "a mode alone, a symbolic link, a submodule"),
    "odd_paths": ("DS4", change(), ODD, "paths are bytes, not text, and nothing in them is quoted"),
    "order": ("DS5", change(), [C, A, B], "the records of came_and_went in another order"),
    "by_bytes": ("DS5", change(), [record(b"a/b"), record(b"a.b"), record(b"a"), record(b"a-b")], "bytes, not folders"),
    "merged": ("DS6", change(merge_tree=oid("merged")), [A], "the merge has a tree of its own"),
}
NONE = {
    "bad_format": ("DS3", change(object_format="md5"), [A], "an object format that is not known"),
    "short_id": ("DS3", change(base_commit=oid("base")[:39]), [A], "an id that is not whole"),
    "upper_id": ("DS3", change(head_tree=oid("head tree").upper()), [A], "an id in upper case"),
    "other_length": ("DS3", change(merge_tree=oid("x", 64)), [A], "an id of the other format"),
    "short_ref": ("DS3", change(target_ref="main"), [A], "a ref without its full name"),
    "nul_ref": ("DS3", change(target_ref="refs/heads/a\0b"), [A], "a ref that ends early"),
    "tree_record": ("DS4", change(), [record(b"folder", new="040000")], "a folder is no record"),
    "short_mode": ("DS4", change(), [record(b"a.py", old="10064")], "a mode that is not whole"),
    "record_id": ("DS4", change(), [record(b"a.py", new_id=oid("x", 64))], "a record's id of the other format"),
    "upper_record_id": ("DS4", change(), [record(b"a.py", new_id=oid("x").upper())], "a record's id in upper case"),
    "no_path": ("DS4", change(), [record(b"")], "a record without a path"),
    "nul_path": ("DS4", change(), [record(b"a\0b")], "a path that ends early"),
    "twice": ("DS5", change(), [A, record(b"a.py", new="100755")], "two records with one path"),
}


def build():
    files = {}
    for answer, cases in (("digest", WHOLE), ("no-digest", NONE)):
        for name, (rule, fields, records, comment) in cases.items():
            raw = json.dumps(fields | {"records": records}, ensure_ascii=False).encode()
            head = {"expect": answer, "comment": comment, "rule": rule, "received": len(raw)}
            if answer == "digest":
                text = hashed(fields, records)
                head |= {"hashed": len(text), "sha256": hashlib.sha256(text).hexdigest()}
            lines = "".join(f"{key}: {value}\n" for key, value in head.items())
            files[name] = lines.encode() + b"\n" + raw
    return files


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in build().items():
        (folder / name).write_bytes(content)
