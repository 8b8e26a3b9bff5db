"""A verdict, and a request for a review, cut in every way HTTP has: never a decision beyond incomplete."""

import gzip
from pathlib import Path

import pytest
from tests.gates.patches.world import World
from tests.support.patch_service import REPOSITORY, change
from tests.support.service import TOML, answer_in, everything, reset, served

PATIENCE = {"idle_timeout": 0.3, "header_timeout": 0.3, "body_timeout": 0.8, "max_body": 100_000}


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("cuts") / "world"
    world = World(folder)
    with served(folder, toml=TOML + REPOSITORY, **PATIENCE) as site:
        yield world, site
    world.end()


@pytest.fixture(scope="module")
def raw(both):
    return both[0].verdict()


def length(number):
    return f"Content-Length: {number}"


def fin(wire):
    wire.close()


def stay(_wire):
    """Say nothing more, and wait for the answer."""


def chunk(raw):
    return b"%x\r\n%s\r\n" % (len(raw), raw)


CHUNKED = ("Transfer-Encoding: chunked",)
# name: (raw -> the header fields and what is sent of the body), how it ends, the signal, how many bytes arrive
CUTS = {
    "a short body, FIN": (lambda raw: ((length(len(raw)),), raw[:200]), fin, "body-cut", 200),
    "a short body, RST": (lambda raw: ((length(len(raw)),), raw[:200]), reset, "body-cut", 200),
    "no byte of it, FIN": (lambda raw: ((length(len(raw)),), b""), fin, "body-cut", 0),
    "all but one byte, FIN": (lambda raw: ((length(len(raw)),), raw[:-1]), fin, "body-cut", -1),
    "all of it, and a longer length, FIN": (lambda raw: ((length(len(raw) + 1),), raw), fin, "body-cut", None),
    "all of it, and a longer length, RST": (lambda raw: ((length(len(raw) + 1),), raw), reset, "body-cut", None),
    "no last chunk, FIN": (lambda raw: (CHUNKED, chunk(raw[:200])), fin, "reset", 200),
    "no last chunk, RST": (lambda raw: (CHUNKED, chunk(raw[:200])), reset, "reset", 200),
    "all of it but the last chunk, FIN": (lambda raw: (CHUNKED, chunk(raw)), fin, "reset", None),
    "all of it but the last chunk, silence": (lambda raw: (CHUNKED, chunk(raw)), stay, "idle", None),
    "a bad chunk": (lambda raw: (CHUNKED, chunk(raw) + b"zz\r\n"), fin, "reset", None),
    "silence within": (lambda raw: ((length(len(raw)),), raw[:200]), stay, "idle", 200),
    "silence before": (lambda raw: ((length(len(raw)),), b""), stay, "idle", 0),
    "too long, by its own word": (lambda raw: ((length(200_000),), raw), stay, "over-cap", 0),
    "too short a length": (lambda raw: ((length(200), "Connection: close"), raw[:200]), stay, "body-cut", 200),
    "half of a gzip body": (
        lambda raw: ((length(40), "Content-Encoding: gzip"), gzip.compress(raw)[:40]), stay, "body-cut", 40,
    ),
    "a gzip body without its last byte": (
        lambda raw: (
            (length(len(gzip.compress(raw)) - 1), "Content-Encoding: gzip"), gzip.compress(raw)[:-1]
        ), stay, "body-cut", ...,
    ),
    "0 bytes": (lambda raw: ((length(0), "Connection: close"), b""), stay, "empty", 0),
}  # fmt: skip


def reviews(world):
    """(state, signal, bytes) of every review there is, oldest first."""
    found = [one for entry in world.decisions()[::-1] for one in world.book.reviews(entry.decision_id)]
    return [(one.state.value, one.signal, one.received_bytes) for one in found if one.signal is not None]


