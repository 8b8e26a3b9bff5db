"""Proving bytes: a whole plan, the prefixes of one, and the memory a large one takes."""

import hashlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from bench.measure import Row, row
from bench.payloads import ELEVEN, commented, envelope, inserts, plan
from endmark.core.proof import prove
from endmark.core.refusal import Refused

_WRITE = """
import hashlib, sys
size, fill, count, path = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]
each = size // count
statement = "S" + fill * ((each - 4) // len(fill.encode()))
digest = hashlib.sha256()
for at in range(count):
    digest.update((b"\\n" if at else b"") + statement.encode())
with open(path, "wb") as out:
    head = '{"tool":"apply_schema","job_id":"j","stmt_count":%d,"sha256":"%s","statements":['
    out.write((head % (count, digest.hexdigest())).encode())
    for at in range(count):
        out.write((b"," if at else b"") + b'"' + statement.encode() + b'"')
    out.write(b'],"trailer":"END_APPLY"}')
"""
_PROVE = """
import resource, sys
from endmark.core.proof import prove

def peak():
    try:
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)

before = peak()
with open(sys.argv[1], "rb") as file:
    raw = file.read()
prove(raw)
print((peak() - before) / len(raw))
"""


def _floor(raw: bytes) -> None:
    json.loads(raw)
    hashlib.sha256(raw).hexdigest()


def _prefix_rate(raw: bytes, wanted: int) -> float:
    """Refusals a second over evenly spread prefixes of `raw`, made beforehand one batch at a time."""
    step = max(1, len(raw) // wanted)
    spent, count = 0.0, 0
    for batch in _batches(raw, step):
        prefixes = [raw[:at] for at in batch]
        for prefix in prefixes:
            _refuse(prefix)  # what has just arrived is in the cache; copying large prefixes has pushed it out
            start = time.perf_counter()
            for _ in range(8):
                _refuse(prefix)
            spent += time.perf_counter() - start
            count += 8
    return count / spent


def _refuse(prefix: bytes) -> None:
    try:
        prove(prefix)
    except Refused:
        return
    raise SystemExit(f"a prefix of {len(prefix)} bytes was accepted")


def _batches(raw: bytes, step: int) -> list[range]:
    return [range(first, min(first + 8 * step, len(raw)), step) for first in range(1, len(raw), 8 * step)]


def measure(quick: bool) -> list[Row]:
    count = 15 if quick else 101
    rows = []
    bare, commenting = plan("j", inserts(10_000)), plan("j", commented(10_000))
    for what, raw, floor, limit in (
        ("check a 1 MB plan of 10,000 statements, bare", bare, bare, 1.3),
        ("the same in MC1", envelope(bare), bare, 1.6),
        ("each statement opens with a comment", commenting, commenting, 4.0),
    ):
        rows.append(
            row(
                f"{what} : json.loads + sha256",
                partial(prove, raw),
                partial(_floor, floor),
                limit,
                count,
            )
        )
    small = plan("j", [*ELEVEN, *(f"CREATE TABLE spare_{at} (id INTEGER, note TEXT)" for at in range(34))])
    wanted = 2_000 if quick else len(small)
    for what, raw in (("bare plan", small), ("envelope", envelope(small))):
        best = max(_prefix_rate(raw, wanted) for _ in range(3 if quick else 9))
        name = f"refuse prefixes of a {len(raw):,} byte {what} : 300,000/s"
        rows.append(Row(name, best, 300_000, best / 300_000, 1.0, "/s", True))
    large = envelope(bare)
    slow, fast = [], []
    for _ in range(3 if quick else 9):
        fast.append(_prefix_rate(envelope(small), 2_000))
        slow.append(_prefix_rate(large, 2_000))
    a, b = statistics.median(slow), statistics.median(fast)
    rows.append(Row("refuse prefixes of a 1 MB envelope : of a small one", a, b, a / b, 0.8, "/s", True))
    return rows + _memory(quick)


def _memory(quick: bool) -> list[Row]:
    size = (8 if quick else 64) * 1024 * 1024 - 4096
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for what, fill, limit in (("ASCII", "x", 4.0), ("astral characters", "\U0001d11e", 10.0)):
            for count in (1, 640):
                path = Path(folder) / "plan.json"
                subprocess.run([sys.executable, "-c", _WRITE, str(size), fill, str(count), str(path)], check=True)
                said = subprocess.run([sys.executable, "-c", _PROVE, str(path)], check=True, capture_output=True)
                factor = float(said.stdout)
                name = f"peak memory of a {size / 1048576:.0f} MB plan, {count} statement(s), {what} : its body"
                rows.append(Row(name, factor, 1.0, factor, limit, "x body"))
    return rows
