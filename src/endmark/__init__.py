"""endmark: nothing an AI agent emits changes the world until its bytes are proven to have arrived whole.

import endmark

endmark.check(raw)                                      # what it is and how it is proven, or Refused
endmark.Gate("ledger.db").submit(raw).apply("sqlite:///app.db")

with endmark.capture() as c:                            # the raw answer, taken below an SDK
    client = OpenAI(http_client=httpx.Client(transport=c.transport()))
    ...
    sealed = c.seal(tool="apply_schema")                # proven whole, or AnswerRefused
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from endmark.core.outcome import Outcome
    from endmark.core.patch_outcome import PatchOutcome
    from endmark.core.proof import Proven
    from endmark.core.refusal import CannotTry, Refused
    from endmark.core.tooldef import tool
    from endmark.faces.api import Gate, Job, check, seal, sign
    from endmark.faces.capture import Capturing, capture
    from endmark.faces.client.answers import Nack
    from endmark.faces.client.client import AsyncClient, Client
    from endmark.faces.patches import Patches
    from endmark.seal import AnswerRefused, Sealed

__version__ = "0.1.0"
__all__ = [
    "AnswerRefused",
    "AsyncClient",
    "CannotTry",
    "Capturing",
    "Client",
    "Gate",
    "Job",
    "Nack",
    "Outcome",
    "PatchOutcome",
    "Patches",
    "Proven",
    "Refused",
    "Sealed",
    "capture",
    "check",
    "seal",
    "sign",
    "tool",
]

# Loaded when first used, so that `import endmark` costs nothing and `check` needs no database.
_HOMES = {
    "AnswerRefused": "endmark.seal",
    "AsyncClient": "endmark.faces.client.client",
    "CannotTry": "endmark.core.refusal",
    "Capturing": "endmark.faces.capture",
    "Client": "endmark.faces.client.client",
    "Gate": "endmark.faces.api",
    "Job": "endmark.faces.api",
    "Nack": "endmark.faces.client.answers",
    "Outcome": "endmark.core.outcome",
    "PatchOutcome": "endmark.core.patch_outcome",
    "Patches": "endmark.faces.patches",
    "Proven": "endmark.core.proof",
    "Refused": "endmark.core.refusal",
    "Sealed": "endmark.seal",
    "capture": "endmark.faces.capture",
    "check": "endmark.faces.api",
    "seal": "endmark.faces.api",
    "sign": "endmark.faces.api",
    "tool": "endmark.core.tooldef",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'endmark' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})


class _Package(ModuleType):
    """This package. Importing its module `endmark.seal` would put that in the place of the function `endmark.seal`."""

    @property
    def seal(self) -> Any:
        return __getattr__("seal")

    @seal.setter
    def seal(self, _module: ModuleType) -> None:
        return None


sys.modules[__name__].__class__ = _Package
