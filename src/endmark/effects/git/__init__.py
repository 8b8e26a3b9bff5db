"""Git: what a change is, what a reviewer sees of it, and merging it by compare-and-swap."""

from endmark.effects.git.change import Change, read_change
from endmark.effects.git.gate import Gate
from endmark.effects.git.merge import Merged, OutcomeUnknown, Person, Standing, merge, standing, verify_tip
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
    "merge",
    "open_repository",
    "read_blocks",
    "read_change",
    "read_commit",
    "read_file",
    "standing",
    "verify_tip",
]
