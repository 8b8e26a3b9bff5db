"""A SQLite database as a target."""

from endmark.effects.sqlite.target import SqliteTarget

__all__ = ["SqliteTarget"]
