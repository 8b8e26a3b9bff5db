"""A plan with ALTERs of one table put together, tried on a clone of its own beside the plan as it was."""

from collections.abc import Callable, Sequence

from endmark.core.refusal import Signal
from endmark.effects.mariadb.alters import plan_of, put_together
from endmark.effects.mariadb.judging import Judgements, judge_all
from endmark.effects.mariadb.rehearsal import Rehearsed
from endmark.effects.target import Failed, Merge, Merged, Work

Rehearse = Callable[[Judgements, Judgements | None], Rehearsed]
_NOT_ITS_FAULT = frozenset({Signal.INTERRUPTED, Signal.TARGET_FAULT})


def merge(
    work: Work, statements: Judgements, downs: Judgements | None, databases: frozenset[str], rehearse: Rehearse
) -> Merged:
    """The merged plan. Raises Failed where nothing can be merged, CannotTry, pymysql's errors."""
    merges, apart = put_together(statements, downs)
    if not merges:
        why = "; ".join(apart) or "no table is altered by two statements that could be one"
        raise Failed(Signal.CHECK_FAILED, f"nothing can be merged: {why}")
    ups, backs = _try(work, merges, rehearse(statements, downs), databases, rehearse)
    return Merged(tuple(ups), None if backs is None else tuple(backs), merges, apart)


def offers(
    work: Work,
    statements: Judgements,
    downs: Judgements | None,
    databases: frozenset[str],
    found: Rehearsed,
    rehearse: Rehearse,
) -> tuple[tuple[Merge, ...], tuple[str, ...]]:
    """What could be one statement, if it comes out as `found` did, and why more could not.

    Raises Failed for an interruption or a fault of the server, CannotTry and pymysql's errors.
    """
    merges, apart = put_together(statements, downs)
    if not merges or work.reverts is not None:
        return (), apart
    try:
        _try(work, merges, found, databases, rehearse)
    except Failed as failed:
        if failed.signal in _NOT_ITS_FAULT:
            raise
        return (), (*apart, f"put together, they do not go through: {failed.detail}")
    return merges, apart


def _try(
    work: Work, merges: Sequence[Merge], found: Rehearsed, databases: frozenset[str], rehearse: Rehearse
) -> tuple[list[str], list[str] | None]:
    ups, backs = plan_of(work.statements, work.down, merges)
    statements = judge_all(ups, "merged, statement", databases)
    downs = None if backs is None else judge_all(backs, "merged, the down of statement", databases)
    merged = rehearse(statements, downs)
    if (merged.fingerprints[0], merged.fingerprints[-1]) != (found.fingerprints[0], found.fingerprints[-1]):
        raise Failed(Signal.CHECK_FAILED, "merged, the plan leaves another schema than it does as it is")
    return ups, backs
