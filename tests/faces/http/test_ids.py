"""What one token can do to the ids of another."""

import pytest
from tests.support.ledgers import ENGINES, new_database
from tests.support.service import envelope, served


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
