"""The sweep: each answer is called by its name, a drill that cannot fail is impossible, and an end is not the end."""

import subprocess
import time

import pytest
from tests.core import payloads
from tests.drills.sweeping import VERDICT, calling, command, counts, drill, holes, shell, texts

from endmark.core import mc1, strictjson
from endmark.core.refusal import CannotTry, Refused, Signal
from endmark.drills.body import Body
from endmark.drills.sweep import state
from endmark.drills.sweep.world import Commands
from endmark.drills.targets.answer import Answer, rules
from endmark.drills.targets.calling import PythonTarget
from endmark.drills.targets.command import CommandTarget

SMALL = b'{"a": [1, 2]}'
# Gates as lines of shell: `size` is how many bytes came.
SIZE = "size=$(wc -c | tr -d ' '); "


def test_a_gate_without_holes_has_none():
    swept = calling(strictjson.loads, VERDICT, "cuts,closes")
    assert holes(swept)[:1] != ["cut:0"]
    assert not [text for text in holes(swept) if text.startswith("cut")]
    assert calling(strictjson.loads, VERDICT).exit_code == 0


def test_a_gate_that_refuses_everything_fails_the_control_loudly():
    swept = drill(shell("exit 3"), SMALL)
    assert (swept.control, swept.tried, swept.exit_code) == ("refused (exit 3)", 0, 1)


def test_a_gate_that_cannot_be_run_fails_the_control():
    swept = drill(command("/nonexistent/gate"), SMALL)
    assert swept.control.startswith("could not be asked (/nonexistent/gate cannot be run")
    assert swept.exit_code == 1


def test_a_gate_that_comes_to_refuse_everything_is_inconclusive(tmp_path):
    """The second control notices, and what was refused before it proves nothing."""
    flag = tmp_path / "broken"
    gate = f"{SIZE} if [ $size = 5 ]; then touch {flag}; fi; [ ! -e {flag} ] && [ $size = {len(SMALL)} ]"
    swept = drill(shell(gate), SMALL)
    assert counts(swept) == {"INCONCLUSIVE": len(SMALL)}
    assert (swept.control, swept.exit_code) == ("refused (exit 1)", 1)


def test_a_gate_that_was_broken_by_its_crashes_proves_nothing(tmp_path):
    flag = tmp_path / "broken"
    gate = f"{SIZE} [ ! -e {flag} ] && [ $size = {len(SMALL)} ] && exit 0; touch {flag}; kill -KILL $$"
    swept = drill(shell(gate), SMALL)
    assert counts(swept) == {"CRASHED": len(SMALL)}
    assert (swept.control, swept.exit_code) == ("crashed (ended by SIGKILL)", 1)


def test_crashed_is_not_refused(tmp_path):
    gate = f"{SIZE} case $size in 4) kill -SEGV $$;; 6) exit 139;; {len(SMALL)}) exit 0;; *) exit 1;; esac"
    swept = drill(shell(gate), SMALL)
    assert texts(swept, Answer.CRASHED) == ["cut:4", "cut:6"]
    assert counts(swept) == {"CRASHED": 2, "REFUSED": len(SMALL) - 2}
    assert [note for _, _, note in swept.found(Answer.CRASHED)] == ["ended by SIGSEGV", "exit 139: ended by SIGSEGV"]


def test_a_hang_is_told_within_its_limit_and_the_sweep_goes_on(tmp_path):
    """And what the hung gate started is gone with it."""
    alive = tmp_path / "alive"
    gate = (
        f"{SIZE} case $size in 3) (sleep 60; touch {alive}) & echo $! > {tmp_path}/pid; wait;; "
        f"{len(SMALL)}) exit 0;; *) exit 1;; esac"
    )
    began = time.monotonic()
    swept = drill(shell(gate, limit=0.6), SMALL, limit=0.6)
    assert time.monotonic() - began < 20
    assert counts(swept) == {"HUNG": 1, "REFUSED": len(SMALL) - 1}
    assert texts(swept, Answer.HUNG) == ["cut:3"]
    pid = (tmp_path / "pid").read_text().strip()
    told = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout.strip()
    assert told[:1] in ("", "Z")  # gone, or waiting for somebody to take note


