"""A TCP relay before a real server, which loses a connection at a chosen moment."""

import contextlib
import select
import socket
import threading

from psycopg.conninfo import conninfo_to_dict

_COMMIT = b"COMMIT\0"


class Relay:
    """Passes bytes both ways. The `commit`th time the gate says COMMIT it is passed on, or not, and the gate's side of
    the connection is dropped; the server's side stays until it has answered. `swallow`: from these bytes on nothing
    that the gate says reaches the server."""

    def __init__(self, url, passes=True, swallow=None, commit=1):
        known = conninfo_to_dict(url)
        self._server = (str(known["host"]), int(str(known["port"])))
        self._passes, self._swallow, self._commits = passes, swallow, commit
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = f"postgresql://{known['user']}:p%C3%A4ssword@127.0.0.1:{port}/{known['dbname']}?sslmode=disable"
        self.dropped = 0
        self._open = True
        self._threads = [threading.Thread(target=self._accept)]

    def __enter__(self):
        self._threads[0].start()
        return self

    def __exit__(self, *_):
        self._open = False
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self):
        while self._open:
            if select.select([self._listener], [], [], 0.02)[0]:
                client = self._listener.accept()[0]
                thread = threading.Thread(target=self._serve, args=[client])
                self._threads.append(thread)
                thread.start()

    def _serve(self, client):
        with client, socket.create_connection(self._server) as server, contextlib.suppress(OSError):
            deaf = False
            while self._open:
                ready = select.select([client, server], [], [], 0.02)[0]
                if client in ready:
                    said = client.recv(65536)
                    if not said:
                        return
                    if self._swallow is not None and self._swallow in said:
                        deaf = True
                    self._commits -= _COMMIT in said
                    if _COMMIT in said and not self._commits and self._swallow is None:
                        self.dropped = 1
                        if self._passes:
                            server.sendall(said)
                        client.shutdown(socket.SHUT_RDWR)
                        client.close()
                        if self._passes:
                            server.recv(65536)
                        return
                    if not deaf:
                        server.sendall(said)
                if server in ready:
                    answer = server.recv(65536)
                    if not answer:
                        return
                    client.sendall(answer)
