"""git's own servers on loopback: the daemon, and its program for HTTP behind a small one."""

import os
import socket
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.effects.git.repos import PLAIN


def core():
    """The folder of git's own programs."""
    return Path(subprocess.run(["git", "--exec-path"], capture_output=True, check=True).stdout.decode().strip())


@contextmanager
def daemon(folder):
    """`git daemon` over the repositories in `folder`; gives the address of that folder."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [core() / "git-daemon", "--listen=127.0.0.1", f"--port={port}", "--export-all", "--reuseaddr"]
    command += ["--enable=receive-pack", "--informative-errors", "--verbose", "--log-destination=stderr"]
    with subprocess.Popen([*command, f"--base-path={folder}"], stderr=subprocess.PIPE, env=PLAIN) as process:
        log = process.stderr
        assert log is not None
        try:
            line = b""
            while b"Ready to rumble" not in line:
                line = log.readline()
                assert line, "git daemon ended"
            drain = threading.Thread(target=log.read)
            drain.start()
            yield f"git://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()
            drain.join()


class _Backend(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    folder = ""

    def log_message(self, *_):
        pass

    def do_GET(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        path, _, query = self.path.partition("?")
        env = PLAIN | {
            "GIT_PROJECT_ROOT": self.folder,
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "somebody",
            "REMOTE_ADDR": "127.0.0.1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        done = subprocess.run([core() / "git-http-backend"], input=body, capture_output=True, env=env)
        head, _, rest = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.decode().split(": ", 1) for line in head.split(b"\r\n") if line)
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest)

    def do_POST(self):
        self.do_GET()


@contextmanager
def http(folder):
    """`git http-backend` over the repositories in `folder`; gives the address of that folder."""
    over = type("Over", (_Backend,), {"folder": os.fspath(folder)})
    server = ThreadingHTTPServer(("127.0.0.1", 0), over)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def path(folder):
    yield os.fspath(folder)


ROADS = {"path": path, "daemon": daemon, "http": http}
PROGRAMS = {"path": "git-receive-pack", "daemon": "git-daemon", "http": "git-http-backend"}