def test_named_refusals():
    gate = f"{SIZE} case $size in 2) exit 3;; 4) exit 5;; 6) echo 'ended early';; {len(SMALL)}) ;; *) exit 3;; esac"
    swept = drill(shell(gate, refused_if=("exit:3", "stdout:ended")), SMALL)
    assert counts(swept) == {"CRASHED": 1, "REFUSED": len(SMALL) - 1}
    assert texts(swept, Answer.CRASHED) == ["cut:4"]
    assert texts(drill(shell(gate), SMALL), Answer.ACCEPTED) == ["cut:6"]


@pytest.mark.parametrize(
    "text", ["", "exit", "exit:", "exit:a", "exit:-1", "status:2000", "raises:1", "stdout:(", "x:1"]
)
def test_what_names_no_refusal_is_told(text):
    from endmark.drills.faults import BadFault

    with pytest.raises(BadFault):
        rules((text,))


# --- the effect


def test_an_error_that_wrote_is_a_hole(tmp_path):
    log = tmp_path / "log"
    gate = f"{SIZE} if [ $size -ge 9 ]; then echo x >> {log}; fi; [ $size = {len(SMALL)} ]"
    world = Commands(effect=f"cat {log}", reset=f"rm -f {log}")
    swept = drill(shell(gate), SMALL, world=world)
    assert holes(swept) == ["cut:9", "cut:10", "cut:11", "cut:12"]
    assert counts(swept) == {"EFFECT": 4, "REFUSED": 9}
    assert {note for _, _, note in swept.found(Answer.EFFECT)} == {"exit 1, and the effect changed"}


def test_what_one_fault_wrote_is_gone_before_the_next(tmp_path):
    log = tmp_path / "log"
    gate = f"{SIZE} if [ $size = 5 ]; then echo x >> {log}; fi; [ $size = {len(SMALL)} ] && echo y >> {log}"
    swept = drill(shell(gate), SMALL, world=Commands(effect=f"cat {log}", reset=f"rm -f {log}"))
    assert holes(swept) == ["cut:5"]
    assert counts(swept) == {"EFFECT": 1, "REFUSED": len(SMALL) - 1}


def test_a_probe_that_cannot_see_fails_the_control(tmp_path):
    gate = f"{SIZE} [ $size = {len(SMALL)} ] && touch {tmp_path}/done"
    swept = drill(shell(gate), SMALL, world=Commands(effect="echo same", reset=f"rm -f {tmp_path}/done"))
    assert swept.control == "accepted, and the effect did not change: the probe does not see it"
    assert (swept.tried, swept.exit_code) == (0, 1)


def test_a_reset_that_fails_ends_the_drill():
    with pytest.raises(CannotTry, match="the reset command ended with exit 4: no database"):
        drill(shell("exit 0"), SMALL, world=Commands(effect="true", reset="echo no database; exit 4"))


def test_what_the_counter_does_not_see_the_dump_of_the_batch_does():
    """The halves of a batch are played again until one fault is left. State is kept: nothing resets it."""
    rows, secrets = [], []

    def gate(data):
        if len(data) in (5, 11):
            secrets.append(len(data))
        if data != SMALL:
            raise ValueError
        rows.append(1)

    swept = drilled_with_counter(gate, count=lambda: len(rows), dump=lambda: (len(rows), tuple(secrets)))
    assert holes(swept) == ["cut:5", "cut:11"]
    assert {note for _, _, note in swept.found(Answer.EFFECT)} == {"the effect changed, unseen by the counter"}


