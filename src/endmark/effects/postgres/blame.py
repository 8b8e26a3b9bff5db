"""What stopped a plan: the signal and the sentence."""

import time
from typing import TYPE_CHECKING

from endmark.core.refusal import Signal
from endmark.effects.postgres import guard
from endmark.effects.postgres.channel import COPIES, Fault, Late, Lost, Stopped

if TYPE_CHECKING:
    from endmark.effects.postgres.running import Running

# SQLSTATE classes where the server, the network or an operator is at fault, and not the statement.
_TROUBLE = frozenset({"08", "53", "57", "58", "XX", "F0", ""})
_INTEGRITY = "23"
_PARAMETERS = "08P01"  # protocol_violation: a Bind without what the statement asks for
_NEW_VALUE = "55P04"  # unsafe_new_enum_value_usage
_MULTIPLE = ("42601", "exec_parse_message")


def words(fault: Exception) -> str:
    """The fault in one clause, with its SQLSTATE."""
    if isinstance(fault, Fault) and fault.sqlstate:
        return f"[{fault.sqlstate}] {fault.message}"
    if isinstance(fault, Late):
        return "the server did not answer in time"
    return " ".join(str(fault).split()) or type(fault).__name__


def locked(what: str, by: str | None) -> str:
    """The sentence for a lock that was waited for in vain."""
    return f"{what} waited too long for a lock" + (f", which {by} holds" if by else "")


def of(fault: Exception, running: "Running", stopped: str | None, blocked_by: str | None) -> tuple[Signal, str]:
    """The signal and the sentence for what stopped the transaction.

    `stopped`: who asked to stop; `blocked_by`: who was in the way; None where nobody was seen.
    """
    at = running.statement
    where = f"statement {at}" if at else "the final checks" if running.at else "the checks before it"
    if isinstance(fault, Stopped):
        return Signal.INTERRUPTED, f"{fault.by} during {where}"
    if isinstance(fault, Late):
        return Signal.STATEMENT_TIMEOUT, f"{where} ran longer than {running.timeout:g} s, and the server did not end it"
    if isinstance(fault, Lost):
        return Signal.TARGET_FAULT, f"the connection was lost at {where}: {words(fault)}"
    assert isinstance(fault, Fault)  # noqa: S101  # these four are all there are
    if running.in_guard and guard.ended(fault):
        return Signal.FORBIDDEN_STATEMENT, f"{where} ended the transaction, or left the encoding UTF-8"
    if guard.is_commit(fault):
        return Signal.FORBIDDEN_STATEMENT, f"{where} may not end the transaction"
    if guard.is_forgery(fault):
        return Signal.FORBIDDEN_STATEMENT, f"{where}: {fault.message}"
    if (fault.sqlstate, fault.raised_in) == _MULTIPLE:
        return Signal.FORBIDDEN_STATEMENT, f"{where} holds more than one statement"
    if fault.sqlstate == COPIES and not fault.raised_in:
        return Signal.FORBIDDEN_STATEMENT, f"{where} may not do this: {fault.message}"
    if guard.in_transaction_only(fault):
        return (
            Signal.FORBIDDEN_STATEMENT,
            f"{where} can only run outside of a transaction: {fault.message}; {_instead(fault)}",
        )
    if guard.canceled(fault):
        return _canceled(running, where, stopped)
    if guard.lock_timed_out(fault):
        return Signal.TARGET_FAULT, locked(where, blocked_by)
    if fault.sqlstate == _PARAMETERS:
        return Signal.SQL_ERROR, f"{where} asks for parameters, and a plan has none: {words(fault)}"
    if fault.sqlstate == _NEW_VALUE:
        return Signal.SQL_ERROR, f"{where}: {words(fault)}, which has to be committed first, by a plan before this one"
    if fault.sqlstate[:2] in _TROUBLE or fault.severity != "ERROR":
        return Signal.TARGET_FAULT, f"the target failed at {where}: {words(fault)}"
    if at is None and fault.sqlstate[:2] == _INTEGRITY:
        return Signal.CHECK_FAILED, f"{where}: {words(fault)}"
    return Signal.SQL_ERROR, f"{where}: {words(fault)}"


def _instead(fault: Fault) -> str:
    return "send it as a plan of its own" if guard.runs_alone(fault) else "that is done by hand"


def _canceled(running: "Running", where: str, stopped: str | None) -> tuple[Signal, str]:
    if stopped is not None:
        return Signal.INTERRUPTED, f"{stopped} during {where}"
    if time.monotonic() - running.since >= running.timeout * 0.9:
        return Signal.STATEMENT_TIMEOUT, f"{where} ran longer than {running.timeout:g} s"
    return Signal.INTERRUPTED, f"somebody canceled {where} at the server"
