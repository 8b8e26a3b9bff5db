"""How the pages say things: states, evidence, ages and sizes. Nothing is told by colour alone."""

from __future__ import annotations

from datetime import datetime

from endmark.core.evidence import REVERTED

# Of each state: its tone (a class of the style sheet) and its glyph. Only what stands is `good`; `cut` and `unsure` are
# tones of their own, for `truncated` and `incomplete` are never anything else.
LOOKS: dict[str, tuple[str, str]] = {
    "received": ("wait", "○"),
    "truncated": ("cut", "✂"),
    "incomplete": ("unsure", "?"),
    "rejected": ("bad", "⊘"),
    "quarantined": ("bad", "⚠"),
    "staged": ("wait", "◔"),
    "approved": ("wait", "◑"),
    "applying": ("work", "▶"),
    "applied": ("good", "✓"),
    "failed": ("bad", "✕"),
    "partial": ("alarm", "◧"),
    "settled": ("quiet", "■"),
    "declined": ("quiet", "⊖"),
    "stale": ("quiet", "↻"),
    "reverted": ("quiet", "↶"),
    "asked": ("wait", "◔"),
    "pending": ("wait", "◔"),
    "pass": ("good", "✓"),
    "fail": ("bad", "✕"),
    "merged": ("good", "⤓"),
    "hole": ("alarm", "◧"),
    "no hole": ("good", "✓"),
    "inconclusive": ("unsure", "?"),
    "unreadable": ("unsure", "?"),
}
_UNKNOWN = ("quiet", "·")


def look(state: str) -> tuple[str, str]:
    """The tone and the glyph of a state's word; of one that nobody knows a quiet one."""
    return LOOKS.get(state, _UNKNOWN)


_PROVES = {
    "bare": "a plan without an envelope: its own count, digest and trailer",
    "witness": "the model's own count and trailer stand where they must; nothing covers the middle",
    "sealed": "nothing was lost or changed since the whole answer was sealed; not who sealed it",
    "signed": "a trusted key signed the envelope; not that the statements are right",
    "envelope-length": "as many bytes arrived as the envelope declares",
    "envelope-sha256": "the bytes are those that were sealed",
    "sentinel": "the envelope's own end arrived",
    "stmt-count": "as many statements as the plan declares",
    "trailer": "the plan's last key is there",
    "statements-sha256": "the statements are those that the plan's digest covers",
    "count-before-statements": "the model said how many before it wrote them",
    "trailer-last": "the model's text reached its own end",
    "receipt-found": "settled by the receipt in the target, not by the gate that wrote it",
    "journal": "statements ran one by one, each with its line in the target's journal",
    "unrehearsed": "it could not be tried anywhere first",
    "one-account": "who runs the statements could write receipts too",
    "untried-server": "no test has seen this kind of server",
    "outside-a-transaction": "a single statement that runs in no transaction; its outcome was looked at",
    "undone-by-downs": "what had run was undone by its downs",
    "target-gone": "closed by a person: nobody can say what became of it",
    "rehearsed": "it ran where nothing stays, and left the schema that it left then",
    "found-in-rehearsal": "declined by what the rehearsal found; the target was not touched",
    "review-none": "the target asked for no review when this was taken",
    "self-approved": "one person submitted and approved it",
}
_PROVES_BY_PREFIX = {
    "digest-does-not-cover": "what the plan's digest leaves out",
    REVERTED: "undone since: its effect does not stand",
    "down-of": "made of the downs of that job",
    "approved-by": "a person looked at what the policy leaves to one",
    "signed-by": "whose key signed it",
    "budget-spent": "every attempt that the policy allows was made",
}


def proves(evidence: str) -> str:
    """What a word of evidence says; empty where it speaks for itself."""
    return (
        _PROVES.get(evidence)
        or _PROVES_BY_PREFIX.get(evidence.partition(":")[0].removesuffix("-by"), "")
        or (_PROVES_BY_PREFIX.get(evidence.partition(":")[0], ""))
    )


def age(stamp: str, now: datetime) -> str:
    """How long ago, in one or two units: `42 s`, `3 h 12 min`, `5 d 2 h`."""
    seconds = max(0, int((now - datetime.fromisoformat(stamp)).total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if hours < 1:
        return f"{minutes} min"
    if days < 1:
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{days} d {hours % 24} h" if days < 10 and hours % 24 else f"{days:,} d"


def moment(stamp: str) -> str:
    """`2026-11-30 12:00:05` of a time on record, in UTC."""
    return f"{stamp[:10]} {stamp[11:19]}"


def number(value: int | None) -> str:
    """With commas; a dash for what is not known."""
    return "—" if value is None else f"{value:,}"


def short(value: str | None, length: int = 12) -> str:
    """The beginning of an id or a digest, where that is enough to know it by."""
    if value is None:
        return "—"
    return value if len(value) <= length + 1 else f"{value[:length]}…"


def branch(ref: str) -> str:
    """A branch as people call it."""
    return ref.removeprefix("refs/heads/")


def plural(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
