"""Traces: what a span says and what it never says; with the real SDK, and to a stand-in for a collector."""

import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.service import envelope, served

from endmark.faces.cli import serve
from endmark.faces.http.settings import wants_traces
from endmark.faces.http.tracing import Traces

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
ABOVE = f"traceparent: 00-{TRACE}-{PARENT}-01"


@pytest.fixture
def seen():
    return InMemorySpanExporter()


@pytest.fixture
def site(tmp_path, seen):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(seen))
    with served(tmp_path, traces=Traces(provider), worker=True) as found:
        yield found


def spans(site, seen, count):
    site.until(lambda: len(seen.get_finished_spans()) >= count)
    return {span.name: span for span in seen.get_finished_spans()}


def test_a_delivery_has_a_span_for_each_step_and_its_apply_is_linked(site, seen):
    raw = envelope("traced", ["CREATE TABLE secret_name (x)"])
    said = site.submit(raw, ABOVE, "X-Secret: a-header", target="auto")
    assert said.status == 202
    found = spans(site, seen, 5)
    assert set(found) == {"POST /v1/jobs", "endmark.received", "endmark.proven", "endmark.staged", "endmark.apply"}
    request, applied = found["POST /v1/jobs"], found["endmark.apply"]
    assert f"{request.context.trace_id:032x}" == TRACE
    assert f"{request.parent.span_id:016x}" == PARENT
    assert (request.attributes["http.route"], request.attributes["http.response.status_code"]) == ("/v1/jobs", 202)
    for step in ("endmark.received", "endmark.proven", "endmark.staged"):
        assert found[step].parent.span_id == request.context.span_id
        assert found[step].attributes["endmark.received_bytes"] == len(raw)
        assert found[step].attributes["endmark.expected_bytes"] == len(raw)
        assert found[step].start_time <= found[step].end_time
    assert [link.context for link in applied.links] == [request.context]
    assert applied.parent is None
    facts = applied.attributes
    assert (facts["endmark.state"], facts["endmark.job_id"], facts["endmark.target"]) == ("applied", "traced", "auto")
    told = "".join(span.to_json() for span in found.values())
    assert not any(word in told for word in ("secret_name", "a-header", "CREATE", "127.0.0.1"))


def test_a_cut_body_is_refused_in_its_span_with_its_byte_counts(site, seen):
    raw = envelope("cut")
    assert site.submit(raw[:-40], target="auto").status == 422
    found = spans(site, seen, 4)
    assert "endmark.staged" not in found
    refused = found["endmark.refused"]
    facts = {
        key: refused.attributes[f"endmark.{key}"] for key in ("state", "signal", "received_bytes", "expected_bytes")
    }
    assert facts == {
        "state": "truncated", "signal": "body-cut", "received_bytes": len(raw) - 40, "expected_bytes": len(raw),
    }  # fmt: skip
    assert not refused.status.is_ok
    assert found["POST /v1/jobs"].attributes["http.response.status_code"] == 422


def test_no_id_and_no_unknown_path_names_a_span(site, seen):
    site.ask("GET", "/v1/jobs/a-secret-id?token=a-secret")
    site.ask("GET", "/a-secret-path")
    found = spans(site, seen, 2)
    assert set(found) == {"GET /v1/jobs/{id}", "GET"}
    assert "a-secret" not in "".join(span.to_json() for span in found.values())


class StandIn(BaseHTTPRequestHandler):
    """Takes the place of an OpenTelemetry collector: keeps what is posted, and says yes."""

    def do_POST(self):  # the name that http.server looks for
        self.server.kept.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_):
        pass


def test_spans_reach_the_collector_that_the_environment_names(tmp_path, monkeypatch):
    """The real exporter, to a stand-in for a collector on loopback; what waits is sent when the service ends."""
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as collector:
        kept: list[tuple[str, bytes]] = []
        collector.kept = kept  # type: ignore[attr-defined]
        thread = threading.Thread(target=collector.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "none")
        monkeypatch.setenv("OTEL_SERVICE_NAME", "gate")
        with served(tmp_path, traces=serve._traces()) as site:
            site.submit(envelope("sent"))
        collector.shutdown()
        thread.join()
    assert {path for path, _ in kept} == {"/v1/traces"}
    names, services = set(), set()
    for _, raw in kept:
        for one in ExportTraceServiceRequest.FromString(raw).resource_spans:
            services |= {item.value.string_value for item in one.resource.attributes if item.key == "service.name"}
            names |= {span.name for scope in one.scope_spans for span in scope.spans}
    assert services == {"gate"}
    assert {"POST /v1/jobs", "endmark.staged"} <= names


ASKED = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "x"}, False),
        (ASKED, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        (ASKED | {"OTEL_TRACES_EXPORTER": "none"}, False),
        (ASKED | {"OTEL_SDK_DISABLED": "true"}, False),
    ],
)
def test_the_standard_variables_switch_it(environ, wanted):
    assert wants_traces(environ) is wanted


def test_without_them_nothing_of_it_is_imported():
    """The API alone may be there: some framework looks for it by itself."""
    ours = "endmark.faces.http.tracing", "opentelemetry.sdk", "opentelemetry.exporter"
    code = "import sys, endmark.faces.http.server, endmark.faces.cli.serve; "
    code += f"print([m for m in {ours} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code]).strip() == b"[]"


def test_a_missing_extra_is_named(shell, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    monkeypatch.delitem(sys.modules, "endmark.faces.http.tracing")
    shell.setenv(**ASKED)
    said = shell.run("serve", "--port", "0")
    assert said.code == 20
    assert "pip install 'endmark[otel]'" in said.talk
    assert not (shell.folder / "ledger.db").exists()
