"""Text that arrives in pieces, some of them still spelled as JSON spells them."""

from endmark.core import strictjson


class Fragments:
    """Pieces of one text, in order. Pieces still escaped are kept so and resolved together, once, when asked for."""

    __slots__ = ("_plain", "_spelled")

    def __init__(self) -> None:
        self._plain: list[str] = []
        self._spelled: list[str] = []  # pieces that came after all of `_plain`, as a JSON string spells them

    def add(self, piece: str) -> None:
        """The next piece, as it reads."""
        self._settle()
        self._plain.append(piece)

    def add_spelled(self, piece: str) -> None:
        """The next piece, as it stands between the quotes of a strict JSON string, with no half of a surrogate pair."""
        self._spelled.append(piece)

    def text(self) -> str:
        """All pieces together."""
        self._settle()
        if len(self._plain) > 1:
            self._plain = ["".join(self._plain)]
        return self._plain[0] if self._plain else ""

    def _settle(self) -> None:
        if not self._spelled:
            return
        spelled = "".join(self._spelled)
        self._spelled.clear()
        if "\\" in spelled:
            spelled = strictjson.loads(b'{"":"' + spelled.encode() + b'"}')[""]
        self._plain.append(spelled)


class Aside(Fragments):
    """Pieces of what is no part of the answer, a model's reasoning for one: taken and not kept."""

    __slots__ = ()

    def add(self, piece: str) -> None:
        """Forgets it."""

    def add_spelled(self, piece: str) -> None:
        """Forgets it."""
