"""The whole way with models over real sockets: streams of two providers, cut, stalled, refused and whole."""

import json
from functools import partial

import pytest
from tests.gates.patches.models import FAIL, KEY, answer, kind, prompt_of, stream, verdict_on
from tests.gates.patches.world import policy, shown
from tests.support.server import CHUNK_FIN, CHUNKED, RST, STALL, Script, serving

from endmark.core.refusal import CannotTry
from endmark.effects.git import read_blocks
from endmark.steps.patch_case import read_case

PROVIDERS = ["openai", "anthropic"]


@pytest.fixture
def server():
    with serving(Script()) as one:
        yield one


@pytest.fixture
def model(server, make_world):
    """model(provider): a world whose one reviewer is a model of this provider."""

    def make(provider, **branch):
        rules = policy({"deep": kind(provider, server.url)}, **{"retries": 0, **branch})
        return make_world(rules, environ={"REVIEW_KEY": KEY})

    return make


@pytest.mark.parametrize("provider", PROVIDERS)
def test_reviewed_and_merged(server, model, provider):
    world = model(provider)
    server.play(answer(provider))
    passed = world.review()
    assert shown(passed) == ("pass", "complete", 0)
    (one,) = world.book.reviews(passed.decision_id)
    assert (one.model, len(one.prompt_sha256), len(one.shown_sha256)) == ("m-1", 64, 64)
    assert "capacity:dedicated" in one.evidence
    assert shown(world.merge())[0] == "merged"
    assert KEY.encode() not in world.path.read_bytes()


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_fail_of_a_model_is_a_fail(server, model, provider):
    world = model(provider, retries=2)
    server.play(answer(provider, **FAIL), answer(provider))
    assert shown(world.review()) == ("fail", "complete", 1)
    assert len(server.requests) == 1
    assert world.merge().exit_code == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_cut_of_its_answer_passes(server, model, provider):
    """The stream ends politely, however it ends; the text is cut at many places, and closed by a server that means
    well."""
    world = model(provider)
    gate, place = world.at()
    with gate:
        case, reviewing = read_case(gate, place), world.patches(gate)._reviewing
        blocks, reviewer = read_blocks(gate, case.change, 1 << 20), place.policy.reviewers["deep"]

        def ask(script):
            server.play(script)
            return reviewing.answer(case, reviewer, reviewing.show(case, reviewer, blocks))[0].state

        assert ask(answer(provider)) == "pass"
        length = len(stream(provider, json.dumps(verdict_on(prompt_of(server.requests[0][1])))))
        for at in range(0, length, length // 25):
            for ending in (CHUNKED, CHUNK_FIN):
                assert ask(answer(provider, how={"cut": at, "ending": ending})) == "incomplete", (at, ending)
        for cut in (1, 30, 60, 200):
            for closed in ("", '"}', "]}", '"]}'):
                assert ask(answer(provider, partial(ended, cut=cut, closed=closed))) == "incomplete", (cut, closed)


def ended(said, cut, closed):
    """A verdict whose last bytes are lost, and closed by somebody."""
    return json.dumps(said)[:-cut] + closed


@pytest.mark.parametrize(
    ("script", "signal", "code"),
    [
        (Script(b'{"error":{"message":"invalid key"}}', status="401 Unauthorized"), "unreachable", 13),
        (Script(b"<html>", status="502 Bad Gateway"), "unreachable", 13),
        (Script(b"", content_type="text/event-stream"), "empty", 10),
        (Script(drop=True), "unreachable", 13),
        (answer(text=lambda said: "```json\n" + json.dumps(said) + "\n```"), "not-json", 10),
        (answer(text=lambda said: "Looks good to me!"), "not-json", 10),
        (answer(text=lambda said: json.dumps(said) + " I hope that helps."), "two-documents", 12),
        (answer(how={"ending": RST}), None, 13),
        (answer(marks=None), None, None),
    ],
)
def test_what_is_no_verdict_is_incomplete(server, model, script, signal, code):
    world = model("openai", idle_seconds=5)
    server.play(script)
    said = world.review()
    assert said.state == "incomplete"
    assert signal in (None, said.signal), said
    assert code in (None, said.exit_code), said
    assert world.merge().state == "incomplete"
    assert world.merges() == []


def test_an_outage_of_the_reviewer_spends_no_budget(server, model):
    """Nobody was reached, so nothing was asked: the change can be reviewed once the reviewer is back."""
    world = model("openai", idle_seconds=5)
    server.play(Script(drop=True))
    for _ in range(3):
        said = world.review()
        assert shown(said) == ("incomplete", "unreachable", 13)
        assert not any(word.startswith("budget-spent") for word in said.evidence)
    server.play(answer("openai"))
    assert shown(world.review()) == ("pass", "complete", 0)


def test_a_stream_that_stalls_is_ended(server, model):
    world = model("openai", idle_seconds=0.3, total_seconds=5)
    server.play(answer(how={"ending": STALL, "cut": 300}))
    assert shown(world.review())[::2] == ("incomplete", 13)


def test_fewer_input_tokens_than_the_diff_takes(server, model):
    world = model("anthropic")

    def few(head, body):
        script = answer("anthropic")(head, body)
        return Script(script.body.replace(b'"input_tokens":4000', b'"input_tokens":9'))

    server.play(few)
    assert shown(world.review()) == ("incomplete", "input-cut", 13)


def test_each_attempt_is_a_fresh_question(server, model):
    world = model("openai", retries=2)
    server.play(answer(how={"cut": 200}), Script(b"", status="503 Busy"), answer())
    passed = world.review()
    assert (passed.state, [one.state for one in passed.reviews]) == ("pass", ["incomplete", "incomplete", "pass"])
    prompts = {prompt_of(body) for _, body in server.requests}
    assert len(prompts) == 3, "fresh marks each time"


def test_without_its_key_nobody_is_asked(server, model):
    world = model("openai")
    world.environ = {key: value for key, value in world.environ.items() if key != "REVIEW_KEY"}
    with pytest.raises(CannotTry, match="REVIEW_KEY is not set"):
        world.review()
    assert (world.decisions(), server.requests) == ([], [])
