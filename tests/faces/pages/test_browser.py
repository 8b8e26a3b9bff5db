"""The pages in a real Chromium: by keyboard alone, without script, in both themes, on a narrow screen."""

import httpx
import pytest
from tests.effects.postgres.conftest import cluster, database  # noqa: F401  # fixtures
from tests.faces.pages.site import HOSTILE, envelope, furnished, served
from tests.support import chromium, ledgers
from tests.support.world import query

MOST_TABS = 80
CONTRAST = 4.5  # WCAG 2.2, AA, for text of this size

# Of every text that shows: what it says and its contrast with what lies behind it, where that is too low.
UNREADABLE = """
(least) => {
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgb = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (c) => c.slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const found = rgb(getComputedStyle(at).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255, 255];
  };
  const low = [];
  let seen = 0;
  for (const one of document.querySelectorAll('body *')) {
    if (one.closest('.unseen, .skip') || !one.checkVisibility()) continue;
    if (![...one.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    seen += 1;
    const look = getComputedStyle(one);
    const [a, b] = [light(rgb(one.closest('svg') ? look.fill : look.color)), light(behind(one))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < least || look.opacity !== '1') low.push([one.textContent.trim().slice(0, 40), ratio]);
  }
  return [seen, low];
}
"""
FOCUSED = """
() => {
  const one = document.activeElement;
  const look = getComputedStyle(one);
  return { tag: one.tagName, text: one.textContent.trim(), id: one.id,
           seen: one.checkVisibility() && parseFloat(look.outlineWidth) >= 2 && look.outlineStyle !== 'none' };
}
"""


def shut(box, told):
    told.append(box.message)
    box.dismiss()


@pytest.fixture(scope="module")
def browser():
    with chromium.running() as found:
        yield found


@pytest.fixture
def tab(browser):
    """Opens a page whose every complaint fails the test."""
    contexts, complaints = [], []

    def opened(**how):
        context = browser.new_context(**how)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda fault: complaints.append(str(fault)))
        page.on("dialog", lambda box: shut(box, complaints))
        return page

    yield opened
    for context in contexts:
        context.close()
    assert complaints == []


def tab_to(page, holds):
    """Press Tab until the focus is where it should be; wherever it goes it can be seen."""
    for _ in range(MOST_TABS):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused["tag"] != "BODY":
            assert focused["seen"], focused
        if holds(focused):
            return
    raise AssertionError("no number of Tabs leads there")


def approved_by_keyboard(page, site, job):
    """Sign in, find the job, read it, approve it, and see it applied; without a mouse, without loading a page anew."""
    page.goto(f"{site.url}/sign-in")
    assert page.title() == "Sign in · endmark"
    page.keyboard.type(site.ann)  # the field has the focus
    page.keyboard.press("Enter")
    page.wait_for_selector("text=What waits, and for whom")
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUSED)["text"] == "Skip to the content"
    tab_to(page, lambda focused: focused["id"] == "q")
    page.keyboard.type(job)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=What begins with")
    tab_to(page, lambda focused: focused["text"] == job)
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Received and expected")
    assert page.locator("text=all that was declared").is_visible()
    tab_to(page, lambda focused: focused["text"].startswith("Approve 1 statement"))
    page.keyboard.press("Enter")
    page.wait_for_selector("h1.id + .status .state.good")  # news comes by itself
    assert page.locator(".status .state").inner_text().split() == ["✓", "applied"]
    assert page.locator("aside").inner_text().count("ann") >= 1


def test_a_job_is_approved_by_keyboard_alone(tmp_path, tab):
    with served(tmp_path, worker=True) as site:
        agent, site.ann = site.token("agent", "submit"), site.token("ann", "approve")
        site.submit(envelope("job-1"), token=agent)
        page = tab()
        approved_by_keyboard(page, site, "job-1")
        page.close()
    assert query(tmp_path / "prod.db", "SELECT name FROM sqlite_master WHERE name = 'made'") == [("made",)]


