"""An outcome in words, for people: one sentence that begins with the state, and the facts to find it again by."""

from collections.abc import Sequence

from endmark.core.outcome import Outcome
from endmark.faces.terminal import safe

_GOOD = frozenset({"whole", "applied"})
_WAITS = frozenset({"staged", "approved", "applying", "not-tried"})


def sentence(outcome: Outcome) -> str:
    """`truncated: received 1,882 of 3,410 bytes. Nothing was written. ...`, escaped for a terminal."""
    detail = safe(outcome.detail)
    if detail.partition(" ")[0].rstrip(",.:;").istitle():  # SIGTERM, ALARM and NaN keep their letters
        detail = detail[0].lower() + detail[1:]
    opening = detail.partition(".")[0].partition(":")[0]
    said = outcome.state in opening.split()
    return detail if said else f"{outcome.state}: {detail}" if detail else f"{outcome.state}."


def facts(outcome: Outcome) -> str:
    """Where it can be found again: job, attempt and target, as far as there are any."""
    known = (("job", outcome.job_id), ("attempt", outcome.attempt_id), ("target", outcome.target))
    return "  ".join(f"{name} {safe(value)}" for name, value in known if value is not None)


def colour(state: str) -> str:
    return "green" if state in _GOOD else "yellow" if state in _WAITS else "red"


def many(count: int, thing: str) -> str:
    """`1 statement`, `11 statements`."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def listed(numbers: Sequence[int]) -> str:
    """`2, 3 and 5`."""
    *most, last = [f"{number:,}" for number in numbers]
    return f"{', '.join(most)} and {last}" if most else last


def table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Rows of escaped cells in columns as wide as their widest; the last column runs free."""
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(len(head) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in [head, *rows]
    )
