"""What a forge is told, against a server that answers as the recorded APIs do."""

import httpx
import msgspec
import pytest
from tests.support.forge import TOKEN, forge

from endmark.core.refusal import CannotTry
from endmark.core.states import Decision
from endmark.core.verdict import Finding
from endmark.effects.forges import github, gitlab
from endmark.effects.forges.report import Report

COMMIT = "a" * 40
FINDINGS = (
    Finding("blocking", "src/a.py", "this drops \x1b[31mall rows", 12),
    Finding("advisory", "src/b.py", "a name", 3),
    Finding("advisory", "src/b.py", "of the file", None),
)
REPORT = Report(
    commit=COMMIT,
    decision_id="dec_1",
    state=Decision.FAIL,
    title="2 findings",
    summary="# no",
    findings=FINDINGS,
    details_url="https://ci.example/1",
)


@pytest.fixture
def server():
    with forge() as made:
        yield made


@pytest.fixture
def client(server):
    with httpx.Client(base_url=server.url) as client:
        yield client


def test_a_check_run(server, client):
    assert github.post(REPORT, "acme/app", TOKEN, client) == "4"
    [(method, path, body)] = server.asked
    assert (method, path) == ("POST", "/repos/acme/app/check-runs")
    assert body == {
        "name": "endmark",
        "head_sha": COMMIT,
        "external_id": "dec_1",
        "status": "completed",
        "conclusion": "failure",
        "details_url": "https://ci.example/1",
        "output": {
            "title": "2 findings",
            "summary": "# no",
            "annotations": [
                {
                    "path": "src/a.py",
                    "start_line": 12,
                    "end_line": 12,
                    "annotation_level": "failure",
                    "message": r"this drops \x1b[31mall rows",
                },
                {
                    "path": "src/b.py",
                    "start_line": 3,
                    "end_line": 3,
                    "annotation_level": "warning",
                    "message": "a name",
                },
            ],
        },
    }


@pytest.mark.parametrize(
    ("state", "at_github", "at_gitlab"),
    [
        ("pending", None, "running"),
        ("pass", "success", "success"),
        ("merged", "success", "success"),
        ("fail", "failure", "failed"),
        ("incomplete", "action_required", "failed"),
        ("stale", "action_required", "failed"),
    ],
)
def test_what_each_state_is_called(server, client, state, at_github, at_gitlab):
    report = msgspec.structs.replace(REPORT, state=Decision(state))
    github.post(report, "acme/app", TOKEN, client)
    gitlab.post(report, "acme/app", TOKEN, client)
    (_, _, run), (_, _, status) = server.asked
    assert run.get("conclusion") == at_github
    assert run["status"] == ("in_progress" if at_github is None else "completed")
    assert status["state"] == at_gitlab


def test_every_state_has_a_name_and_none_that_lets_through_by_default():
    assert set(github.CONCLUSION) == set(gitlab.STATE) == set(Decision)
    assert not {"neutral", "skipped", "cancelled", "stale"} & set(github.CONCLUSION.values())
    assert not {"skipped", "canceled"} & set(gitlab.STATE.values())
    lets_through = {state for state in Decision if "success" in (github.CONCLUSION[state], gitlab.STATE[state])}
    assert lets_through == {Decision.PASS, Decision.MERGED}


@pytest.mark.parametrize("count", [0, 1, 50, 51, 120, 700])
def test_many_findings_take_several_requests(server, client, count):
    findings = tuple(Finding("advisory", "a.py", f"finding {n}", n + 1) for n in range(count))
    github.post(msgspec.structs.replace(REPORT, findings=findings), "acme/app", TOKEN, client)
    assert [note["message"] for note in server.annotations[4]] == [f"finding {n}" for n in range(count)]
    assert len(server.asked) == max(1, -(-count // 50))


def test_what_is_too_long_is_shortened(server, client):
    report = msgspec.structs.replace(
        REPORT, title="t" * 300, summary="s" * 70_000, findings=(Finding("blocking", "a", "\u00fc" * 40_000, 1),)
    )
    github.post(report, "acme/app", TOKEN, client)
    gitlab.post(report, "7", TOKEN, client)
    assert server.asked[0][2]["output"]["summary"].endswith("(shortened; see the artifacts)\n")
    assert server.asked[1][2]["description"] == "t" * 252 + "..."


def test_a_commit_status(server, client):
    report = msgspec.structs.replace(REPORT, state=Decision.INCOMPLETE)
    assert gitlab.post(report, "group/app", TOKEN, client, pipeline_id=5, job_token=True) == "93"
    assert server.asked == [
        (
            "POST",
            f"/projects/group%2Fapp/statuses/{COMMIT}",
            {
                "state": "failed",
                "name": "endmark",
                "description": "incomplete: 2 findings",
                "target_url": "https://ci.example/1",
                "pipeline_id": 5,
            },
        )
    ]


@pytest.mark.parametrize("faults", [[502], [503, "drop"], ["drop"]], ids=str)
def test_what_did_not_get_through_is_sent_again(server, client, faults):
    server.faults = list(faults)
    gitlab.post(REPORT, "7", TOKEN, client)
    assert len(server.asked) == len(faults) + 1


@pytest.mark.parametrize(
    ("faults", "asked", "said"),
    [
        ([502, 503, 504], 3, "504 no \\x1b[31mluck"),
        (["drop", "drop", "drop"], 3, "RemoteProtocolError"),
        ([401], 1, "401 no"),
        ([422], 1, "422"),
        ([301], 1, "301"),
        ([200], 1, "is no JSON object"),
    ],
    ids=str,
)
def test_what_the_forge_does_not_take(server, client, faults, asked, said):
    for post in (
        lambda: github.post(REPORT, "acme/app", TOKEN, client),
        lambda: gitlab.post(REPORT, "7", TOKEN, client),
    ):
        server.faults, server.asked = list(faults), []
        with pytest.raises(CannotTry) as refused:
            post()
        assert said in refused.value.detail
        assert TOKEN not in str(refused.value)
        assert len(server.asked) == asked


def test_a_wrong_token_is_not_repeated(server, client):
    with pytest.raises(CannotTry, match="401 Bad credentials") as refused:
        github.post(REPORT, "acme/app", "ghs_other", client)
    assert "ghs_other" not in str(refused.value)


@pytest.mark.parametrize(
    "repository", ["", "app", "acme/app/x", "acme/../x", "acme/..", "acme/.", "acme/app?x=1", "acme/a b"]
)
def test_a_name_that_is_no_repository(server, client, repository):
    with pytest.raises(CannotTry, match="is not OWNER/NAME"):
        github.post(REPORT, repository, TOKEN, client)
    assert server.asked == []


@pytest.mark.parametrize("project", ["", "/x", "a?b", "a#b", "a b"])
def test_a_name_that_is_no_project(server, client, project):
    with pytest.raises(CannotTry, match="is neither a number nor"):
        gitlab.post(REPORT, project, TOKEN, client)
    assert server.asked == []
