"""`diff_sha` once more, without git and without endmark: objects are read and written by dulwich."""

import hashlib
from typing import Any

from dulwich.object_store import iter_tree_contents
from dulwich.objects import Tree as DulwichTree
from dulwich.repo import Repo
from tests.vectors.build_diffsha import hashed


def diff_sha(folder, base, head, target_ref):
    """The digest, by SHA-256 over what the page says. `base` and `head` are names of branches or tags."""
    with Repo(str(folder)) as repo:
        ours, theirs = _commit(repo, base), _commit(repo, head)
        before = _entries(repo, ours.tree)
        bases = _merge_bases(repo, ours.id, theirs.id)
        if ours.id in bases:
            after, tree = _entries(repo, theirs.tree), theirs.tree
        elif theirs.id in bases:
            after, tree = before, ours.tree
        else:
            parted: Any = repo[bases[0]]
            after = _merged(_entries(repo, parted.tree), before, _entries(repo, theirs.tree))
            tree = _tree_id(after, repo.object_format)
        zeros = "0" * len(ours.id)
        records = []
        for path in before.keys() | after.keys():
            old, new = before.get(path, ("000000", zeros)), after.get(path, ("000000", zeros))
            if old != new:
                records.append([old[0], new[0], old[1], new[1], path.hex()])
        fields = {
            "object_format": repo.object_format.name,
            "target_ref": target_ref,
            "base_commit": ours.id.decode(),
            "base_tree": ours.tree.decode(),
            "head_commit": theirs.id.decode(),
            "head_tree": theirs.tree.decode(),
            "merge_tree": tree.decode(),
        }
        return hashlib.sha256(hashed(fields, records)).hexdigest()


def _commit(repo, name) -> Any:
    for place in (b"refs/heads/", b"refs/tags/"):
        if place + name.encode() in repo.refs:
            found: Any = repo[repo.refs[place + name.encode()]]
            return repo[found.object[1]] if found.type_name == b"tag" else found
    raise KeyError(name)


def _entries(repo, tree):
    """Path to (mode, id) of everything that is no folder."""
    return {
        entry.path: (f"{entry.mode:06o}", entry.sha.decode()) for entry in iter_tree_contents(repo.object_store, tree)
    }


def _ancestors(repo, oid):
    found, waiting = set(), [oid]
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += repo[one].parents
    return found


def _merge_bases(repo, ours, theirs):
    common = _ancestors(repo, ours) & _ancestors(repo, theirs)
    below = {parent for oid in common for parent in repo[oid].parents}
    return sorted(common - below)


def _merged(base, ours, theirs):
    """What one side changed wins; nothing here was changed by both in two ways."""
    out = {}
    for path in base.keys() | ours.keys() | theirs.keys():
        was, our, their = base.get(path), ours.get(path), theirs.get(path)
        assert was in (our, their) or our == their, path
        kept = their if our == was else our
        if kept is not None:
            out[path] = kept
    return out


def _tree_id(entries, object_format):
    """The id of the tree that holds `entries`, folder by folder."""
    folders: dict[bytes, dict] = {}
    tree = DulwichTree()
    for path, (mode, oid) in entries.items():
        name, slash, rest = path.partition(b"/")
        if slash:
            folders.setdefault(name, {})[rest] = (mode, oid)
        else:
            tree.add(name, int(mode, 8), oid.encode())
    for name, inner in folders.items():
        tree.add(name, 0o040000, _tree_id(inner, object_format))
    body = tree.as_raw_string()
    raw = b"tree %d\0" % len(body) + body
    return object_format.hash_func(raw).hexdigest().encode()
