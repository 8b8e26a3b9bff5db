"""A MariaDB or MySQL database as a target. Its DDL commits by itself: docs/mariadb.md says what follows from that."""

from endmark.effects.mariadb.target import MariadbTarget

__all__ = ["MariadbTarget"]
