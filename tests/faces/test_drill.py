"""`endmark drill` as it is typed: what it prints, its exit codes, and what it does not take."""

import os
import re
import signal
import sys

import pytest
from tests.core import payloads
from tests.drills.sweeping import HOLES, PYTHON, VERDICT
from tests.support.world import dump, make_database

from endmark.core import mc1, strictjson
from endmark.drills import peer_clients
from endmark.faces.cli.at_drill import Meter

BRACE = (*PYTHON, HOLES / "appends_brace.py")
BY_HAND = [f"cut:{at}" for at in (18, 19, 20, 38, 39, 40, 72)]
SMALL = b'{"a": 1}'
TELLS = "import sys; n = len(sys.stdin.buffer.read())"


@pytest.fixture
def payload(shell):
    def make(data=SMALL, name="payload.json"):
        (shell.folder / name).write_bytes(data)
        return name

    return make


def sh(text):
    return ("/bin/sh", "-c", f"size=$(wc -c | tr -d ' '); {text}")


def test_the_report_of_a_gate_with_holes(shell, payload):
    said = shell.run("drill", "command", "--payload", payload(VERDICT), "--json", "--", *BRACE)
    found = said.object
    assert said.code == found["exit_code"] == 1
    assert [hole["fault"] for hole in found["accepted"]] == BY_HAND
    assert {name: found[name] for name in ("tried", "refused", "crashed", "hung", "inconclusive", "control")} == {
        "tried": 73,
        "refused": 66,
        "crashed": 0,
        "hung": 0,
        "inconclusive": 0,
        "control": "accepted",
    }


def test_the_smallest_input_of_a_hole_shows_it_too(shell, payload):
    line = ("drill", "command", "--payload", payload(VERDICT), "--json")
    (hole,) = shell.run(*line, "--only", "cut:20", "--minimise", "--", *BRACE).object["accepted"]
    assert hole["fault"] == "cut:20"
    assert hole["minimised"] == "input:" + b'{"verdict":"pass"'.hex()
    (again,) = shell.run(*line, "--only", hole["minimised"], "--", *BRACE).object["accepted"]
    assert again["fault"] == hole["minimised"]


def test_words_and_the_line_to_see_it_again(shell, payload):
    said = shell.run("drill", "command", "--payload", payload(), "--", *sh("[ $size -ge 7 ]"))
    assert said.code == 1
    assert said.text.startswith("1 hole in /bin/sh -c")
    assert "8 faults tried on 8 bytes; 7 refused; 1 accepted." in said.text
    assert "endmark drill command ... --only cut:7" in said.text


def test_no_hole_is_exit_0(shell, payload):
    said = shell.run("drill", "command", "--payload", payload(), "--", *sh("[ $size = 8 ]"))
    assert (said.code, said.text.splitlines()[0]) == (0, "No hole.")


def test_a_control_that_fails_is_exit_1(shell, payload):
    said = shell.run("drill", "command", "--payload", payload(), "--json", "--", *sh("exit 7"))
    assert (said.code, said.object["control"], said.object["tried"]) == (1, "refused (exit 7)", 0)


def test_an_effect_and_its_reset(shell, payload):
    gate = sh("[ $size -ge 6 ] && echo x >> rows; [ $size = 8 ]")
    flags = ("--effect", "cat rows", "--reset", "rm -f rows", "--json")
    said = shell.run("drill", "command", "--payload", payload(), *flags, "--", *gate)
    assert [(hole["fault"], hole.get("effect")) for hole in said.object["accepted"]] == [
        ("cut:6", True),
        ("cut:7", True),
    ]


def test_workers_that_would_share_a_state_are_told(shell, payload):
    flags = ("--reset", "rm -f rows", "--workers", "2")
    said = shell.run("drill", "command", "--payload", payload(), *flags, "--", *sh("true"))
    assert said.code == 2
    assert "write {worker} into the commands" in said.talk


