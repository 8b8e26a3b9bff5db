"""The targets: can each be reached, are its receipts to be believed, is its lock free, and does its clock agree?"""

from collections.abc import Iterator
from datetime import UTC, datetime

from endmark.core.refusal import CannotTry, Refused
from endmark.effects.target import Failed, Target
from endmark.faces.api import now
from endmark.faces.books import keep_apart
from endmark.faces.config import Place
from endmark.faces.doctor.finding import Case, Finding, todo, unseen, well
from endmark.faces.misuse import Misuse

FAMILY = "targets"
CLOCK_SECONDS = 5.0
"""How far a server's clock may be from ours."""
_NOBODY = "endmark-doctor"  # a job id that is asked for and never used


def look(case: Case) -> Iterator[Finding]:
    for name in case.config.targets:
        try:
            place = case.config.place(name)
            keep_apart(place.target, case.config.ledger)
        except (Misuse, CannotTry) as fault:
            said = fault.detail if isinstance(fault, CannotTry) else str(fault)
            yield unseen(FAMILY, name, said, "set what it names, or take the target out of endmark.toml")
            continue
        yield from _target(name, place)


def _target(name: str, place: Place) -> Iterator[Finding]:
    target = place.target
    try:
        with target.open() as session:
            yield well(FAMILY, name, f"{target.identity} can be reached")
            yield from _standing(name, place, session)
            yield from _receipts(name, session)
            yield from _clock(name, target, session)
    except (CannotTry, Failed, Refused) as fault:
        yield unseen(FAMILY, name, fault.detail, "see that it runs, and that this account may use it")
        return
    try:
        with target.open() as session:
            session.lock(0.0)
    except CannotTry as fault:
        yield todo(FAMILY, f"{name}: lock", fault.detail, "if no job runs there, find out who holds it")
    else:
        yield well(FAMILY, f"{name}: lock", "it is free")


def _standing(name: str, place: Place, session: object) -> Iterator[Finding]:
    """PostgreSQL: what 'endmark target check' says of the receipts and of the role."""
    ask = getattr(session, "standing", None)
    if ask is None:
        return
    found = ask()
    do = f"'endmark target check {name}' says all of it, 'endmark target setup' makes it ready"
    for fault in found.faults:
        yield todo(FAMILY, f"{name}: set up", fault, do)
    for power in found.powers:
        if getattr(place.target, "allow_owner", False):
            yield well(FAMILY, f"{name}: role", f"allowed by allow_owner: {power}")
        else:
            yield todo(FAMILY, f"{name}: role", power, do)
    if not found.faults and not found.powers:
        yield well(FAMILY, f"{name}: set up", f"{found.owner} owns the receipts, {found.role} can write none by itself")


def _receipts(name: str, session: "object") -> Iterator[Finding]:
    try:
        session.receipt(_NOBODY)  # type: ignore[attr-defined]
    except (CannotTry, Failed) as fault:
        yield todo(FAMILY, f"{name}: receipts", fault.detail, "see docs/apply-a-plan.md on what schema_jobs must be")
    else:
        yield well(FAMILY, f"{name}: receipts", "schema_jobs is one to be believed, or not there yet")


def _clock(name: str, target: Target, session: object) -> Iterator[Finding]:
    before = now()
    said = _server_time(target, session)
    if said is None:
        return  # a file has no clock of its own
    ours = before + (now() - before) / 2
    apart = abs((said - ours).total_seconds())
    if apart > CLOCK_SECONDS:
        do = "let both machines follow a time server; records are dated by this one"
        yield todo(FAMILY, f"{name}: clock", f"the server's clock is {apart:.1f} s from this one", do)
    else:
        yield well(FAMILY, f"{name}: clock", f"{apart:.1f} s from this one")


def _server_time(target: Target, session: object) -> datetime | None:
    if target.identity.startswith("postgresql:"):
        from endmark.effects.postgres.channel import Step

        step = Step(b"SELECT extract(epoch FROM clock_timestamp())::text")
        (reply,) = session.ask(step)  # type: ignore[attr-defined]
        return datetime.fromtimestamp(float(reply.rows[0][0]), UTC)
    if target.identity.startswith("mariadb:"):
        import pymysql

        from endmark.effects.mariadb import connection

        try:
            conn = connection.connect(target.address, read_timeout=10.0)  # type: ignore[attr-defined]
            try:
                ((found,),) = connection.rows(conn, "SELECT CAST(UTC_TIMESTAMP(6) AS CHAR)")
            finally:
                connection.close(conn)
        except (pymysql.Error, OSError):
            return None  # said already by what was asked before
        return datetime.fromisoformat(str(found)).replace(tzinfo=UTC)
    return None
