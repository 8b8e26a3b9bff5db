"""The figures of one worker process, for Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from endmark.core.refusal import CannotTry

if TYPE_CHECKING:
    from endmark.faces.http.figures import Figures

NEEDS_PROMETHEUS = (
    "--metrics needs prometheus-client, which is not installed. Nothing was done; "
    "pip install 'endmark[server]' brings it."
)


class Metrics:
    """What the worker counts, for targets of these names, and where. Raises CannotTry without the extra."""

    def __init__(self, targets: Iterable[str], host: str, port: int) -> None:
        try:
            from endmark.faces.http.figures import Figures
        except ImportError:
            raise CannotTry(NEEDS_PROMETHEUS) from None
        self.figures: Figures = Figures(targets)
        self._host, self._port = host, port

    @contextmanager
    def served(self) -> Iterator[str]:
        """The address, for as long as the block lasts. Raises CannotTry where nothing can listen there."""
        from prometheus_client import start_http_server

        try:
            server, thread = start_http_server(self._port, self._host, self.figures.registry)
        except OSError as fault:
            said = f"cannot listen on {self._host} port {self._port}: {fault.strerror or fault}"
            raise CannotTry(f"{said}. Nothing was done.") from None
        host, port = server.server_address[:2]
        shown = host.decode() if isinstance(host, bytes) else str(host)
        try:
            yield f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()
