"""What the tests of the tee share: how an SDK is asked, and how each ending is called."""

import asyncio
from typing import Any

import httpx
import httpx2
import pytest
from tests.sources.sdks import SDKS, ask, ask_async
from tests.support import answers
from tests.support.server import CHUNK_FIN, CHUNKED, CLOSE, LENGTH, RST, SHORT, STALL, Script

LIBRARIES: list[Any] = [httpx2, httpx]
both_libraries = pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.__name__)
both_modes = pytest.mark.parametrize("mode", ["sync", "async"])
OPENAI = {sdk.library: sdk for sdk in SDKS if sdk.name == "openai"}
CALL = answers.chat_call()
WORD = {CHUNKED: "last-chunk", LENGTH: "length-met", CLOSE: "closed", CHUNK_FIN: "short", SHORT: "short"}
WORD |= {RST: "reset", STALL: "idle"}


def asking(mode, sdk, url, c=None, **more):
    if mode == "sync":
        return ask(sdk, url, c and c.transport(), **more)
    return asyncio.run(ask_async(sdk, url, c and c.async_transport(), **more))


def script_for(sdk, ending=CHUNKED, **more):
    return Script(sdk.body, ending, content_type=sdk.content_type, **more)
