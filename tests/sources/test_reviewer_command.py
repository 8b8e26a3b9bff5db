"""Commands are asked as real processes: whole answers come through, anything else is incomplete and nothing stays."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.core.payloads import envelope
from tests.core.test_prompt import assemble
from tests.sources.test_reviewer_http import LIMITS, SECRET, SHOWN, VERDICT, WANTED, everything

from endmark.core import binding, policy
from endmark.core.refusal import Refused
from endmark.sources.reviewer import asking
from endmark.sources.reviewer.asking import Limits, NoAnswer
from endmark.sources.reviewer.command import STDERR_BYTES

ANSWER = envelope(VERDICT.encode())
SAYS = f"import sys; sys.stdin.buffer.read(); sys.stdout.buffer.write({ANSWER!r})"
ENVIRON = {**os.environ, "REVIEW_KEY": SECRET, "OTHER_SECRET": "not yours"}


def ask(code, limits=LIMITS, environ=ENVIRON, laid=None, **changes):
    """A command that is one line of Python."""
    made = {"name": "tests", "kind": "command", "capacity": "dedicated", "command": (sys.executable, "-c", code)}
    return asking.ask(policy.Reviewer(**{**made, **changes}), SHOWN, limits, environ=environ, files=laid)


def no_answer(code, **changes):
    with pytest.raises(NoAnswer) as refused:
        ask(code, **changes)
    assert refused.value.how.reviewer == "tests"
    assert refused.value.detail.isprintable()
    return refused.value


def quick(idle=10.0, total=10.0, answer=1_000_000):
    return Limits(idle_seconds=idle, total_seconds=total, answer_bytes=answer)


def test_an_envelope_decides():
    reply = ask(SAYS)
    assert binding.read(reply.capture.raw, WANTED).verdict.verdict == "pass"
    assert reply.capture.facts == ("command-exit:0",)
    assert (reply.how.kind, reply.how.wire, reply.how.url) == ("command", None, None)
    assert (reply.how.shown_sha256, reply.stderr) == (SHOWN.sha256, "")


def test_it_reads_exactly_what_is_shown(tmp_path):
    out = tmp_path / "seen"
    ask(f"import sys; open({str(out)!r}, 'wb').write(sys.stdin.buffer.read()); sys.stdout.buffer.write({ANSWER!r})")
    assert out.read_bytes() == SHOWN.text


def test_no_cut_of_its_output_decides():
    for at in range(1, len(ANSWER), 97):
        reply = ask(f"import sys; sys.stdin.buffer.read(); sys.stdout.buffer.write({ANSWER[:at]!r})")
        with pytest.raises(Refused):
            binding.read(reply.capture.raw, WANTED)


@pytest.mark.parametrize(
    ("code", "signal", "says"),
    [
        (f"{SAYS}; sys.exit(3)", "bad-stop", "exit code 3"),
        (f"{SAYS}; sys.stdout.flush(); import os; os.kill(os.getpid(), 9)", "bad-stop", "signal 9"),
        (f"{SAYS}; raise RuntimeError", "bad-stop", "exit code 1"),
        ("import sys; sys.stdin.read()", "empty", "printed nothing"),
    ],
)
def test_what_did_not_go_well_is_incomplete(code, signal, says):
    refused = no_answer(code)
    assert (refused.signal, says in refused.detail) == (signal, True)


def test_a_command_that_is_not_there():
    for program in ("no-such-program-anywhere", "/no/such/program", "/etc"):
        refused = no_answer("", command=(program,))
        assert (refused.signal, refused.received_bytes) == ("unreachable", 0)
        assert "could not be started" in refused.detail


def test_silence_and_a_long_talk_end():
    began = time.monotonic()
    refused = no_answer("import time; time.sleep(60)", limits=quick(idle=0.3))
    assert (refused.signal, "said nothing for 0.3 s" in refused.detail) == ("idle", True)
    talk = "import time\nwhile True: print('.', flush=True); time.sleep(0.01)"
    refused = no_answer(talk, limits=quick(total=0.5))
    assert (refused.signal, "0.5 s were over" in refused.detail) == ("idle", True)
    assert refused.received_bytes > 0
    assert time.monotonic() - began < 8


def test_too_much_is_not_read():
    refused = no_answer("import sys\nwhile True: sys.stdout.write('x' * 10000)", limits=quick(answer=50_000))
    assert refused.signal == "over-cap"
    assert 50_000 < refused.received_bytes < 200_000


def test_a_prompt_that_was_not_read_was_not_reviewed():
    shown = assemble([b"+x\n" * 200_000], max_diff_bytes=1_000_000)
    code = f"import sys; sys.stdin.buffer.read(10); sys.stdout.buffer.write({ANSWER!r})"
    made = policy.Reviewer(name="t", kind="command", capacity="dedicated", command=(sys.executable, "-c", code))
    with pytest.raises(NoAnswer, match="has not seen the change") as refused:
        asking.ask(made, shown, LIMITS, environ=ENVIRON)
    assert refused.value.signal == "input-cut"


FORKS = """
import os, sys, time
if os.fork() == 0:
    open({pid!r}, "w").write(str(os.getpid()))
    {closes}
    time.sleep(60)
