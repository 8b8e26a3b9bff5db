"""A server that answers as the recorded APIs of GitHub and GitLab do, and refuses what they refuse.

The real ones cannot be asked from a test. Fields, limits and status codes are those of their reference pages as read on
2026-11-30.
"""

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from endmark.core import strictjson

TOKEN = "ghs_secret_0123456789"
CONCLUSIONS = {
    "action_required", "cancelled", "failure", "neutral", "success", "skipped", "stale", "timed_out"
}  # fmt: skip


class Forge:
    """What was asked, and faults to answer with first: a status, or `drop` to close without an answer."""

    def __init__(self):
        self.asked: list[tuple[str, str, dict]] = []
        self.annotations: dict[int, list[dict]] = {}
        self.faults: list[int | str] = []
        self.url = ""


def _check_run(forge, number, body, first):
    def wrong(why):
        return 422, {"message": f"Validation Failed: {why}"}

    if first:
        if not isinstance(body.get("name"), str) or not re.fullmatch("[0-9a-f]{40}", body.get("head_sha", "")):
            return wrong("name, head_sha")
        if body.get("status") not in ("queued", "in_progress", "completed"):
            return wrong("status")
        if (body["status"] == "completed") != ("conclusion" in body) or (
            "conclusion" in body and body["conclusion"] not in CONCLUSIONS
        ):
            return wrong("conclusion")
    output = body.get("output", {})
    if not isinstance(output.get("title"), str) or not isinstance(output.get("summary"), str):
        return wrong("output")
    if len(output["summary"]) > 65535 or len(output.get("annotations", [])) > 50:
        return wrong("output too long")
    for note in output.get("annotations", []):
        if {"path", "start_line", "end_line", "annotation_level", "message"} - note.keys():
            return wrong("annotation")
        if note["annotation_level"] not in ("notice", "warning", "failure") or type(note["start_line"]) is not int:
            return wrong("annotation level")
        if len(note["message"].encode()) > 64 * 1024:
            return wrong("message")
    forge.annotations.setdefault(number, []).extend(output.get("annotations", []))
    return (201 if first else 200), {"id": number, "head_sha": body.get("head_sha"), "status": body.get("status")}


def _status(body):
    if body.get("state") not in ("pending", "running", "success", "failed", "canceled", "skipped"):
        return 400, {"message": "state does not have a valid value"}
    if len(body.get("description", "")) > 255:
        return 400, {"message": {"description": ["is too long (maximum is 255 characters)"]}}
    return 201, {"id": 93, "status": body["state"], "name": body.get("name", "default")}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def _forge(self):
        assert isinstance(self.server, _Server)
        return self.server.forge

    def log_message(self, *_):
        pass

    def _answer(self):
        forge = self._forge
        body = strictjson.loads(self.rfile.read(int(self.headers["Content-Length"])))
        forge.asked.append((self.command, self.path, body))
        fault = forge.faults.pop(0) if forge.faults else None
        if fault == "drop":
            self.close_connection = True
            return
        status, answer = (fault, {"message": "no \x1b[31mluck"}) if fault else self._route(body)
        raw = json.dumps(answer).encode() if fault != 200 else b"<html>"
        self.send_response(status)
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _route(self, body):
        forge = self._forge
        if self.path.startswith("/repos/"):
            if self.headers["Authorization"] != f"Bearer {TOKEN}":
                return 401, {"message": "Bad credentials"}
            if self.command == "POST" and re.fullmatch("/repos/[^/]+/[^/]+/check-runs", self.path):
                return _check_run(forge, 4 + len(forge.annotations), body, True)
            if self.command == "PATCH" and (run := re.fullmatch(r"/repos/[^/]+/[^/]+/check-runs/(\d+)", self.path)):
                return _check_run(forge, int(run[1]), body, False)
        if TOKEN in (self.headers["PRIVATE-TOKEN"], self.headers["JOB-TOKEN"]) and re.fullmatch(
            r"/projects/(\d+|[^/]+%2F[^/]+)/statuses/[0-9a-f]{40}", self.path
        ):
            return _status(body)
        return 404, {"message": "Not Found"}

    do_POST = do_PATCH = _answer  # noqa: N815  # the names that http.server looks for


class _Server(ThreadingHTTPServer):
    def __init__(self, forge):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.forge = forge


@contextmanager
def forge():
    """A running server on a free port of this machine."""
    made = Forge()
    server = _Server(made)
    made.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
