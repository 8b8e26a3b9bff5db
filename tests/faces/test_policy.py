"""`endmark policy check`, and one endmark.toml for the settings and the policy."""

from tests.core.test_policy import BRANCH, EXAMPLE, MODEL, SOUND, WEAK


def test_a_sound_policy(shell):
    shell.write("endmark.toml", SOUND)
    said = shell.run("policy", "check")
    assert said.code == 0
    assert said.text.startswith("The policy is sound.")
    found = shell.run("policy", "check", "--json").object
    assert (found["sound"], found["weaknesses"], found["exit_code"]) == (True, [], 0)
    assert found["branches"] == {"main": {"policy": "gate-1", "reviewers": ["a", "b"]}}
    assert shell.run("policy", "check", "-", stdin=SOUND.encode()).text == said.text


def test_the_example_is_sound_with_advice(shell):
    said = shell.run("policy", "check", EXAMPLE)
    assert said.code == 0
    assert "advice    3  branches.main: one reviewer decides alone" in said.text
    assert "advice   16  reviewers.tests: a verdict from elsewhere counts for it unsigned" in said.text
    assert "sound, 2 points of advice" in said.text


def test_shared_capacity_does_not_decide_a_merge(shell):
    said = shell.run("policy", "check", shell.write("p.toml", WEAK[1]))
    assert said.code == 1
    assert "forbids   1  reviewers.a: capacity is shared, and it decides a merge" in said.text
    assert "never" not in said.text
    assert "not sound: 1 point" in said.text
    found = shell.run("policy", "check", "p.toml", "--json")
    assert (found.code, found.object["sound"]) == (1, False)
    assert [(weak["number"], weak["forbids"], weak["where"]) for weak in found.object["weaknesses"]] == [
        (1, True, "reviewers.a")
    ]


def test_what_cannot_be_read_is_misuse(shell):
    for text, says in (
        (BRANCH + MODEL + "capaciti = 1\n", "unknown key"),
        ("", "asks for nothing"),
        (b"\xff", "no TOML"),
        (BRANCH + MODEL + 'key = "sk-secret-123"\n', "env:NAME"),
    ):
        said = shell.run("policy", "check", shell.write("p.toml", text))
        assert (said.code, said.out) == (2, b"")
        assert says in said.talk
        assert "secret" not in said.talk
        assert said.talk.count("\n") == 1
    assert shell.run("policy", "check", "none.toml").code == 2


def test_names_that_drive_a_terminal_are_escaped(shell):
    text = SOUND.replace("branches.main", r'branches."m\u202e\u009b2J"').replace('"dedicated"', '"shared"', 1)
    said = shell.run("policy", "check", shell.write("p.toml", text))
    assert said.code == 1
    assert said.out.isascii()


def test_settings_and_policy_share_a_file(shell):
    """Each reader is strict about its own tables, and leaves the other's alone."""
    settings = '[targets.prod]\nurl = "sqlite:///app.db"\n'
    shell.write("endmark.toml", settings + SOUND)
    assert shell.run("apply", shell.plan(), "--to", "prod").code == 0
    assert shell.run("policy", "check").code == 0
    shell.write("endmark.toml", settings + "[branches]\nx = 1\n")
    assert shell.run("apply", shell.plan("job-2", ["CREATE TABLE t (a)"]), "--to", "prod").code == 0
    assert shell.run("policy", "check").code == 2
    shell.write("endmark.toml", settings + 'urll = "x"\n' + SOUND)
    assert shell.run("policy", "check").code == 0
    said = shell.run("apply", shell.plan("job-3"), "--to", "prod")
    assert (said.code, "urll" in said.talk) == (2, True)
    shell.write("endmark.toml", "[branch.main]\n")
    for words in (("jobs",), ("policy", "check")):
        said = shell.run(*words)
        assert (said.code, "branch" in said.talk) == (2, True)
