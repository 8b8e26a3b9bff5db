"""Where the program starts. A host's hook is answered even if nothing else here can be imported.

Hosts let a tool run after every exit code but 0 and 2 (docs/agent-hosts.md), so an error of ours has to be a 2.
"""

import gc
import os
import sys
from typing import NoReturn

HOSTS = ("claude", "codex")
LET_THROUGH, BLOCKED = 0, 2
_PATIENCE = 20  # seconds for everything; the ready settings give a hook 30
_AT_LAST = "endmark: the hook itself failed, so nothing is let through. A person looks into it: endmark doctor.\n"


def main() -> NoReturn:
    """The `endmark` program."""
    words = sys.argv[1:]
    if len(words) > 1 and words[0] == "hook" and words[1] in HOSTS and not {"-h", "--help"} & set(words):
        hook(words[1], words[2:])
    _load_fast()
    from endmark.faces.cli import main as command_line

    command_line()


def _load_fast() -> None:
    """Load msgspec without `typing_extensions`, which it looks for, takes `typing` without, and is slow to load.

    Whoever else asks for it later gets it.
    """
    name = "typing_extensions"
    if name in sys.modules:
        return
    was_enabled = gc.isenabled()
    gc.disable()  # imports make many objects and no garbage
    sys.modules[name] = None  # type: ignore[assignment]  # so says the import system that there is none
    try:
        import click  # noqa: F401
        import msgspec  # noqa: F401
    except ImportError:  # said by whoever needs it
        pass
    finally:
        del sys.modules[name]
        if was_enabled:
            gc.enable()


def hook(host: str, words: list[str]) -> NoReturn:
    """Answer a host: exit code 0 to let the call through, 2 to block it, and no other."""
    code, said = BLOCKED, _AT_LAST
    try:
        _watch()
        from endmark.faces.hooks.door import answer

        said = answer(host, words, os.environ)
        code = BLOCKED if said else LET_THROUGH
    except BaseException:  # noqa: BLE001, S110  # whatever it is, it is no permission
        pass
    _leave(code, said)


def _watch() -> None:
    import signal

    for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGALRM"):
        signal.signal(getattr(signal, name), lambda _number, _frame: _leave(BLOCKED, _AT_LAST))
    signal.alarm(_PATIENCE)


def _leave(code: int, said: str) -> NoReturn:
    """End at once: nothing is left that could fail, and change the exit code, on the way out."""
    try:
        rest = said.encode("utf-8", "backslashreplace")
        while rest:
            rest = rest[os.write(2, rest) :]
    except BaseException:  # noqa: BLE001, S110  # nobody reads it
        pass
    finally:
        os._exit(code)
