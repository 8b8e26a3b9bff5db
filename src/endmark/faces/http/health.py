"""Whether the service lives, and whether it can do its work."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from endmark.core.refusal import CannotTry
from endmark.faces.http import openapi
from endmark.faces.http.problems import document
from endmark.faces.http.service import Service


def router(service: Service) -> APIRouter:
    """The routes of this file: nobody needs a token for them, and they say nothing of any job."""
    routes = APIRouter()

    @routes.get("/healthz", **openapi.HEALTH)
    async def healthz(request: Request) -> Response:  # H30
        return document({"status": "alive"})

    @routes.get("/readyz", **openapi.READY)
    async def readyz(request: Request) -> Response:  # H31
        checks = {
            "ledger": await _ledger(service),
            "writer": service.writer.alive,
            "worker": service.worker is None or service.worker.alive,
            "targets": bool(service.places or service.desk.names) and not service.unusable,
            "taking": not service.ending,
        }
        ready = all(checks.values())
        return document({"status": "ready" if ready else "not ready", "checks": checks}, 200 if ready else 503)

    return routes


async def _ledger(service: Service) -> bool:
    try:
        await service.read(lambda ledger: ledger.page(1))
    except CannotTry:
        return False
    return service.ledger.stands()
