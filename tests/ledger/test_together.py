"""Many processes at once, and processes that die at any moment."""

import os
import random
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.ledger.plans import book_with, open_book

from endmark.core.states import State
from endmark.ledger.book import Ledger
from endmark.ledger.chain import EVERY

ROOT = Path(__file__).resolve().parents[2]
WRITERS = Path(__file__).with_name("writers.py")


def start(*arguments):
    return subprocess.Popen(
        [sys.executable, str(WRITERS), *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(processes):
    answers = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        assert (process.returncode, err) == (0, "")
        answers.append(out)
    return answers


def test_eight_processes_make_and_fill_one_ledger(tmp_path):
    path = tmp_path / "ledger.db"
    wait_for([start("many", path, f"p{number}", 200) for number in range(8)])
    with Ledger.open(path, create=False) as ledger:
        report = ledger.verify()
        assert report.problems == ()
        assert report.attempts == 8 * 200
        assert report.events == 8 * (150 * 3 + 50 * 2)
        assert 1 <= report.checkpoints <= report.events // EVERY
        assert len(ledger.in_state(State.APPROVED)) == 8 * 150
        assert all(ledger.by_job(f"p{process}-{number}") for process in range(8) for number in range(200))


def test_eight_processes_and_one_server(url):
    wait_for([start("many", url, f"p{number}", 25) for number in range(8)])
    with Ledger.open(url, create=False) as ledger:
        report = ledger.verify()
        assert report.problems == ()
        assert (report.attempts, report.events) == (8 * 25, 8 * (18 * 3 + 7 * 2))
        assert all(ledger.by_job(f"p{process}-{number}") for process in range(8) for number in range(25))


def test_one_job_id_has_one_owner(path):
    open_book(path).close()
    moment = time.time() + 1.5
    answers = [line.split() for line in wait_for([start("race", path, f"p{n}", moment) for n in range(12)])]
    winners = [answer for answer in answers if answer[0] == "True"]
    assert len(winners) == 1
    _, attempt_id, owner, name = winners[0]
    assert owner == name
    assert {(answer[1], answer[2]) for answer in answers} == {(attempt_id, owner)}
    with Ledger.open(path, create=False) as ledger:
        assert (ledger.verify().ok, len(ledger.page(10))) == (True, 1)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 9))])
def test_killed_at_any_moment_on_postgres(url, seed):
    killed_at_any_moment(url, seed)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 9))])
def test_killed_at_any_moment(tmp_path, seed):
    killed_at_any_moment(tmp_path / "ledger.db", seed)


def killed_at_any_moment(path, seed):
    """Five times over: the book opens, is whole, has no half of an act, and every act said to be done is there."""
    dice = random.Random(seed)
    said = []
    for turn in range(5):
        with ExitStack() as stack:
            process = stack.enter_context(start("forever", path, f"t{turn}"))
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            if not turn:  # once, an act is waited for: a busy machine does none in so short a time
                said.append(process.stdout.readline().strip())
            time.sleep(dice.uniform(0, 0.15))
            process.kill()
            out, err = process.communicate()
            assert err == ""
        said += [line for line in out.split("\n")[:-1] if line]
        with Ledger.open(path, create=False) as ledger:
            assert ledger.verify().problems == ()
            assert {entry.state for entry in ledger.page(10**6)} <= {State.STAGED, State.APPLYING, State.APPLIED}
            assert len(ledger.in_state(State.STAGED) + ledger.in_state(State.APPLYING)) <= turn + 1
            assert {job for job in said if ledger.by_job(job) not in ledger.in_state(State.APPLIED)} == set()
            book_with(ledger, State.APPLIED)
    assert said[0]


def test_killed_while_it_is_made(tmp_path):
    """Whatever is left of a file that was being made, the next one makes it whole."""
    path = tmp_path / "ledger.db"
    dice = random.Random(7)
    script = "import sys; from pathlib import Path; from endmark.ledger.book import Ledger; print(flush=True); "
    script += "[(Ledger.open(p := Path(sys.argv[1]), create=True).close(), p.unlink()) for _ in range(10**6)]"
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(path)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        with process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(dice.uniform(0, 0.05))
            process.kill()
        with open_book(path) as ledger:
            book_with(ledger, State.APPLIED)
            assert ledger.verify().problems == ()
        path.unlink()