def test_a_state_file_goes_on(shell, payload):
    line = ("drill", "command", "--payload", payload(), "--state", "state.json", "--workers", "1", "--json")
    gate = ("--", *sh("[ $size -ge 7 ]"))
    first = shell.run(*line, "--stop-on-hole", *gate).object
    assert first["tried"] == 8
    assert shell.run(*line, *gate).object["accepted"] == first["accepted"]
    other = shell.run(*line, "--seed", "4", *gate)
    assert (other.code, other.object["signal"]) == (20, "could-not-try")


def test_files_for_other_tools(shell, payload):
    files = ("--svg", "map.svg", "--junit", "junit.xml", "--sarif", "holes.sarif")
    assert shell.run("drill", "command", "--payload", payload(), *files, "--", *sh("[ $size -ge 7 ]")).code == 1
    assert (shell.folder / "map.svg").read_bytes().startswith(b"<svg ")
    assert b'<failure message="1 holes in 8 faults">cut:7<' in (shell.folder / "junit.xml").read_bytes()
    log = strictjson.loads((shell.folder / "holes.sarif").read_bytes())
    assert len(log["runs"][0]["results"]) == 1


GATE = """
import os
print("imported")
def parse(data):
    print("parsing", flush=True)
    os.system("echo parsing")
    if len(data) == 3:
        os._exit(9)
"""


def test_python_callables_in_a_process_of_their_own(shell, payload):
    (shell.folder / "its_gate.py").write_text(GATE)
    said = shell.run("drill", "python", "its_gate:parse", "--payload", payload(), "--json")
    found = said.object
    assert (found["crashed"], len(found["accepted"]), said.code) == (1, 7, 1)
    assert shell.run("drill", "python", "json:loads", "--payload", "payload.json").code == 0
    for call in ("json", "json:nothing", "no.such:thing", "json:__name__"):
        assert shell.run("drill", "python", call, "--payload", "payload.json").code == 20


@pytest.mark.parametrize(
    ("gate", "data"),
    [
        ("plan", payloads.envelope(payloads.dump(payloads.document()))),
        ("plan", payloads.dump(payloads.document())),
        ("plan", payloads.dump(payloads.witness())),
        ("verdict", payloads.envelope(payloads.dump(payloads.verdict()))),
    ],
    ids=["plan", "bare plan", "witness", "verdict"],
)
def test_our_own_gates(shell, payload, gate, data):
    said = shell.run("drill", gate, "--payload", payload(data), "--json")
    assert (said.code, said.object["accepted"], said.object["control"]) == (0, [], "accepted")
    assert said.object["tried"] >= len(data) - 1


def test_the_whole_gate_on_a_copy_of_a_database(shell, payload):
    make_database(shell.folder / "app.db")
    name = payload(mc1.seal(payloads.dump(payloads.document(["CREATE TABLE made (x)"]))))
    said = shell.run("drill", "plan", "--payload", name, "--to", "sqlite:///app.db", "--faults", "keys", "--json")
    assert (said.code, said.object["accepted"], said.object["control"]) == (0, [], "accepted")
    assert said.object["tried"] > 20
    assert "made" not in "".join(dump(shell.folder / "app.db"))
    for url, code in (("postgresql://127.0.0.1/x", 2), ("sqlite:///none.db", 20), ("none.db", 20)):
        assert shell.run("drill", "plan", "--payload", name, "--to", url).code == code, url


def test_a_stream(shell, payload):
    from tests.support import answers

    name = payload(answers.messages_text(answers.verdict()), "answer.sse")
    said = shell.run("drill", "stream", "--payload", name, "--wire", "anthropic", "--json")
    assert (said.code, said.object["accepted"]) == (0, [])


