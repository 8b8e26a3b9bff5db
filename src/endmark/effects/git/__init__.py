"""Git: what a change is, what a reviewer sees of it, and merging it by compare-and-swap."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from endmark.effects.git.change import Change, read_change
    from endmark.effects.git.gate import Gate
    from endmark.effects.git.merge import Merged, OutcomeUnknown, Person, Standing, standing, verify_tip
    from endmark.effects.git.objects import Commit, read_commit, read_file
    from endmark.effects.git.program import Git
    from endmark.effects.git.repository import Repository, open_repository
    from endmark.effects.git.shown import Block, read_blocks
    from endmark.effects.git.worktrees import checked_out

__all__ = [
    "Block",
    "Change",
    "Commit",
    "Gate",
    "Git",
    "Merged",
    "OutcomeUnknown",
    "Person",
    "Repository",
    "Standing",
    "checked_out",
    "open_repository",
    "read_blocks",
    "read_change",
    "read_commit",
    "read_file",
    "standing",
    "verify_tip",
]

# Loaded when first used: a hook starts git before it imports what reads the answer.
_HOMES = {
    "change": ("Change", "read_change"),
    "gate": ("Gate",),
    "merge": ("Merged", "OutcomeUnknown", "Person", "Standing", "standing", "verify_tip"),
    "objects": ("Commit", "read_commit", "read_file"),
    "program": ("Git",),
    "repository": ("Repository", "open_repository"),
    "shown": ("Block", "read_blocks"),
    "worktrees": ("checked_out",),
}


def __getattr__(name: str) -> Any:
    home = next((module for module, names in _HOMES.items() if name in names), None)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