while not os.path.exists({pid!r}) or not open({pid!r}).read():
    time.sleep(0.01)
"""
CLOSES = "os.close(1); os.close(2)"


def gone(file):
    """Whether the process whose id stands in the file ends; one that only waits for its parent to look has."""
    for _ in range(500):
        state = subprocess.run(["ps", "-o", "stat=", "-p", file.read_text()], capture_output=True).stdout.strip()
        if not state or state.startswith(b"Z"):
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("how", ["finished", "silent", "failed"])
def test_nothing_of_its_group_stays(tmp_path, how):
    pid = tmp_path / "pid"
    ending = {"finished": SAYS, "silent": "time.sleep(60)", "failed": "sys.exit(1)"}[how]
    code = FORKS.format(pid=str(pid), closes=CLOSES) + ending
    if how == "finished":
        assert ask(code).capture.raw == ANSWER
    else:
        no_answer(code, limits=quick(idle=1.0))
    assert gone(pid)


def test_a_child_that_holds_the_output_open_leaves_it_unended(tmp_path):
    pid = tmp_path / "pid"
    refused = no_answer(FORKS.format(pid=str(pid), closes="pass") + SAYS, limits=quick(idle=0.5))
    assert (refused.signal, refused.received_bytes) == ("idle", len(ANSWER))
    assert gone(pid)


def test_what_it_is_told_of_the_world():
    told = "import os, sys, json; sys.stdin.read(); sys.stderr.write(' '.join(sorted(os.environ)))"
    without = ask(f"{told}; sys.stdout.write('x')").stderr.split()
    assert set(without) <= {"PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR"}
    with_key = ask(f"{told}; sys.stdout.write('x')", key="env:REVIEW_KEY").stderr.split()
    assert set(with_key) - set(without) == {"REVIEW_KEY"}


def test_its_folder_holds_its_files_and_is_gone_afterwards(tmp_path, monkeypatch):
    """What lies in the working folder, where a patch may be checked out, is not what runs."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "review.py").write_text("raise SystemExit('the patch speaks')")
    monkeypatch.chdir(tmp_path)
    base = f"#!{sys.executable}\nimport os, sys; sys.stderr.write(os.getcwd()); {SAYS.removeprefix('import sys; ')}"
    files = {"tools/review.py": base.encode(), "other.py": b"", "lib/x.py": b"x"}
    for command in ((sys.executable, "tools/review.py"), ("tools/review.py",), ("./tools/review.py",)):
        reply = ask("", command=command, files=("tools/review.py", "lib/x.py"), laid=files)
        assert reply.capture.raw == ANSWER
        folder = Path(reply.stderr)
        assert folder.name.startswith("endmark-review-")
        assert not folder.exists()
    listed = "import os, sys; sys.stdin.read(); print(sorted(os.listdir()), os.listdir('lib'))"
    assert ask(listed, files=("lib/x.py",), laid=files).capture.raw == b"['lib'] ['x.py']\n"
    refused = no_answer(SAYS, files=("tools/none.py",), laid=files)
    assert (refused.signal, "not in the base commit" in refused.detail) == ("unreachable", True)


# --- what it says beside its answer, and its key


def test_standard_error_is_kept_safe_and_short():
    said = ask(f"{SAYS}; sys.stderr.buffer.write(b'\\x1b[2J\\xff ok\\n' + '\\u202eevil'.encode() + b'\\n')").stderr
    assert said == "\\x1b[2J\\xff ok\n\\u202eevil"
    refused = no_answer("import sys; sys.stderr.write('why\\n'); sys.exit(1)")
    assert refused.stderr == "why"
    many = ask(f"{SAYS}; sys.stderr.write('x' * 1_000_000)").stderr
    assert len(many) == STDERR_BYTES


def test_its_key_shows_nowhere():
    """Said beside the answer, also across the end of what is kept, in many pieces, or in the answer itself."""
    key = "import os; key = os.environ['REVIEW_KEY']; "
    places = []
    for code in (
        f"{key}{SAYS}; sys.stderr.write(key + '\\n' + key)",
        f"{key}{SAYS}; sys.stderr.write('x' * {STDERR_BYTES} + key)",
        f"{key}{SAYS}; sys.stderr.write('x' * {STDERR_BYTES - 5} + key + 'x' * 99)",
        f"{key}{SAYS}\nfor letter in key: sys.stderr.write(letter); sys.stderr.flush()",
    ):
        reply = ask(code, key="env:REVIEW_KEY")
        places += [reply.stderr, repr(reply)]
    assert places[0] == "[key]\n[key]"
    for code in (
        f"{key}import sys; sys.stderr.write(key); sys.exit(1)",
        f"{key}import sys; sys.stdin.read(); print(key)",
    ):
        refused = no_answer(code, key="env:REVIEW_KEY")
        places += [everything(refused), refused.stderr, repr(refused.how)]
    assert refused.signal == "wrong-value"
    assert [place for place in places if SECRET in place or SECRET[:5] in place] == []
