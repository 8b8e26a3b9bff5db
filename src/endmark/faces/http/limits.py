"""How much of anybody is taken: requests in a time, bodies at once, bytes in flight, watchers (H19-H25)."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from endmark.core.mc1 import HEADER_MAX
from endmark.faces.http.problems import Problem, not_tried
from endmark.faces.http.settings import Settings

_REMEMBERED = 10_000  # callers; whoever was quiet for longest is forgotten, with a full bucket
_WRONG_TOKENS = (1.0, 20)  # H20: a second, and at once, from one address


class Buckets:
    """A bucket of tokens for each caller: `rate` flow in a second, `burst` fit in."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float]) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._clock = clock
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, caller: str) -> float:
        """Take one. 0.0 if there was one, else how many seconds to wait for it."""
        at = self._clock()
        left, since = self._left.pop(caller, (self._burst, at))
        left = min(self._burst, left + (at - since) * self._rate)
        wait = 0.0 if left >= 1 else (1 - left) / self._rate
        self._left[caller] = (left - 1 if not wait else left, at)
        if len(self._left) > _REMEMBERED:
            self._left.popitem(last=False)
        return wait


class Limits:
    """What one service has given away of each; `clock` is monotonic, in seconds. It belongs to one thread."""

    def __init__(self, settings: Settings, clock: Callable[[], float]) -> None:
        self.settings = settings
        self.clock = clock
        self.in_flight = 0
        self.uploads = 0
        self.watchers = 0
        self.held: Counter[str] = Counter()
        self._bodies: Counter[str] = Counter()
        self._watching: Counter[str] = Counter()
        self._requests = Buckets(settings.rate, settings.burst, clock)
        self._wrong = Buckets(*_WRONG_TOKENS, clock)

    def request(self, caller: str) -> None:
        """H19. Raises Problem when this caller asks too often."""
        wait = self._requests.take(caller)
        if wait:
            raise _often(wait)

    def wrong_token(self, address: str) -> Problem | None:
        """What to answer an address that has tried too many wrong tokens, or None."""
        wait = self._wrong.take(address)
        return _often(wait) if wait else None

    @contextmanager
    def upload(self, caller: str | None = None) -> Iterator[Room]:
        """H21: room for one body, given back at the end. Raises Problem when there is none.

        `caller`: whose it is, where callers can be told apart; then theirs together take half of the bodies, and of
        their bytes, at most.
        """
        if self.uploads >= self.settings.max_uploads:
            raise not_tried("busy", f"{self.uploads:,} bodies are being read already. Nothing was done.", close=True)
        with _share(self._bodies, caller, self.settings.max_uploads, "bodies of yours are being read"):
            self.uploads += 1
            room = Room(self, caller)
            try:
                yield room
            finally:
                self.uploads -= 1
                room.give_back()

    @contextmanager
    def watcher(self, caller: str | None = None) -> Iterator[None]:
        """H22: one that waits for news, of `caller` as above. Raises Problem when there are too many."""
        if self.watchers >= self.settings.max_watchers:
            raise not_tried("busy", f"{self.watchers:,} callers are waiting for news already. Ask without waiting.")
        with _share(self._watching, caller, self.settings.max_watchers, "calls of yours wait for news"):
            self.watchers += 1
            try:
                yield
            finally:
                self.watchers -= 1


class Room:
    """Bytes of one body that are held in memory."""

    def __init__(self, limits: Limits, caller: str | None = None) -> None:
        self._limits = limits
        self._caller = caller
        self._held = 0

    def take(self, total: int) -> None:
        """Hold `total` bytes in all. Raises Problem when that is too much for the service."""
        more = total - self._held
        if more <= 0:
            return
        if self._limits.in_flight + more > self._limits.settings.max_in_flight:
            raise not_tried("busy", "Too many bytes are being read already. Nothing was done.", close=True)
        if self._caller is not None:
            settings = self._limits.settings
            share = max(settings.max_in_flight // 2, settings.max_body + HEADER_MAX)  # one body fits in any case
            if self._limits.held[self._caller] + more > share:
                raise not_tried("busy", "Too many bytes of yours are being read already. Nothing was done.", close=True)
            self._limits.held[self._caller] += more
        self._limits.in_flight += more
        self._held = total

    def give_back(self) -> None:
        self._limits.in_flight -= self._held
        if self._caller is not None:
            self._limits.held[self._caller] -= self._held
            if not self._limits.held[self._caller]:
                del self._limits.held[self._caller]
        self._held = 0


@contextmanager
def _share(taken: Counter[str], caller: str | None, most: int, what: str) -> Iterator[None]:
    """One of the half that one caller may take. Raises Problem when theirs is taken."""
    if caller is None:
        yield
        return
    if taken[caller] >= max(1, most // 2):
        raise not_tried("busy", f"{taken[caller]:,} {what} already, half of all. Nothing was done.", close=True)
    taken[caller] += 1
    try:
        yield
    finally:
        taken[caller] -= 1
        if not taken[caller]:
            del taken[caller]


def _often(wait: float) -> Problem:
    seconds = max(1, round(wait + 0.5))
    return not_tried(
        "too-many-requests",
        f"Too many requests. Nothing was done; ask again in {seconds} s.",
        headers={"retry-after": str(seconds)},
        close=True,
    )
