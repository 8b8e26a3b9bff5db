"""What every test stands on: nothing of the user's own state, and the same examples on every machine."""

import os
import signal

import pytest
from hypothesis import settings

pytest_plugins = ["tests.support.servers"]

settings.register_profile("ci", derandomize=True, deadline=None, database=None, max_examples=100)
settings.register_profile("soak", deadline=None, database=None, max_examples=10_000, print_blob=True)
settings.load_profile("ci")

# A shell starts what it puts into the background with these ignored, and every program started here would inherit that.
for _number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number is signal.SIGINT else signal.SIG_DFL)

# What a shell, an agent's host, git or a CI system may hand down and a test must not see.
_PREFIXES = ("ENDMARK_", "GIT_", "CLAUDE", "CODEX_")
_NAMES = ("AI_AGENT", "CI", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "LINES", "COLUMNS")


@pytest.hookimpl(optionalhook=True)  # the mutation tool runs without xdist
def pytest_xdist_auto_num_workers():
    """One more than there are processors: tests wait for servers, for git and for programs they start."""
    return (os.cpu_count() or 1) + 1


@pytest.fixture(autouse=True)
def _own_world(monkeypatch, tmp_path_factory):
    """A home of its own for every test, so that no test reads or writes the user's ledger or configuration."""
    for name in list(os.environ):
        if name.startswith(_PREFIXES) or name in _NAMES:
            monkeypatch.delenv(name)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")


@pytest.fixture(autouse=True)
def _umask_stays():
    """What one test leaves behind in its process would be what the next one stands on."""
    before = os.umask(0o022)
    os.umask(before)
    yield
    after = os.umask(before)
    assert after == before, f"the test left the umask at {after:04o}"
