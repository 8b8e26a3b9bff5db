"""Whether reviewers repeat their verdicts, day by day, as a picture and as figures."""

from __future__ import annotations

import msgspec

from endmark.core.flips import Rate, rates, wilson
from endmark.faces.http.access import Identity
from endmark.faces.pages.home import sees_branch
from endmark.ledger.book import Ledger
from endmark.ledger.replays import Replay, replays

_DRAWN = 12  # groups with a picture
_DAYS = 60  # days in a picture, the newest
_INCIDENTS = 50
WIDE, HIGH, LEFT, TOP, FOOT = 560.0, 132.0, 46.0, 10.0, 22.0  # of a picture


class Day(msgspec.Struct, frozen=True):
    """One day of one group: flips in so many complete pairs, and the 95 % interval of the rate."""

    day: str
    pairs: int
    flips: int
    incomplete: int
    low: float
    high: float
    x: float = 0.0

    @property
    def rate(self) -> float:
        return self.flips / self.pairs if self.pairs else 0.0


class Series(msgspec.Struct, frozen=True):
    """One (model, policy, prompt): all of it, and its days."""

    rate: Rate
    days: list[Day]

    def y(self, share: float) -> float:
        """Where a share of 0 to 1 stands in the picture."""
        return TOP + (HIGH - TOP - FOOT) * (1 - share)


class Stability(msgspec.Struct, frozen=True):
    """All series, most flips first; `undrawn` have no picture. `incidents`: what stands merged on such a verdict."""

    series: list[Series]
    undrawn: int
    incidents: list[Replay]
    total: int


def look(ledger: Ledger, identity: Identity) -> Stability:
    """What the book has of repetitions. Raises CannotTry."""
    found = [one for one in replays(ledger) if sees_branch(identity, one.ref)]
    groups: dict[tuple[str, str, str], list[Replay]] = {}
    for one in found:
        groups.setdefault((one.pair.model, one.pair.policy_version, one.pair.prompt_sha256), []).append(one)
    ordered = rates([one.pair for one in found])
    series = [Series(rate, _days(groups[rate.model, rate.policy_version, rate.prompt_sha256])) for rate in ordered]
    incidents = [one for one in found if one.pair.incident]
    return Stability(series, max(0, len(series) - _DRAWN), incidents[-_INCIDENTS:], len(found))


def _days(members: list[Replay]) -> list[Day]:
    by_day: dict[str, list[Replay]] = {}
    for one in members:
        by_day.setdefault(one.at[:10], []).append(one)
    days = sorted(by_day)[-_DAYS:]
    step = (WIDE - LEFT - 8) / max(1, len(days))
    made = []
    for at, day in enumerate(days):
        complete = [one.pair for one in by_day[day] if one.pair.complete]
        flips = sum(pair.flipped for pair in complete)
        low, high = wilson(flips, len(complete))
        rest = len(by_day[day]) - len(complete)
        made.append(Day(day, len(complete), flips, rest, low, high, LEFT + step * (at + 0.5)))
    return made
