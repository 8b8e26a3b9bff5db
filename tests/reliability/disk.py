"""A model of a disk: what was written, what of it a flush made sure of, and what a crash may leave of the rest."""

import hashlib
from itertools import pairwise
from pathlib import PurePosixPath
from typing import NamedTuple

SECTOR = 512  # bytes that arrive together or not at all


class Op(NamedTuple):
    """One call that changes a disk. `name` is relative to the world's folder; `to`: of a rename or a link."""

    kind: str  # create, write, truncate, sync, unlink, rename, link, said
    name: str
    at: int = 0  # of a write: its offset; of a truncate: the new size
    data: bytes = b""
    to: str = ""


class File:
    """A file's bytes: those that are sure, and what was asked for since the last flush, in order."""

    def __init__(self, sure=b""):
        self.sure = bytes(sure)
        self.pending = []

    def now(self):
        return applied(self.sure, self.pending)

    def flush(self):
        self.sure, self.pending = self.now(), []


def applied(data, changes):
    """The bytes after these writes and truncations."""
    made = bytearray(data)
    for op in changes:
        if op.kind == "truncate":
            made[op.at :] = bytes(max(0, op.at - len(made)))
        else:
            if len(made) < op.at:
                made += bytes(op.at - len(made))
            made[op.at : op.at + len(op.data)] = op.data
    return bytes(made)


class Disk:
    """Files under their names. A name made, moved or removed is sure once its folder was flushed, and not before."""

    def __init__(self, files):
        self.names = {name: File(data) for name, data in files.items()}
        self.sure_names = dict(self.names)
        self.pending_names = []  # (folder, name, the file or None)
        self.last = None  # the file that was written last

    def do(self, op):
        if op.kind == "create":
            if op.name not in self.names:
                self._name(op.name, File())
        elif op.kind in ("write", "truncate"):
            self.last = self.names[op.name]
            self.last.pending.append(op)
        elif op.kind == "unlink":
            self._name(op.name, None)
        elif op.kind in ("rename", "link"):
            self._name(op.to, self.names[op.name])
            if op.kind == "rename":
                self._name(op.name, None)
        elif op.kind == "sync":
            if op.name in self.names:
                self.names[op.name].flush()
            else:
                self._flush_folder(op.name)
        else:
            assert op.kind == "said", op

    def _name(self, name, file):
        self.pending_names.append((str(PurePosixPath(name).parent), name, file))
        self._set(self.names, name, file)

    def _flush_folder(self, folder):
        for where, name, file in self.pending_names:
            if where == folder:
                self._set(self.sure_names, name, file)
        self.pending_names = [entry for entry in self.pending_names if entry[0] != folder]

    @staticmethod
    def _set(names, name, file):
        if file is None:
            names.pop(name, None)
        else:
            names[name] = file

    def some_names(self, chance):
        """The names that are sure, and of each other one its first so many changes."""
        names, over = dict(self.sure_names), set()
        for _, name, file in self.pending_names:
            if name not in over and chance.random() < 0.5:
                self._set(names, name, file)
            else:
                over.add(name)
        return names


# --- what a crash leaves, each a function of the disk and of chance


def killed(disk, chance):
    """The process is gone, the machine is not: everything that was written stands."""
    return {name: file.now() for name, file in disk.names.items()}


def synced_only(disk, chance):
    """The power is gone: of what was not flushed nothing stands, neither bytes nor names."""
    return {name: file.sure for name, file in disk.sure_names.items()}


def names_lost(disk, chance):
    """Every byte stands; files made, moved or removed since their folder was flushed were not."""
    return {name: file.now() for name, file in disk.sure_names.items()}


def bytes_lost(disk, chance):
    """Every name stands; bytes that were not flushed do not."""
    return {name: file.sure for name, file in disk.names.items()}


def some_lost(disk, chance):
    """Of what was not flushed, writes, pieces of writes and names stand by chance, in no order."""
    return {name: _some(file, chance) for name, file in disk.some_names(chance).items()}


def torn(disk, chance):
    """All stands but the last write, of which some sectors arrived."""
    states = {}
    for name, file in disk.names.items():
        if file is disk.last and file.pending and file.pending[-1].kind == "write":
            pieces = _sectors(file.pending[-1])
            kept = [piece for piece in pieces if chance.random() < 0.5]
            states[name] = applied(file.sure, [*file.pending[:-1], *(kept if len(kept) < len(pieces) else kept[1:])])
        else:
            states[name] = file.now()
    return states


def grown(disk, chance):
    """Files have the size they were to have, but what was not flushed is garbage where the file grew, and lost where
    it did not."""
    return {
        name: file.sure[: len(file.now())] + chance.randbytes(max(0, len(file.now()) - len(file.sure)))
        for name, file in disk.names.items()
    }


VARIANTS = (killed, synced_only, names_lost, bytes_lost, some_lost, torn, grown)


def _some(file, chance):
    kept = []
    for op in file.pending:
        luck = chance.random()
        if op.kind == "truncate" or luck < 0.4:
            kept += [op] if luck < 0.5 else []
        elif luck < 0.6:
            kept += [piece for piece in _sectors(op) if chance.random() < 0.5]
    chance.shuffle(kept)
    return applied(file.sure, kept)


def _sectors(op):
    """A write, cut where sectors of the disk begin."""
    edges = [op.at, *range(op.at // SECTOR * SECTOR + SECTOR, op.at + len(op.data), SECTOR), op.at + len(op.data)]
    return [op._replace(at=start, data=op.data[start - op.at : end - op.at]) for start, end in pairwise(edges)]


def digest(state):
    """One short value for a state of a disk."""
    made = hashlib.sha256()
    for name in sorted(state):
        made.update(b"%d %b %d " % (len(name), name.encode(), len(state[name])))
        made.update(state[name])
    return made.digest()


def points(files, ops):
    """(number, said already, disk) after none, one, ... all of the calls. The disk goes on changing."""
    disk, said = Disk(files), b""
    yield 0, said, disk
    for number, op in enumerate(ops, 1):
        said += op.data if op.kind == "said" else b""
        disk.do(op)
        yield number, said, disk
