"""What is read from a request, and that nothing else of it is kept."""

import json

import pytest

from endmark.sources import asked
from endmark.wires import names

URLS = {
    ("api.openai.com", "/v1/chat/completions"): "openai-chat",
    ("127.0.0.1", "/v1/chat/completions/"): "openai-chat",
    ("x.openai.azure.com", "/openai/deployments/d/chat/completions"): "openai-chat+azure",
    ("openrouter.ai", "/api/v1/chat/completions"): "openai-chat+openrouter",
    ("generativelanguage.googleapis.com", "/v1beta/openai/chat/completions"): "openai-chat+gemini",
    ("api.mistral.ai", "/v1/chat/completions"): "mistral",
    ("notmistral.ai", "/v1/chat/completions"): "openai-chat",
    ("api.openai.com", "/v1/responses"): "openai-responses",
    ("api.anthropic.com", "/v1/messages"): "anthropic",
    ("h", "/v1/projects/p/locations/l/publishers/anthropic/models/m:streamRawPredict"): "anthropic",
    ("localhost", "/api/chat"): "ollama",
    ("localhost", "/api/generate"): "ollama",
    ("api.cohere.com", "/v2/chat"): "cohere",
    ("bedrock-runtime.eu-west-1.amazonaws.com", "/model/m/converse-stream"): "bedrock",
    ("generativelanguage.googleapis.com", "/v1beta/models/m:generateContent"): "gemini",
    ("generativelanguage.googleapis.com", "/v1beta/models/m:streamGenerateContent"): "gemini-array",
}
UNKNOWN = ["/", "", "/v1/embeddings", "/v1/models", "/v1/messages/batches", "/api/tags", "/v1/chat", "/model/m/invoke"]


@pytest.mark.parametrize(("host", "path"), URLS)
def test_a_known_url_names_its_wire(host, path):
    assert asked.wire_of(host, path) == URLS[host, path]


def test_gemini_streams_in_two_ways():
    path = "/v1beta/models/m:streamGenerateContent"
    assert asked.wire_of("h", path, "alt=sse") == "gemini"
    assert asked.wire_of("h", path, "key=k&alt=sse") == "gemini"
    assert asked.wire_of("h", path, "alt=json") == "gemini-array"


@pytest.mark.parametrize("path", UNKNOWN)
def test_any_other_url_names_none(path):
    assert asked.wire_of("api.openai.com", path) is None


def test_every_wire_that_a_url_names_exists():
    assert set(URLS.values()) <= set(names.NAMES)


CAPS = [
    {"max_tokens": 99},
    {"max_completion_tokens": 99},
    {"max_output_tokens": 99},
    {"generationConfig": {"maxOutputTokens": 99}},
    {"options": {"num_predict": 99}},
    {"inferenceConfig": {"maxTokens": 99}},
]


@pytest.mark.parametrize("body", CAPS, ids=lambda body: next(iter(body)))
def test_each_providers_cap_is_read(body):
    assert asked.read(json.dumps(body | {"messages": []}).encode()) == asked.Asked(99)


def test_of_several_caps_the_least_counts():
    assert asked.read(b'{"max_tokens": 200, "max_completion_tokens": 100}').max_output_tokens == 100


@pytest.mark.parametrize("cap", ["-1", "0", "true", "null", '"99"', "99.0", "[99]"])
def test_what_is_no_cap_is_none(cap):
    assert asked.read(b'{"max_tokens": %s}' % cap.encode()).max_output_tokens is None


@pytest.mark.parametrize(
    "body",
    [
        {"stop": ["x"]},
        {"stop": "x"},
        {"stop_sequences": ["x"]},
        {"generationConfig": {"stopSequences": ["x"]}},
        {"options": {"stop": ["x"]}},
        {"inferenceConfig": {"stopSequences": ["x"]}},
    ],
)
def test_stop_sequences_are_noticed(body):
    assert asked.read(json.dumps(body).encode()).stop_sequences


@pytest.mark.parametrize("body", [b"{}", b'{"stop": []}', b'{"stop": null}', b'{"messages": [{"stop": "x"}]}'])
def test_no_stop_sequences_are_noticed(body):
    assert not asked.read(body).stop_sequences


def test_a_cap_in_the_prompt_is_none():
    prompt = {"messages": [{"role": "user", "content": '{"max_tokens": 5}', "max_tokens": 5}]}
    assert asked.read(json.dumps(prompt).encode()) == asked.Asked()


@pytest.mark.parametrize("body", [None, b'{"max_tokens": 9', b'{"max_tokens": 9, "max_tokens": 8}', b'["max_tokens"]'])
def test_a_request_that_cannot_be_read_is_on_record(body):
    assert asked.read(body).facts == ("request-unread",)
