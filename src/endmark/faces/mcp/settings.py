"""What `[mcp]` of endmark.toml opens to agents, checked as a whole before anything is served."""

import hmac
from pathlib import Path

import msgspec

from endmark.core.evidence import LEVELS
from endmark.faces.config import Config, Place
from endmark.faces.misuse import Misuse
from endmark.sources import files

TOKEN = "ENDMARK_MCP_TOKEN"
"""The variable that holds the bearer token where `[mcp] token` does not say otherwise."""

TOKEN_MIN = 16  # characters


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What agents reach.

    `place`: the one target, None where there is none; its options demand at least `[mcp] min_evidence`. `immediate`:
    jobs for it are applied at once. `root`: the folder whose files may be handed over, with links resolved.
    `repository`: the one that verdicts are about, None where there is none.
    """

    config: Config
    place: Place | None
    immediate: bool
    root: Path
    repository: Path | None
    policy: Path | None


def read(config: Config) -> Settings:
    """The settings in `config`. Raises Misuse, also where they open nothing."""
    table, where = config.mcp, f"{config.file}: mcp"
    if table.target is None and table.repository is None:
        raise Misuse(
            "[mcp] of endmark.toml names neither a target nor a repository, so there is nothing an agent could do here."
        )
    for name in (*table.immediate, *filter(None, (table.target,))):
        if name not in config.targets:
            raise Misuse(f"{where}: there is no [targets.{name}]; a URL is not taken here.")
        if name in table.immediate and config.targets[name].review == "required":
            raise Misuse(f"{where}.immediate: the target {name} demands a review, which nothing here switches off.")
    root = (config.folder / table.root if table.root is not None else Path()).resolve()
    if not root.is_dir():
        raise Misuse(f"{where}.root: {root} is not a folder.")
    return Settings(
        config=config,
        place=None if table.target is None else _place(config, table.target),
        immediate=table.target in table.immediate,
        root=root,
        repository=None if table.repository is None else config.folder / table.repository,
        policy=None if table.policy is None else config.folder / table.policy,
    )


def _place(config: Config, name: str) -> Place:
    place = config.place(name)
    demanded = max(place.options.min_evidence, LEVELS[config.mcp.min_evidence])
    return msgspec.structs.replace(place, options=msgspec.structs.replace(place.options, min_evidence=demanded))


class Token:
    """The secret that an HTTP client must show. It is compared in the same time whatever was shown."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()

    def matches(self, shown: bytes) -> bool:
        return hmac.compare_digest(self._secret, shown)


def token(config: Config) -> Token | None:
    """The token of `[mcp] token` ("env:NAME", or a file that holds it), else of ENDMARK_MCP_TOKEN; None for none.

    Raises Misuse.
    """
    named = config.mcp.token
    if named is None:
        secret, where = config.environ.get(TOKEN), TOKEN
        if not secret:
            return None
    elif named.startswith("env:"):
        where = named.removeprefix("env:")
        secret = config.environ.get(where)
        if not secret:
            raise Misuse(f"{config.file}: mcp.token: the variable {where} is not set.")
    else:
        where = str(config.folder / named)
        secret = _in_file(where)
    if len(secret) < TOKEN_MIN or not secret.isascii() or not secret.isprintable() or " " in secret:
        raise Misuse(f"{where}: a token is {TOKEN_MIN} or more printable ASCII characters without spaces.")
    return Token(secret)


def _in_file(name: str) -> str:
    try:
        if Path(name).stat().st_mode & 0o077:
            raise Misuse(f"{name}: others may read it; a token's file is its owner's alone (chmod 600).")
        return files.read(name, 4096).decode("ascii", "replace").strip()
    except OSError as fault:
        raise Misuse(f"{name}: {fault.strerror or fault}.") from None
    except files.Unreadable as fault:
        raise Misuse(f"{name}: {fault.why}.") from None
