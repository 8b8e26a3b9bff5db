"""The table of parsers: those that make a value of a part do so at most cuts; a strict one, and ours, at none."""

from endmark.drills import peers
from endmark.drills.body import Body


def table(**more):
    return {row.name: row for row in peers.rows(**more)}


def test_the_table():
    rows = table()
    for repairing in ("json_repair.loads", "partial_json_parser.loads", "jiter.from_json, partial"):
        assert rows[repairing].handed > 0.7 * rows[repairing].tried
        assert rows[repairing].passed > 0.7 * rows[repairing].tried
    for strict in ("json.loads", "endmark.check, sealed"):
        assert (rows[strict].handed, rows[strict].passed, rows[strict].control) == (0, 0, "")
    assert {row.tried for row in rows.values() if "endmark" not in row.name} == {len(peers.VERDICT)}


def test_what_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(peers, "PEERS", (peers.Peer("none", "no-such-package", "no_such:loads", {}),))
    assert list(table()) == ["endmark.check, sealed"]


def test_a_parser_that_refuses_the_whole_says_so(monkeypatch):
    rows = table(body=Body(b"[1, 2]"))
    assert rows["json.loads"].control == "refused (raised ValueError)"