def test_a_client(shell, payload):
    program = (
        "import sys, urllib.request; "
        "sys.exit(0 if urllib.request.urlopen(sys.argv[1], timeout=9).read().endswith(b'}') else 1)"
    )
    line = ("drill", "client", "--payload", payload(b'{"a":{}}'), "--json", "--faults", "cuts,fins")
    said = shell.run(*line, "--", *PYTHON, "-c", program, "{url}/v1")
    assert [hole["fault"] for hole in said.object["accepted"]] == ["cut:7"]
    assert shell.run(*line, "--", *PYTHON, "-c", program).code == 2


def test_peers(shell, monkeypatch):
    monkeypatch.setattr(peer_clients, "SDKS", ())
    said = shell.run("drill", "peers")
    assert said.code == 0
    assert "json_repair.loads" in said.text
    rows = shell.run("drill", "peers", "--json").object["rows"]
    assert {row["name"]: row["handed"] for row in rows}["json.loads"] == 0


MISTAKES = {
    "no payload": (("command", "--", "true"), "--payload"),
    "an empty payload": (("command", "--payload", "empty", "--", "true"), "empty is empty: 0 bytes cannot be broken."),
    "a missing payload": (("command", "--payload", "none", "--", "true"), "none"),
    "no command": (("command", "--payload", "payload.json"), "CMD"),
    "no family": (("command", "--payload", "payload.json", "--faults", "cut", "--", "true"), "no family of faults"),
    "no fault": (("command", "--payload", "payload.json", "--only", "cuts", "--", "true"), "is no fault"),
    "both": (("command", "--payload", "payload.json", "--only", "cut:1", "--faults", "cuts", "--", "true"), "either"),
    "no rule": (("command", "--payload", "payload.json", "--refused-if", "code:1", "--", "true"), "names no refusal"),
    "no wire": (("stream", "--payload", "payload.json", "--wire", "telegraph"), "telegraph"),
    "no header": (("http", "http://127.0.0.1:1/", "--payload", "payload.json", "--header", ": x"), "--header"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_told_in_one_sentence(shell, payload, mistake):
    payload(), payload(b"", "empty")
    arguments, says = MISTAKES[mistake]
    said = shell.run("drill", *arguments)
    assert (said.code, said.out) == (2, b"")
    assert says in said.talk


def test_a_bad_url_could_not_be_tried(shell, payload):
    assert shell.run("drill", "http", "ftp://127.0.0.1/", "--payload", payload()).code == 20
    assert shell.run("drill", "http", "http://127.0.0.1:1/", "--payload", "payload.json").code == 1


def test_an_interrupted_sweep_says_so_and_keeps_what_it_has(shell, payload):
    os.mkfifo(shell.folder / "begun")
    told = os.open(shell.folder / "begun", os.O_RDWR)
    gate = f"{TELLS}; print('x', file=open('begun', 'w')); import time; time.sleep(30 if n < 8 else 0)"
    line = ("drill", "command", "--payload", payload(), "--state", "state.json", "--timeout", "60", "--workers", "1")
    try:
        with shell.start(*line, "--", sys.executable, "-c", gate) as process:
            assert os.read(told, 2) == os.read(told, 2) == b"x\n"  # the control, and the first cut
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=30)
    finally:
        os.close(told)
    assert process.returncode == 130
    assert b"SIGINT" in err
    assert strictjson.loads((shell.folder / "state.json").read_bytes())["cells"] == ["8."]


def test_the_meter_says_how_fast_and_how_long():
    assert Meter().line(250, 1000, 5.0) == "[#####...............] 250 of 1,000  50/s, 15 s left"
    assert Meter().line(0, 0, 0.0) == "[....................] 0 of 0  0/s"


def test_a_terminal_sees_the_bar_and_then_the_report(shell, payload):
    gate = ("/bin/sh", "-c", "size=$(wc -c | tr -d ' '); sleep 0.2; [ $size = 8 ]")
    seen = shell.terminal("drill", "command", "--payload", payload(), "--workers", "1", "--", *gate)
    assert re.search(rb"[1-7] of 8  ", seen.out), "while the batch was under way"
    assert b"s left" in seen.out
    assert b"No hole." in seen.out
