"""What went wrong, as a page: for whoever asks with a browser, in the words of the problem document."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from endmark.faces.http.problems import Problem
from endmark.faces.pages.paper import page

_NEXT = {
    "resend-new-job-id": "Send the whole payload again under a new job id.",
    "wait": "Wait, and ask again.",
    "ask-person": "Ask whoever runs this service.",
}


def wants_page(request: Request) -> bool:
    """Whether a person is looking: the API always answers programs."""
    path = request.url.path
    return not path.startswith("/v1/") and "text/html" in request.headers.get("accept", "")


def as_page(request: Request, fault: Problem) -> Response:
    """The problem as a page; the sign-in where nobody is signed in."""
    document = fault.document
    if fault.status == 401:
        # A link from elsewhere comes without the cookie, which no other site can have sent; the page asks once more by
        # itself.
        elsewhere = request.method == "GET" and request.headers.get("sec-fetch-site") == "cross-site"
        place = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        made = page(
            "sign_in.html",
            None,
            401,
            detail=document["detail"] if request.url.path == "/sign-in" else "",
            onward="/" if request.method != "GET" or request.url.path == "/sign-in" else place,
            again=elsewhere,
        )
    else:
        made = page("problem.html", None, fault.status, problem=document, onward=_NEXT.get(str(document["next"]), ""))
    for name, value in fault.headers.items():
        if name.lower() != "www-authenticate":
            made.headers[name] = value
    return made
