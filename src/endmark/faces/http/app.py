"""The application: every router on one line, and every error as a problem document."""

from __future__ import annotations

import sys
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException

from endmark import __version__
from endmark.core.outcome import Outcome
from endmark.core.refusal import CannotTry, NotYours, Refused
from endmark.faces.http import body as bodies
from endmark.faces.http import health, jobs, metrics, openapi, patches
from endmark.faces.http.direct import Answering, Direct
from endmark.faces.http.log import RequestIds
from endmark.faces.http.problems import Problem, nack, not_tried
from endmark.faces.http.service import Service
from endmark.faces.pages import problems
from endmark.faces.pages import routes as pages

# One line each; what a router needs is in the service.
ROUTERS: tuple[Callable[[Service], APIRouter], ...] = (
    jobs.router,
    patches.router,
    health.router,
    pages.router,
    metrics.router,
)

_SAFE = {
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
}


def make_app(service: Service) -> FastAPI:
    """The application over one service, which starts and stops with it. There are no pages of documentation: what they
    show would come from elsewhere; `/openapi.json` is there."""

    @asynccontextmanager
    async def life(_app: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(
        title="endmark",
        version=__version__,
        summary="Nothing an AI agent emits changes a database or a branch until its bytes are proven to have arrived "
        "whole.",
        docs_url=None,
        redoc_url=None,
        lifespan=life,
        redirect_slashes=False,
    )
    app.state.service = service
    faults: dict[type[Exception], Answering] = {
        Problem: _problem,
        CannotTry: _cannot_try,
        Refused: _refused,
        HTTPException: _http,
    }
    app.add_middleware(Direct, handlers={("POST", "/v1/jobs"): jobs.submitting(service)}, faults=faults)
    app.add_middleware(RequestIds)
    if service.traces is not None:
        app.add_middleware(service.traces.around)
    for router in ROUTERS:
        app.include_router(router(service))
    for kind, answering in faults.items():
        app.add_exception_handler(kind, answering)
    app.add_exception_handler(Exception, _our_fault)
    app.openapi = lambda: _described(app)  # type: ignore[method-assign]  # FastAPI's own way to change it
    return app


def _described(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        found = FastAPI.openapi(app)
        for path in found["paths"].values():
            for method in path.values():
                _only_ours(method["responses"])
        found["components"] = {"securitySchemes": openapi.SECURITY}
        app.openapi_schema = found
    return app.openapi_schema


def _only_ours(responses: dict[str, Any]) -> None:
    """FastAPI adds answers by itself: for what it validates, which is nothing here, and a 200 without content."""
    responses.get("422", {}).get("content", {}).pop("application/json", None)
    for status in [status for status, said in responses.items() if not said.get("content")]:
        del responses[status]


async def _problem(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, Problem)  # noqa: S101  # what it is registered for
    service: Service = request.app.state.service
    service.answered(fault, request.url.path)
    if "connection" in fault.headers:
        await bodies.drain(request)
    if problems.wants_page(request):
        return problems.as_page(request, fault)
    response = fault.response(request.url.path)
    response.headers.update(_SAFE)
    return response


async def _cannot_try(request: Request, fault: Exception) -> Response:
    detail = fault.detail if isinstance(fault, CannotTry) else str(fault)
    word = "forbidden" if isinstance(fault, NotYours) else "could-not-try"
    return await _problem(request, not_tried(word, detail if detail.endswith(".") else f"{detail}."))


async def _refused(request: Request, fault: Exception) -> Response:
    if isinstance(fault, Refused) and isinstance(fault.outcome, Outcome):
        return await _problem(request, nack(fault.outcome))
    return await _problem(request, not_tried("usage", f"{fault}. Nothing was done."))


async def _http(request: Request, fault: Exception) -> Response:
    assert isinstance(fault, HTTPException)  # noqa: S101  # what it is registered for
    word = {404: "not-found", 405: "method-not-allowed"}.get(fault.status_code, "usage")
    return await _problem(request, not_tried(word, f"{fault.detail}. Nothing was done.", headers=fault.headers))


async def _our_fault(request: Request, fault: Exception) -> Response:
    service: Service = request.app.state.service
    # Where it happened, and not what it said: that may hold what arrived.
    said = f"{''.join(traceback.format_tb(fault.__traceback__))}{type(fault).__name__}\n"
    if service.log is not None:
        service.log("our-fault", path=request.url.path, trace=said)
    else:
        sys.stderr.write(said)
    detail = f"{type(fault).__name__}: this is a mistake in endmark. What was acknowledged before stands."
    return await _problem(request, not_tried("our-fault", detail, close=True))
