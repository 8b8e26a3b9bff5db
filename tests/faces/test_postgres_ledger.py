"""A ledger in PostgreSQL behind the command line and `import endmark`: the same verbs, the same answers."""

import random
import subprocess
import sys
import time
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.faces.shell import HERE, STATEMENTS
from tests.support import ledgers
from tests.support.child import MANY
from tests.support.world import query

import endmark
from endmark.core.refusal import CannotTry
from endmark.faces.books import keep_apart
from endmark.faces.config import load
from endmark.faces.misuse import Misuse
from endmark.ledger.book import Ledger


@pytest.fixture
def gate(shell, url):
    """A shell whose ledger is in PostgreSQL."""
    shell.monkeypatch.setenv("ENDMARK_LEDGER", url)
    return shell


def shown(url):
    """The URL without its user."""
    head, _, rest = url.partition("://")
    return f"{head}://{rest.rpartition('@')[2]}"


def test_the_way_of_a_job(gate, url):
    said = gate.apply("job-1", STATEMENTS)
    assert (said.code, said.object["state"]) == (0, "applied")
    assert not (gate.folder / "ledger.db").exists()
    again = gate.apply("job-1", STATEMENTS)
    assert (again.object["state"], again.object["attempt_id"]) == ("applied", said.object["attempt_id"])
    other = gate.apply("job-1", [*STATEMENTS, "SELECT 1"])
    assert (other.code, other.object["signal"]) == (12, "id-reused")
    assert "job-1" in gate.run("jobs").text
    assert gate.run("show", "job-1").code == 0
    gate.stage("job-2", ["CREATE TABLE second (n)"])
    assert gate.run("decline", "job-2").code == 1
    verified = gate.run("ledger", "verify", "--json").object
    assert (verified["ok"], verified["attempts"]) == (True, 3)
    with Ledger.open(url, create=False) as book:
        assert [entry.state for entry in book.page(10)] == ["declined", "rejected", "applied"]


def test_from_python(gate, url):
    with endmark.Gate(url) as book:
        plan = (gate.folder / gate.plan("job-1", STATEMENTS)).read_bytes()
        assert book.apply(plan, HERE).state == "applied"
        with pytest.raises(CannotTry, match="there is no job or attempt job-9 in the ledger postgresql://127"):
            book.job("job-9")


def test_init_makes_and_finds(gate, url):
    place = f"{url}?schema=by_init"
    first, second = (gate.run("ledger", "init", "--ledger", place, "--json").object for _ in range(2))
    assert (first["made"], second["made"]) == (True, False)
    assert first["ledger"] == shown(place)


def test_the_sql_for_an_administrator(gate, url):
    place = f"{url}?schema=by_hand"
    said = gate.run("ledger", "init", "--ledger", place, "--print", "--role", "postgres")
    assert said.code == 0
    assert 'GRANT USAGE ON SCHEMA by_hand TO "postgres"' in said.text
    with psycopg.connect(url, autocommit=True) as admin:
        assert admin.execute("SELECT to_regnamespace('by_hand')").fetchone() == (None,)  # nothing was done
        admin.execute(said.text)
    assert gate.run("ledger", "init", "--ledger", place, "--json").object["made"] is False
    assert gate.run("ledger", "verify", "--ledger", place).code == 0


def test_what_makes_no_sense(gate, url):
    assert gate.run("ledger", "init", "--ledger", "x.db", "--print").code == 2
    assert gate.run("ledger", "init", "--ledger", url, "--role", "x").code == 2
    assert gate.run("ledger", "verify", "--ledger", "mysql://x/y").code == 2
    said = gate.run("ledger", "verify", "--ledger", "postgresql://ann:hunter2@h/x?schema=No")
    assert (said.code, "hunter2" in said.talk) == (2, False)
    assert "names a schema that endmark does not take" in said.talk


def test_a_ledger_that_cannot_be_had(gate, url):
    before = gate.dump()
    for place, says in (
        ("postgresql://ann:hunter2@127.0.0.1:1/x", "cannot be reached"),
        (f"{urlsplit(url)._replace(path='/endmark_no_such').geturl()}", "does not exist"),
    ):
        said = gate.run("apply", gate.plan("job-1", STATEMENTS), "--to", HERE, "--yes", "--ledger", place)
        assert said.code == 20
        assert says in said.talk
        assert "hunter2" not in said.talk + said.text
    assert gate.dump() == before


def test_the_url_may_come_from_the_environment(tmp_path):
    (tmp_path / "endmark.toml").write_text('[ledger]\nurl = "env:BOOKS"\n[targets.a]\nurl = "sqlite:///a.db"\n')
    environ = {"BOOKS": "postgresql://ann:hunter2@h/books", "XDG_STATE_HOME": str(tmp_path / "state")}
    found = load(None, str(tmp_path / "endmark.toml"), environ)
    assert (found.ledger, found.ledger_is_ours) == (environ["BOOKS"], False)
    assert found.place("a").options.backups == tmp_path / "state" / "endmark" / "backups"
    with pytest.raises(Misuse, match="BOOKS is not set"):
        load(None, str(tmp_path / "endmark.toml"), {})


