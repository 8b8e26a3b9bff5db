"""Text that others wrote, made safe to print: the one helper for terminals, records and reports."""


def safe(text: str) -> str:
    """`text` in one line, with everything escaped that could drive a terminal, hide, or reorder what it shows."""
    if text.isprintable():
        return text
    return "".join(mark if mark.isprintable() else ascii(mark)[1:-1] for mark in text)
