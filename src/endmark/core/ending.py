"""How the bytes of one answer stopped coming: evidence to judge, never the end of a loop."""

from enum import StrEnum


class Ending(StrEnum):
    """What the transport saw at the end of one body."""

    LENGTH_MET = "length-met"  # exactly the declared Content-Length arrived
    LAST_CHUNK = "last-chunk"  # the chunked coding's final 0-chunk arrived
    END_STREAM = "end-stream"  # HTTP/2 END_STREAM arrived
    END_OF_FILE = "end-of-file"  # a file or a pipe ended; it has no transport of its own
    CLOSED = "closed"  # delimited by the close of the connection alone: proves nothing
    SHORT = "short"  # closed before the declared length, or before the final chunk
    RESET = "reset"
    IDLE = "idle"  # nothing came for longer than the idle limit
    TOO_LONG = "too-long"  # more than the cap
    BAD_ENCODING = "bad-encoding"  # the content encoding did not decode to its end


WHOLE: frozenset[Ending] = frozenset({Ending.LENGTH_MET, Ending.LAST_CHUNK, Ending.END_STREAM, Ending.END_OF_FILE})
