"""One process, many jobs: what it holds after thousands is what it held after the first."""

import gc
import os
from pathlib import Path

import pytest
from tests.support.world import World, plan_bytes

from endmark.apply_gate import ApplyGate, Delivery, Options

JOBS = 4_000
WARM = 500
GROWTH = 4 << 20  # bytes; the allocator's own unrest
LISTS = [Path("/proc/self/fd"), Path("/dev/fd")]


def descriptors():
    return len(os.listdir(next(folder for folder in LISTS if folder.is_dir())))


def resident():
    """Bytes of memory in use now."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc/self/statm").is_file(), reason="not tested: memory is read from Linux's /proc")
@pytest.mark.parametrize("mode", ["rollback", "wal"])
def test_neither_memory_nor_descriptors_grow(tmp_path, record_property, mode):
    world = World(tmp_path, mode)
    seen, states = [], set()
    options = Options(lock_timeout=5, statement_timeout=5)
    with world.gate() as gate:
        assert isinstance(gate, ApplyGate)
        for number in range(JOBS):
            raw = plan_bytes(f"j{number}", [f"INSERT INTO users (name) VALUES ('{number}')"])
            failing = plan_bytes(f"f{number}", ["INSERT INTO users VALUES (1, 'again')"])
            for body in (raw, raw, raw[:-1], failing):
                states.add(gate.apply(Delivery(raw=body), world.target, options, "ann").state)
            if number in (WARM, JOBS - 1):
                gc.collect()
                seen.append((resident(), descriptors()))
    assert states >= {"applied", "failed", "truncated"}
    (before, opened), (after, open_now) = seen
    assert open_now == opened
    assert after - before < GROWTH
    record_property("deliveries", 4 * JOBS)
    record_property("KiB of growth", max(0, after - before) // 1024)
    record_property("descriptors left open", open_now - opened)
    world.check_books_agree()