def test_an_effect_that_does_not_come_again_makes_its_batch_inconclusive():
    rows: list[int] = []
    once: list[int] = []

    def gate(data):
        if len(data) == 5 and not once:
            once.append(1)
        if data != SMALL:
            raise ValueError
        rows.append(1)

    swept = drilled_with_counter(gate, count=lambda: len(rows), dump=lambda: (len(rows), len(once)))
    assert counts(swept) == {"INCONCLUSIVE": len(SMALL)}
    assert swept.exit_code == 1


def drilled_with_counter(gate, *, count, dump):
    from endmark.drills.sweep.world import Functions

    class Counting(Functions):
        def __init__(self):
            super().__init__(dump, None)
            self.counts = True

        def count(self):
            return repr(count()).encode()

        def open(self, worker):
            return self

    from endmark.drills.targets.calling import CallPlayer, HereTarget

    return drill(HereTarget("gate", CallPlayer(gate)), SMALL, world=Counting())


# --- Python callables


def test_exceptions_of_python_itself_are_crashes():
    class Mine(Exception):
        pass

    raised = {1: ValueError, 2: KeyError, 3: Mine, 4: Refused, 5: RecursionError, 6: SystemExit, 7: UnicodeError}

    def gate(data):
        if data == SMALL:
            return
        kind = raised.get(len(data), ValueError)
        raise Refused(Signal.EMPTY, 0) if kind is Refused else kind("no")

    swept = calling(gate, SMALL)
    assert texts(swept, Answer.CRASHED) == ["cut:2", "cut:5", "cut:6"]
    named = calling(gate, SMALL, refused_if=("raises:LookupError,ValueError",))
    assert texts(named, Answer.CRASHED) == ["cut:3", "cut:4", "cut:5", "cut:6"]


def test_a_value_may_be_a_refusal():
    def gate(data):
        return None if len(data) < 8 else data

    assert holes(calling(gate, SMALL, refused_if=("returns:^None$",))) == [f"cut:{at}" for at in range(8, len(SMALL))]


def test_a_call_that_hangs_in_python_is_ended():
    def gate(data):
        while len(data) == 4:
            pass
        strictjson.loads(data)

    swept = calling(gate, SMALL, limit=0.3)
    assert texts(swept, Answer.HUNG) == ["cut:4"]
    assert counts(swept) == {"HUNG": 1, "REFUSED": len(SMALL) - 1}


GATES = """
import ctypes, os, signal, json
def dies(data):
    if len(data) == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return json.loads(data)
def deaf(data):
    if len(data) == 5:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        ctypes.PyDLL(None).sleep(60)
    return json.loads(data)
"""


def test_a_call_that_takes_its_process_with_it_costs_one_fault(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "its_gates.py").write_text(GATES)
    swept = drill(PythonTarget(call="its_gates:dies"), SMALL, workers=1)
    assert texts(swept, Answer.CRASHED) == ["cut:5"]
    assert [note for _, _, note in swept.found(Answer.CRASHED)] == ["its process ended by signal 9"]
    assert counts(swept) == {"CRASHED": 1, "REFUSED": len(SMALL) - 1}


