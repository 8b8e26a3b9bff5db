"""A small HTTP/2 server without TLS (prior knowledge), for the three ways in which a stream can end."""

import socket
import threading
from contextlib import contextmanager, suppress

import h2.config
import h2.connection
import h2.events

END_STREAM, RST_STREAM, GOAWAY, WRONG_LENGTH = "end-stream", "rst-stream", "goaway", "wrong-length"


@contextmanager
def serving_h2(body, ending, encoding=None):
    """Answers every request with `body` in small frames, ended in this way. Yields the URL."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def answer(connection, stream, sock):
        headers = [(":status", "200"), ("content-type", "text/event-stream")]
        if ending == WRONG_LENGTH:
            headers.append(("content-length", str(len(body) + 5)))
        connection.send_headers(stream, headers)
        if ending == WRONG_LENGTH:  # seen before the fault is: both in one read, and there is no response at all
            sock.sendall(connection.data_to_send())
            stop.wait(0.1)
        for at in range(0, len(body), 500):
            connection.send_data(stream, body[at : at + 500])
        if ending in (END_STREAM, WRONG_LENGTH):
            sock.sendall(connection.data_to_send())
            # By hand: the library does not let a server end a stream whose length is wrong.
            sock.sendall(b"\x00\x00\x00\x00\x01" + stream.to_bytes(4, "big"))
            return True
        if ending == RST_STREAM:
            connection.reset_stream(stream, 2)
        else:
            connection.close_connection(2, last_stream_id=0)
        sock.sendall(connection.data_to_send())
        return ending == RST_STREAM

    def serve(sock):
        connection = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        connection.initiate_connection()
        sock.sendall(connection.data_to_send())
        with sock:
            while data := sock.recv(65536):
                for event in connection.receive_data(data):
                    if isinstance(event, h2.events.StreamEnded) and not answer(connection, event.stream_id, sock):
                        return
                sock.sendall(connection.data_to_send())

    def accept():
        while not stop.is_set():
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            sock.settimeout(10)
            threading.Thread(target=quietly, args=(sock,), daemon=True).start()

    def quietly(sock):
        with suppress(OSError):
            serve(sock)

    thread = threading.Thread(target=accept, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(5)
