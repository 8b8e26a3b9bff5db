"""What the hooks of a repository go by: the trusted keys and the policy that were copied beside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # a hook waits for each import
    from endmark.effects.git.repository import Repository

KINDS = ("pre-receive", "reference-transaction")
"""The hooks that guard a repository: one says why, the other stands behind it for everything that moves a ref."""

FOLDER = "endmark"
"""In the repository's own folder: the keys and the policy that the hooks go by."""

POLICY = "policy.toml"
KEYS = "keys"


class Files(NamedTuple):
    """Files of trusted keys, and a policy on this machine or None."""

    keys: tuple[str, ...]
    policy: str | None


def files(repository: Repository) -> Files:
    """What the hooks of this repository go by."""
    folder = os.path.join(repository.common_dir, FOLDER)
    trusted = os.path.join(folder, KEYS)
    try:
        names = sorted(name for name in os.listdir(trusted) if not name.startswith("."))
    except OSError:  # then there is no key, and nothing is let through
        names = []
    keys = tuple(path for name in names if os.path.isfile(path := os.path.join(trusted, name)))
    policy = os.path.join(folder, POLICY)
    # A policy that was there and cannot be reached is no missing one.
    return Files(keys, policy if os.path.lexists(policy) else None)
