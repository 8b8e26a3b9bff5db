"""The whole body that a fault breaks, and what is known of it."""

from typing import NamedTuple

import msgspec

from endmark.drills import edges
from endmark.drills.edges import Shape


class DoesNotFit(ValueError):
    """The fault cannot be played on this body. One clause says why."""


class Pause(NamedTuple):
    """Nothing is sent for so many seconds; None: until the other side gives up."""

    seconds: float | None


Part = bytes | Pause


class Body(msgspec.Struct, frozen=True):
    """A whole body, after the transfer coding was undone, and what is known of it.

    `other`: a second whole body, for a fault that mixes two up.
    """

    data: bytes
    content_type: str = ""
    wire: str | None = None
    other: bytes | None = None

    @property
    def shape(self) -> Shape:
        return edges.shape_of(self.data, self.content_type, self.wire)

    def events(self) -> list[bytes]:
        """Raises DoesNotFit where the body is not made of events."""
        shape = self.shape
        if shape not in edges.STREAMS:
            raise DoesNotFit(f"the body is {shape.value}, and this fault needs events")
        return edges.events(self.data, shape)


def has(wanted: int, found: int, what: str) -> None:
    """Raises DoesNotFit where a body has fewer bytes, or events, than a fault needs."""
    if wanted > found:
        raise DoesNotFit(f"the body has {found:,} {what}, the fault needs {wanted:,}")
