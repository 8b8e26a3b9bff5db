"""Core opens nothing: not only by its imports, but seen from inside the interpreter while it reads.

Python reports every file, socket, program, database and import to an audit hook. All of core is imported first; from
then on, reading good and bad bytes may cause no event at all.
"""

import subprocess
import sys

WATCHED = """
import hashlib, json, pkgutil, sys
import endmark.core

modules = [name for _, name, _ in pkgutil.walk_packages(endmark.core.__path__, "endmark.core.")]
for name in modules:
    __import__(name)
from endmark.core import mc1, plan, proof, strictjson
from endmark.core.refusal import Refused

statements = ["CREATE TABLE a (x)", "-- why\\nINSERT INTO a VALUES ('\\u2200')"]
digest = hashlib.sha256("\\n".join(statements).encode()).hexdigest()
bare = {"tool": "apply_schema", "job_id": "j", "stmt_count": 2, "sha256": digest, "statements": statements}
witness = {"job_id": "j", "stmt_count": 2, "statements": statements, "trailer": "END_APPLY"}

def envelope(value):
    body = json.dumps(value).encode() + b"\\nEND\\n"
    return b"MC1 %d %s\\n" % (len(body), hashlib.sha256(body).hexdigest().encode()) + body

good = [json.dumps(bare | {"trailer": "END_APPLY"}).encode(), json.dumps(witness).encode()]
good += [envelope(bare | {"trailer": "END_APPLY"}), envelope({"any": "body"})]
bad = [raw[:at] for raw in good for at in range(len(raw) - 1)]
bad += [raw[:at] + bytes([raw[at] ^ 128]) + raw[at + 1:] for raw in good for at in range(len(raw))]
bad += ["{}".encode("utf-16"), b"\\xff", b"\\xef\\xbb\\xbf{}", b"[" * 100_000, b'{"a":' * 5_000]
bad += [b'{"a": NaN}', b'{"a":1,"a":2}', b"9" * 5_000, b'{"a":"\\\\ud800"}', b"{} {}"]
bad += [b"MC1 " + b"9" * 5_000, b"MC1 1 " + b"0" * 64 + b"\\r\\n"]

events, watching = [], False

def watch(event, arguments):
    if watching:
        events.append((event, str(arguments)[:200]))

def outcome(raw):
    try:
        return proof.prove(raw).form
    except Refused as refusal:
        return "refused" if refusal.detail else "refused without a word"

sys.addaudithook(watch)
watching = CANARY
if watching:
    open(sys.executable, "rb").close()
watching = True
accepted = [outcome(raw) for raw in good]
refused = [outcome(raw) for raw in bad]
watching = False
assert "refused" not in accepted, accepted
assert set(refused) == {"refused"}, set(refused)
print(len(modules), "modules", len(good) + len(bad), "bodies")
for event in events[:20]:
    print("event", *event)
"""


def run(canary):
    script = WATCHED.replace("CANARY", str(canary))
    found = subprocess.run([sys.executable, "-I", "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout


def test_core_causes_no_event_while_it_reads():
    said = run(canary=False)
    assert "event" not in said, said


def test_the_watch_sees_an_open_file():
    assert "event open" in run(canary=True)
