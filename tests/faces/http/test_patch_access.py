"""Every route about patches by every kind of token, and what each of them changes."""

import pytest
from tests.gates.patches.world import World
from tests.support.patch_service import REPOSITORY, change
from tests.support.service import TOML, served

from endmark.faces.http.access import Identity
from endmark.ledger.book import Ledger
from endmark.ledger.tokens import Tokens

SCOPES = ("submit", "review", "approve", "admin")
# (method, route): which scopes it takes, and what a call that may is answered with here.
ROUTES = {
    ("POST", "/v1/verdicts"): (("review",), 422),
    ("POST", "/v1/reviews"): (("submit", "review"), 400),
    ("GET", "/v1/decisions"): (SCOPES, 200),
    ("GET", "/v1/decisions/{id}"): (SCOPES, 200),
    ("POST", "/v1/decisions/{id}/approve"): (("approve",), 409),
    ("POST", "/v1/decisions/{id}/merge"): (("approve",), 409),
}
KINDS = {
    "for another branch": {"branches": ("other",)},
    "for another repository": {"branches": ("else:main",)},
    "for a target": {"targets": ("prod",)},
    "for this branch": {"branches": ("main",)},
    "for this branch, by its full name": {"branches": ("refs/heads/main",)},
    "for this branch of this repository": {"branches": ("app:main",)},
}
MINE = ("for this branch", "for this branch, by its full name", "for this branch of this repository")


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("access") / "world"
    world = World(folder)
    with served(folder, toml=TOML + REPOSITORY) as site:
        site.decision = site.ask("POST", f"/v1/verdicts?{change()}", world.verdict()[:-1]).json["decision_id"]
        site.secrets = {scope: site.make_token(scope, scope) for scope in SCOPES}
        site.secrets |= {
            kind: site.make_token(f"kind-{number}", *SCOPES[:3], **limits)
            for number, (kind, limits) in enumerate(KINDS.items())
        }
        site.secrets |= {"revoked": site.make_token("revoked", *SCOPES), "unknown": "emk_" + "A" * 43}
        with Ledger.open(folder / "ledger.db", create=False) as ledger:
            Tokens(ledger).revoke("revoked", site.service.clock())
        site.service.keyring.look_for_any(site.service.ledger)
        yield world, site
    world.end()


def call(site, method, route, token, kind):
    path = route.replace("{id}", site.decision)
    if route in ("/v1/verdicts", "/v1/reviews"):
        path += f"?{change()}"
    body = None if method == "GET" else kind.encode() if route in ("/v1/reviews", "/v1/verdicts") else b""
    return site.ask(method, path, body, token=token)


def test_every_route_has_its_row(both):
    described = both[1].ask("GET", "/openapi.json").json["paths"]
    words = ("/v1/verdicts", "/v1/reviews", "/v1/decisions")
    found = {(verb.upper(), path) for path, verbs in described.items() for verb in verbs if path.startswith(words)}
    assert found == set(ROUTES)


@pytest.mark.parametrize(("method", "route"), ROUTES, ids=lambda word: word)
def test_who_may(both, method, route):
    """H13 H14"""
    world, site = both
    wanted, status = ROUTES[method, route]
    site.service.limits._wrong._left.clear()
    before, allowed = len(world.decisions()), 0
    for kind, secret in {**site.secrets, "none": None}.items():
        said = call(site, method, route, secret, kind)
        if kind in ("none", "unknown", "revoked"):
            expected = 401
        elif kind in KINDS and kind not in MINE:
            expected = 404 if "{id}" in route else 403 if route == "/v1/verdicts" else status
        else:
            expected = status if kind in (*wanted, "admin", *MINE) else 403
        assert said.status == expected, kind
        allowed += expected == status
        if expected in (401, 403):
            assert said.headers["www-authenticate"].startswith('Bearer realm="endmark"')
            assert said.json["signal"] == {401: "unauthorized", 403: "forbidden"}[expected]
    assert len(world.decisions()) - before == (allowed if route == "/v1/verdicts" else 0)
    assert (world.merges(), world.asked()) == ([], 0)


def test_reviewers_are_not_asked_for_another_branch(both):
    """H14"""
    world, site = both
    before = len(world.decisions())
    for kind in KINDS:
        if kind not in MINE:
            said = site.ask("POST", f"/v1/reviews?{change()}", b"", token=site.secrets[kind])
            assert (said.status, said.json["signal"]) == (403, "forbidden")
    assert (len(world.decisions()), world.asked()) == (before, 0)


def test_a_list_shows_only_what_a_token_reaches(both):
    """H14 H46"""
    _, site = both
    for kind in KINDS:
        for more in ("", "&repository=app", "&ref=main"):
            found = site.ask("GET", f"/v1/decisions?limit=5{more}", token=site.secrets[kind]).json["decisions"]
            assert bool(found) == (kind in MINE), (kind, more)


REACHES = {
    (("main",), "main", None): True,
    (("main",), "refs/heads/main", "app"): True,
    (("refs/heads/main",), "main", "app"): True,
    (("main",), "main2", "app"): False,
    (("main",), "refs/tags/main", "app"): False,
    (("app:main",), "main", "app"): True,
    (("app:main",), "main", "else"): False,
    (("app:main",), "main", None): False,
    (("a", "app:b"), "b", "app"): True,
}


@pytest.mark.parametrize("case", REACHES, ids=str)
def test_which_branch_a_token_reaches(case):
    """H14"""
    branches, branch, repository = case
    identity = Identity(name="x", scopes=("review",), branches=branches)
    assert identity.reaches_branch(branch, repository) is REACHES[case]
