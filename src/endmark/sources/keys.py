"""Ed25519 keys in PEM files: made, read and used (D9). `cryptography` does the arithmetic and is imported only here."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
import stat
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from endmark.core import dsse
from endmark.core.refusal import CannotTry

if TYPE_CHECKING:  # a hook waits for each import
    from pathlib import Path

_MOST = 1 << 20
_SPKI = bytes.fromhex("302a300506032b6570032100")  # SubjectPublicKeyInfo of Ed25519, up to the key (RFC 8410)
_PUBLIC = re.compile(rb"-----BEGIN PUBLIC KEY-----\r?\n[A-Za-z0-9+/=\r\n]+-----END PUBLIC KEY-----")


def sign(payload: bytes, key_file: str | Path, payload_type: str = dsse.PAYLOAD_TYPE) -> bytes:
    """`payload`, by default an MC1 envelope, signed with the private key in `key_file`. Raises CannotTry."""
    key = _private(key_file)
    signature = dsse.Signature(_id_of(key.public_key()), key.sign(dsse.pae(payload, payload_type)))
    return dsse.dumps(payload, (signature,), payload_type)


def verifier(trusted: str | Path | Iterable[str | Path]) -> dsse.Verify:
    """Checks signatures by the public keys in the file or files `trusted`, one PEM block after another.

    Raises CannotTry, also when one of several files cannot be used.
    """
    files = [trusted] if isinstance(trusted, str | os.PathLike) else trusted
    keys = {keyid: key for file in files for keyid, key in _public(file).items()}
    from cryptography.exceptions import InvalidSignature

    def verify(keyid: str, signature: bytes, message: bytes) -> bool | None:
        key = keys.get(keyid)
        if key is None:
            return None
        try:
            key.verify(signature, message)
        except InvalidSignature:
            return False
        return True

    return verify


def new(key_file: str | Path) -> tuple[Path, Path, str]:
    """Make a key: the private one in `key_file`, readable by its owner alone, the public one beside it with `.pub`.

    Returns both paths and the key's id. No file is ever overwritten. Raises CannotTry.
    """
    from pathlib import Path

    ed25519, serialization = _cryptography()
    private, public = Path(key_file), Path(f"{key_file}.pub")
    key = ed25519.Ed25519PrivateKey.generate()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    shown = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    if public.exists() or public.is_symlink():
        raise CannotTry(f"{public} exists already; nothing was written.")
    _write(private, pem, 0o600)
    _write(public, shown, 0o644)
    return private, public, _id_of(key.public_key())


def _write(path: Path, content: bytes, mode: int) -> None:
    try:
        # O_EXCL: not over another file, and not through a link that somebody laid.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise CannotTry(f"{path} exists already; nothing was written.") from None
    except OSError as fault:
        raise CannotTry(f"{path} could not be made: {fault.strerror or fault}.") from None
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # whatever the umask
        file.write(content)
        file.flush()
        os.fsync(descriptor)


def _private(key_file: str | Path) -> Any:
    ed25519, serialization = _cryptography()
    raw = _read(key_file, _owner_only)
    try:
        key = serialization.load_pem_private_key(raw, password=None)
    except TypeError:
        raise CannotTry(f"{key_file} is locked with a password; a key without one was expected.") from None
    except Exception:  # noqa: BLE001  # the library raises several kinds, and may quote what it read
        raise CannotTry(f"{key_file} is not a private key in PEM; `endmark key new FILE` makes one.") from None
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise CannotTry(f"{key_file} is a key of another kind; only Ed25519 is used.")
    return key


def _public(trusted: str | Path) -> dict[str, Any]:
    public_key = _ed25519().Ed25519PublicKey
    raw = _read(trusted, _not_for_others_to_write)
    if b"PRIVATE KEY" in raw:
        raise CannotTry(f"{trusted} holds a private key; the file of trusted keys holds public ones (FILE.pub).")
    blocks = _PUBLIC.findall(raw)
    if not blocks or raw.count(b"-----BEGIN") != len(blocks):
        raise CannotTry(f"{trusted} holds no public keys in PEM, or something else beside them.")
    keys = {}
    for block in blocks:
        point = _point(block)
        if point is None:
            raise CannotTry(f"{trusted} holds a block that is no Ed25519 public key; no other kind is used.")
        keys[_id(point)] = public_key.from_public_bytes(point)
    return keys


def _point(block: bytes) -> bytes | None:
    """The 32 bytes of the key in a PEM block; None for any other kind. RFC 8410 gives it one form.

    The library's own reader imports what it needs for every kind of key, which takes as long as all else that a hook
    does between two processes of git.
    """
    body = b"".join(block.splitlines()[1:-1])
    try:
        der = base64.b64decode(body, validate=True)
    except binascii.Error:
        return None
    return der[len(_SPKI) :] if der.startswith(_SPKI) and len(der) == len(_SPKI) + 32 else None


def _id_of(public: Any) -> str:
    return _id(public.public_bytes_raw())


def _id(point: bytes) -> str:
    """D5: SHA-256 over the 32 bytes of the public key, in lower-case hex."""
    return hashlib.sha256(point).hexdigest()


def _read(name: str | Path, check: Callable[[os.stat_result, str | Path], None]) -> bytes:
    try:
        with open(name, "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode):
                raise CannotTry(f"{name} is not a file.")
            check(found, name)
            return file.read(_MOST)
    except OSError as fault:
        raise CannotTry(f"{name} could not be read: {fault.strerror or fault}.") from None


def _owner_only(found: os.stat_result, name: str | Path) -> None:
    if os.name == "posix" and found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise CannotTry(f"{name} can be read by others (mode {mode:04o}); `chmod 600` it, and ask who has seen it.")


def _not_for_others_to_write(found: os.stat_result, name: str | Path) -> None:
    if os.name == "posix" and found.st_mode & 0o022:
        mode = stat.S_IMODE(found.st_mode)
        raise CannotTry(
            f"{name} can be changed by others (mode {mode:04o}), who could add a key of theirs; `chmod go-w` it."
        )


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise CannotTry("signatures need the package cryptography: pip install 'endmark[sign]'") from None
    return ed25519


def _cryptography() -> tuple[Any, Any]:
    ed25519 = _ed25519()
    from cryptography.hazmat.primitives import serialization

    return ed25519, serialization
