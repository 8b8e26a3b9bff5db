"""How git spells a path that holds what C would have to escape."""

_LETTERS = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}
_ESCAPED = {byte: b"\\%03o" % byte for byte in (*range(0x20), *range(0x7F, 0x100))}
_ESCAPED |= {byte: b"\\" + letter for byte, letter in _LETTERS.items()}


def quoted(path: bytes) -> bytes:
    """`path` between double quotes, in ASCII: no byte of it can end a line."""
    return b'"' + b"".join([_ESCAPED.get(byte) or bytes((byte,)) for byte in path]) + b'"'


def spelled(path: bytes) -> bytes:
    """`path` as git prints it where `core.quotePath` is on: quoted only where it has to be."""
    return quoted(path) if any(byte in _ESCAPED for byte in path) else path
