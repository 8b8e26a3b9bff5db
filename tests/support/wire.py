"""A way to a real server that can be broken: everything passes through, until it is told what to cut."""

import socket
import threading
from contextlib import suppress


class Wire:
    """Listens on a port of its own and passes on. Each connection is a pair of threads, ended with the sockets.

    `cut(direction, marker, late=...)` breaks the connection in which `marker` next passes in that direction ("up": to
    the server), before the bytes go on, or with `late` right after. `refuse` lets no new connection through.
    """

    def __init__(self, host, port):
        self._to = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._cut = None
        self._left = None
        self._flows = threading.Event()
        self._flows.set()
        self._open: list[socket.socket] = []
        self._refusing = False
        self.fired = 0
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._flows.set()
        self.break_all()
        for thread in self._threads:
            thread.join(10)

    def cut(self, direction, marker, *, late=False, refuse=False):
        with self._lock:
            self._cut = (direction, marker, late, refuse)

    def cut_after(self, direction, count):
        """Break the connection in which so many more bytes have passed in that direction; the last ones still pass."""
        with self._lock:
            self._left = None if count is None else (direction, count)

    def hold(self, holding=True):
        """Let nothing pass, and close nothing."""
        (self._flows.clear if holding else self._flows.set)()

    def refuse(self, refusing=True):
        self._refusing = refusing

    def break_all(self):
        with self._lock:
            for end in self._open:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
            self._open.clear()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                client.close()
                continue
            server = socket.create_connection(self._to)
            with self._lock:
                self._open += [client, server]
            for direction, source, sink in (("up", client, server), ("down", server, client)):
                thread = threading.Thread(target=self._pass, args=(direction, source, sink))
                self._threads.append(thread)
                thread.start()

    def _counted(self, direction, data):
        """What may still pass, and whether that was the last."""
        with self._lock:
            if self._left is None or self._left[0] != direction:
                return data, False
            count = self._left[1]
            if len(data) < count:
                self._left = (direction, count - len(data))
                return data, False
            self._left = None
            self.fired += 1
            return data[:count], True

    def _pass(self, direction, source, sink):
        with suppress(OSError):
            while data := source.recv(65536):
                self._flows.wait()
                data, ends = self._counted(direction, data)
                with self._lock:
                    due = self._cut is not None and self._cut[0] == direction and self._cut[1] in data
                    late = due and self._cut is not None and self._cut[2]
                    if due:
                        self._refusing = self._cut is not None and self._cut[3]
                        self._cut = None
                        self.fired += 1
                if due and not late:
                    break
                sink.sendall(data)
                if due or ends:
                    break
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
