"""Ctrl-C, SIGTERM and kill -9 in the middle of it: nothing is half done, and the exit code says who came."""

import os
import re
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from tests.faces.shell import HERE, SLOW, STATEMENTS, wait_for
from tests.support.faults import locked

from endmark.core import strictjson
from endmark.faces.interrupt import Interrupts

PLAN = (*STATEMENTS, SLOW)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
@pytest.mark.parametrize("times", [1, 3])
def test_in_the_middle_of_a_statement(shell, number, times):
    before = shell.dump()
    line = ("apply", shell.plan("job-1", PLAN), "--to", HERE, "--yes", "--no-backup", "--json")
    with shell.start(*line) as process:
        shell.wait_until_applying("job-1")
        for _ in range(times):
            process.send_signal(number)
        out, err = process.communicate(timeout=60)
    code = {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    found = strictjson.loads(out)
    assert (process.returncode, found["exit_code"]) == (code, code)
    assert (found["state"], found["signal"]) == ("failed", "interrupted")
    assert re.match(rf"{number.name} \w+ statement \d. Everything was rolled back.", found["detail"])
    assert err == b""
    assert shell.dump() == before
    assert shell.entry("job-1").state == "failed"
    assert shell.run("apply", "job-1.json", "--to", HERE, "--yes").code == 1  # stored; it was no signal this time


def test_a_third_signal_ends_what_cannot_be_ended_otherwise(shell):
    """One call of an SQL function that would take minutes: SQLite does not look up from it."""
    before = shell.dump()
    endless = "SELECT instr(zeroblob(60000000), zeroblob(30000000) || x'01')"
    line = ("apply", shell.plan("job-1", [endless]), "--to", HERE, "--yes", "--no-backup")
    with shell.start(*line) as process:
        shell.wait_until_applying("job-1")
        begun = busy(process.pid)
        wait_for(lambda: busy(process.pid) > begun + 0.3)
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.15)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    assert b"ended at once; nothing is half done" in err
    assert shell.entry("job-1").state == "applying"
    assert shell.program("reconcile").code == 0
    assert shell.entry("job-1").state == "failed"
    assert shell.dump() == before


def test_a_statement_of_few_large_rows_is_ended_too(shell):
    """SQLite counts steps of its machine, and in a few hundred of them gigabytes can be written."""
    before = shell.dump()
    large = f"CREATE TABLE large AS SELECT zeroblob(4000000) FROM ({'SELECT 1 UNION ALL ' * 400} SELECT 1)"
    line = ("apply", shell.plan("job-1", [*STATEMENTS, large]), "--to", HERE, "--yes", "--no-backup", "--json")
    with shell.start(*line) as process:
        shell.wait_until_applying("job-1")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert strictjson.loads(out)["signal"] == "interrupted"
    assert shell.dump() == before


def test_killed_in_the_middle_of_a_statement(shell):
    before = shell.dump()
    with shell.start("apply", shell.plan("job-1", PLAN), "--to", HERE, "--yes") as process:
        shell.wait_until_applying("job-1")
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert shell.dump() == before
    assert shell.entry("job-1").state == "applying"
    assert shell.program("reconcile").code == 0
    assert shell.entry("job-1").state == "failed"
    assert shell.dump() == before
    assert shell.run("ledger", "verify").code == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["SIGINT", "SIGTERM"])
def test_while_it_waits_for_input(shell, number):
    """The process has begun to read once it has opened the fifo."""
    os.mkfifo(shell.folder / "fifo")
    with (
        shell.start("apply", "fifo", "--to", HERE, "--yes", "--json") as process,
        (shell.folder / "fifo").open("wb") as fifo,
    ):
        fifo.write(b"{")
        fifo.flush()
        while process.poll() is None:  # one that comes just before the read begins does not end it
            process.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(1)
        out = process.stdout.read()
    found = strictjson.loads(out)
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: 143}[number]
    assert (found["state"], found["signal"], found["exit_code"]) == ("not-tried", "interrupted", process.returncode)
    assert not (shell.folder / "ledger.db").exists()


def test_while_it_waits_for_the_target(shell):
    """What opened the database while somebody else holds its lock is waiting for it."""
    line = ("apply", shell.plan(), "--to", HERE, "--yes", "--json", "--lock-timeout", "1")
    with locked(shell.app), shell.start(*line) as process:
        wait_for(lambda: is_open(process.pid, shell.app))
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    found = strictjson.loads(out)
    assert (process.returncode, found["state"], found["signal"]) == (130, "not-tried", "interrupted")
    assert shell.entries() == []


def is_open(pid, path):
    """Whether a process has a file open, as Linux tells it."""
    folder = Path(f"/proc/{pid}/fd")
    return any(os.readlink(link) == str(path) for link in folder.iterdir() if link.is_symlink())


def busy(pid):
    """The seconds that a process has computed, as Linux tells it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_ignored_signal_stays_ignored(shell):
    with shell.start(
        "apply",
        shell.plan("job-1", PLAN),
        "--to",
        HERE,
        "--yes",
        "--statement-timeout",
        "0.5",
        before=("/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh"),
    ) as process:
        shell.wait_until_applying("job-1")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 1
    assert shell.entry("job-1").signal == "statement-timeout"


def test_the_first_signal_is_the_one_that_counts():
    with Interrupts() as stop:
        assert (stop(), stop.exit_code) == (None, None)
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        assert (stop(), stop.exit_code) == ("SIGTERM", 143)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_released_signals_raise_and_are_held_again():
    with Interrupts() as stop:
        with pytest.raises(KeyboardInterrupt), stop.released():
            os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert stop() == "SIGINT"


def test_a_thread_gets_no_signals_and_needs_no_handler():
    seen = []

    def work():
        with Interrupts() as stop:
            seen.append(stop())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [None]
