"""`endmark target`, and the other verbs at a PostgreSQL target."""

import subprocess
import sys

import pytest
from tests.effects.postgres.conftest import cluster, database  # noqa: F401  # fixtures
from tests.effects.postgres.plans import ELEVEN
from tests.effects.postgres.world import make_url

CONFIG = """
[targets.prod]
url = "env:PROD_URL"
review = "required"
[targets.dev]
url = "{admin}"
allow_owner = true
"""


@pytest.fixture
def bare(cluster):  # noqa: F811
    with cluster.database("bare", template="template0") as made:
        made.query(f"GRANT CREATE, USAGE ON SCHEMA public TO {cluster.gate}")
        yield made


def test_setup_and_check_and_apply(shell, cluster, bare):  # noqa: F811
    refused = shell.run("target", "check", bare.url)
    assert refused.code == 1
    assert "was not set up for endmark" in refused.text
    tried = shell.run("apply", shell.plan("j1", ELEVEN), "--to", bare.url, "--yes")
    assert (tried.code, "endmark target setup" in tried.talk) == (20, True)
    assert "pässword" not in tried.talk

    admin = make_url(cluster.url, "postgres", bare.name)
    done = shell.run("target", "setup", admin, "--role", cluster.gate, "--owner", cluster.owner)
    assert (done.code, "is ready" in done.text) == (0, True)
    ready = shell.run("target", "check", bare.url, "--json")
    assert (ready.code, ready.object["faults"], ready.object["powers"]) == (0, [], [])
    assert ready.object["owner"] == cluster.owner
    as_admin = shell.run("target", "check", admin)
    assert (as_admin.code, "a superuser" in as_admin.text) == (1, True)

    applied = shell.run("apply", shell.plan("j1", ELEVEN), "--to", bare.url, "--yes", "--json")
    assert (applied.code, applied.object["state"], applied.object["statements_run"]) == (0, "applied", 11)
    assert applied.object["target"].startswith("postgresql://127.0.0.1:")
    assert cluster.gate not in applied.out.decode()
    assert bare.query("SELECT job_id, status FROM schema_jobs") == [("j1", "applied")]
    assert shell.run("fingerprint", bare.url).text.strip() == bare.fingerprint()


def test_what_is_printed_can_be_run_by_an_administrator(shell, cluster, bare):  # noqa: F811
    printed = shell.run("target", "setup", bare.url, "--print", "--owner", cluster.owner)
    assert printed.code == 0
    bare.admin.execute(printed.text)
    assert shell.run("target", "check", bare.url).code == 0


def test_a_target_with_a_name(shell, cluster, database):  # noqa: F811
    admin = make_url(cluster.url, "postgres", database.name)
    shell.write("endmark.toml", CONFIG.format(admin=admin))
    shell.setenv(PROD_URL=database.url)
    waits = shell.run("apply", shell.plan("j1", ["CREATE TABLE a (n int)"]), "--to", "prod", "--yes", "--json")
    assert waits.code == 16 or "review" in waits.talk
    allowed = shell.run("target", "check", "dev")
    assert (allowed.code, "allowed by allow_owner" in allowed.text) == (0, True)
    # The same database by its URL, as anybody: the target with a name is not walked around.
    around = shell.run("apply", shell.plan("j2", ["CREATE TABLE b (n int)"]), "--to", database.url, "--yes")
    assert around.code in (2, 16)
    assert database.query("SELECT count(*) FROM schema_jobs") == [(0,)]


def test_a_sqlite_target_needs_no_setup(shell):
    for verb in ("setup", "check"):
        said = shell.run("target", verb, "sqlite:///app.db")
        assert (said.code, "needs no setup" in said.talk) == (20, True)


@pytest.mark.parametrize("url", ["postgresql://u:secret@h:port/app", "postgresql://u:secret@127.0.0.1:1/app"])
def test_a_password_is_never_said(shell, url):
    said = shell.run("apply", shell.plan(), "--to", url, "--yes", "--json")
    assert said.code in (2, 20)
    assert b"secret" not in said.out + said.err


def test_without_psycopg_it_says_what_to_install():
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from endmark.faces.targets import target_at\n"
        "from endmark.core.refusal import CannotTry\n"
        "try: target_at('postgresql://u@h/d')\n"
        "except CannotTry as fault: print(fault)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'endmark[postgres]'" in said.stdout
