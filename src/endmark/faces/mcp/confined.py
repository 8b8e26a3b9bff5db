"""A file below one folder, read whole, and only if it did not change meanwhile."""

import os
import stat
from pathlib import Path

from endmark.core.printable import safe
from endmark.core.refusal import CannotTry

_LONGEST = 4096  # characters of a path


def read(root: Path, path: str, limit: int) -> bytes:
    """All bytes of the regular file that `path`, seen from `root`, leads to; one byte over `limit` if it is longer.

    Links are followed first, and what they lead to must lie below `root`; then the file is opened again part by part
    without following any, so that nothing can be exchanged in between. It is read twice: two equal readings of the
    length that the file has are a whole one. Raises CannotTry; nothing is recorded then.
    """
    shown = safe(path[:200])
    if not path or len(path) > _LONGEST or "\0" in path or not _is_text(path):
        raise _cannot(shown, f"it is no path of 1 to {_LONGEST} characters without NUL")
    try:
        found = Path(os.path.realpath(root / path))
        if not found.is_relative_to(root) or found == root:
            raise _cannot(shown, "it leads outside the folder that plans are taken from")
        descriptor = _open(root, found.relative_to(root).parts)
    except OSError as fault:
        raise _cannot(shown, fault.strerror or str(fault)) from None
    try:
        before = os.fstat(descriptor)
        if not stat.S_ISREG(before.st_mode):
            raise _cannot(shown, "it is no regular file")
        first, second = _all(descriptor, limit), _all(descriptor, limit)
        after = os.fstat(descriptor)
    except OSError as fault:
        raise _cannot(shown, fault.strerror or str(fault)) from None
    finally:
        os.close(descriptor)
    if len(first) <= limit and (first != second or _version(before) != _version(after) or len(first) != after.st_size):
        raise _cannot(
            shown,
            f"it changed while it was read: {len(first):,} bytes, then {len(second):,}, its size says "
            f"{after.st_size:,}. Wait until it is written to its end",
        )
    return first


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _open(root: Path, parts: tuple[str, ...]) -> int:
    """Walk down from `root` without following a link. Raises OSError."""
    at = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
            os.close(at)
            at = below
        # Not waiting for a writer, should it be a pipe.
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=at)
    finally:
        os.close(at)


def _all(descriptor: int, limit: int) -> bytes:
    chunks, offset = [], 0
    while offset <= limit and (chunk := os.pread(descriptor, min(1 << 20, limit + 1 - offset), offset)):
        chunks.append(chunk)
        offset += len(chunk)
    return b"".join(chunks)


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _cannot(shown: str, why: str) -> CannotTry:
    return CannotTry(f"{shown or 'the path'}: {why}. Nothing was taken and nothing was written; call again.")
