"""Which requests a model answers, by their method and path, beside those that `sources.asked` knows how to read."""

from endmark.sources import asked

# What providers stream that no model says to whoever asked: progress, sound, pictures, and what was said in a sound.
_NO_ANSWERS = (
    *("/api/pull", "/api/push", "/api/create"),
    *("/audio/speech", "/audio/transcriptions", "/audio/translations"),
    *("/images/generations", "/images/edits", "/images/variations"),
)


def wire_of(method: str, host: str, path: str, query: str) -> str | None:
    """The wire of the answer; None where the route is not a known one. Only a POST asks a model."""
    return asked.wire_of(host, path, query) if method == "POST" else None


def without_answer(method: str, path: str) -> str | None:
    """What kind of route this is, where it is known that a stream on it is no model's answer to this request."""
    if method != "POST":
        return method
    return next((route for route in _NO_ANSWERS if path.rstrip("/").endswith(route)), None)
