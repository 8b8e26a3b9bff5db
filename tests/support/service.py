"""A real service on loopback, in a thread of this process, and a client of raw sockets that can break what it sends."""

import asyncio
import os
import socket
import struct
import threading
import time
from contextlib import contextmanager
from typing import NamedTuple

from tests.support.world import dump, make_database, plan_bytes

from endmark.core import mc1, strictjson
from endmark.faces import config
from endmark.faces.http.server import Server, listen
from endmark.faces.http.service import Service
from endmark.faces.http.settings import settings_of
from endmark.ledger.book import Ledger
from endmark.ledger.tokens import Tokens

PATIENCE = 20.0  # seconds that a test waits for an answer
TOML = """\
[targets.prod]
url = "sqlite:///{0}/prod.db"
[targets.other]
url = "sqlite:///{0}/other.db"
[targets.auto]
url = "sqlite:///{0}/auto.db"
review = "none"
backup = "none"
"""


class Answer(NamedTuple):
    status: int
    headers: dict
    body: bytes

    @property
    def json(self):
        return strictjson.loads(self.body)


class Served:
    """A running service; `folder` holds its targets and its ledger."""

    def __init__(self, folder, service, address, server):
        self.server = server
        self.folder = folder
        self.service = service
        self.address = address
        self.token = None

    def connect(self):
        return socket.create_connection(self.address, timeout=PATIENCE)

    def head(self, method, path, *fields):
        lines = [f"{method} {path} HTTP/1.1", f"Host: 127.0.0.1:{self.address[1]}", *fields]
        if self.token is not None:
            lines.append(f"Authorization: Bearer {self.token}")
        return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n"

    def ask(self, method, path, body=None, *fields, token=None):
        """One whole request on a connection of its own."""
        if token is not None:
            fields = (*fields, f"Authorization: Bearer {token}")
        if body is not None:
            fields = (*fields, f"Content-Length: {len(body)}")
        with self.connect() as wire:
            wire.sendall(self.head(method, path, "Connection: close", *fields) + (body or b""))
            return answer_in(everything(wire))

    def submit(self, body, *fields, target="prod", **how):
        return self.ask("POST", f"/v1/jobs?target={target}", body, *fields, **how)

    def attempts(self):
        with Ledger.open(self.folder / "ledger.db", create=False) as ledger:
            assert ledger.verify().problems == ()
            return [(entry.state.value, entry.signal.value, entry.received_bytes) for entry in ledger.page(1000)][::-1]

    def world(self):
        """Everything that stands in the targets."""
        return {name: dump(self.folder / f"{name}.db") for name in ("prod", "other", "auto")}

    def until(self, holds):
        """Wait until something holds that no answer tells of."""
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end
            threading.Event().wait(0.02)

    def make_token(self, name, *scopes, **limits):
        with Ledger.open(self.service.config.ledger, create=False) as ledger:
            tokens = Tokens(ledger)
            return tokens.create(name, scopes, self.service.clock(), created_by="test", chance=os.urandom, **limits)[0]


def everything(wire):
    """All that comes until the other side closes."""
    parts = []
    try:
        while part := wire.recv(65536):
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def answer_in(raw):
    """The first answer in these bytes, or None for no answer at all."""
    if not raw:
        return None
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if fields.get("transfer-encoding") == "chunked":
        body = _unchunked(body)
    return Answer(int(lines[0].split()[1]), fields, body)


def _unchunked(raw):
    found = b""
    while raw:
        size, _, raw = raw.partition(b"\r\n")
        found, raw = found + raw[: int(size, 16)], raw[int(size, 16) + 2 :]
    return found


def reset(wire):
    """End a connection by RST."""
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


def envelope(job_id, statements=("CREATE TABLE made (id INTEGER)",), **more):
    return mc1.seal(plan_bytes(job_id, list(statements), **more))


@contextmanager
def served(folder, *, toml=TOML, ledger=None, traces=None, **flags):
    """A service over `folder`, until the block is left; then it was drained."""
    for name in ("prod", "other", "auto"):
        if not (folder / f"{name}.db").exists():
            make_database(folder / f"{name}.db")
    (folder / "endmark.toml").write_text(toml.format(folder))
    found = config.load(str(ledger or folder / "ledger.db"), str(folder / "endmark.toml"), {})
    flags = {"worker": False, "rate": 1e6, "burst": 10_000_000, "drain_timeout": 5.0} | flags
    service = Service(found, settings_of(found, port=0, **flags), traces=traces)
    began = threading.Event()
    with listen("127.0.0.1", 0) as listener:
        address = listener.getsockname()
        server = Server(service, listener, lambda _address: began.set())
        faults = []

        def run():
            try:
                asyncio.run(server.serve([listener]))
            except BaseException as fault:  # noqa: BLE001  # said by the test, not by a thread
                faults.append(fault)
            finally:
                began.set()

        thread = threading.Thread(target=run)
        thread.start()
        try:
            assert began.wait(PATIENCE)
            if faults:
                raise faults[0]
            yield Served(folder, service, address, server)
        finally:
            server.should_exit = True
            thread.join(PATIENCE)
    assert not thread.is_alive()
    assert faults == []
