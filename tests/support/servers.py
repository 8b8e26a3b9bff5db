"""The database servers that tests run against: real ones, found, started or installed.

One server for a test session, shared by all workers; each test has a database of its own. In this order: one that runs
(`ENDMARK_TEST_POSTGRES` names its administrator's URL, else 127.0.0.1:5432 is asked), a private one started from
installed programs, one that is installed first (Debian, as root). Where there is none, the tests are skipped, and the
summary says loudly what was not tested.
"""

import fcntl
import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from endmark.core import strictjson

_FOLDER = "_TEST_SERVERS"  # the environment's name for the folder that all workers share
_GIVEN = {name: os.environ.get(f"ENDMARK_TEST_{name.upper()}") for name in ("postgres", "mariadb", "chromium")}
_NOT_TESTED = "not tested: "


class Server(NamedTuple):
    """Where a server listens, and who may do everything there. `stop` ends it where it is ours: a command."""

    url: str
    stop: list[str]
    folder: str | None


class NoServer(Exception):
    """No server can be had, and why."""


def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="endmark-servers-")


def pytest_sessionfinish(session):
    """Only what was started here is ended, by whoever started it all."""
    if hasattr(session.config, "workerinput"):
        return
    folder = Path(os.environ.pop(_FOLDER))
    for note in folder.glob("*.json"):
        server = _read(note)
        if server.stop:
            subprocess.run(server.stop, check=False, capture_output=True, timeout=60)
        if server.folder:
            shutil.rmtree(server.folder, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)


def pytest_terminal_summary(terminalreporter):
    reasons = [
        report.longrepr[2].partition(_NOT_TESTED)[2]
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and _NOT_TESTED in report.longrepr[2]
    ]
    for reason in sorted(set(reasons)):
        terminalreporter.section("NOT TESTED", sep="!", red=True, bold=True)
        terminalreporter.write_line(f"{reasons.count(reason)} tests did not run: {reason}", red=True, bold=True)


def server(name, find):
    """The server of this test session; the first worker that asks finds it. Skips the test where there is none."""
    folder = Path(os.environ[_FOLDER])
    note = folder / f"{name}.json"
    with (folder / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not note.exists():
            try:
                found = find(_GIVEN[name])
            except (NoServer, OSError, subprocess.SubprocessError) as why:
                found = Server("", [], f"{name}: {why}")
            note.write_bytes(strictjson.dumps(found._asdict()))
    found = _read(note)
    if not found.url:
        pytest.skip(f"{_NOT_TESTED}{found.folder}")
    return found


def _read(note):
    return Server(**strictjson.loads(note.read_bytes()))


# --- PostgreSQL

_PROGRAMS = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
)
_INSTALL = ["apt-get", "install", "--yes", "--no-install-recommends", "postgresql"]


def postgres():
    """A PostgreSQL server, by the URL of an administrator."""
    return server("postgres", find_postgres)


def find_postgres(given):
    if given:
        return Server(given, [], None)
    me = pwd.getpwuid(os.geteuid()).pw_name
    for user in ("postgres", me):
        url = f"postgresql://{user}@127.0.0.1:5432/postgres"
        if _administers(url):
            return Server(url, [], None)
    return start_postgres()


def _administers(url):
    import psycopg

    try:
        with psycopg.connect(url, connect_timeout=3) as conn:
            return conn.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").fetchone() == (True,)
    except psycopg.Error:
        return False


def start_postgres(*settings):
    """A private server on a free port, in a folder of its own. Raises NoServer."""
    programs = _postgres_programs()
    user = _unprivileged("postgres")
    folder = Path(tempfile.mkdtemp(prefix="endmark-postgres-"))
    port = _free_port()
    data = folder / "data"
    try:
        if user:
            shutil.chown(folder, user)
        _as(user, [programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"])
        with (data / "postgresql.conf").open("a") as conf:
            own = (f"port = {port}", "listen_addresses = '127.0.0.1'", f"unix_socket_directories = '{folder}'")
            conf.write("\n".join(["", *own, *settings, ""]))
        _as(user, [programs / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-t", "60", "start"])
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    stop = [*_command(user), str(programs / "pg_ctl"), "-D", str(data), "-m", "immediate", "stop"]
    return Server(f"postgresql://postgres@127.0.0.1:{port}/postgres", stop, str(folder))


def restart_postgres(private):
    """End a private server at once, as a power cut would, and start it again."""
    subprocess.run(private.stop, check=True, capture_output=True, timeout=60)
    start = [word for word in private.stop if word not in ("-m", "immediate", "stop")]
    subprocess.run(
        [*start, "-w", "-t", "60", "start", "-l", f"{private.folder}/log"],
        check=True,
        timeout=90,
        stdout=subprocess.DEVNULL,
    )


def _postgres_programs():
    found = shutil.which("initdb")
    if found is None and not any(glob.glob(f"{pattern}/initdb") for pattern in _PROGRAMS):
        if os.geteuid() != 0 or not shutil.which("apt-get"):
            raise NoServer("no PostgreSQL runs here and none is installed")
        done = subprocess.run(_INSTALL, capture_output=True, timeout=600, check=False)
        if done.returncode != 0:
            raise NoServer("no PostgreSQL runs here, and apt-get could not install one")
    if found is not None:
        return Path(found).resolve().parent
    return Path(max(path for pattern in _PROGRAMS for path in glob.glob(f"{pattern}/initdb"))).parent


# --- what they share


def _unprivileged(*names):
    """Servers refuse to run as root: the first of these users that exists, or nobody; None where we are not root."""
    if os.geteuid() != 0:
        return None
    for name in (*names, "nobody"):
        with suppress(KeyError):
            return pwd.getpwnam(name).pw_name
    raise NoServer("root may not run it, and there is no other user")


def _command(user):
    return ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}", "--clear-groups"] if user else []


def _as(user, command):
    try:
        subprocess.run(
            [*_command(user), *map(str, command)],
            check=True,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
        )
    except subprocess.CalledProcessError as fault:
        raise NoServer(f"{Path(str(command[0])).name} failed with {fault.returncode}") from None


def _free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def within(seconds):
    """A clock that a loop asks: `while True` in it ends with an error and not never."""
    end = time.monotonic() + seconds

    def check():
        assert time.monotonic() < end, f"it took longer than {seconds} s"
        return True

    yield check
