"""A guard: an answer that is not proven whole never ends, so that no client takes it for a whole one.

It withholds the final chunk, or the last bytes of a declared length, and resets the connection. It cannot catch a
server that lies: one that cuts, closes the JSON itself and reports a normal stop.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote

from endmark.core.ending import Ending
from endmark.drills import edges
from endmark.drills.proxy import routes
from endmark.drills.proxy.exchange import Relay
from endmark.drills.proxy.heads import Answer, Framing, Request
from endmark.drills.proxy.inbound import Inbound
from endmark.drills.proxy.judge import Judge, Verdict
from endmark.drills.proxy.options import Guarding
from endmark.drills.proxy.record import Record
from endmark.sources import asked
from endmark.sources.asked import Asked

if TYPE_CHECKING:
    from endmark.drills.proxy.server import Proxy

_LONGEST_REQUEST = 64 * 1024 * 1024  # bytes; of a longer one the caps and stops are not known


class Guard(Relay):
    """Passes what is no model's answer, judges what is one."""

    def __init__(self, proxy: "Proxy", client: Inbound, request: Request, guarding: Guarding) -> None:
        super().__init__(proxy, client, request)
        self._guarding = guarding
        self._path = unquote(request.path)  # as the upstream reads it
        self._wire = _wire(request, self._path, guarding.wire, proxy.upstream.host)
        self._may_be_judged = request.method == "POST" and (self._wire or guarding.wire) is not None
        self._asked: bytearray | None = bytearray()
        self._limits: Asked | None = None  # once the request was read
        self._judge: Judge | None = None
        self._record: Record | None = None
        self._head: Answer | None = None
        self._over = False
        self._refused = False

    @property
    def borrows(self) -> bool:
        """What is not judged; what came first is."""
        return self._head is not None and self._judge is None and not (self._over or self._refused)

    def asked(self, body: bytes) -> None:
        if not self._may_be_judged or self._asked is None:
            return
        self._asked += body
        if len(self._asked) > _LONGEST_REQUEST:
            self._asked = None

    def asked_all(self) -> None:
        """Read now, while the model thinks."""
        if self._may_be_judged:
            self._limits = asked.read(None if self._asked is None else bytes(self._asked))
            self._asked = None

    def take(self, head: Answer | None, data: bytes, ending: Ending | None) -> None:
        if self._over:
            return
        if head is not None:
            self._head = head
            self._begin(head)
        judge = self._judge
        if self._refused:
            return
        if judge is None:
            super().take(head, data, ending)
            return
        self._keep(lambda record: record.add(data))
        going_on = judge.look(data)
        if ending is None:
            self._send(head, going_on)
            judge.read()
            return
        self._over = True
        rest = self._send_short(head, going_on)
        judge.read()
        verdict = judge.verdict(ending)
        if verdict.refused is None:
            self._let_end(rest + judge.held, ending)
        else:
            self._proxy.spawn(self._client.reset())
        self._tell(judge, verdict, ending)

    def lost(self, why: str) -> None:
        if self._over:
            return
        self._over = True
        if self._judge is not None:
            self._proxy.log(f"ended early: {self._about()}, {self._judge.received:,} bytes: {why}")
        self._keep(lambda record: record.close(ending="none", passed=self._client.sent, why=why))

    def _begin(self, head: Answer) -> None:
        """What kind of answer it is."""
        if not 200 <= head.status < 300 or self._request.method == "HEAD":
            return
        if self._wire is None and head.framing is not Framing.NONE:
            self._begin_unknown(head)
        if self._wire is None:
            return
        limits = self._limits or asked.read(None)
        self._judge = Judge(self._wire, head.get(b"content-encoding"), limits, self._guarding.allow_close_delimited)
        if self._guarding.record is not None:
            try:
                self._record = Record(self._guarding.record, self._proxy.options.now())
            except OSError as fault:
                self._not_recorded(fault)
            else:
                self._record.about(self._wire, self._request, head)

    def _begin_unknown(self, head: Answer) -> None:
        """On a route that is not known as a model's: documents pass, a stream is what its route says, or refused."""
        if edges.shape_of_type(head.get(b"content-type")) not in edges.STREAMS:
            return
        route = routes.without_answer(self._request.method, self._path)
        if route is not None:
            self._proxy.log_once(f"passed unjudged, here and from now on: {route}", f", as {self._about()}")
        elif self._may_be_judged:
            self._wire = self._guarding.wire
        elif self._guarding.pass_unknown:
            self._proxy.log(f"passed unjudged: {self._about()}: the format of this stream is not known")
        else:
            self._refuse_unknown(head)

    def _refuse_unknown(self, head: Answer) -> None:
        self._over = self._refused = True
        self.drop()
        kind = head.get(b"content-type")
        self._proxy.log(f"refused: {self._about()}: a stream ({kind}) of a format that is not known")
        self._client.answer(
            502,
            f"{self._about()} is answered by a stream whose format is not known, so it cannot be judged. "
            "Nothing of it was passed on. Name the format with --wire, or pass such streams with --pass-unknown.",
        )

    def _send(self, head: Answer | None, data: bytes) -> None:
        if head is not None:
            self._client.send_head(head, data)
        else:
            self._client.send(data)

    def _send_short(self, head: Answer | None, data: bytes) -> bytes:
        """Send what may go on, short of a declared length by one byte at least. Returns what is left of it.

        Where there is nothing that could be withheld, the head waits too.
        """
        answer = self._head
        if answer is None or answer.framing is Framing.NONE or answer.length == 0:
            return data
        if answer.framing is Framing.LENGTH:
            sent = 0 if head is not None else self._client.sent
            cut = max(0, (answer.length or 0) - sent - 1)
            data, rest = data[:cut], data[cut:]
        else:
            rest = b""
        self._send(head, data)
        return rest

    def _let_end(self, rest: bytes, ending: Ending) -> None:
        if not self._client.head_sent and self._head is not None:
            self._client.send_head(self._head, rest)
        else:
            self._client.send(rest)
        if ending is Ending.CLOSED:
            self._client.hang_up()
        else:
            self._client.finish()

    def _tell(self, judge: Judge, verdict: Verdict, ending: Ending) -> None:
        what = f"{self._about()}, {judge.wire}, {judge.received:,} bytes"
        refused = verdict.refused
        if refused is None:
            self._proxy.log(f"whole: {what}")
        else:
            self._proxy.log(f"withheld: {what}: {refused.signal}: {refused.detail}")
        self._keep(lambda record: record.judged(verdict.evidence, refused))
        self._keep(lambda record: record.close(ending=ending.value, passed=self._client.sent, why=""))

    def _keep(self, write: Callable[[Record], None]) -> None:
        """A record that cannot be written is said to be missing; the answer is judged all the same."""
        if self._record is None:
            return
        try:
            write(self._record)
        except OSError as fault:
            self._not_recorded(fault)

    def _not_recorded(self, fault: OSError) -> None:
        if self._record is not None:
            self._record.drop()
            self._record = None
        self._proxy.log(f"not recorded: {self._about()}: {fault.strerror}: {self._guarding.record}")

    def _about(self) -> str:
        return f"{self._request.method} {self._request.path}"


def _wire(request: Request, path: str, named: str | None, host: str) -> str | None:
    """By the path, where it is a provider's known one. Many serve OpenAI's: there, a named one goes first."""
    found = routes.wire_of(request.method, host, path, request.query)
    if found is None or named is None:
        return found
    family = found.partition("+")[0]
    return named if family in ("openai-chat", "mistral", named.partition("+")[0]) else found
