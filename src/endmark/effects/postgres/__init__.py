"""A PostgreSQL database as a target, from release 14 on."""

from endmark.effects.postgres.clone import Scratch
from endmark.effects.postgres.target import PostgresTarget

__all__ = ["PostgresTarget", "Scratch"]