def test_the_ledger_is_not_the_targets_own_database():
    class Target:
        identity = "postgresql://db.example.com:5432/app"

        def is_file(self, path):
            return False

    with pytest.raises(CannotTry, match=r"the target's own database postgresql://db\.example\.com:5432/app"):
        keep_apart(Target(), "postgres://ann:hunter2@DB.example.com/app?schema=books")  # type: ignore[arg-type]
    keep_apart(Target(), "postgres://ann:hunter2@db.example.com/books")  # type: ignore[arg-type]


def test_nor_under_another_name_of_the_server(gate, url):
    parts = urlsplit(url)
    user, port = parts.username, parts.port or 5432
    other = parts._replace(netloc=f"{user}@localhost:{port}").geturl()
    with endmark.Gate(other, reconcile=False) as book:
        with pytest.raises(CannotTry, match="the target's own database postgresql://127"):
            book.target(url)
        book.target(ledgers.with_database("postgres"))


def test_who_keeps_a_file_loads_no_driver(shell):
    script = (
        "import sys; from endmark.faces import cli; code = cli.run(sys.argv[1:]);"
        "assert not [name for name in sys.modules if name.startswith('psycopg')]; sys.exit(code)"
    )
    for arguments in (["check", shell.plan()], ["apply", shell.plan(), "--to", HERE, "--yes"], ["ledger", "verify"]):
        done = subprocess.run([sys.executable, "-c", script, *arguments], cwd=shell.folder, capture_output=True)
        assert (done.returncode, b"Traceback" in done.stderr) == (0, False), done.stderr


def test_without_the_driver(gate):
    script = "import sys; sys.modules['psycopg'] = None; from endmark.faces import cli; sys.exit(cli.run(sys.argv[1:]))"
    for arguments in (["ledger", "verify"], ["ledger", "init"], ["ledger", "init", "--print"]):
        done = subprocess.run([sys.executable, "-c", script, *arguments], cwd=gate.folder, capture_output=True)
        assert done.returncode == 20
        assert b"pip install 'endmark[postgres]'" in done.stderr


# Counts long enough for a kill to come in between.
LONG = (
    "INSERT INTO k{0}_ SELECT count(*) + 1000, NULL FROM (WITH RECURSIVE c(n) AS "
    "(SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 50000000) SELECT n FROM c)"
)


def test_killed_while_it_applies(gate, url):
    """kill -9 at a moment by chance, five times: the receipt in the target decides, and both books agree."""
    dice = random.Random(11)
    found = []
    for turn in range(5):
        job = f"job-{turn}"
        statements = renamed(MANY, turn) + ([LONG.format(turn)] if turn == 0 else [])
        with gate.start("apply", gate.plan(job, statements), "--to", HERE, "--yes") as process:
            wait_until_applying(url, job, process)
            time.sleep(dice.uniform(0, 0.1))
            process.kill()
            process.communicate()
        assert gate.run("reconcile").code in (0, 1)
        with Ledger.open(url, create=False) as book:
            state = next(entry.state for entry in book.page(10) if entry.job_id == job)
            assert book.verify().problems == ()
        sql = f"SELECT status FROM schema_jobs WHERE job_id = '{job}'"
        receipts = query(gate.app, sql) if has_receipts(gate) else []
        made = query(gate.app, f"SELECT count(*) FROM sqlite_master WHERE name GLOB 'k{turn}_*'")[0][0]
        assert (state, made) == (("applied", 61) if receipts else ("failed", 0))
        found.append(state.value)
    assert found[0] == "failed"


def renamed(statements, turn):
    """The same plan for tables of its own."""
    changed = [statements[0].replace("TABLE t ", f"TABLE k{turn}_ ")]
    for sql in statements[1:]:
        changed.append(sql.replace("INTO t ", f"INTO k{turn}_ ").replace("TABLE t", f"TABLE k{turn}_"))
    return changed


def has_receipts(gate):
    return bool(query(gate.app, "SELECT 1 FROM sqlite_master WHERE name = 'schema_jobs'"))


def wait_until_applying(url, job, process):
    with Ledger.open(url, create=False) as book:
        while True:
            entry = book.by_job(job)
            if entry is not None and entry.state not in ("received", "staged", "approved"):
                return
            assert process.poll() is None, process.communicate()


def test_the_server_is_restarted_between_two_jobs(gate, url):
    """What a restart does to a connection, as far as a test may do it to a server that others use."""
    with endmark.Gate(url) as book, ledgers.stranger(url) as admin:
        plan = (gate.folder / gate.plan("job-1", STATEMENTS)).read_bytes()
        assert book.apply(plan, HERE).state == "applied"
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert book.job("job-1").state == "applied"
