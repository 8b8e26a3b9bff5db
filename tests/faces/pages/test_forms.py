"""What a person does on the pages: through the gate's own functions, in a session of their own, or not at all."""

from contextlib import contextmanager

import httpx
import pytest
from tests.faces.pages.reading import Page
from tests.faces.pages.site import HTML, envelope, served
from tests.support.world import dump, query

STRICT = {"HttpOnly", "SameSite=strict", "Path=/"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """A service with tokens: an agent, two people, and one who may only look elsewhere. job-1 stays staged."""
    with served(tmp_path_factory.mktemp("guarded")) as site:
        site.agent = site.token("agent", "submit")
        site.ann = site.token("ann", "submit", "approve")
        site.bob = site.token("bob", "approve", targets=("other",))
        assert site.submit(envelope("job-1"), token=site.agent).status_code == 202
        yield site


@contextmanager
def signed_in(site, token):
    with site.browser() as browser:
        said = browser.post("/sign-in", data={"token": token, "next": "/"})
        assert (said.status_code, said.headers["location"]) == (303, "/")
        yield browser


def form(browser, place="/jobs/job-1"):
    page = Page(browser.get(place).text)
    return {"csrf": page.field("csrf")}, page


def test_a_token_opens_a_session_and_stays_with_the_service(guarded):
    with guarded.browser() as browser:
        asked = browser.get("/jobs/job-1?x=1")
        assert asked.status_code == 401
        assert "www-authenticate" not in asked.headers  # a browser would ask in a window of its own
        assert Page(asked.text).field("next") == "/jobs/job-1?x=1"
        said = browser.post("/sign-in", data={"token": guarded.ann, "next": "/jobs/job-1"})
        assert (said.status_code, said.headers["location"]) == (303, "/jobs/job-1")
        cookie = said.headers["set-cookie"]
        assert {part.strip() for part in cookie.split(";")} >= STRICT
        assert guarded.ann not in cookie
        page = browser.get("/")
        assert "ann" in Page(page.text).all("header")[0]["text"]
        assert guarded.ann not in page.text
        out = browser.post("/sign-out", data={"csrf": Page(page.text).field("csrf")})
        assert (out.status_code, out.headers["location"]) == (303, "/sign-in")
        assert browser.get("/").status_code == 401


def test_over_tls_the_cookie_never_goes_in_the_clear(guarded):
    host = guarded.url.removeprefix("http://")
    said = httpx.post(f"{guarded.url}/sign-in", data={"token": guarded.ann}, headers={"origin": f"https://{host}"})
    assert "Secure" in said.headers["set-cookie"]


@pytest.mark.parametrize("token", ["", "emk_" + "x" * 43, "nonsense", "b\u00e4d", "a\r\nb: c"])
def test_what_is_no_token_opens_nothing(guarded, token):
    with guarded.browser() as browser:
        said = browser.post("/sign-in", data={"token": token})
        assert (said.status_code, "set-cookie" in said.headers) == (401, False)
        page = Page(said.text)
        assert page.faults() == []
        assert any(one["attrs"].get("role") == "alert" for one in page.all("p"))
        assert browser.get("/").status_code == 401


@pytest.mark.parametrize(
    "place", ["//evil.example/", "https://evil.example/", "/\\evil.example", "\x01", "relative", ""]
)
def test_a_sign_in_leads_nowhere_else(guarded, place):
    said = httpx.post(f"{guarded.url}/sign-in", data={"token": guarded.ann, "next": place}, headers=HTML)
    assert said.headers["location"] == "/"


def test_a_revoked_token_ends_its_session(guarded):
    from endmark.ledger.tokens import Tokens

    with signed_in(guarded, guarded.token("eve", "approve")) as browser:
        assert browser.get("/").status_code == 200
        with guarded.book() as ledger:
            Tokens(ledger).revoke("eve", guarded.service.clock())
        guarded.until(lambda: browser.get("/").status_code == 401)


def test_a_link_from_elsewhere_asks_once_more_by_itself(guarded):
    with guarded.browser(**{"sec-fetch-site": "cross-site"}) as browser:
        assert Page(browser.get("/jobs/job-1").text).all("meta", content="0")
    with guarded.browser(**{"sec-fetch-site": "same-origin"}) as browser:
        assert not Page(browser.get("/jobs/job-1").text).all("meta", content="0")


FORGED = {
    "no token of the form": (lambda sent: sent.pop("csrf"), {}, 403),
    "another token": (lambda sent: sent.update(csrf="x" * 43), {}, 403),
    "a token that is no ASCII": (lambda sent: sent.update(csrf="\u202e"), {}, 403),
    "from another site": (lambda sent: None, {"sec-fetch-site": "cross-site"}, 403),
    "from a sister's site": (lambda sent: None, {"sec-fetch-site": "same-site"}, 403),
    "from another origin": (lambda sent: None, {"origin": "https://evil.example"}, 403),
    "from nowhere": (lambda sent: None, {"origin": "null"}, 403),
    "as text": (lambda sent: None, {"content-type": "text/plain"}, 415),
    "no schema": (lambda sent: sent.pop("fingerprint"), {}, 400),
    "a schema that is none": (lambda sent: sent.update(fingerprint="f" * 63), {}, 400),
    "another schema": (lambda sent: sent.update(fingerprint="f" * 64), {}, 503),
    "too much": (lambda sent: sent.update(more="x" * 20_000), {}, 400),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_form_does_nothing(guarded, name):
    change, headers, status = FORGED[name]
    with signed_in(guarded, guarded.ann) as browser:
        sent, page = form(browser)
        sent["fingerprint"] = page.field("fingerprint")
        change(sent)
        before, world = guarded.jobs(), dump(guarded.folder / "prod.db")
        said = browser.post("/jobs/job-1/approve", data=sent, headers=headers)
        assert said.status_code == status
        assert (guarded.jobs(), dump(guarded.folder / "prod.db")) == (before, world)
        assert Page(said.text).faults() == []


@pytest.mark.parametrize("act", ["approve", "decline", "revert"])
def test_a_session_is_worth_nothing_without_its_form(guarded, act):
    with signed_in(guarded, guarded.ann) as ann, signed_in(guarded, guarded.ann) as other:
        before = guarded.jobs()
        theirs, page = form(other)
        sent = {**theirs, "fingerprint": page.field("fingerprint")}
        assert ann.post(f"/jobs/job-1/{act}", data=sent).status_code == 403  # of another session
        assert httpx.post(f"{guarded.url}/jobs/job-1/{act}", data=sent, headers=HTML).status_code == 401
        bearer = {**HTML, "authorization": f"Bearer {guarded.ann}"}
        assert httpx.post(f"{guarded.url}/jobs/job-1/{act}", data=sent, headers=bearer).status_code == 403
        assert guarded.jobs() == before


def test_an_approval_binds_the_schema_that_was_shown(guarded):
    guarded.submit(envelope("bound"), token=guarded.agent)
    with signed_in(guarded, guarded.ann) as browser:
        sent, page = form(browser, "/jobs/bound")
        sent["fingerprint"] = page.field("fingerprint")
        query(guarded.folder / "prod.db", "CREATE TABLE meanwhile (a)")
        before = guarded.jobs()
        said = browser.post("/jobs/bound/approve", data=sent)
        assert (said.status_code, "The approval is void" in said.text) == (503, True)
        assert guarded.jobs() == before
        again, page = form(browser, "/jobs/bound")
        again["fingerprint"] = page.field("fingerprint")
        assert again["fingerprint"] != sent["fingerprint"]
        done = browser.post("/jobs/bound/approve", data=again)
        assert done.status_code == 303
        shown = Page(browser.get(done.headers["location"]).text)
    entry = guarded.jobs()[0][0]
    assert (entry.state.value, entry.approver, entry.approved_fingerprint) == ("approved", "ann", again["fingerprint"])
    assert ["◑", "approved"] in [said for _, said in shown.states()]


def test_nobody_approves_their_own(guarded):
    guarded.submit(envelope("mine"), token=guarded.ann)
    with signed_in(guarded, guarded.ann) as browser:
        sent, page = form(browser, "/jobs/mine")
        assert "You submitted this job; another person must approve it." in page.all("main")[0]["text"]
        before = guarded.jobs()
        said = browser.post("/jobs/mine/approve", data={**sent, "fingerprint": page.field("fingerprint")})
        assert (said.status_code, "the target wants another approver" in said.text) == (403, True)
        assert guarded.jobs() == before


def test_who_may_not_approve_has_no_form_and_no_way(guarded):
    with signed_in(guarded, guarded.agent) as browser:
        sent, page = form(browser)
        assert "Approve" not in page.all("main")[0]["text"]
        before = guarded.jobs()
        for act in ("approve", "decline"):
            said = browser.post(f"/jobs/job-1/{act}", data={**sent, "fingerprint": "f" * 64})
            assert (said.status_code, "lacks the scope approve" in said.text) == (403, True)
        assert guarded.jobs() == before


def test_what_is_for_another_target_is_not_there(guarded):
    with signed_in(guarded, guarded.bob) as browser:
        assert browser.get("/jobs/job-1").status_code == 404
        assert browser.get("/jobs?target=prod").status_code == 403
        for place in ("/", "/jobs", "/jobs?q=job", "/jobs?state=staged"):
            said = browser.get(place)
            assert (said.status_code, "job-1" in said.text) == (200, False)
        csrf = Page(browser.get("/").text).field("csrf")
        before = guarded.jobs()
        sent = {"csrf": csrf, "fingerprint": "f" * 64}
        assert browser.post("/jobs/job-1/approve", data=sent).status_code == 404
        assert guarded.jobs() == before


def test_a_decline_keeps_its_reason(guarded):
    guarded.submit(envelope("unwanted"), token=guarded.agent)
    with signed_in(guarded, guarded.ann) as browser:
        sent, _ = form(browser, "/jobs/unwanted")
        assert browser.post("/jobs/unwanted/decline", data={**sent, "reason": "no </script>"}).status_code == 303
        text = browser.get("/jobs/unwanted").text
    assert "reason: no &lt;/script&gt;" in text
    assert guarded.jobs()[0][0].state.value == "declined"


def test_without_tokens_the_page_of_this_machine_works_and_no_other(empty):
    empty.submit(envelope("job-1"))
    with empty.browser() as browser:
        sent, page = form(browser)
        sent["fingerprint"] = page.field("fingerprint")
        for headers in ({"origin": "http://evil.example"}, {"host": "evil.example"}, {"sec-fetch-site": "same-site"}):
            before = empty.jobs()
            assert browser.post("/jobs/job-1/approve", data=sent, headers=headers).status_code == 403
            assert empty.jobs() == before
        assert browser.post("/jobs/job-1/approve", data=sent).status_code == 303
    assert "self-approved" in empty.jobs()[0][0].evidence


def test_an_applied_job_with_downs_can_be_reverted(tmp_path):
    with served(tmp_path, worker=True) as site, site.browser() as browser:
        site.submit(envelope("job-1", down=["DROP TABLE made"]))
        for job, action in (("job-1", "approve"), ("job-1", "revert"), ("job-1.revert", "approve")):
            sent, page = form(browser, f"/jobs/{job}")
            if action == "approve":
                sent["fingerprint"] = page.field("fingerprint")
            assert browser.post(f"/jobs/{job}/{action}", data=sent).status_code == 303
            if action == "approve":
                site.until(lambda job=job: "✓" in str(Page(browser.get(f"/jobs/{job}").text).states()))
        states = [said[1] for _, said in Page(browser.get("/jobs/job-1").text).states()]
        assert states[0] == "reverted"
    assert query(tmp_path / "prod.db", "SELECT count(*) FROM sqlite_master WHERE name = 'made'") == [(0,)]