def test_the_same_on_postgresql(tmp_path, tab, database):  # noqa: F811
    """Ledger and target."""
    toml = f'[targets.prod]\nurl = "{database.url}"\nrehearse = "always"\n[service]\nworker = true\n'
    with ledgers.new_database() as book, served(tmp_path, toml=toml, ledger=book, worker=True) as site:
        agent, site.ann = site.token("agent", "submit"), site.token("ann", "approve")
        said = site.submit(envelope("job-1", ["CREATE TABLE made (id integer)"]), token=agent)
        assert said.status_code == 202
        page = tab()
        approved_by_keyboard(page, site, "job-1")
        assert "made" in page.locator("pre.diff").inner_text()
        page.close()
        assert database.query("SELECT job_id, status FROM schema_jobs") == [("job-1", "applied")]


def test_without_script_people_decide_as_well(empty, tab):
    empty.submit(envelope("job-1"))
    page = tab(java_script_enabled=False)
    page.goto(f"{empty.url}/jobs/job-1")
    assert page.locator("noscript meta[http-equiv=refresh]").count() == 1
    page.get_by_label("Reason, for the record").fill("not today")
    page.get_by_role("button", name="Decline").click()
    assert page.locator(".status .state").inner_text().split() == ["⊖", "declined"]
    assert page.locator(".timeline").inner_text().count("not today") == 1
    assert empty.jobs()[0][0].state.value == "declined"


def test_what_was_typed_survives_the_news(empty, tab):
    empty.submit(envelope("job-1"))
    page = tab()
    page.goto(f"{empty.url}/jobs/job-1")
    page.get_by_label("Reason, for the record").fill("because")
    assert httpx.post(f"{empty.url}/v1/jobs/job-1/decline").status_code == 200
    page.wait_for_selector("#live:has-text('This job has changed')")
    assert page.get_by_label("Reason, for the record").input_value() == "because"
    page.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Everything in it was written by somebody who means harm."""
    with served(tmp_path_factory.mktemp("hostile")) as site:
        site.merged = furnished(site, hostile=True)
        (site.folder / "drills" / "map.json").write_bytes(
            b'{"version":1,"target":"gate","seed":0,"control":"accepted","planned":1,"tried":1,"refused":1,"crashed":0,'
            b'"hung":0,"inconclusive":0,"accepted":[],"exit_code":0}'
        )
        (site.folder / "drills" / "map.svg").write_bytes(
            b'<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)" width="9" height="9">'
            b'<script>alert(2)</script><image href="/jobs" width="9" height="9"/></svg>'
        )
        yield site


def pages_of(site):
    jobs = ("staged", "partial", "truncated", "applied", "incomplete")
    with site.book() as ledger:
        found = {entry.state.value: entry.attempt_id for entry in ledger.page(50)}
    return [
        "/", "/jobs", "/jobs?q=a", *(f"/jobs/{found[state]}" for state in jobs), "/decisions",
        f"/decisions/{site.merged}", "/stability", "/drills", "/drills/map", "/sign-in",
    ]  # fmt: skip


def test_every_page_can_be_read_and_nothing_in_it_acts(hostile, tab):
    """Wide and narrow, light and dark."""
    page = tab()
    for place in pages_of(hostile):
        page.goto(hostile.url + place)
        for width in (1280, 320):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width, place
        papers = set()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            papers.add(page.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
            seen, low = page.evaluate(UNREADABLE, CONTRAST)
            assert (seen > 5, low) == (True, []), (place, scheme)
        assert len(papers) == 2
    page.goto(f"{hostile.url}/decisions/{hostile.merged}")
    assert HOSTILE[:8] in page.locator("main").inner_text()


def test_a_map_that_is_opened_by_itself_runs_nothing(hostile, browser):
    """It loads nothing and runs nothing, which the browser says aloud."""
    context = browser.new_context()
    page = context.new_page()
    boxes: list[str] = []
    refused: list[str] = []
    page.on("dialog", lambda box: shut(box, boxes))
    page.on("console", lambda said: refused.append(said.text))
    page.goto(f"{hostile.url}/drills/map/map.svg")
    page.wait_for_timeout(200)
    context.close()
    assert boxes == []
    assert any("script" in text for text in refused)
