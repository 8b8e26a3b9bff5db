"""Signing in with a token, and out."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from endmark.faces.http.service import Service
from endmark.faces.pages import forms
from endmark.faces.pages.paper import gone_to, page
from endmark.faces.pages.sessions import COOKIE, Sessions, check_form, check_origin, keep, visit, with_token


def add(routes: APIRouter, service: Service, sessions: Sessions) -> None:
    """The routes of this file."""

    @routes.get("/sign-in")
    async def ask(request: Request) -> Response:
        onward = _ours(request.query_params.get("next", "/"))
        return page("sign_in.html", None, detail="", onward=onward, again=False)

    @routes.post("/sign-in")
    async def sign_in(request: Request) -> Response:
        check_origin(request)
        sent = await forms.read(request)
        secret = sent.get("token", "").strip()
        await service.identify(with_token(request, secret))
        former = sessions.of(request)
        if former is not None:
            sessions.end(former)
        response = gone_to(_ours(sent.get("next", "/")))
        keep(response, request, sessions.begin(secret))
        return response

    @routes.post("/sign-out")
    async def sign_out(request: Request) -> Response:
        guest = await visit(service, sessions, request)
        check_form(guest, (await forms.read(request)).get("csrf", ""))
        if guest.session is not None:
            sessions.end(guest.session)
        response = gone_to("/sign-in")
        response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
        return response


def _ours(place: str) -> str:
    """A path of this service; anything else leads home."""
    plain = place.isascii() and place.isprintable() and "\\" not in place
    return place if plain and place.startswith("/") and not place.startswith("//") else "/"
