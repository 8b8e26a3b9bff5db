"""Settings: flags before ENDMARK_* before endmark.toml, and one clear sentence for what makes no sense."""

from pathlib import Path

import pytest
from tests.faces.shell import STATEMENTS
from tests.support.world import make_database, query, witness_bytes

from endmark.core.evidence import Level
from endmark.core.refusal import CannotTry
from endmark.faces.config import Overrides, load
from endmark.faces.misuse import Misuse
from endmark.faces.targets import target_on_record


def read(folder, text, environ=None, **flags):
    (folder / "endmark.toml").write_text(text)
    return load(flags.get("ledger"), flags.get("config", str(folder / "endmark.toml")), environ or {})


def target(folder, more, flags=None, environ=None):
    text = f'[targets.prod]\nurl = "sqlite:///app.db"\n{more}\n'
    return read(folder, text, environ).place("prod", flags)


# --- which setting counts


def test_a_ledger_by_flag_then_variable_then_file(shell):
    shell.write("endmark.toml", '[ledger]\nurl = "sqlite:///by-file.db"\n')
    shell.setenv(ENDMARK_LEDGER="by-variable.db")
    shell.run("ledger", "init", "--ledger", "by-flag.db")
    assert {path.name for path in shell.folder.glob("by-*.db")} == {"by-flag.db"}
    shell.run("ledger", "init")
    assert (shell.folder / "by-variable.db").exists()
    shell.setenv(ENDMARK_LEDGER="")  # as good as unset
    shell.run("ledger", "init")
    assert (shell.folder / "by-file.db").exists()


def test_a_configuration_by_flag_then_variable_then_folder(shell):
    for name in ("flag", "variable", "endmark"):
        shell.write(f"{name}.toml", f'[ledger]\nurl = "sqlite:///{name}.db"\n')
    shell.monkeypatch.delenv("ENDMARK_LEDGER")
    shell.setenv(ENDMARK_CONFIG="variable.toml")
    shell.run("ledger", "init", "--config", "flag.toml")
    shell.run("ledger", "init")
    shell.monkeypatch.delenv("ENDMARK_CONFIG")
    shell.run("ledger", "init")
    assert {path.stem for path in shell.folder.glob("*.db")} == {"flag", "variable", "endmark", "app"}


def test_flags_count_more_than_the_file(tmp_path):
    more = 'backup = "kept"\nlock_timeout = 1\nstatement_timeout = 2.5'
    plain = target(tmp_path, more).options
    assert (plain.lock_timeout, plain.statement_timeout, plain.backups) == (1.0, 2.5, tmp_path / "kept")
    flags = Overrides(lock_timeout=3.0, statement_timeout=4.0, backup="here")
    flagged = target(tmp_path, more, flags).options
    assert (flagged.lock_timeout, flagged.statement_timeout, flagged.backups) == (3.0, 4.0, Path("here"))
    assert target(tmp_path, more, Overrides(no_backup=True)).options.backups is None


def test_what_holds_where_nothing_is_said(tmp_path):
    found = read(tmp_path, '[ledger]\nurl = "sqlite:///book/ledger.db"\n[targets.prod]\nurl = "sqlite:///app.db"\n')
    place = found.place("prod")
    assert found.ledger == tmp_path / "book" / "ledger.db"
    assert (place.name, place.review) == ("prod", "none")
    assert (place.options.lock_timeout, place.options.statement_timeout) == (10.0, 300.0)
    assert place.options.backups == tmp_path / "book" / "backups"
    assert (place.options.min_evidence, place.options.max_statements) == (Level.BARE, None)
    assert read(tmp_path, "").place("sqlite:////x.db").review is None


def test_every_key_reaches_the_gate(tmp_path):
    place = target(tmp_path, 'review = "required"\nbackup = "none"\nmin_evidence = "sealed"\nmax_statements = 7')
    assert place.review == "required"
    assert (place.options.backups, place.options.min_evidence, place.options.max_statements) == (None, Level.SEALED, 7)


# --- where a relative path starts


def test_paths_of_the_file_are_seen_from_its_folder(tmp_path, monkeypatch):
    (tmp_path / "etc").mkdir()
    monkeypatch.chdir(tmp_path)
    found = read(tmp_path / "etc", '[targets.prod]\nurl = "sqlite:///data/app.db"\nbackup = "kept"\n')
    place = found.place("prod")
    assert place.target.identity == f"sqlite:///{tmp_path}/etc/data/app.db"
    assert place.options.backups == tmp_path / "etc" / "kept"


