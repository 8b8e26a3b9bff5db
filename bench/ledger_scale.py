"""Does a full ledger slow a submission down? The same act in a small and in a large ledger, turn by turn.

    python -m bench.ledger_scale --jobs 1000000

Builds both ledgers in a temporary folder (a million jobs take about two minutes and 2 GiB), then records a new job in
each, in turns and with random job ids, and prints the ratio of the medians and of the 99th percentiles.
"""

import argparse
import hashlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measure import Row
from endmark.core.refusal import Signal
from endmark.core.states import State
from endmark.ledger.book import Ledger, New
from endmark.ledger.file import open_file
from endmark.ledger.sqlite_store import SqliteStore

SMALL = 1_000
BODY = b'{"tool":"apply_schema"}'.ljust(400)
DIGEST = hashlib.sha256(BODY).hexdigest()
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def a_plan() -> New:
    """A staged plan under a random job id."""
    return New(
        job_id=f"job-{os.urandom(8).hex()}",
        state=State.STAGED,
        signal=Signal.COMPLETE,
        received_bytes=len(BODY),
        expected_bytes=len(BODY),
        body_sha256=DIGEST,
        sha256=DIGEST,
        stmt_count=3,
        target="orders",
        level="sealed",
        evidence=("envelope-length", "envelope-sha256", "sentinel", "stmt-count", "trailer", "statements-sha256"),
        submitter="bench",
    )


class Bulk(SqliteStore):
    """The same code path with many records in one transaction: only for filling a ledger nobody else has open."""

    @contextmanager
    def transaction(self, durable: bool, *, wait: bool = True) -> Iterator[None]:
        self.written = self.last_event = 0
        yield


def fill(path: Path, jobs: int) -> None:
    connection = open_file(path, create=True, timeout=10.0)
    connection.execute("PRAGMA synchronous=OFF")
    connection.execute("PRAGMA cache_size=-500000")
    with Ledger(Bulk(connection, path, 10.0)) as ledger:
        for start in range(0, jobs, 512):
            connection.execute("BEGIN IMMEDIATE")
            for _ in range(start, min(start + 512, jobs)):
                ledger.record(a_plan(), NOW, body=BODY)
            ledger.checkpoint(NOW)
            connection.execute("COMMIT")


def build(path: Path, jobs: int) -> Ledger:
    fill(path, jobs)
    return Ledger.open(path, create=False)


def timed(ledger: Ledger, durable: bool) -> int:
    """Nanoseconds of one record."""
    new, now = a_plan(), datetime.now(UTC)
    start = time.perf_counter_ns()
    ledger.record(new, now, body=BODY, durable=durable)
    return time.perf_counter_ns() - start


def flush_us(folder: Path, rounds: int = 200) -> float:
    """The median time, in microseconds, that this disk takes to write and flush 4 KiB."""
    times = []
    file = os.open(folder / "flush", os.O_CREAT | os.O_WRONLY)
    try:
        for _ in range(rounds):
            start = time.perf_counter_ns()
            os.write(file, bytes(4096))
            os.fsync(file)
            times.append(time.perf_counter_ns() - start)
    finally:
        os.close(file)
    return statistics.median(times) / 1000


def compare(jobs: int, pairs: int, folder: Path) -> list[dict[str, Any]]:
    """One row for durable commits and one for those that leave the flush to a later one. Times in microseconds."""
    rows = []
    started = time.perf_counter()
    with build(folder / "small.db", SMALL) as small, build(folder / "large.db", jobs) as large:
        built = time.perf_counter() - started
        for durable in (False, True):
            for ledger in (small, large) * 50:  # warm both
                timed(ledger, durable)
            times: tuple[list[int], list[int]] = ([], [])
            for turn in range(pairs):
                for which in (0, 1) if turn % 2 else (1, 0):
                    times[which].append(timed((small, large)[which], durable))
            (median, p99), (large_median, large_p99) = map(_figures, times)
            rows.append(
                {
                    "bench": "ledger_scale",
                    "durable": durable,
                    "pairs": pairs,
                    "jobs_small": SMALL,
                    "jobs_large": jobs,
                    "median_small_us": median,
                    "median_large_us": large_median,
                    "median_ratio": large_median / median,
                    "p99_small_us": p99,
                    "p99_large_us": large_p99,
                    "p99_ratio": large_p99 / p99,
                    "flush_us": flush_us(folder),
                    "build_s": built,
                    "large_bytes": (folder / "large.db").stat().st_size,
                }
            )
    return rows


def _figures(times: list[int]) -> tuple[float, float]:
    ordered = sorted(times)
    return statistics.median(ordered) / 1000, ordered[len(ordered) * 99 // 100] / 1000


def measure(quick: bool) -> list[Row]:
    """The lines of the table: a million jobs, or with `quick` twenty thousand and a tenth of the turns."""
    with tempfile.TemporaryDirectory(prefix="endmark-bench-") as folder:
        found = compare(20_000 if quick else 1_000_000, 500 if quick else 5_000, Path(folder))
    lines = []
    for row in found:
        how = "flushed" if row["durable"] else "flushed later"
        for what, limit in (("median", 1.1), ("p99", 1.5)):
            a, b = row[f"{what}_large_us"] / 1e6, row[f"{what}_small_us"] / 1e6
            name = f"record an attempt, {how}, {what}, {row['jobs_large']:,} jobs : {row['jobs_small']:,} jobs"
            lines.append(Row(name, a, b, row[f"{what}_ratio"], limit))
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=1_000_000, help="jobs in the large ledger")
    parser.add_argument("--pairs", type=int, default=5_000, help="turns measured")
    parser.add_argument("--dir", type=Path, help="where to build (default: the system's temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="endmark-bench-", dir=options.dir) as folder:
        rows = compare(options.jobs, options.pairs, Path(folder))
    for row in rows:
        print(f"record, {'durable' if row['durable'] else 'flushed later'} (4 KiB flush: {row['flush_us']:.0f} us)")
        for size in ("small", "large"):
            print(
                f"  {row[f'jobs_{size}']:>9,} jobs   median {row[f'median_{size}_us']:7.0f} us"
                f"   p99 {row[f'p99_{size}_us']:7.0f} us"
            )
        print(f"  ratio            median {row['median_ratio']:7.2f}      p99 {row['p99_ratio']:7.2f}")
    print(f"built in {rows[0]['build_s']:.0f} s, {rows[0]['large_bytes'] / 2**20:,.0f} MiB")
    return 0 if all(row["median_ratio"] <= 1.1 and row["p99_ratio"] <= 1.5 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
