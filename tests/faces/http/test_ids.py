"""What one token can do to the ids of another."""

import pytest
from tests.support.ledgers import ENGINES, new_database
from tests.support.service import envelope, served

from endmark.ledger.book import Ledger
from endmark.ledger.patch_book import PatchBook


@pytest.fixture(params=ENGINES)
def site(request, tmp_path):
    if request.param == "sqlite":
        with served(tmp_path) as found:
            yield found
        return
    with new_database() as url, served(tmp_path, ledger=url) as found:
        yield found


def test_a_cut_body_takes_no_id_from_another_token(site):
    """H6"""
    mallory, alice = (site.make_token(name, "submit") for name in ("mallory", "alice"))
    raw = envelope("hers")
    before = site.world()
    cut = site.submit(raw[:-30], "Endmark-Job-Id: hers", token=mallory, target="other")
    assert (cut.status, cut.json["signal"]) == (422, "body-cut")
    assert site.submit(raw, token=mallory, target="other").json["signal"] == "id-reused"
    first = site.submit(raw, "Endmark-Job-Id: hers", token=alice)
    assert (first.status, first.json["state"]) == (202, "staged")
    again = site.submit(raw, token=alice)
    assert (again.status, again.json["attempt_id"]) == (200, first.json["attempt_id"])
    assert site.world() == before


NUL = {
    "/v1/jobs/%00": 404,
    "/v1/jobs/a%00?wait=1": 404,
    "/v1/jobs/%00/events": 404,
    "/v1/jobs?target=%00": 400,
    "/v1/jobs?cursor=%00": 400,
    "/v1/jobs?state=%00": 400,
    "/v1/decisions/%00": 404,
    "/v1/decisions?ref=%00": 400,
    "/v1/decisions?cursor=%00": 400,
    "/jobs/%00": 404,
    "/jobs?q=%00": 400,
    "/jobs?q=&before=%00": 400,
    "/decisions/%00": 404,
    "/decisions?before=%00": 400,
    "/drills/%00": 404,
}


def test_a_name_with_a_nul_byte_is_a_wrong_call_and_no_fault_of_ours(site):
    """H48"""
    for path, status in NUL.items():
        said = site.ask("GET", path)
        assert (path, said.status, said.json["signal"]) == (path, status, {404: "not-found", 400: "usage"}[status])
    for act in ("approve", "decline", "revert"):
        assert site.ask("POST", f"/v1/jobs/%00/{act}", b"").status == 404
    assert site.ask("POST", "/v1/jobs?target=%00", envelope("nul")).status == 400
    assert site.submit(envelope("nul"), "Endmark-Job-Id: nul\0").status == 400
    first = site.submit(envelope("real"))
    declined = site.ask("POST", "/v1/jobs/real/decline?reason=%00", b"")
    assert (declined.status, site.ask("GET", "/v1/jobs/real").json["state"]) == (400, first.json["state"])
    service = site.service
    for name in ("\0", "real\0", "att_\0"):  # what other doors than HTTP may ask
        assert service.ledger.find(name) is None
        assert PatchBook(service.ledger).get(name) is None


TWICE = ("Endmark-Job-Id: two", "Authorization: Bearer x", "Host: 127.0.0.1", "Last-Event-ID: 1", "Origin: null")


@pytest.mark.parametrize("site", ["sqlite"], indirect=True)
def test_what_means_one_thing_is_said_once(site):
    """H48"""
    before = site.world()
    for field in TWICE:
        lines = (field, field) if not field.startswith("Host") else (field,)
        said = site.submit(envelope("two"), *lines)
        assert (field, said.status, said.json["signal"]) == (field, 400, "usage")
        assert field.partition(":")[0].title() in said.json["detail"]
    said = site.submit(envelope("two"), "Endmark-Job-Id: two", "endmark-job-id: other")
    assert said.status == 400
    both = site.ask("POST", "/v1/jobs?target=prod&target=other", envelope("two"))
    assert (both.status, "'target' came more than once" in both.json["detail"]) == (400, True)
    with Ledger.open(site.folder / "ledger.db", create=False) as ledger:
        assert ledger.page(10) == []
    assert site.world() == before
