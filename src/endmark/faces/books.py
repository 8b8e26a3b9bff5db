"""Where a ledger is: what was given for it, and that it is kept apart from what plans are applied to."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from endmark.core.refusal import CannotTry
from endmark.effects.target import Target

if TYPE_CHECKING:
    from endmark.ledger.book import Ledger

POSTGRES = ("postgresql", "postgres")


def ledger_place(where: str | Path) -> Path | str:
    """A ledger given as a path or as `sqlite:///FILE`: its file. One given as `postgresql://...`: that URL.

    Raises CannotTry for another kind of URL.
    """
    if isinstance(where, Path):
        return where
    scheme, colon, rest = where.partition("://")
    if not colon:
        return Path(where)
    if scheme in POSTGRES:
        with suppress(ImportError):  # said when it is opened
            from endmark.ledger.postgres.place import place_of

            place_of(where)
        return where
    if scheme != "sqlite" or not rest.startswith("/") or rest == "/":
        said = f"{scheme}://..." if scheme.isalnum() else "what was given"  # no password can stand before the colon
        raise CannotTry(
            f"{said} is not a ledger endmark can keep; sqlite:///FILE, a path or postgresql://HOST/DATABASE was "
            "expected."
        )
    return Path(rest[1:])


def keep_apart(target: Target, ledger: Path | str, book: "Ledger | None" = None) -> None:
    """Raises CannotTry when the ledger is the target's own file, or in the target's own database.

    With `book`, the open ledger, a database of the same name under another host's name is asked which one it is.
    """
    if isinstance(ledger, Path):
        if target.is_file(ledger):
            raise CannotTry(
                f"the ledger {ledger} is the target's own file, or beside it. Nothing was written; keep them apart."
            )
    elif target.identity.startswith("postgresql://"):
        from endmark.ledger.postgres.place import place_of

        mine = place_of(ledger).database
        alike = mine.rpartition("/")[2] == target.identity.rpartition("/")[2]
        if mine == target.identity or (alike and book is not None and _is_in(book, target)):
            raise CannotTry(
                f"the ledger is in the target's own database {target.identity}. Nothing was written; give it another "
                "database, which may be on the same server."
            )


def _is_in(book: "Ledger", target: Target) -> bool:
    """Whether both say the same numbers of their server and database; False where either cannot be asked."""
    with suppress(CannotTry), target.open() as session:
        found = session.place
        said = tuple(map(_text, found)) if isinstance(found, tuple | list) else ()
        return all(said) and said == book.store.which()
    return False


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
