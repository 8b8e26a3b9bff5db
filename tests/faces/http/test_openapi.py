"""schemathesis over the description: no 500, and no answer that the description does not name."""

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from requests import Session
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.gates.patches.world import World
from tests.support.patch_service import REPOSITORY, change
from tests.support.service import TOML, envelope, served

CHECKS = [status_code_conformance, content_type_conformance, response_schema_conformance]
ROUTES = (
    ("POST", "/v1/jobs"),
    ("GET", "/v1/jobs"),
    ("GET", "/v1/jobs/{id}"),
    ("GET", "/v1/jobs/{id}/events"),
    ("POST", "/v1/jobs/{id}/approve"),
    ("POST", "/v1/jobs/{id}/decline"),
    ("POST", "/v1/jobs/{id}/revert"),
    ("GET", "/v1/targets"),
    ("POST", "/v1/verdicts"),
    ("POST", "/v1/reviews"),
    ("GET", "/v1/decisions"),
    ("GET", "/v1/decisions/{id}"),
    ("POST", "/v1/decisions/{id}/approve"),
    ("POST", "/v1/decisions/{id}/merge"),
    ("GET", "/healthz"),
    ("GET", "/metrics"),
    ("GET", "/readyz"),
)
FEW = settings(
    max_examples=5,
    derandomize=True,
    deadline=None,
    database=None,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
MANY = settings(FEW, max_examples=1_000)
NAMES = {"target": "prod", "repository": "app", "base": "main", "head": "topic"}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openapi") / "world"
    world = World(folder)
    with served(folder, toml=TOML + REPOSITORY, max_body=100_000) as found, Session() as session:
        found.submit(envelope("done"))
        found.ask("POST", "/v1/jobs/done/decline")
        decision = found.ask("POST", f"/v1/verdicts?{change()}", world.verdict()).json["decision_id"]
        load_all_checks()
        url = f"http://127.0.0.1:{found.address[1]}"
        found.described = schemathesis.openapi.from_url(f"{url}/openapi.json")
        found.call = lambda case: case.call(base_url=url, session=session)
        found.known = {"/v1/jobs": "done", "/v1/decisions": decision}
        found.statuses = set()
        yield found
    world.end()


def test_every_route_is_asked(site):
    described = site.described.get_all_operations()
    assert {(one.ok().method.upper(), one.ok().path) for one in described} == set(ROUTES)


def sweep(site, method, path, how):
    """Ask one route with what its description allows, and with what it does not."""
    operation = site.described[path][method]
    cases = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in GenerationMode))

    @how
    @given(case=cases, known=st.booleans(), named=st.booleans())
    def ask(case, known, named):
        if known and "id" in (case.path_parameters or {}):
            case.path_parameters["id"] = next(one for begins, one in site.known.items() if path.startswith(begins))
        query = case.query if isinstance(case.query, dict) else {}
        if named:  # what leads further than a name that nobody knows
            query |= {name: word for name, word in NAMES.items() if name in query}
        response = site.call(case)
        site.statuses.add(response.status_code)
        assert response.status_code != 500, (case, response.content)
        checks = CHECKS[:2] if path.endswith("/events") else CHECKS  # of a stream the description has no schema
        case.validate_response(response, checks=checks)

    ask()


@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda word: word)
def test_what_the_description_allows_is_answered_as_it_says(site, method, path):
    """H8 H9 H10 H40"""
    sweep(site, method, path, FEW)
    assert site.ask("GET", "/healthz").status == 200


@pytest.mark.soak
@pytest.mark.parametrize(("method", "path"), ROUTES, ids=lambda word: word)
def test_much_more_of_it(site, method, path):
    sweep(site, method, path, MANY)
    assert site.ask("GET", "/healthz").status == 200