def test_absolute_paths_stay(tmp_path):
    found = read(
        tmp_path, '[ledger]\nurl = "sqlite:////l.db"\n[targets.a]\nurl = "sqlite:////a.db"\nbackup = "/kept"\n'
    )
    assert found.ledger == Path("/l.db")
    assert found.place("a").target.identity == "sqlite:////a.db"
    assert found.place("a").options.backups == Path("/kept")


# --- secrets stay in the environment


def test_a_url_from_the_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = '[ledger]\nurl = "env:BOOK"\n[targets.prod]\nurl = "env:DATABASE_URL"\n'
    found = read(tmp_path, text, {"BOOK": "sqlite:////b.db", "DATABASE_URL": "sqlite:///sub/app.db"})
    assert found.ledger == Path("/b.db")
    assert found.place("prod").target.identity == f"sqlite:///{tmp_path}/sub/app.db"


def test_a_variable_that_is_not_set(tmp_path):
    found = read(tmp_path, '[targets.prod]\nurl = "env:DATABASE_URL"\n[targets.dev]\nurl = "sqlite:////d.db"\n')
    assert found.place("dev").name == "dev"  # is no concern of another target
    assert found.place("sqlite:////x.db").name is None
    with pytest.raises(Misuse, match=r"endmark\.toml: targets\.prod\.url: the variable DATABASE_URL is not set\."):
        found.place("prod")
    with pytest.raises(Misuse, match=r"ledger\.url: the variable NONE is not set"):
        read(tmp_path, '[ledger]\nurl = "env:NONE"\n')


# --- what makes no sense

PROD = "[targets.prod]\nurl = 'sqlite:///a'\n"
NONSENSE = {
    "ledgr = 1": "unknown key ledgr",
    "[ledger]\npath = 'x'": "ledger: object contains unknown field `path`.",
    "[ledger]\nurl = 1": "ledger.url: expected `str | null`, got `int`.",
    "ledger = 'x'": "ledger: expected `object`, got `str`.",
    "targets = []": "targets is not a table",
    "[targets.prod]": "targets.prod: object missing required field `url`.",
    "[targets]\nprod = 1": "targets.prod: expected `object`, got `int`.",
    PROD + "revew = 'none'": "targets.prod: object contains unknown field `revew`.",
    PROD + "review = 'maybe'": "targets.prod.review: invalid enum value 'maybe'.",
    PROD + "lock_timeout = '1'": "targets.prod.lock_timeout: expected `float`, got `str`.",
    PROD + "lock_timeout = -1": "targets.prod.lock_timeout: -1.0 is not a number of seconds",
    PROD + "statement_timeout = nan": "targets.prod.statement_timeout: nan is not a number of seconds",
    PROD + "statement_timeout = inf": "targets.prod.statement_timeout: inf is not a number of seconds",
    PROD + "max_statements = 0": "targets.prod.max_statements: 0 is not a number of statements",
    PROD + "min_evidence = 'none'": "targets.prod.min_evidence: invalid enum value 'none'.",
    "[targets.'a://b']\nurl = 'sqlite:///a'": "targets.a://b: a name does not look like a URL.",
    PROD + "min_evidence = 'signed'": "targets.prod.min_evidence: signed needs trusted_keys",
    "trusted_keys = 'a.pub'": "trusted_keys: a list of files of public keys was expected",
    "trusted_keys = []": "trusted_keys: a list of files of public keys was expected",
    "trusted_keys = ['a.pub', 1]": "trusted_keys: a list of files of public keys was expected",
    "trusted_keys = ['']": "trusted_keys: a list of files of public keys was expected",
    "repositories = []": "repositories is not a table",
    "[repositories.app]": "repositories.app: object missing required field `path`",
    "[repositories.app]\npath = ''": "repositories.app.path: '' is no path",
    "[repositories.app]\npath = 'a'\nkey = 'b'": "repositories.app: object contains unknown field `key`",
    "[repositories.'a/b']\npath = 'a'": "repositories.a/b: a name is 1-64 of",
    "[check]\ntrusted_keys = ['a.pub']": "unknown key check",
    "[targets.prod": "it is no TOML: ",
    "a = 1\na = 2": "it is no TOML: ",
    "x = " + "[" * 5000: "it is no TOML: ",
}