@pytest.mark.soak
def test_a_call_that_never_comes_back_to_python_is_killed(tmp_path, monkeypatch):
    """It holds the interpreter's lock, so that no signal reaches Python: only another process can end it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "its_gates.py").write_text(GATES)
    swept = drill(PythonTarget(call="its_gates:deaf"), SMALL, workers=1, limit=0.2)
    assert texts(swept, Answer.HUNG) == ["cut:5"]
    assert counts(swept) == {"HUNG": 1, "REFUSED": len(SMALL) - 1}


# --- no damage


def test_what_does_no_damage_is_no_fault():
    """White space at the end of a text, another spelling of the same value."""
    payload = b'{"a": "\\u00e9"} \n'
    swept = calling(strictjson.loads, payload, "cuts,flips")
    cuts = [str(fault) for fault, _, _ in swept.found(Answer.NO_FAULT)]
    assert cuts[:2] == [f"cut:{len(payload) - 2}", f"cut:{len(payload) - 1}"]
    assert all(text.startswith("flip:11.5") for text in cuts[2:3])
    assert "cut:0" not in holes(swept)
    assert not [text for text in holes(swept) if text.startswith("cut")]


def test_in_an_envelope_every_byte_counts():
    sealed = mc1.seal(payloads.dump(payloads.document()))
    swept = calling(lambda data: None, sealed, "cuts")
    assert swept.count(Answer.ACCEPTED) == len(sealed)


# --- ends


def test_the_first_hole_is_enough():
    swept = calling(lambda data: None, SMALL, stop=True)
    assert holes(swept) == ["cut:0"]
    assert (swept.tried, swept.planned) == (1, len(SMALL))


def test_a_budget_ends_it_and_the_rest_is_not_called_tried():
    swept = calling(strictjson.loads, SMALL, "cuts,flips", budget=1e-9, batch=5)
    assert swept.tried == 5
    assert swept.planned == 9 * len(SMALL)
    assert swept.exit_code == 0


def test_a_sweep_goes_on_where_it_ended(tmp_path):
    asked = []

    def gate(data):
        asked.append(data)
        return None if data == SMALL or len(data) == 7 else strictjson.loads(data)

    file = tmp_path / "state.json"
    first = calling(gate, SMALL, budget=1e-9, batch=5, state=file)
    assert first.tried == 5
    asked.clear()
    second = calling(gate, SMALL, batch=5, state=file)
    assert holes(second) == ["cut:7"]
    assert second.tried == len(SMALL)
    assert [data for data in asked if data != SMALL] == [SMALL[:at] for at in range(5, len(SMALL))]
    asked.clear()
    third = calling(gate, SMALL, batch=5, state=file)
    assert (holes(third), third.tried, set(asked)) == (["cut:7"], len(SMALL), {SMALL})


def test_a_state_of_something_else_is_not_taken(tmp_path):
    file = tmp_path / "state.json"
    calling(strictjson.loads, SMALL, state=file)
    for changed in ({"data": SMALL + b" "}, {"faults": "cuts,flips"}, {"seed": 2}):
        with pytest.raises(CannotTry, match="is of another sweep"):
            calling(strictjson.loads, **{"data": SMALL, "state": file} | changed)
    whole = file.read_bytes()
    for at in range(0, len(whole) - 1, 7):
        file.write_bytes(whole[:at])
        with pytest.raises(CannotTry, match="no state of a sweep"):
            calling(strictjson.loads, SMALL, state=file)
    file.write_bytes(whole.replace(b'"13r"', b'"12r"'))
    with pytest.raises(CannotTry, match="does not fit"):
        calling(strictjson.loads, SMALL, state=file)


def test_workers_find_what_one_finds():
    sealed = mc1.seal(payloads.dump(payloads.document()))
    target = CommandTarget(argv=("/bin/sh", "-c", f"{SIZE} [ $size -gt {len(sealed) - 20} ]"))
    alone = drill(target, Body(sealed[-60:]), "cuts", workers=None)
    target = CommandTarget(argv=("/bin/sh", "-c", f"{SIZE} [ $size -gt 40 ]"))
    alone = drill(target, Body(sealed[-60:]), "cuts", workers=None)
    together = drill(target, Body(sealed[-60:]), "cuts", workers=2, batch=7)
    assert alone.cells == together.cells
    assert holes(alone) == [f"cut:{at}" for at in range(41, 60)]


def test_a_file_takes_the_place_of_the_braces(tmp_path):
    target = command("/bin/sh", "-c", f'[ "$(wc -c < "$1" | tr -d " ")" = {len(SMALL)} ]', "sh", "{}")
    swept = drill(target, SMALL)
    assert counts(swept) == {"REFUSED": len(SMALL)}


def test_the_state_file_spells_what_it_keeps(tmp_path):
    file = tmp_path / "state.json"
    calling(strictjson.loads, SMALL, state=file)
    document = strictjson.loads(file.read_bytes())
    assert document["cells"] == [f"{len(SMALL)}r"]
    assert state._unpacked("3r2A1-") == b"rrrAA-"
