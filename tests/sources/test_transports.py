"""Nothing of a request is kept; and what stands above and below the tee."""

import re
import subprocess
import sys
from typing import Any

import anthropic
import httpx2
import pytest
from google import genai
from google.genai import types
from tests.sources.common import CALL, OPENAI, both_libraries, script_for
from tests.sources.sdks import KEY, MESSAGES, SDKS, ask
from tests.support import answers
from tests.support.server import Script

import endmark
from endmark.core import strictjson

# --- nothing of the request is kept


def reachable(value, seen):
    """All that hangs on an object of ours."""
    if id(value) in seen or isinstance(value, type):
        return
    seen[id(value)] = value
    if isinstance(value, dict):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inner = list(value)
    else:
        inner = [getattr(value, name, None) for name in (*getattr(value, "__dict__", ()), *slots_of(value))]
    for each in inner:
        reachable(each, seen)


def slots_of(value):
    return [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_no_key_no_header_and_no_prompt_is_kept(server, sdk):
    server.play(script_for(sdk))
    with endmark.capture(wire=sdk.wire) as c:
        ask(sdk, f"{server.url}", c.transport())
        c.seal(tool="apply_schema")
    _, body = server.requests[0]
    assert b"make" in body
    seen: dict = {}
    reachable([c, c.taken, c.seal(tool="apply_schema")], seen)
    kept = [value for value in seen.values() if isinstance(value, str | bytes)]
    assert any(sdk.body in value for value in kept if isinstance(value, bytes))
    for value in kept:
        text = value if isinstance(value, bytes) else value.encode()
        assert KEY.encode() not in text
        assert b"make" not in text
        assert not re.search(rb"(?i)user-agent|authorization", text)


# --- other transports, and what stands above and below


@both_libraries
def test_another_transport_is_wrapped(library):
    def answer(request):
        assert request.headers["authorization"]
        return library.Response(200, content=CALL, headers={"content-type": "text/event-stream"})

    with endmark.capture() as c:
        assert ask(OPENAI[library], "http://llm.test", c.transport(library.MockTransport(answer)))
        assert c.taken.ending == "length-met"
        assert c.seal(tool="apply_schema")


@both_libraries
def test_a_transport_that_does_not_say_how_it_frames_proves_nothing(library):
    def answer(_request):
        return library.Response(200, content=iter([CALL[:100], CALL[100:]]))

    with endmark.capture() as c:
        ask(OPENAI[library], "http://llm.test", c.transport(library.MockTransport(answer)))
    assert c.taken.raw == CALL
    assert c.taken.ending == "closed"


@both_libraries
def test_a_wrong_length_of_such_a_transport_is_seen(library):
    def answer(_request):
        return library.Response(200, content=iter([CALL]), headers={"content-length": str(len(CALL) + 1)})

    with endmark.capture() as c:
        ask(OPENAI[library], "http://llm.test", c.transport(library.MockTransport(answer)))
    assert c.taken.ending == "short"


def test_options_go_to_the_usual_transport_only(server):
    with pytest.raises(TypeError, match="http2"):
        endmark.capture().transport(httpx2.HTTPTransport(), http2=False)
    server.play(Script(CALL))
    with endmark.capture() as c:
        ask(OPENAI[httpx2], server.url, c.transport(retries=1, local_address="127.0.0.1"))
        assert c.seal(tool="apply_schema")


def test_gemini_by_its_client_arguments(server):
    """Its SDK looks at the classes of a transport to choose between the two libraries."""
    server.play(Script(answers.gemini_call()))
    with endmark.capture() as c:
        options = types.HttpOptions(base_url=server.url, client_args={"transport": c.transport()})
        client = genai.Client(api_key=KEY, http_options=options)
        assert list(client.models.generate_content_stream(model="m", contents="make"))
        assert c.seal(tool="apply_schema")
        client.close()


def test_anthropics_own_helper(server):
    server.play(Script(answers.messages_call()))
    with endmark.capture() as c, httpx2.Client(transport=c.transport()) as http:
        client: Any = anthropic.Anthropic(base_url=server.url, api_key=KEY, http_client=http)
        with client.messages.stream(model="m", messages=MESSAGES, max_tokens=4096) as stream:
            final = stream.get_final_message()
        assert final.content[1].input == strictjson.loads(answers.witness().encode())
        assert c.seal(tool="apply_schema").plan.statements == answers.ELEVEN


def python(script):
    found = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout.strip()


def test_only_the_library_in_use_is_imported():
    script = (
        "import sys, endmark, {0}\nc = endmark.capture()\n"
        "{0}.Client(transport=c.transport()).close()\nprint({1!r} in sys.modules)"
    )
    assert python(script.format("httpx", "httpx2")) == "False"
    assert python(script.format("httpx2", "httpx")) == "False"


def test_one_library_may_stand_for_the_other():
    script = (
        "import httpx2; httpx2.alias_httpx(); import httpx, endmark\n"
        "httpx.Client(transport=endmark.capture().transport()).close(); print('made')"
    )
    assert python(script) == "made"


def test_without_either_library_it_says_which_extra_is_missing():
    script = (
        "import sys; sys.modules.update(httpx=None, httpx2=None)\nimport endmark\n"
        "try: endmark.capture().transport()\nexcept ImportError as fault: print(fault)"
    )
    assert "pip install 'endmark[capture]'" in python(script)