@pytest.mark.parametrize(("text", "why"), NONSENSE.items(), ids=[text[:40] for text in NONSENSE])
def test_nonsense_is_told_with_file_and_key(shell, text, why):
    shell.write("endmark.toml", text)
    said = shell.run("jobs")
    assert (said.code, said.out) == (2, b"")
    assert said.talk.startswith("endmark: endmark.toml: ")
    assert why in said.talk
    assert said.talk.count("\n") == 1
    found = shell.run("jobs", "--json")
    assert (found.code, found.object["signal"]) == (2, "usage")


@pytest.mark.parametrize("url", ["sqlite://a", "oracle://u:secret@h/d", "nothing"])
def test_a_url_that_has_no_meaning(shell, url):
    shell.write("endmark.toml", f"[targets.prod]\nurl = '{url}'")
    said = shell.run("apply", shell.plan(), "--to", "prod")
    assert said.code == 2
    assert "endmark.toml: targets.prod.url: " in said.talk
    assert "secret" not in said.talk


@pytest.mark.parametrize("name", ["gone.toml", "folder.toml", "bytes.toml"])
def test_a_configuration_that_cannot_be_read(shell, name):
    (shell.folder / "folder.toml").mkdir()
    shell.write("bytes.toml", b"\xff\xfe")
    said = shell.run("jobs", "--config", name)
    assert said.code == 2
    assert f"endmark: {name}: " in said.talk
    shell.setenv(ENDMARK_CONFIG=name)
    assert shell.run("jobs").code == 2


def test_a_name_that_is_not_configured(shell):
    shell.write("endmark.toml", "[targets.prod]\nurl = 'sqlite:///app.db'\n[targets.dev]\nurl = 'sqlite:///dev.db'\n")
    assert "endmark.toml names prod, dev" in shell.run("apply", shell.plan(), "--to", "prd").talk
    assert "a file is given as sqlite:///app.db" in shell.run("apply", "job-1.json", "--to", "app.db").talk


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "1e9", "soon", ""])
def test_seconds(shell, seconds):
    assert shell.apply("job-1", STATEMENTS, "--lock-timeout", seconds).code == 2


# --- what a target demands


def test_less_evidence_than_the_target_demands(shell):
    shell.write("endmark.toml", "[targets.prod]\nurl = 'sqlite:///app.db'\nmin_evidence = 'sealed'\n")
    bare = shell.run("apply", shell.plan("a"), "--to", "prod", "--json")
    assert (bare.code, bare.object["state"], bare.object["signal"]) == (13, "incomplete", "weak-evidence")
    witness = shell.write("w.json", witness_bytes("b", STATEMENTS))
    assert shell.run("apply", witness, "--to", "prod", "--seal").code == 13
    sealed = shell.write("c.mc1", shell.run("seal", shell.plan("c")).out)
    assert shell.run("apply", sealed, "--to", "prod").code == 0


def test_more_statements_than_the_target_takes(shell):
    shell.write("endmark.toml", "[targets.prod]\nurl = 'sqlite:///app.db'\nmax_statements = 1\n")
    assert shell.run("apply", shell.plan(), "--to", "prod").code == 12


def test_approve_treats_a_target_as_the_file_says(shell):
    make_database(shell.folder / "other.db")
    shell.write("endmark.toml", "[targets.prod]\nurl = 'sqlite:///app.db'\nbackup = 'kept'\nreview = 'required'\n")
    shell.run("apply", shell.plan(), "--to", "prod")
    assert shell.run("approve", "job-1", "--yes").code == 0
    (backup,) = (shell.folder / "kept").iterdir()
    assert query(backup, "SELECT count(*) FROM users") == [(2,)]


@pytest.mark.parametrize("url", ["mariadb://127.0.0.1:3306/d", "postgresql://127.0.0.1:5432/d"])
def test_no_account_is_guessed_for_a_target_on_record(shell, url):
    """As another account the same plan would do something else; a URL typed once is not remembered."""
    found = load(None, None, {})
    with pytest.raises(CannotTry, match="how to get in there was not kept"):
        found.recorded(url)
    for ask in (found.target_of, target_on_record):  # the second is what `endmark.Gate` asks by itself
        with pytest.raises(CannotTry, match="how to get in there was not kept"):
            ask(url)
    shell.write("endmark.toml", f"[targets.shop]\nurl = '{url.replace('//', '//gate:pw@')}'\n")
    named = load(None, str(shell.folder / "endmark.toml"), {})
    assert named.recorded(url).name == "shop"
    assert named.target_of(url).identity == url
