"""Every page, over a world with something of everything: what it says, how, and that nothing in it can act."""

import re
from urllib.parse import quote

import httpx
import pytest
from tests.faces.pages.reading import Page
from tests.faces.pages.site import HOSTILE, HTML, furnished, job_in, served

from endmark import __version__
from endmark.core.states import Decision, State
from endmark.faces.pages import words

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
JOBS = tuple(state.value for state in State if state is not State.RECEIVED)
STANDS = {"applied", "pass", "merged", "no hole"}


def places(site):
    """Where there is a page."""
    return [
        "/", "/jobs", "/jobs?state=staged&target=prod", "/jobs?q=a", "/jobs?q=nothing-like-it", "/decisions",
        "/decisions?state=merged", f"/decisions/{site.merged}", "/stability", "/drills", "/sign-in",
        *(f"/jobs/{state}-1" for state in JOBS if state in ("staged", "applied", "partial", "declined")),
    ]  # fmt: skip


def attempts(site):
    with site.book() as ledger:
        return {entry.state.value: entry.attempt_id for entry in ledger.page(100)}


def test_every_page_is_whole_and_open_to_everybody(site):
    with site.browser() as browser:
        for place in places(site):
            said = browser.get(place)
            assert said.status_code == 200, place
            assert said.headers["content-type"] == "text/html; charset=utf-8"
            assert said.headers["content-security-policy"] == POLICY
            assert said.headers["cache-control"] == "no-store"
            assert (said.headers["x-content-type-options"], said.headers["x-frame-options"]) == ("nosniff", "DENY")
            assert said.headers["referrer-policy"] == "same-origin"
            page = Page(said.text)
            assert page.faults() == [], place
            for one in page.elements:  # nothing is from elsewhere
                for name in ("src", "href", "action"):
                    assert one["attrs"].get(name, "/").startswith(("/", "#")), (place, one)
            assert [one["text"] for one in page.all("script")] == [""]
            assert __version__ in page.all("footer")[0]["text"]


@pytest.mark.parametrize("state", JOBS)
def test_a_state_is_told_by_word_glyph_and_tone(site, state):
    with site.browser() as browser:
        for place in ("/", f"/jobs?state={state}", f"/jobs/{attempts(site)[state]}"):
            shown = [(look, said) for look, said in Page(browser.get(place).text).states() if state in said]
            assert shown, place
            for look, said in shown:
                tone, glyph = words.look(state)
                assert (look[1:], said[0]) == ([tone], glyph)


def test_only_what_stands_is_green():
    tones = {word: words.look(word)[0] for word in words.LOOKS}
    assert {word for word, tone in tones.items() if tone == "good"} == STANDS
    assert (tones["truncated"], tones["incomplete"]) == ("cut", "unsure")
    assert [word for word, tone in tones.items() if tone == "cut"] == ["truncated"]
    assert words.look("whatever comes")[0] == "quiet"
    assert set(words.LOOKS) >= {*JOBS, *(state.value for state in Decision)}
    jobs = [words.LOOKS[state] for state in JOBS]
    assert len({glyph for _, glyph in jobs}) == len(jobs)  # in black and white they differ still


def test_home_says_what_waits_and_for_whom(site):
    with site.browser() as browser:
        page = Page(browser.get("/").text)
    text = " ".join(page.all("main")[0]["text"].split())
    assert "an approver other than billing-agent" in text
    assert "1 of 2 statements stand, the target takes no other job until it is settled" in text
    assert "reviews by careful" in text
    assert "a person: to be merged" in text
    counts = next(one for one in page.all("table") if "Jobs by target and state" in one["text"])
    assert all(state in counts["text"] for state in JOBS)


def test_what_did_not_arrive_is_measured(site):
    with site.browser() as browser:
        page = Page(browser.get(f"/jobs/{attempts(site)['truncated']}").text)
        assert re.search(r"\d+ of \d+ bytes: \d+ bytes short", page.all("main")[0]["text"])
        bar = page.all("rect", class_="short")[0]["attrs"]
        assert 50 < float(bar["width"]) < 60
        whole = Page(browser.get("/jobs/applied-1").text)
        assert whole.all("rect", class_="full")[0]["attrs"]["width"] == "100.00"
        assert "all that was declared" in whole.all("main")[0]["text"]


def test_a_job_shows_its_statements_and_what_they_destroy(site):
    with site.browser() as browser:
        text = Page(browser.get("/jobs/staged-1").text).all("main")[0]["text"]
    for said in (
        "DROP TABLE users",
        "drops the table users",
        "advice, not proof",
        "the bytes are those that were sealed",
    ):
        assert said in text


