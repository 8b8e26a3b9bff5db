"""An exchange without an upstream: the body of a file answers every request."""

from endmark.core.ending import Ending
from endmark.drills.proxy.exchange import Relay
from endmark.drills.proxy.heads import Answer, Framing, Request
from endmark.drills.proxy.options import Served


class Serving:
    """Answers when the request has ended."""

    def __init__(self, request: Request, relay: Relay, served: Served) -> None:
        self._request = request
        self._relay = relay
        self._served = served

    def request_body(self, data: bytes) -> None:
        self._relay.asked(data)

    def request_end(self) -> None:
        served = self._served
        head = Answer(
            status=200,
            reason=b"OK",
            headers=[(b"Content-Type", served.content_type.encode("latin-1"))],
            framing=Framing.NONE if self._request.method == "HEAD" else Framing.LENGTH,
            length=len(served.body),
        )
        body = b"" if self._request.method == "HEAD" else served.body
        self._relay.take(head, body, Ending.LENGTH_MET)

    def download_paused(self, paused: bool) -> None:
        self._relay.paused(paused)

    def client_gone(self) -> None:
        self._relay.lost("the client has gone")
