"""How often a reviewer changes its mind: verdicts of one diff, asked again, and what that says about the next time.

One repetition of an item that fails with probability p differs from the first only 2p(1-p) of the time, so a single
replay that agrees proves little. The interval says how little.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

Word = Literal["pass", "fail", "incomplete"]

_Z = 1.959963984540054  # 95 %, two-sided


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded verdict and one repetition of it, by the same reviewer on the same diff."""

    decision_id: str
    reviewer: str
    model: str
    policy_version: str
    prompt_sha256: str
    first: Word
    again: Word
    merged: bool

    @property
    def complete(self) -> bool:
        """Whether both ended; what did not end says nothing about the reviewer's mind."""
        return self.first != "incomplete" and self.again != "incomplete"

    @property
    def flipped(self) -> bool:
        """pass became fail, or fail became pass."""
        return self.complete and self.first != self.again

    @property
    def incident(self) -> bool:
        """A diff stands merged on a verdict that its reviewer does not repeat."""
        return self.merged and self.flipped


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Flips of one (model, policy, prompt). `low` and `high`: the 95 % Wilson score interval of the flip rate."""

    model: str
    policy_version: str
    prompt_sha256: str
    pairs: int
    flips: int
    incomplete: int
    low: float
    high: float

    @property
    def rate(self) -> float | None:
        """Flips in complete pairs, or None where there is none."""
        return self.flips / self.pairs if self.pairs else None


def wilson(hits: int, of: int) -> tuple[float, float]:
    """The 95 % Wilson score interval of a proportion (Wilson 1927); (0, 1) where nothing was tried.

    Raises ValueError unless 0 <= hits <= of.
    """
    if not 0 <= hits <= of:
        raise ValueError(f"{hits} of {of} is no proportion")
    if of == 0:
        return 0.0, 1.0
    share, z2 = hits / of, _Z * _Z
    middle = share + z2 / (2 * of)
    reach = _Z * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    whole = 1 + z2 / of
    # At the ends the formula is exactly 0 or 1; floating point must not say otherwise.
    low = 0.0 if hits == 0 else (middle - reach) / whole
    high = 1.0 if hits == of else (middle + reach) / whole
    return low, high


def rates(pairs: Iterable[Pair]) -> Sequence[Rate]:
    """The flip rate of each (model, policy, prompt), most flips first."""
    groups: dict[tuple[str, str, str], list[Pair]] = {}
    for pair in pairs:
        groups.setdefault((pair.model, pair.policy_version, pair.prompt_sha256), []).append(pair)
    found = []
    for (model, policy, prompt), members in groups.items():
        complete = [pair for pair in members if pair.complete]
        flips = sum(pair.flipped for pair in complete)
        low, high = wilson(flips, len(complete))
        found.append(
            Rate(
                model=model,
                policy_version=policy,
                prompt_sha256=prompt,
                pairs=len(complete),
                flips=flips,
                incomplete=len(members) - len(complete),
                low=low,
                high=high,
            )
        )
    return sorted(found, key=lambda rate: (-rate.flips, rate.model, rate.policy_version, rate.prompt_sha256))
