"""The table of peers is measured and not typed: the module works on one SDK, and counts what it says it counts."""

from itertools import pairwise

from bench import peers
from bench.peer_clients import CLIENTS
from bench.streams import WIRES, WITNESS
from tests.seal.lies import value_of

NAME = "openai, chat stream"


def test_one_sdk_is_measured():
    cut, lie = peers.measured(NAME, 8)
    assert (cut.tried, cut.silent, cut.sealed) == (8, 8, 0)  # it raises nothing, whatever is missing
    assert 0 <= cut.calls < 4  # most of its calls do not read; that is left to whoever asked
    assert (lie.tried, lie.silent, lie.calls, lie.sealed) == (8, 8, 8, 0)


def test_a_client_that_raises_is_counted_as_one():
    cut, _ = peers.measured("mistralai, chat stream", 8)
    assert cut.silent < 8


def test_the_offsets_are_spread_from_the_first_to_the_last():
    assert peers.spread(5, 8) == [0, 1, 2, 3, 4]
    found = peers.spread(10_000, 200)
    assert (len(found), found[0], found[-1]) == (200, 0, 9_999)
    assert {after - before for before, after in pairwise(found)} <= {50, 51}


def test_every_lie_is_a_whole_body_whose_json_reads_and_is_not_the_plan():
    bodies = list(peers.lying("mistral", 10_000))
    assert len(bodies) > 0.7 * len(WITNESS)
    whole = WIRES["mistral"](WITNESS)
    for body in bodies[::50]:
        assert body.endswith(whole[-20:])
        last = value_of(body.decode().split("data: ")[-2])
        arguments = last["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"]
        assert value_of(arguments) != value_of(WITNESS)


def test_every_client_speaks_a_wire_that_is_read():
    assert {client.wire for client in CLIENTS.values()} <= set(WIRES)
    for make in WIRES.values():
        assert make(WITNESS)
    assert all(peers._sealed(wire, make(WITNESS)) for wire, make in WIRES.items())
