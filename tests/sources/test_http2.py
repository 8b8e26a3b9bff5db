"""HTTP/2 under the tee: END_STREAM is an end, everything else is none."""

import asyncio

import h2.exceptions
import httpx
import httpx2
import openai
import pytest
from tests.sources.sdks import SDKS, ask, ask_async
from tests.support import answers
from tests.support.h2server import END_STREAM, GOAWAY, RST_STREAM, WRONG_LENGTH, serving_h2

import endmark

CALL = answers.chat_call()
OPENAI = {sdk.library: sdk for sdk in SDKS if sdk.name == "openai"}
PRIOR_KNOWLEDGE = {"http1": False, "http2": True}
ENDED = {END_STREAM: "end-stream", RST_STREAM: "reset", GOAWAY: "reset", WRONG_LENGTH: "short"}


@pytest.mark.parametrize("library", [httpx2, httpx], ids=lambda library: library.__name__)
@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("cut", [None, 1882])
@pytest.mark.parametrize("ending", ENDED)
def test_the_end_of_a_stream_is_recorded(library, mode, ending, cut):
    with endmark.capture() as c, serving_h2(CALL[:cut], ending) as url:
        try:
            if mode == "sync":
                ask(OPENAI[library], url, c.transport(**PRIOR_KNOWLEDGE))
            else:
                asyncio.run(ask_async(OPENAI[library], url, c.async_transport(**PRIOR_KNOWLEDGE)))
        except (openai.APIConnectionError, h2.exceptions.InvalidBodyLengthError):
            assert ending != END_STREAM
        assert c.taken.ending == ENDED[ending]
        if ending == END_STREAM:
            assert c.taken.raw == CALL[:cut]
        if ending == END_STREAM and cut is None:
            assert "transport:end-stream" in c.seal(tool="apply_schema").evidence
        else:
            with pytest.raises(endmark.AnswerRefused):
                c.seal(tool="apply_schema")
