"""The diff of a decision: as it was judged, from the repository that it was judged in, or a word why not."""

import pytest
from tests.faces.pages.reading import Page
from tests.faces.pages.site import TOML, served
from tests.gates.pushes.world import World

from endmark.faces.patches import Patches


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("repository")).build()


def decided(site, world):
    with Patches(site.service.config.ledger, world.client) as patches:
        return patches.review("main", "topic").decision_id


def main_of(site, decision):
    with site.browser() as browser:
        page = Page(browser.get(f"/decisions/{decision}").text)
    assert page.faults() == []
    return page.all("main")[0]["text"]


def test_the_diff_is_shown_where_its_repository_is_at_hand(tmp_path, world):
    with served(tmp_path, toml=TOML + f'repository = "{world.client}"\n') as site:
        text = main_of(site, decided(site, world))
    for said in ("+a, changed", "-a\n", "a.txt", "bad-stop"):
        assert said in text


def test_why_there_is_no_diff_is_said(tmp_path, world):
    with served(tmp_path, toml=TOML + f'repository = "{world.server}"\n') as site:
        assert "is not the one that this was decided in" in main_of(site, decided(site, world))
        (tmp_path / "none").mkdir()
    with served(tmp_path, toml=TOML + 'repository = "none"\n') as site:
        assert "The diff cannot be shown" in main_of(site, decided(site, world))
