"""Tables: a tool call in, an exit code out. What is let through matters as much as what is blocked."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.world import witness_bytes

from endmark.core import proof, strictjson
from endmark.core.refusal import Refused
from endmark.faces.hooks import door
from endmark.faces.hooks.shell import commands
from endmark.faces.misuse import Misuse

CONFIG = """
trusted_keys = ["gate.key.pub"]
[ledger]
url = "sqlite:///state/ledger.db"
[merge]
key = "gate.key"
[targets.prod]
url = "sqlite:///app.db"
review = "required"
[targets.big]
url = "postgresql://ann:secret@db.example.org/billing"
[targets.shop]
url = "env:SHOP_URL"
[branches.main]
policy = "v1"
reviewers = ["r"]
"""
ENVIRON = {"SHOP_URL": "mariadb://u:p@127.0.0.1/shop"}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "endmark.toml").write_text(CONFIG)
    (tmp_path / "sub").mkdir()
    (tmp_path / "alias.db").symlink_to("app.db")
    git = tmp_path / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/topic\n")
    return tmp_path


def request(tool, given, folder, **more):
    said = {
        "session_id": "s",
        "hook_event_name": "PreToolUse",
        "cwd": str(folder),
        "tool_name": tool,
        "tool_input": given,
    }
    return json.dumps(said | more).encode()


def judged(raw, environ=ENVIRON):
    return door.judged(raw, "claude", None, environ)


BLOCKED = [
    "sqlite3 app.db 'DROP TABLE users'",
    "sqlite3 ./sub/../app.db .dump",
    "cd /x && sqlite3 {folder}/app.db",
    "cd state && sqlite3 ledger.db 'DELETE FROM attempts'",
    "cd /x; cd {folder}; rm app.db",
    "(cd state && rm -f ledger.db)",
    "pushd {folder}/sub && sqlite3 ../app.db",
    "echo \"$(sqlite3 app.db 'DROP TABLE t')\"",
    "OUT=\"$(psql -d billing -c 'DROP TABLE t')\"",
    'echo "$(cd state; echo "$(rm ledger.db)")"',
    "sqlite3 alias.db",
    "sqlite3 file:app.db",
    "sudo -u ann sqlite3 app.db",
    "echo 'DROP TABLE users' | sqlite3 app.db",
    "X=1 env Y=2 nohup sqlite3 app.db",
    'bash -lc "sqlite3 app.db \\"SELECT 1\\""',
    "echo $(sqlite3 app.db .tables)",
    "echo `sqlite3 app.db .tables`",
    "true\nsqlite3 app.db",
    "cat new.db > app.db",
    "echo >> state/ledger.db",
    "rm app.db-wal",
    "cp new.db app.db",
    "python3 -c \"import sqlite3; sqlite3.connect('app.db').execute('x')\"",
    "sed -i s/required/none/ endmark.toml",
    "openssl pkey -in gate.key",
    "psql postgresql://ann@db.example.org/billing -c 'DROP TABLE t'",
    "psql -h db.example.org -U ann billing",
    "PGPASSWORD=x psql -d billing -f plan.sql",
    "psql",
    "psql -c 'DROP TABLE t'",
    "psql -h db.example.org -U ann -f plan.sql",
    "PGDATABASE=billing psql --command 'DROP TABLE t'",
    "mysql -u root -e 'DROP TABLE t'",
    "psql -dbilling_test -c 'x' && psql -d billing",
    'mysql "$SHOP_URL"',
    "mariadb -u u shop < plan.sql",
    "find app.db -delete",
    "find . -name app.db -exec rm {{}} +",
    'sqlite3 "${{SHOP_URL#sqlite:///}}"',
    "git push origin main",
    "git push origin HEAD:main",
    "git push --force origin topic:refs/heads/main",
    "git push origin :main",
    "git push origin +Main",
    "git push --all",
    "git -C . push origin 'refs/heads/*:refs/heads/*'",
    "git update-ref refs/heads/main HEAD",
    "git branch -f main topic",
    "git checkout -B main",
    "git fetch . topic:main",
    "git -c core.hooksPath=/dev/null push origin topic",
    "git config core.hooksPath /dev/null",
    "endmark approve orders-1",
    "endmark apply plan.mc1 --to prod --yes",
    "python -m endmark approve orders-1 --yes",
    "env -u CLAUDECODE endmark approve orders-1",
    "endmark settle orders-1 --reason x",
    "endmark merge --base main --head topic --approve",
    "endmark hook git uninstall",
    "export ENDMARK_AGENT_MAY_APPROVE=1",
    "echo \"it's open && sqlite3 app.db",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=core.hooksPath GIT_CONFIG_VALUE_0=/dev/null git push origin topic",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=push.default GIT_CONFIG_VALUE_0=matching git push",
    "env GIT_CONFIG_PARAMETERS=\"'core.hooksPath=/dev/null'\" git push origin topic",
    "export GIT_CONFIG_KEY_0=core.hooksPath",
    "git --config-env=core.hooksPath=X push origin topic",
    "git -c remote.origin.push=topic:main push",
    "git -c push.default=matching push",
    "git -c alias.p=push p origin main",
    "git config remote.origin.push topic:main",
    "git push --al",
    "git push --mirr origin",
    "git push --del origin main",
    "git branch --forc main topic",
    "git switch --force-c main",
    "git checkout -qBmain",
    "git worktree add -B main ../w topic",
    "git send-pack ../origin.git topic:main",
    "docker exec -i db psql -U postgres billing -c 'DROP TABLE t'",
    "docker exec db sh -c \"psql billing -c 'DROP TABLE t'\"",
    "docker compose exec -T db psql -d billing",
    "kubectl exec -it pod/db -- psql billing",
    "ssh db.example.org \"psql billing -c 'DROP TABLE t'\"",
    "uvx endmark approve orders-1",
    "uvx --from endmark endmark approve orders-1",
    "uv run python -m endmark approve orders-1",
    "pipx run endmark settle orders-1",
    "python3 -mendmark approve orders-1",
    "ENDMARK_AGENT_MAY_APPROVE=1 make release",
    "git rm app.db",
    "git mv state old",
    "git checkout HEAD -- endmark.toml",
    "git restore endmark.toml",
    "git clean -fdx",
    "git -C sub/.. stash -u",
    "rm -rf state",
    "rm -r ..",
    "rm -rf {folder}",
    "rm *.db",
    "rm -f st*/ledger.db",
    "rm -rf s*",
    "mv state old",
    "rsync -a --delete new/ state/",
    "truncate -s 0 app.db",
    "dd if=/dev/zero of=app.db",
    ": > app.db",
    "exec 3>app.db",
    "cat new | tee app.db",
    "shred -u app.db",
    "find . -delete",
    "find state -type f -exec rm {{}} +",
    "find . -name '*.db' -delete",
    "find . ! -name '*.py' -delete",
    "find . -path './state/*' -delete",
    "find . -name app.db -print0 | xargs -0 rm",
    "ls state/*.db | grep led | xargs -n1 rm -f",
    "echo app.db | xargs rm",
    "watch 'sqlite3 app.db'",
]
LET_THROUGH = [
    "",
    "ls -l app.db",
    "sqlite3 other.db 'DROP TABLE users'",
    "grep -r app.db docs",
    "find . -name app.db",
    "find . -name '*.pyc' -delete",
    "git status",
    "git push",
    "git push origin topic",
    "git push -o ci.skip origin topic",
    "git commit -m 'psql billing; endmark approve'",
    "git branch -D topic",
    "git checkout main",
    "endmark apply plan.mc1 --to prod",
    "endmark check plan.mc1",
    "endmark approve --help",
    "endmark jobs --state staged",
    "psql -d other -c 'SELECT 1'",
    "psql --version",
    "psql -h db.example.org -U ann other -c 'SELECT 1'",
    "psql --dbname=other -c 'SELECT 1'",
    "mysql -u root -D other -e 'SELECT 1'",
    "mysql -u root -p other",
    "echo psql billing",
    "python3 -m pytest -q",
    "cat plan.json > plan.mc1",
    "make test 2>&1 | tail",
    "GIT_CONFIG_GLOBAL=/dev/null git status",
    "GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=user.name GIT_CONFIG_VALUE_0=A git commit -m x",
    "git commit -m 'leave core.hooksPath alone'",
    "git config alias.st status",
    "git config remote.origin.pushurl git@example.org:a/b",
    "git push --progress origin topic",
    "git push --dry-run origin topic",
    "git branch --format='%(refname)' main",
    "git branch --contains main",
    "git worktree add ../w main",
    "git checkout -b topic-2 main",
    "git rm -r src",
    "git mv a.py src",
    "git restore src/a.py",
    "git checkout .",
    "git stash",
    "git clean -ndx",
    "git clean -fd sub",
    "docker pull mysql",
    "docker run -d --name db mysql",
    "docker exec db psql -d other -c 'SELECT 1'",
    "ssh host.example.org uptime",
    "uv add endmark",
    "uvx ruff check",
    "uv run endmark apply plan.mc1 --to prod",
    "rm -rf build dist",
    "rm -rf sub/*",
    "rm *.log",
    "mv a.py .",
    "mv a.py sub",
    "cp -r sub .",
    "cp -r template/* .",
    "sed -ri s/a/b/ src/a.py",
    "rsync -a state/ backup/",
    "find . -type d -empty -delete",
    "find . -path './node_modules/*' -delete",
    "find sub -type f -delete",
    "find . -type f -exec grep -l x {} +",
    "grep -rl old . | xargs sed -i s/old/new/",
    "find . -name '*.pyc' | xargs rm",
    "ls app.db | xargs wc",
    "export GIT_CONFIG_GLOBAL=/dev/null",
]


@pytest.mark.parametrize("command", BLOCKED)
def test_blocked(folder, command):
    said = judged(request("Bash", {"command": command.format(folder=folder), "timeout": 1}, folder))
    assert said.startswith("endmark: Bash was not run.")
    assert "fence" in said


@pytest.mark.parametrize("command", LET_THROUGH)
def test_let_through(folder, command):
    assert judged(request("Bash", {"command": command}, folder, new_field={"of": ["a later", "version"]})) == ""


def test_where_the_branch_is_guarded_a_bare_push_is_blocked(folder):
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    for command in ("git push", "git push origin", "git push origin HEAD"):
        assert judged(request("Bash", {"command": command}, folder / "sub"))


def test_the_other_shapes_of_hosts(folder):
    assert judged(request("shell", {"command": ["bash", "-lc", "sqlite3 app.db"]}, folder))
    assert judged(request("exec_command", {"cmd": "sqlite3 app.db"}, folder))
    assert judged(request("exec_command", {"cmd": "rm ledger.db", "workdir": "state"}, folder))
    assert judged(request("exec_command", {"cmd": "rm ledger.db", "workdir": str(folder / "sub")}, folder)) == ""
    patch = "*** Begin Patch\n*** Update File: endmark.toml\n@@\n-a\n+b\n*** End Patch"
    assert judged(request("apply_patch", {"command": patch}, folder))
    assert judged(request("apply_patch", {"command": patch.replace("endmark.toml", "app.py")}, folder)) == ""
    assert judged(request("Write", {"file_path": str(folder / "app.db"), "content": ""}, folder))
    assert judged(request("Edit", {"file_path": str(folder / "app.py")}, folder)) == ""
    assert judged(request("Read", {"file_path": str(folder / "endmark.toml")}, folder)) == ""


def test_a_plan_has_to_be_whole(folder):
    whole = witness_bytes("j", ("SELECT 1",)).decode()
    sealed = proof.seal(whole.encode()).decode()
    for plan in (whole, sealed):
        assert judged(request("mcp__endmark__apply_schema", {"plan": plan}, folder)) == ""
        for at in range(len(plan)):
            said = judged(request("mcp__endmark__apply_schema", {"plan": plan[:at]}, folder))
            assert f"Received bytes: {at:,}" in said
            assert "never append" in said
    for other in ("{}", '{"plan": {}}', '{"plan": "[]"}', '{"plan": null}'):
        assert judged(request("mcp__endmark__apply_schema", strictjson.loads(other.encode()), folder))
    assert judged(request("mcp__endmark__submit_verdict", {"verdict": sealed}, folder))


def test_what_a_person_switched_off_is_off(folder):
    environ = ENVIRON | {"ENDMARK_AGENT_MAY_APPROVE": "1"}
    assert judged(request("Bash", {"command": "endmark approve x"}, folder), environ) == ""
    assert judged(request("Bash", {"command": "sqlite3 app.db"}, folder), environ)


def test_without_a_configuration_only_a_persons_words_are_blocked(tmp_path):
    assert judged(request("Bash", {"command": "sqlite3 app.db"}, tmp_path)) == ""
    assert judged(request("Bash", {"command": "endmark approve x"}, tmp_path))


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"{}",
        b"[]",
        b"null",
        b'{"hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_input": {}}',
        b'{"hook_event_name": "PreToolUse", "tool_input": {}}',
        b'{"hook_event_name": "PreToolUse", "tool_name": "Bash"}',
        b'{"hook_event_name": "PreToolUse", "tool_name": "", "tool_input": {}}',
        b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": "ls"}',
        b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}, "tool_input": {}}',
        b'{"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {}} {}',
    ],
)
def test_what_is_no_whole_request_is_no_permission(raw):
    with pytest.raises((Refused, Misuse)):
        judged(raw)


def test_every_cut_of_a_request_is_refused(folder):
    raw = request("Bash", {"command": "ls"}, folder)
    assert judged(raw) == ""
    for at in range(len(raw)):
        with pytest.raises((Refused, Misuse)):
            judged(raw[:at])


def test_a_configuration_that_cannot_be_read_blocks(folder):
    (folder / "endmark.toml").write_text("[targets")
    with pytest.raises(Misuse, match="no TOML"):
        judged(request("Bash", {"command": "ls"}, folder))


@given(st.binary(max_size=200))
def test_random_bytes_are_no_permission(raw):
    with pytest.raises((Refused, Misuse)):
        judged(raw)


@settings(max_examples=40)
@given(st.text(max_size=60), st.sampled_from(["sqlite3 app.db", "endmark approve x"]))
def test_no_text_before_a_line_hides_it(text, command):
    """Whatever stands on the lines before, as long as it closes what it opens."""
    found = list(commands(f"{text}\n{command}"))
    plain = not set(text) & set("\\'\"<>")
    assert not plain or any(one.program == command.split()[0] for one in found)
