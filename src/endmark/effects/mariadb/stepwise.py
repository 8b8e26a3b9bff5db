"""A plan that changes the schema: statement by statement, each with its line in the journal.

Here nothing can be rolled back. When a statement fails, or after a crash, the downs of those that ran are run in
reverse; what the schema must look like after each step was foreseen by the rehearsal, and decides.
"""

from collections.abc import Callable, Sequence

import msgspec

from endmark.core.refusal import Signal
from endmark.effects.mariadb import journal, receipts
from endmark.effects.mariadb.connection import Conn
from endmark.effects.mariadb.fingerprint import fingerprint
from endmark.effects.mariadb.guard import Denied, Does, Judged, judge
from endmark.effects.mariadb.journal import Kind, Line, Step
from endmark.effects.mariadb.runner import Lost, Runner
from endmark.effects.target import Ended, Failed, Partial, Progress, Receipt, Stop, Work


class Drifted(Exception):
    """The schema is not one that the rehearsal foresaw. `str()` says when that was seen."""


class Cause(msgspec.Struct, frozen=True):
    """Why a job is brought to an end. `answered`: the server said itself what became of the statement at work."""

    signal: Signal
    detail: str
    answered: bool


def lines_of(work: Work, statements: Sequence[tuple[str, Judged]], foreseen: Sequence[str | None]) -> list[Line]:
    """The journal before the first statement. `foreseen`: the schema before it and after each one, None if unknown."""
    lines = []
    for n, (_text, judged) in enumerate(statements, 1):
        before, after = foreseen[n - 1], foreseen[n]
        kind = Kind.SCHEMA if judged.does is Does.SCHEMA else Kind.ROWS
        if kind is Kind.SCHEMA and judged.irreversible is not None and (after is None or before == after):
            kind = Kind.OPAQUE
        lines.append(
            Line(
                n=n,
                state=Step.INTENT if n == 1 else Step.WAITING,
                kind=kind,
                down=None if work.down is None else work.down[n - 1],
                before=before,
                after=after,
                attempt_id=work.attempt_id,
                at=work.at,
                reverts=work.reverts,
            )
        )
    return lines


def begin(gate: Conn, work: Work, lines: Sequence[Line]) -> None:
    """The receipt as `applying` and the journal, in one transaction. Raises pymysql's errors."""
    gate.begin()
    try:
        receipts.begin(gate, work)
        journal.write(gate, work.job_id, lines)
        gate.commit()
    except BaseException:
        gate.rollback()
        raise


def run(
    gate: Conn,
    runner: Runner,
    work: Work,
    statements: Sequence[tuple[str, Judged]],
    lines: Sequence[Line],
    changed: list[int],
    progress: Progress,
    stop: Stop,
) -> str:
    """Every statement, and the schema's fingerprint after the last. Raises Failed, Drifted, Lost, pymysql's errors."""
    count = len(statements)
    now = ""
    others = receipts.others(gate, work.job_id)
    for line, (text, judged) in zip(lines, statements, strict=True):
        n, then = line.n, line.n + 1 if line.n < count else None
        if line.kind is Kind.ROWS:
            changed.append(_rows(gate, runner, work.job_id, n, text, judged, Step.DONE, then))
        else:
            changed.append(runner.run(f"statement {n}", n, text, judged))
            now = fingerprint(gate)
            if line.after is not None and now != line.after:
                raise Drifted(f"after statement {n}")
            journal.step(gate, work.job_id, n, Step.DONE, changed[-1], then)
        if runner.settings_moved(gate):
            raise Failed(Signal.FORBIDDEN_STATEMENT, f"statement {n} changed a setting or let the lock go", n)
        progress(n, count)
        if n < count and (by := stop()) is not None:
            raise Failed(Signal.INTERRUPTED, f"{by} after statement {n}", n)
    if receipts.others(gate, work.job_id) != others:
        raise Drifted("at the end, where the receipts of other jobs are not as they were")
    return now


def _rows(
    gate: Conn, runner: Runner, job_id: str, n: int, text: str, judged: Judged, state: Step, then: int | None
) -> int:
    """One statement about rows and its line, in one transaction. Raises Failed, Drifted, Lost, pymysql's errors."""
    if judged.does is Does.NOTHING:
        journal.step(gate, job_id, n, state, 0, then)
        return 0
    runner.conn.begin()
    who = f"statement {n}" if state is Step.DONE else f"the down of statement {n}"
    try:
        changed = runner.run(who, n, text, judged)
        if not runner.in_transaction or runner.changed_for_good():
            raise Drifted(f"at {who}, which did not stay in its transaction")
        journal.step(runner.conn, job_id, n, state, changed, then)
        runner.conn.commit()
    except Failed:
        runner.conn.rollback()
        raise
    return changed


