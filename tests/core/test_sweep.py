"""Cuts and flips of larger payloads, every one: 0 accepted. And that the sweep itself would notice."""

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import pytest
from tests.core import payloads
from tests.core.payloads import document, dump, envelope, statements, verdict, witness

from endmark.core import proof, strictjson
from endmark.core.refusal import Refused

FINDINGS = [{"severity": "advisory", "path": f"src/{n}.py", "line": n + 1, "message": "é could be"} for n in range(30)]
OPTIONS = {"after": ["job_0", "job_00"], "retry_of": "job_000", "base": "0123456789abcdef" * 4}


def plan_in_an_envelope(seed: int) -> bytes:
    return envelope(dump(document(statements(2_600, seed=100 * seed), job_id=f"job_{seed}")))


ENVELOPES: dict[str, Callable[[], bytes]] = {
    "the incident's 3,410 bytes": lambda: payloads.of_size(3_410),
    "a plan with downs": lambda: envelope(dump(document(statements(3_000), down=statements(3_000), **OPTIONS))),
    "a plan, escaped": lambda: envelope(dump(document(statements(5_000, seed=7)), ensure_ascii=True, indent=1)),
    **{f"plan {n}": partial(plan_in_an_envelope, n) for n in range(1, 13)},
    "a verdict": lambda: envelope(dump(verdict(verdict="fail", findings=FINDINGS, marks=["m1", "m2"]))),
    "another tool's body": lambda: envelope(dump({"tool": "write_file", "text": "x" * 3_000})),
}
BARE = {
    "a bare plan": lambda: dump(document(statements(3_000))),
    "a bare plan, escaped": lambda: dump(document(statements(2_000, seed=3)), ensure_ascii=True),
    "a bare plan with every key": lambda: dump(document(statements(900), down=statements(900), **OPTIONS), indent=2),
}
WITNESSES = {"a witness form": lambda: dump(witness(statements(6_000), after=["job_0"]))}


def accepted_cuts(raw: bytes) -> list[int]:
    """At which cuts `raw` is accepted; a bare text may lose the white space at its end."""
    found = []
    for at in range(len(raw) if raw.startswith(b"M") else len(raw.rstrip())):
        try:
            proof.prove(raw[:at])
        except Refused as refused:
            if refused.received_bytes == at:
                continue
        found.append(at)
    return found


def accepted_flips(raw: bytes, offsets: range | list[int]) -> list[tuple[int, int]]:
    """Which single flips are accepted although what they spell has changed."""
    found = []
    buffer = bytearray(raw)
    for at in offsets:
        for bit in range(8):
            buffer[at] ^= 1 << bit
            flipped = bytes(buffer)
            buffer[at] ^= 1 << bit
            try:
                proof.prove(flipped)
            except Refused:
                continue
            if raw.startswith(b"M") or strictjson.loads(flipped) != strictjson.loads(raw):
                found.append((at, bit))
    return found


def covered(raw: bytes) -> list[int]:
    uncovered = {at for span in payloads.spans(raw) for at in span}
    return sorted(set(range(len(raw))) - uncovered)


@pytest.mark.parametrize("case", [*ENVELOPES, *BARE, *WITNESSES])
def test_no_cut_is_accepted(case):
    raw = (ENVELOPES | BARE | WITNESSES)[case]()
    assert proof.prove(raw).received_bytes == len(raw)
    assert accepted_cuts(raw) == []


@pytest.mark.parametrize("case", [*ENVELOPES, *BARE])
def test_no_flip_is_accepted(case):
    raw = (ENVELOPES | BARE)[case]()
    assert accepted_flips(raw, covered(raw)) == []


def test_there_were_enough_of_them():
    """What the two tests above tried: more than 50,000 cuts and 500,000 flips."""
    sizes = {case: len(make()) for case, make in (ENVELOPES | BARE | WITNESSES).items()}
    assert sum(sizes.values()) >= 50_000
    assert 8 * (sum(sizes.values()) - sizes["a witness form"] - 1_000) >= 500_000


def test_the_sweep_would_notice():
    """Flips that do change what nothing covers are found, at the offsets where that stands and nowhere else."""
    raw = BARE["a bare plan with every key"]()
    spans = payloads.spans(raw)
    found = accepted_flips(raw, range(len(raw)))
    assert {span for span in spans for at, _ in found if at in span} == set(spans)
    assert all(any(at in span for span in spans) for at, _ in found)
    assert len(found) > 100


# --- the long form


@pytest.mark.soak
def test_many_more_cuts_and_flips():
    """Plans of many sizes on every core: about 500,000 cuts and 4,000,000 flips."""
    plans = [dump(document(statements(size, seed=size))) for size in range(500, 16_000, 500)]
    envelopes = [envelope(raw) for raw in plans]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        assert [found for found in pool.map(accepted_cuts, plans + envelopes) if found] == []
        for raw in envelopes:
            parts = [range(at, min(at + 2_000, len(raw))) for at in range(0, len(raw), 2_000)]
            assert [found for found in pool.map(partial(accepted_flips, raw), parts) if found] == []
        small = [raw for raw in plans if len(raw) < 5_000]
        assert [found for found in pool.map(accepted_flips, small, map(covered, small)) if found] == []
