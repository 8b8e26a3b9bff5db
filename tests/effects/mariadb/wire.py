"""A server that says it is one we do not have: a fake, for no MySQL server can be installed where these tests run.

It speaks as much of the protocol as a client needs to ask who is there, and keeps every question.
"""

import socketserver
import threading
from contextlib import contextmanager
from typing import Any

OK = b"\x00\x00\x00\x02\x00\x00\x00"
_EOF = b"\xfe\x00\x00\x02\x00"
_COLUMN = b"\x0c\x2d\x00\xff\x00\x00\x00\xfd\x00\x00\x00\x00\x00"  # utf8mb4, 255 bytes, VAR_STRING
_DENIED = b"\xff\x48\x04#HY000a fake says no"


def _text(value):
    raw = value.encode()
    return bytes([len(raw)]) + raw


def _greeting(version):
    """Protocol 10, as MySQL documents it: 8.0 with mysql_native_password."""
    can = 0x0008_A20D | 0x0000_F000
    low, high = (can & 0xFFFF).to_bytes(2, "little"), (can >> 16).to_bytes(2, "little")
    head = b"\x0a" + version.encode() + b"\x00" + (7).to_bytes(4, "little") + b"12345678\x00"
    return head + low + b"\x2d\x02\x00" + high + b"\x15" + b"\x00" * 10 + b"123456789012\x00mysql_native_password\x00"


class _Talk(socketserver.StreamRequestHandler):
    server: Any

    def handle(self):
        self._send(0, _greeting(self.server.version))
        self._read()
        self._send(2, OK)
        while (asked := self._read()) and asked[0] == 3:
            question = asked[1:].decode()
            self.server.asked.append(question)
            if question.upper().startswith("SET"):
                self._send(1, OK)
            elif "VERSION()" in question:
                self._answer([self.server.version, self.server.comment, "h", "3306", "/d/", "16777216", "shop"])
            else:
                self._send(1, _DENIED)

    def _answer(self, row):
        column = _text("def") + _text("") * 3 + _text("x") * 2 + _COLUMN
        packets = [bytes([len(row)]), *[column] * len(row), _EOF, b"".join(map(_text, row)), _EOF]
        for number, packet in enumerate(packets, 1):
            self._send(number, packet)

    def _send(self, number, payload):
        self.wfile.write(len(payload).to_bytes(3, "little") + bytes([number]) + payload)

    def _read(self):
        head = self.rfile.read(4)
        return self.rfile.read(int.from_bytes(head[:3], "little")) if len(head) == 4 else b""


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    version = comment = ""
    asked: list[str]


@contextmanager
def saying(version, comment):
    """The fake, at (port, questions asked)."""
    with _Server(("127.0.0.1", 0), _Talk) as server:
        server.version, server.comment, server.asked = version, comment, []
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server.server_address[1], server.asked
        finally:
            server.shutdown()
            thread.join()