def finish(gate: Conn, receipt: Receipt, lines: Sequence[Line], after: str) -> Receipt:
    """The receipt as `applied`, once every line is done. Raises Failed and pymysql's errors."""
    first = lines[0]
    done = Receipt(
        receipt.job_id,
        receipt.stmt_count,
        receipt.sha256,
        receipts.APPLIED,
        len(lines),
        " ".join(str(line.rows_changed) for line in lines),
        after,
    )
    gate.begin()
    try:
        if not receipts.finish(gate, done, first.attempt_id, first.before or after, first.at, first.reverts):
            raise Failed(Signal.CHECK_FAILED, "the receipt does not read back as it was written")
        gate.commit()
    except BaseException:
        gate.rollback()
        raise
    return done


def end(gate: Conn, open_runner: Callable[[], Runner], receipt: Receipt, cause: Cause, *, forward: bool) -> Ended:
    """Bring a job that stands `applying` to its end; with `forward`, one that is all done becomes applied.

    Nothing of its statements is at work: the caller knows. Raises Partial and pymysql's errors.
    """
    job_id = receipt.job_id
    lines = journal.read(gate, job_id)
    try:
        now = fingerprint(gate)
        lines = [_decide(gate, job_id, line, now, cause.answered) for line in lines]
        done = [line for line in lines if line.state is Step.DONE]
        if lines and len(done) == len(lines) and (forward or len(lines) == 1):
            if lines[-1].after not in (None, now):
                raise Drifted("after the last statement")
            return Ended(finish(gate, receipt, lines, now))
        if not lines:
            raise Drifted("where a receipt without a journal stands")
        if now != (done[-1].after if done else lines[0].before):
            raise Drifted("before anything could be undone")
        _undo(gate, open_runner, job_id, done)
        if fingerprint(gate) != lines[0].before:
            raise Drifted("after everything was undone")
    except (Drifted, Failed, Lost, Denied) as fault:
        stands = standing(journal.read(gate, job_id))
        receipts.mark(gate, job_id, receipts.PARTIAL)
        why = f"the schema is none that the rehearsal foresaw, {fault}" if isinstance(fault, Drifted) else str(fault)
        raise Partial(cause.signal, f"{cause.detail}; {why}", stands, receipt.stmt_count) from None
    _forget(gate, job_id)
    many = len(done)
    return Ended(None, f"{many} of {len(lines)} statements had run and were undone by their downs" if many else None)


def standing(lines: Sequence[Line]) -> int:
    """How many statements stand; of one at work it is not known, so it counts."""
    return sum(line.state in (Step.DONE, Step.INTENT, Step.UNDOING) for line in lines)


def changed_by(line: Line, count: int) -> Line:
    return msgspec.structs.replace(line, rows_changed=count)


def _decide(gate: Conn, job_id: str, line: Line, now: str, answered: bool) -> Line:
    decided = _decided(line, now, answered)
    if decided is not line:
        journal.step(gate, job_id, line.n, decided.state, line.rows_changed)
    return decided


def _decided(line: Line, now: str, answered: bool) -> Line:
    """A line that was at work, as the schema of now tells what became of it. Raises Drifted."""
    if line.state not in (Step.INTENT, Step.UNDOING):
        return line
    undoing = line.state is Step.UNDOING
    ran, did_not = (Step.UNDONE, Step.DONE) if undoing else (Step.DONE, Step.WAITING)
    start, onward = (line.after, line.before) if undoing else (line.before, line.after)
    if line.kind is Kind.ROWS:  # its line would say so, in the same transaction
        return msgspec.structs.replace(line, state=did_not)
    if line.kind is Kind.OPAQUE and not answered:
        raise Drifted(f"and statement {line.n} leaves no trace in it")
    if now == start:
        return msgspec.structs.replace(line, state=did_not)
    if now == onward:
        return msgspec.structs.replace(line, state=ran)
    raise Drifted(f"at statement {line.n}")


def _undo(gate: Conn, open_runner: Callable[[], Runner], job_id: str, done: Sequence[Line]) -> None:
    """The downs of what ran, last to first. Raises Failed, Drifted, Lost, Denied, pymysql's errors."""
    if not done:
        return
    if any(line.down is None for line in done):
        raise Failed(Signal.CHECK_FAILED, "it has no downs by which it could be undone")
    with open_runner() as runner:
        for line in reversed(done):
            text = line.down or ""
            judged = judge(text, frozenset())  # the databases were looked at before the job began
            journal.step(gate, job_id, line.n, Step.UNDOING)
            if judged.does is Does.SCHEMA:
                runner.run(f"the down of statement {line.n}", line.n, text, judged)
                if line.before is not None and fingerprint(gate) != line.before:
                    raise Drifted(f"after the down of statement {line.n}")
                journal.step(gate, job_id, line.n, Step.UNDONE)
            else:
                _rows(gate, runner, job_id, line.n, text, judged, Step.UNDONE, None)


def _forget(gate: Conn, job_id: str) -> None:
    gate.begin()
    try:
        journal.forget(gate, job_id)
        receipts.forget(gate, job_id)
        gate.commit()
    except BaseException:
        gate.rollback()
        raise
