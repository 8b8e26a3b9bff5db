"""Every route by every kind of token. A route without its row here fails."""

import resource
from contextlib import ExitStack, suppress

import pytest
from tests.support.service import answer_in, envelope, everything, served

from endmark.core.refusal import CannotTry
from endmark.faces.http import access, progress
from endmark.faces.http.limits import Buckets, Limits
from endmark.faces.http.problems import Problem
from endmark.faces.http.protocol import TO_BE_TOLD
from endmark.faces.http.server import affordable
from endmark.faces.http.settings import Settings
from endmark.ledger.book import Ledger
from endmark.ledger.tokens import Tokens

SCOPES = ("submit", "review", "approve", "admin")
OPEN, ANY = None, ("submit", "review", "approve", "admin")
# (method, route): which scopes it takes, and what a call that may is answered with here.
ROUTES = {
    ("POST", "/v1/jobs"): (("submit",), 422),
    ("GET", "/v1/jobs"): (ANY, 200),
    ("GET", "/v1/jobs/{id}"): (ANY, 200),
    ("GET", "/v1/jobs/{id}/events"): (ANY, 200),
    ("POST", "/v1/jobs/{id}/approve"): (("approve",), 200),
    ("POST", "/v1/jobs/{id}/decline"): (("approve",), 200),
    ("POST", "/v1/jobs/{id}/revert"): (("submit", "approve"), 409),
    ("GET", "/v1/targets"): (ANY, 200),
    ("GET", "/metrics"): (ANY, 200),
    ("POST", "/v1/verdicts"): (("review",), 400),  # of no change; of one: test_patch_access
    ("POST", "/v1/reviews"): (("submit", "review"), 400),
    ("GET", "/v1/decisions"): (ANY, 200),
    ("GET", "/v1/decisions/{id}"): (ANY, 404),
    ("POST", "/v1/decisions/{id}/approve"): (("approve",), 404),
    ("POST", "/v1/decisions/{id}/merge"): (("approve",), 404),
    ("GET", "/healthz"): (OPEN, 200),
    ("GET", "/readyz"): (OPEN, 200),
    ("GET", "/openapi.json"): (OPEN, 200),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with served(tmp_path_factory.mktemp("access")) as found:
        found.submit(envelope("done"))
        found.ask("POST", "/v1/jobs/done/decline")
        found.secrets = {scope: found.make_token(scope, scope) for scope in SCOPES}
        found.secrets |= {
            "for another target": found.make_token("elsewhere", *SCOPES[:3], targets=("other",)),
            "for this target": found.make_token("here", *SCOPES[:3], targets=("prod",)),
            "revoked": found.make_token("revoked", *SCOPES),
            "unknown": "emk_" + "A" * 43,
            "no token of ours": "secret",
        }
        with Ledger.open(found.folder / "ledger.db", create=False) as ledger:
            Tokens(ledger).revoke("revoked", found.service.clock())
        found.service.keyring.look_for_any(found.service.ledger)
        yield found


def call(site, method, route, token):
    path = route.replace("{id}", "done") + ("?target=prod" if (method, route) == ("POST", "/v1/jobs") else "")
    return site.ask(method, path, b"" if method == "POST" else None, token=token)


def test_every_route_has_its_row(site):
    described = site.ask("GET", "/openapi.json").json["paths"]
    found = {(method.upper(), path) for path, methods in described.items() for method in methods}
    assert found | {("GET", "/openapi.json")} == set(ROUTES)


@pytest.mark.parametrize(("method", "route"), ROUTES, ids=lambda word: word)
def test_who_may(site, method, route):
    """H13 H14 H15"""
    wanted, status = ROUTES[method, route]
    attempts = len(site.attempts())
    site.service.limits._wrong._left.clear()
    for kind, secret in {**site.secrets, "none": None}.items():
        said = call(site, method, route, secret)
        if wanted is OPEN:
            expected = status
        elif kind in ("none", "unknown", "revoked", "no token of ours"):
            expected = 401
        elif route == "/metrics" and "target" in kind:  # H34
            expected = 403
        elif kind == "for another target":
            expected = 404 if "{id}" in route else 403 if (method, route) == ("POST", "/v1/jobs") else status
        else:
            expected = status if kind in (*wanted, "admin", "for this target") else 403
        assert said.status == expected, kind
        if expected in (401, 403):
            assert said.headers["www-authenticate"].startswith('Bearer realm="endmark"')  # H11
            assert said.json["signal"] == {401: "unauthorized", 403: "forbidden"}[expected]
            assert secret is None or secret not in str(said)
    recorded = len(site.attempts()) - attempts
    assert recorded == (3 if (method, route) == ("POST", "/v1/jobs") else 0)


def test_a_list_shows_only_what_a_token_reaches(site):
    """H14"""
    mine = site.ask("GET", "/v1/jobs?limit=500", token=site.secrets["for this target"]).json["jobs"]
    none = site.ask("GET", "/v1/jobs?limit=500", token=site.secrets["for another target"]).json["jobs"]
    names = site.ask("GET", "/v1/targets", token=site.secrets["for another target"]).json["targets"]
    assert (bool(mine), none, [target["name"] for target in names]) == (True, [], ["other"])


def test_a_refused_attempt_leads_to_no_job_of_another_target(site):
    """H14"""
    admin, here = site.secrets["admin"], site.make_token("only-other", "submit", "approve", targets=("other",))
    site.submit(envelope("theirs", down=["DROP TABLE made"]), token=admin)
    reused = site.submit(envelope("theirs", ("SELECT 1",)), target="other", token=here).json
    assert reused["signal"] == "id-reused"
    said = site.ask("POST", f"/v1/jobs/{reused['attempt_id']}/revert", b"", token=here)
    assert (said.status, said.json["signal"]) == (409, "conflict")
    assert "rejected" in said.json["detail"]
    assert "staged" not in said.json["detail"]


def test_nobody_approves_what_came_under_the_same_name(site):
    """H16"""
    secret = site.make_token("both", "submit", "approve")
    site.submit(envelope("own"), token=secret)
    said = site.ask("POST", "/v1/jobs/own/approve", b"", token=secret)
    assert (said.status, said.json["signal"]) == (403, "forbidden")
    assert "both submitted it" in said.json["detail"]
    assert site.ask("GET", "/v1/jobs/own", token=secret).json["state"] == "staged"
    assert site.ask("POST", "/v1/jobs/own/approve", b"", token=site.secrets["approve"]).json["state"] == "approved"


def test_a_revoked_token_counts_no_more(site):
    """H18"""
    secret = site.make_token("soon", "submit")
    assert site.ask("GET", "/v1/jobs", token=secret).status == 200
    with Ledger.open(site.folder / "ledger.db", create=False) as ledger:
        Tokens(ledger).revoke("soon", site.service.clock())
    site.service.keyring._known.clear()  # as after two seconds
    assert site.ask("GET", "/v1/jobs", token=secret).status == 401


@pytest.mark.parametrize("how", ["events", "page", "wait", "first token"])
def test_whoever_waits_is_told_nothing_after_the_token_is_revoked(tmp_path, monkeypatch, how):
    """H18"""
    monkeypatch.setattr(access, "_FRESH", 0.05)
    monkeypatch.setattr(progress, "_LOOKS_EVERY", 0.05)
    with served(tmp_path) as site:
        site.submit(envelope("waits"))
        secret = None if how == "first token" else site.make_token("watching", "submit")
        path = {"page": "/jobs/waits/events", "wait": "/v1/jobs/waits?wait=20"}.get(how, "/v1/jobs/waits/events")
        with site.connect() as wire:
            site.token = secret
            wire.sendall(site.head("GET", path, "Connection: close"))
            site.token = None
            site.until(lambda: site.service.limits.watchers == 1)
            if how == "first token":
                site.make_token("first", "submit")
            else:
                with Ledger.open(tmp_path / "ledger.db", create=False) as ledger:
                    Tokens(ledger).revoke("watching", site.service.clock())
            said = answer_in(everything(wire))  # until the service closes it
        if how == "wait":
            assert (said.status, said.json["signal"]) == (401, "unauthorized")
        else:
            assert said.status == 200
            assert b"event: outcome" not in said.body
        site.until(lambda: site.service.limits.watchers == 0)
        with Ledger.open(tmp_path / "ledger.db", create=False) as ledger:
            assert [entry.state.value for entry in ledger.page(10)] == ["staged"]


def test_a_token_is_kept_as_its_digest_alone(site):
    """H12"""
    for path in site.folder.glob("ledger.db*"):
        raw = path.read_bytes()
        for secret in site.secrets.values():
            assert secret.encode() not in raw or secret == "secret"


def test_a_name_is_used_once(site):
    """H15"""
    with pytest.raises(CannotTry, match="there was a token called submit already"):
        site.make_token("submit", "submit")


HEADERS = {
    "a name that leads here": ("Host: evil.example:80",),
    "somebody behind a proxy": ("X-Forwarded-For: 203.0.113.7",),
    "somebody behind a proxy of another kind": ("Forwarded: for=203.0.113.7",),
    "a page from elsewhere": ("Origin: http://evil.example",),
    "a page from elsewhere that hides it": ("Sec-Fetch-Site: cross-site",),
}


@pytest.mark.parametrize("name", HEADERS)
def test_without_tokens_no_page_from_elsewhere_is_served(tmp_path, name):
    """H17"""
    with served(tmp_path) as site:
        fields = [*HEADERS[name], "Connection: close"]
        if "Host" not in fields[0]:
            fields.insert(0, f"Host: 127.0.0.1:{site.address[1]}")
        head = "".join(f"{line}\r\n" for line in ("GET /v1/jobs HTTP/1.1", *fields, ""))
        with site.connect() as wire:
            wire.sendall(head.encode())
            assert answer_in(everything(wire)).status == 403


def test_limits_are_kept(tmp_path):
    """H19 H20 H21 H22"""
    with served(tmp_path, rate=0.001, burst=3, max_uploads=1, max_in_flight=1000, max_watchers=1) as site:
        assert [site.ask("GET", "/v1/jobs").status for _ in range(4)] == [200, 200, 200, 429]
        assert int(site.ask("GET", "/v1/jobs").headers["retry-after"]) >= 1
        site.service.limits._requests = Buckets(1e6, 10**6, site.service.limits.clock)
        attempts = site.attempts()
        assert site.submit(b"x" * 2000).json["signal"] == "busy"
        with site.connect() as wire:
            wire.sendall(site.head("POST", "/v1/jobs?target=prod", "Content-Length: 10", "Expect: 100-continue"))
            assert wire.recv(100).startswith(b"HTTP/1.1 100")
            assert site.submit(b"x").status == 503
            assert site.attempts() == attempts
        site.until(lambda: site.service.limits.uploads == 0)
        site.service.limits.watchers = 1
        site.submit(envelope("w"))
        assert site.ask("GET", "/v1/jobs/w?wait=1").status == 503
        refused = site.ask("GET", "/v1/jobs/w/events")
        assert (refused.status, refused.json["signal"], refused.headers["retry-after"]) == (503, "busy", "1")
        wrong = [site.ask("GET", "/v1/jobs", token="emk_" + "B" * 43).status for _ in range(22)]
        assert (wrong[0], wrong[-1]) == (401, 429)


def answered(site):
    with suppress(ConnectionError):
        return site.ask("GET", "/healthz").status
    return None


def test_idle_connections_take_no_more_files_than_there_are(tmp_path):
    """H25: what says nothing counts as well, and beyond those that are told why nobody is kept."""
    with served(tmp_path, max_connections=2) as site, ExitStack() as idle:
        wires = [idle.enter_context(site.connect()) for _ in range(2 + TO_BE_TOLD)]
        assert answer_in(everything(idle.enter_context(site.connect()))).status == 503
        for wire in wires:
            wire.close()
        site.until(lambda: answered(site) == 200)


@pytest.mark.parametrize(
    ("limits", "wanted", "found", "left"),
    [
        ((1024, 4096), 100, 100, 1024),
        ((1024, 1 << 20), 4096, 4096, 4672),
        ((1024, 2000), 4096, 1424, 2000),
        ((64, 64), 4096, 1, 64),
        ((1024, -1), 4096, 4096, 4672),
        ((-1, -1), 4096, 4096, -1),
    ],
)
def test_as_many_connections_as_there_are_files_for(monkeypatch, limits, wanted, found, left):
    """H25"""
    now = [limits]
    monkeypatch.setattr(resource, "getrlimit", lambda _kind: now[0])
    monkeypatch.setattr(resource, "setrlimit", lambda _kind, pair: now.__setitem__(0, pair))
    assert affordable(wanted) == found
    assert now == [(left, limits[1])]


def test_too_many_connections_are_told(tmp_path):
    """H25"""
    with served(tmp_path, max_connections=2) as site, site.connect(), site.connect():
        assert site.ask("GET", "/healthz").status == 503


def test_one_caller_takes_half_of_the_bytes_at_most():
    """H21"""
    limits = Limits(Settings(max_in_flight=1000, max_body=100), lambda: 0.0)
    with limits.upload("ann") as first, limits.upload("ann") as second, limits.upload("bob") as third:
        first.take(400)
        with pytest.raises(Problem, match="of yours"):
            second.take(101)
        second.take(100)
        third.take(500)
        with pytest.raises(Problem, match="Too many bytes are"), limits.upload() as fourth:
            fourth.take(1)
    assert (limits.in_flight, limits.uploads, limits.held) == (0, 0, {})


def test_one_caller_takes_half_of_the_places_at_most():
    """H21 H22"""
    limits = Limits(Settings(max_uploads=4, max_watchers=4), lambda: 0.0)
    for take, what in ((limits.upload, "bodies of yours"), (limits.watcher, "calls of yours")):
        with take("ann"), take("ann"), take("bob"):
            with pytest.raises(Problem, match=what) as refused, take("ann"):
                pass
            assert refused.value.status == 503
            with take(), pytest.raises(Problem, match="already"), take("bob"):
                pass
        with take("ann"), take("ann"):  # given back
            pass
    assert (limits.uploads, limits.watchers, limits._bodies, limits._watching) == (0, 0, {}, {})


def test_one_body_of_any_allowed_size_fits_in_a_share():
    """H21"""
    limits = Limits(Settings(max_in_flight=200, max_body=100), lambda: 0.0)
    with limits.upload("ann") as room:
        room.take(150)
