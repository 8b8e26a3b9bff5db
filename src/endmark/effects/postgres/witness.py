"""A second connection to the target, opened while the first one is at work: it looks at what stands there while the
first takes the fingerprint, and is the one on which a commit is verified. No statement of a plan ever runs on it."""

import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from endmark.core.refusal import CannotTry
from endmark.effects.postgres import alone, holders, questions, standing
from endmark.effects.postgres.channel import Channel, Fault, Late, Lost, Reply, Step

_ANSWER = 60.0  # seconds that the server may take for a question of ours
_FRESH = 10.0  # seconds without a word after which the connection is not trusted to be alive


class Saw(NamedTuple):
    """What was seen while the lock was held: the replies to `standing.ASK` and `alone.FIND`, or why the last failed."""

    standing: Reply
    unfinished: Reply | None
    fault: Fault | None


class Witness:
    """It connects in a thread of its own. Whatever goes wrong here is none of a job's business: whoever asks gets None,
    and asks on a connection of his own."""

    def __init__(self, connect: Callable[[], Channel], lock_ms: int) -> None:
        self._connect = connect
        self._own = questions.own(lock_ms)
        self._pid: str | None = None
        self._called = threading.Event()
        self._channel: Channel | None = None
        self._saw: Saw | None = None
        self._at = 0.0
        self._thread = threading.Thread(target=self._work, name="endmark witness", daemon=True)
        self._thread.start()

    def look(self, pid: str | None) -> None:
        """The server process `pid` holds the target's lock: see what stands there."""
        self._pid = pid
        self._called.set()

    def saw(self) -> Saw | None:
        """What was seen, once it was; None where nothing could be, or the lock's holder could not."""
        self._called.set()
        self._thread.join()
        return self._saw

    def ask(self, question: Step) -> Reply | None:
        """What stands there, as everybody sees it; None where the lock's holder was not seen, or nobody answers."""
        if self.saw() is None or self._channel is None:
            return None
        steps = (questions.READ, self._own, question, questions.ROLLBACK)
        try:
            reply = self._channel.ask(*steps, silence=_ANSWER)[2]
        except (Fault, Lost, Late):
            self._channel.close()
            self._channel = None
            return None
        self._at = time.monotonic()
        return reply

    def take(self) -> Channel | None:
        """The connection, from now on the caller's, where it has spoken a moment ago."""
        self._called.set()
        self._thread.join()
        channel, self._channel = self._channel, None
        if channel is not None and time.monotonic() - self._at > _FRESH:
            channel.close()
            return None
        return channel

    def close(self) -> None:
        """End it. Raises nothing."""
        if (channel := self.take()) is not None:
            channel.close()

    def _work(self) -> None:
        try:
            self._channel = self._connect()
        except CannotTry:
            return
        try:
            self._called.wait()
            if self._pid is not None:
                self._saw = self._see(self._channel, self._pid)
        except (Fault, Lost, Late):
            self._channel.close()
            self._channel = None
        self._at = time.monotonic()

    def _see(self, channel: Channel, pid: str) -> Saw | None:
        """Under the other connection's lock, which this server must know of: else this is another one."""
        steps = (questions.READ, self._own, holders.is_held_by(pid), standing.ASK, alone.FIND)
        replies, fault = channel.ask_but_last(*steps, silence=_ANSWER)
        channel.ask(questions.ROLLBACK, silence=_ANSWER)
        if replies[2].rows != [("true",)]:
            return None
        return Saw(replies[3], None if fault else replies[4], fault)
