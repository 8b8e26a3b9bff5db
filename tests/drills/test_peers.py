"""The table of parsers: those that make a value of a part do so at most cuts; a strict one, and ours, at none."""

from endmark.drills import peer_clients, peers
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


def test_the_sdks_behind_the_proxy():
    """Each takes the whole answer; a stream that was cut and politely ended is no error to most of them."""
    rows = {row.name: row for row in peer_clients.rows(most=5)}
    assert list(rows) == [sdk.name for sdk in peer_clients.SDKS]
    assert [row.control for row in rows.values()] == [""] * 4
    assert {row.tried for row in rows.values()} == {5}
    assert rows["openai, chat stream"].silent == 5
    assert rows["anthropic, messages.stream()"].calls >= 2
    assert all(row.calls <= row.silent for row in rows.values())


def test_a_client_that_is_not_installed_is_left_out(monkeypatch):
    (first, *_) = peer_clients.SDKS
    monkeypatch.setattr(peer_clients, "SDKS", (first._replace(package="no-such-package"),))
    assert list(peer_clients.rows()) == []
