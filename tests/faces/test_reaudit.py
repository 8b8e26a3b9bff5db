"""`endmark reaudit` at a shell."""

from tests.gates.test_reaudit import HOSTILE, as_json, as_text, record

from endmark.core import strictjson


def test_nothing_to_look_at(shell):
    said = shell.run("reaudit", shell.write("gate.log", as_text(record())))
    assert said.code == 0
    assert said.text.startswith(
        "Nothing to look at: 1 record of a verdict, 0 other lines, 0 unreadable; text, SHA-256 "
    )
    found = shell.run("reaudit", "gate.log", "--json")
    assert (found.code, found.object["listed"], found.object["items"]) == (0, 0, [])


def test_a_worklist(shell):
    raw = as_json(record(), record("sentinel", diff_sha="d2", source="repaired"), record(diff_sha="d3", verdict="PASS"))
    said = shell.run("reaudit", shell.write("gate.log", raw + b"{cut"), "--worklist", "list")
    assert said.code == 1
    assert "3 of them are for a person to look at: 3 records" in said.text
    assert "repaired no-end" in said.text
    assert "Wrote list.csv\nWrote list.json\n" in said.text
    items = strictjson.loads((shell.folder / "list.json").read_bytes())["items"]
    assert [item["line"] for item in items] == [2, 3, 4]
    again = shell.run("reaudit", "gate.log", "--worklist", "list", "--json")
    assert (again.code, again.object["signal"]) == (20, "could-not-try")
    found = shell.run("reaudit", "-", "--json", stdin=raw).object
    assert (found["exit_code"], found["reasons"]) == (1, {"repaired": 1, "unknown-verdict": 1, "no-end": 1})
    assert found["items_left_off"] == 0


def test_long_lists_are_shortened(shell):
    raw = as_json(*(record("sentinel", diff_sha=str(n)) for n in range(2_000)))
    said = shell.run("reaudit", shell.write("gate.log", raw))
    assert "... and 1,950 more" in said.text
    assert len(said.text.splitlines()) < 60
    found = shell.run("reaudit", "gate.log", "--json").object
    assert (found["listed"], len(found["items"]), found["items_left_off"]) == (2_000, 1_000, 1_000)


def test_what_it_cannot_do(shell):
    for words, code in (
        (("reaudit", "none.log"), 2),
        (("reaudit", "."), 2),
        (("reaudit", shell.write("empty.log", "")), 20),
        (("reaudit", shell.write("words.log", "hello\n")), 20),
        (("reaudit", shell.write("x.log", as_json(record(verdict="PASS"))), "--worklist", "no/such/list"), 20),
    ):
        said = shell.run(*words)
        assert (said.code, said.out) == (code, b"")
        assert said.talk.count("\n") == 1


def test_nothing_in_a_log_drives_the_terminal(shell):
    raw = as_json(record(**dict.fromkeys(("attempt_id", "diff_sha", "verdict"), HOSTILE)))
    said = shell.run("reaudit", shell.write("gate.log", raw))
    assert said.code == 1
    assert said.out.isascii()
    assert b"\x1b" not in said.out
    assert b"\x1b" not in shell.run("reaudit", "gate.log", "--json").out
