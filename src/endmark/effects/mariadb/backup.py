"""A copy of the database before the first write, by the server's own dump program."""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from endmark.core.refusal import CannotTry, Signal
from endmark.effects.mariadb.address import Address
from endmark.effects.target import Failed, Kept, Progress, Stop

_PROGRAMS = ("mariadb-dump", "mysqldump")
_LOOK = 0.1  # seconds between two looks at `stop`
_END = b"-- Dump completed"  # the last line a dump program writes


def dump(address: Address, to: Path, progress: Progress, stop: Stop) -> Kept:
    """Write a dump to `to`, flushed to disk before it gets its name. Raises Failed when interrupted, and CannotTry."""
    program = next((found for name in _PROGRAMS if (found := shutil.which(name))), None)
    if program is None:
        raise CannotTry(
            f"no backup could be made: there is no {' or '.join(_PROGRAMS)} on the PATH. Nothing was written; install "
            "one, or say --no-backup."
        )
    part = to.with_name(to.name + ".part")
    try:
        to.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if to.exists():
            raise CannotTry(f"the backup {to} exists already. Nothing was written.")
        with _options(address) as options, open(part, "xb", opener=_private) as stream:
            _run([program, f"--defaults-file={options}", *_ARGUMENTS, address.database], stream.fileno(), to, stop)
            os.fsync(stream.fileno())
        if not _is_whole(part):
            raise CannotTry(f"no backup could be made at {to}: the dump is not whole. Nothing was written.")
        with part.open("rb") as stream:
            kept = Kept(hashlib.file_digest(stream, "sha256").hexdigest(), os.fstat(stream.fileno()).st_size)
        os.rename(part, to)
        progress(1, 1)
        return kept
    except OSError as fault:
        raise CannotTry(f"no backup could be made at {to}: {fault}. Nothing was written.") from None
    finally:
        part.unlink(missing_ok=True)


_ARGUMENTS = ("--single-transaction", "--skip-lock-tables", "--routines", "--triggers", "--hex-blob", "--skip-tz-utc")


def _run(command: list[str], output: int, to: Path, stop: Stop) -> None:
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)
        try:
            while True:
                try:
                    code = process.wait(_LOOK)
                    break
                except subprocess.TimeoutExpired:
                    if (by := stop()) is not None:
                        raise Failed(Signal.INTERRUPTED, f"{by} during the backup; nothing was written") from None
        finally:
            process.kill()
            process.wait()
        if code != 0:
            errors.seek(0)
            said = errors.read(500).decode("utf-8", "replace").strip().replace("\n", " ") or f"exit code {code}"
            raise CannotTry(f"no backup could be made at {to}: {said}. Nothing was written.")


@contextlib.contextmanager
def _options(address: Address) -> Iterator[Path]:
    """A file that only we can read: no other process sees a password in a file, but in arguments."""
    lines = ["[client]", "default-character-set=utf8mb4"]
    for name, value in (
        ("host", address.host),
        ("port", str(address.port)),
        ("user", address.user),
        ("password", address.password),
        ("socket", address.unix_socket),
        ("ssl-ca", address.ssl_ca),
    ):
        if value and (name not in ("host", "port") or address.unix_socket is None):
            escaped = value.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'{name}="{escaped}"')
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "client.cnf")
        with open(path, "x", encoding="utf-8", opener=_private) as stream:
            stream.write("\n".join(lines) + "\n")
        yield path


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _is_whole(part: Path) -> bool:
    with part.open("rb") as stream:
        stream.seek(max(0, part.stat().st_size - 200))
        return _END in stream.read()