@pytest.mark.parametrize("name", CUTS)
def test_a_cut_verdict_decides_nothing(both, raw, name):
    """H1 H2 H3 H39"""
    world, site = both
    make, end, signal, count = CUTS[name]
    fields, sent = make(raw)
    before, tip = reviews(world), world.tip()
    with site.connect() as wire:
        wire.sendall(site.head("POST", f"/v1/verdicts?{change()}", *fields) + sent)
        if end is reset:  # an RST takes back what was not read yet
            site.until(lambda: site.service.limits.in_flight >= (count or len(raw)))
        end(wire)
        said = None if end in (fin, reset) else answer_in(everything(wire))
    site.until(lambda: len(reviews(world)) > len(before) and site.service.limits.uploads == 0)
    found = reviews(world)
    assert (found[: len(before)], len(found)) == (before, len(before) + 1)
    state, why, received = found[-1]
    assert (state, why) == ("incomplete", signal)
    if count is not ...:
        assert received == (len(raw) if count is None else len(raw) + count if count < 0 else count)
    if said is not None:
        assert (said.status, said.json["state"], said.json["signal"]) == (said.status, "incomplete", signal)
        assert said.status in (408, 413, 422)
        assert said.json["received_bytes"] == received
    assert set(world.states()) == {"incomplete"}
    assert (world.tip(), world.merges()) == (tip, [])
    assert site.ask("GET", "/healthz").status == 200
    assert (site.service.limits.in_flight, site.service.limits.uploads) == (0, 0)


def test_no_body_at_all_is_nothing(both):
    """The same as 0 bytes, and the same again is one attempt."""
    world, site = both
    said = [site.ask("POST", f"/v1/verdicts?{change()}") for _ in range(2)]
    assert [(one.status, one.json["signal"]) for one in said] == [(422, "empty")] * 2
    assert set(world.states()) == {"incomplete"}


SMUGGLED = {
    "two lengths": lambda size: (length(size), length(size // 2)),
    "two equal lengths": lambda size: (length(size), length(size)),
    "two lengths in one field": lambda size: (f"Content-Length: {size}, {size // 2}",),
    "a length beside chunks": lambda size: (length(size), *CHUNKED),
    "chunks beside a length": lambda size: (*CHUNKED, length(size)),
    "a length that is none": lambda size: (length("+5"),),
    "another coding last": lambda size: ("Transfer-Encoding: chunked, gzip",),
}


@pytest.mark.parametrize("route", ["verdicts", "reviews"])
def test_framing_that_contradicts_itself_is_not_read(both, raw, route):
    """H2"""
    world, site = both
    before = world.states(), reviews(world), world.tip(), world.asked()
    for name, fields in SMUGGLED.items():
        with site.connect() as wire:
            wire.sendall(site.head("POST", f"/v1/{route}?{change()}", *fields(len(raw))) + raw)
            assert answer_in(everything(wire)).status == 400, name
    assert (world.states(), reviews(world), world.tip(), world.asked()) == before
    assert site.ask("GET", "/healthz").status == 200


def test_a_cut_request_for_a_review_asks_nobody(both, raw):
    """H41"""
    world, site = both
    before = world.states(), reviews(world), world.tip(), world.asked()
    for name, (make, end, _signal, _count) in CUTS.items():
        if name == "0 bytes":
            continue
        fields, sent = make(raw)
        with site.connect() as wire:
            wire.sendall(site.head("POST", f"/v1/reviews?{change()}", *fields) + sent)
            end(wire)
            said = None if end in (fin, reset) else answer_in(everything(wire))
        assert said is None or (said.status, said.json["signal"]) == (400, "usage"), name
    site.until(lambda: site.service.limits.uploads == 0)
    assert (world.states(), reviews(world), world.tip(), world.asked()) == before


def test_a_pass_stands_whatever_is_cut_after_it(both, raw):
    """The same bytes again, cut by a wrong length: not even an answer by what stands."""
    world, site = both
    assert site.ask("POST", f"/v1/verdicts?{change()}", raw).json["state"] == "pass"
    with site.connect() as wire:
        wire.sendall(site.head("POST", f"/v1/verdicts?{change()}", *CHUNKED) + chunk(raw))
        said = answer_in(everything(wire))
    assert (said.status, said.json["state"], said.json["signal"]) == (408, "incomplete", "idle")
    assert "stays pass" in said.json["detail"]
    with site.connect() as wire:
        fields = (*CHUNKED, "Connection: close")
        pieces = b"".join(chunk(raw[at : at + 97]) for at in range(0, len(raw), 97)) + b"0\r\n\r\n"
        wire.sendall(site.head("POST", f"/v1/verdicts?{change()}", *fields) + pieces)
        again = answer_in(everything(wire))
    assert (again.status, again.json["state"]) == (200, "pass")
    assert world.states().count("pass") == 1
    assert world.merges() == []