def test_a_decision_shows_verdicts_findings_and_what_it_is_bound_to(site):
    with site.browser() as browser:
        page = Page(browser.get(f"/decisions/{site.merged}").text)
    text = page.all("main")[0]["text"]
    for said in ("careful", "adviser", "decides nothing", "src/app.py:7", "the index is missing", "c" * 40, "1" * 40,
                 "e" * 64, "No repository is configured"):  # fmt: skip
        assert said in text
    assert "incomplete" in [said[1] for _, said in page.states()]


def test_stability_has_figures_beside_its_picture(site):
    with site.browser() as browser:
        page = Page(browser.get("/stability").text)
    text = page.all("main")[0]["text"]
    assert "Merged on a verdict that was not repeated" in text
    assert "9.5 % to 90.5 %" in text
    assert "1 flip in 2 pairs over 2 days" in page.all("svg")[0]["attrs"]["aria-label"]


def test_what_an_agent_wrote_stays_text(tmp_path):
    """Everywhere that an agent may write."""
    with served(tmp_path) as site, site.browser() as browser:
        site.merged = furnished(site, hostile=True)
        (tmp_path / "drills" / "bad.json").write_bytes(b'{"target": "' + HOSTILE.encode() + b'"}')
        seen = 0
        odd = [f"/jobs?q={quote(HOSTILE[:60])}", f"/jobs/{quote(HOSTILE[-60:], safe='')}"]
        for place in [*places(site), "/drills/bad", *odd]:
            text = browser.get(place).text
            page = Page(text)
            assert [one["attrs"].get("src", "")[:8] for one in page.all("script")] == ["/static/"], place
            assert all(one["attrs"]["src"].startswith("/drills/") for one in page.all("img")), place
            assert not [mark for mark in text if not mark.isprintable() and mark != "\n"], place
            assert not [one for one in page.elements if any(name.startswith("on") for name in one["attrs"])], place
            seen += "\\x1b[2J\\u202egnp\\u200b" in page.all("main")[0]["text"]
        assert seen > 8


def test_who_asks_for_json_gets_json(site):
    for accept in ("application/json", "*/*"):
        said = httpx.get(f"{site.url}/jobs/nope", headers={"accept": accept})
        assert (said.status_code, said.headers["content-type"]) == (404, "application/problem+json")
    api = httpx.get(f"{site.url}/v1/jobs/nope", headers=HTML)
    assert api.headers["content-type"] == "application/problem+json"
    page = httpx.get(f"{site.url}/jobs/nope", headers=HTML)
    assert (page.status_code, page.headers["content-security-policy"]) == (404, POLICY)
    assert said.json()["detail"] in Page(page.text).all("main")[0]["text"]


@pytest.mark.parametrize(
    "place", ["/jobs?state=green", "/decisions?state=x", "/jobs?target=nowhere", "/decisions/dec_0", "/drills/no",
              "/drills/..%2fendmark", "/static/../paper.py", "/static/page.py", f"/jobs?q={'x' * 129}", "/nowhere"],
)  # fmt: skip
def test_what_is_not_there_is_said(site, place):
    with site.browser() as browser:
        said = browser.get(place)
    assert said.status_code in (400, 404)
    assert Page(said.text).faults() == []


def test_no_page_is_in_the_description_of_the_api(site):
    described = httpx.get(f"{site.url}/openapi.json").json()["paths"]
    assert [path for path in described if not path.startswith(("/v1/", "/healthz", "/readyz", "/metrics"))] == []


def test_lists_go_on_page_by_page(empty):
    target = empty.service.places["prod"].target.identity
    with empty.book() as ledger:
        for number in range(60):
            job_in(ledger, State.STAGED, empty.service.clock(), target, f"job-{number:02}")
    with empty.browser() as browser:
        first = Page(browser.get("/jobs?target=prod").text)
        onward = first.all("a", rel="next")[0]["attrs"]["href"]
        second = Page(browser.get(onward).text)
    shown = [[one["text"] for one in page.all("a") if one["attrs"].get("class") == "id"] for page in (first, second)]
    assert [len(rows) for rows in shown] == [50, 10]
    assert shown[0] + shown[1] == [f"job-{number:02}" for number in range(59, -1, -1)]
    assert second.all("a", rel="next") == []
    assert "/jobs?q=" not in onward
