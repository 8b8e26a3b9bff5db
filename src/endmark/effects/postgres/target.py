"""A PostgreSQL database as a target: how it is found and opened."""

from collections.abc import Sequence
from pathlib import Path

import psycopg

from endmark.core.refusal import CannotTry
from endmark.effects.postgres.address import address, libpq_environ
from endmark.effects.postgres.channel import Channel, Fault, Late, Lost, Step
from endmark.effects.postgres.clone import Scratch
from endmark.effects.postgres.rehearsal import RehearsingSession
from endmark.effects.target import Reach

OLDEST = 140_000
_SETUP = 60.0  # seconds a statement of the set-up may wait


class PostgresTarget:
    """One database. `identity` names host, port and database; it holds no user and no password.

    `allow_owner`: take a role that could write receipts by itself; then a plan of evil intent could, too. `scratch`:
    where a clone of the schema may be made for a rehearsal; without it, plans are rehearsed in the target.
    """

    def __init__(self, url: str, allow_owner: bool = False, scratch: Scratch | None = None) -> None:
        """Raises CannotTry for a URL that names no database."""
        self._address = address(url)
        self.identity = self._address.identity
        self.user = self._address.user
        self.allow_owner = allow_owner
        self.scratch = scratch
        self.believed: object = None  # the place whose receipts were found to be believable

    def is_file(self, path: Path) -> bool:
        return False

    def connect(self) -> Channel:
        """A connection. Raises CannotTry."""
        try:
            channel = Channel(dict(self._address.parameters))
        except psycopg.Error as error:
            why = " ".join(str(error).split())
            raise CannotTry(f"the target {self.identity} cannot be reached: {why}. Nothing was written.") from None
        if channel.version < OLDEST:
            channel.close()
            old = f"PostgreSQL {channel.version // 10_000}; {OLDEST // 10_000} is the oldest that is taken"
            raise CannotTry(f"the target {self.identity} is {old}. Nothing was written.")
        return channel

    def open(self) -> RehearsingSession:
        """A session with the database. Raises CannotTry."""
        return RehearsingSession(self, self.connect())

    def reach(self) -> Reach:
        known = self._address.parameters
        words = {"host": known.get("host", ""), "port": known["port"], "user": self.user, "database": known["dbname"]}
        return Reach(self.environ(), words, tuple(filter(None, (known.get("password"),))))

    def environ(self) -> dict[str, str]:
        """How libpq's programs get here, the password too: for their environment, which others cannot read."""
        return libpq_environ(self._address.parameters)

    def set_up(self, statements: Sequence[str]) -> None:
        """Run the statements of `setup` in one transaction, as the role of this target's URL. Raises CannotTry."""
        channel = self.connect()
        try:
            steps = (Step(statement.encode()) for statement in ("BEGIN", *statements, "COMMIT"))
            tags = [reply.tag for reply in channel.talk(steps, silence=_SETUP)]
        except (Fault, Lost, Late) as fault:
            why = f"{self.identity} could not be made ready: {fault}"
            raise CannotTry(f"{why}. Nothing was written; --print shows what an administrator has to run.") from None
        finally:
            channel.close()
        if tags[-1] != "COMMIT":
            raise CannotTry(f"{self.identity} could not be made ready: it answered with {tags[-1]}.")
