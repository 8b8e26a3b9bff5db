"""OpenTelemetry traces: a span a request and one for each step of a delivery. Nothing here is imported without them.

No span holds a body, a statement, a header, a query or a token; `detail`, which may quote what arrived, is in none.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Link, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from endmark import __version__
from endmark.core.outcome import Outcome
from endmark.faces.http.direct import ROUTE
from endmark.faces.http.log import told

_REMEMBERED = 10_000  # submits whose trace an apply in this process is linked to
_PROPAGATOR = TraceContextTextMapPropagator()  # W3C
_WELL = frozenset({"staged", "approved", "applied"})


class Traces:
    """The spans of one service. Safe from any thread."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("endmark", __version__)
        self._submits: OrderedDict[str, SpanContext] = OrderedDict()

    @classmethod
    def by_environment(cls, environ: Mapping[str, str]) -> Traces:
        """To the collector that the standard OTEL_* variables name, in batches, by OTLP over HTTP."""
        named = "OTEL_SERVICE_NAME" in environ or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        provider = TracerProvider(resource=Resource.create({} if named else {"service.name": "endmark"}))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return cls(provider)

    def stop(self) -> None:
        """Send what waits. It takes as long as OTEL_EXPORTER_OTLP_TIMEOUT lets it."""
        self._provider.shutdown()

    def delivered(self, target: str, outcome: Outcome, began: int, proven: int) -> None:
        """The steps of a delivery, under the request's span; times in nanoseconds since 1970."""
        request = trace.get_current_span()
        arrived = getattr(request, "start_time", None) or began
        sizes = {"received_bytes": outcome.received_bytes, "expected_bytes": outcome.expected_bytes}
        self._step("endmark.received", arrived, began, sizes)
        self._step("endmark.proven", began, proven, {"signal": outcome.signal, **sizes})
        facts = {"target": target, **told(outcome)}
        well = outcome.state in _WELL
        self._step("endmark.staged" if well else "endmark.refused", proven, time.time_ns(), facts, well=well)
        if well and outcome.attempt_id is not None and request.get_span_context().is_valid:
            self._submits.setdefault(outcome.attempt_id, request.get_span_context())
            if len(self._submits) > _REMEMBERED:
                self._submits.popitem(last=False)

    def ran(self, target: str, outcome: Outcome | None, seconds: float) -> None:
        """The worker in this process ran a job: a trace of its own, linked to that of the submit where it was here."""
        end = time.time_ns()
        facts: dict[str, Any] = {"target": target}
        links = []
        if outcome is not None:
            facts |= {**told(outcome), "statements_run": outcome.statements_run}
            submit = self._submits.pop(outcome.attempt_id or "", None)
            links = [] if submit is None else [Link(submit)]
        well = outcome is not None and outcome.state in _WELL
        span = self._tracer.start_span(
            "endmark.apply",
            context.Context(),
            start_time=end - round(seconds * 1e9),
            attributes=_named(facts),
            links=links,
        )
        self._end(span, end, well)

    def _step(self, name: str, began: int, ended: int, facts: Mapping[str, Any], *, well: bool = True) -> None:
        self._end(self._tracer.start_span(name, start_time=began, attributes=_named(facts)), ended, well)

    def _end(self, span: trace.Span, at: int, well: bool) -> None:
        if not well:
            span.set_status(Status(StatusCode.ERROR))
        span.end(at)

    def around(self, app: ASGIApp) -> ASGIApp:
        """The application, with a span around each request."""
        return _Spans(app, self._tracer)


class _Spans:
    def __init__(self, app: ASGIApp, tracer: trace.Tracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        above = _PROPAGATOR.extract({name: given[name] for name in ("traceparent", "tracestate") if name in given})
        method = scope["method"]
        span = self._tracer.start_span(method, above, SpanKind.SERVER, {"http.request.method": method})

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                status = message["status"]
                span.set_attribute("http.response.status_code", status)
                route = scope.get(ROUTE) or getattr(scope.get("route"), "path", None)  # as in the code: no id is in it
                if route is not None:
                    span.set_attribute("http.route", route)
                    span.update_name(f"{method} {route}")
                if status >= 500:
                    span.set_status(Status(StatusCode.ERROR))
            await send(message)

        token = context.attach(trace.set_span_in_context(span))
        try:
            await self._app(scope, receive, answer)
        finally:
            context.detach(token)
            span.end()


def _named(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {f"endmark.{key}": value for key, value in facts.items() if value is not None}
