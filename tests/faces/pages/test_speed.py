"""No page reads the book through: every question goes by an index, from a key on, and counts nothing."""

from types import SimpleNamespace

import pytest
from tests.faces.pages.site import furnished

from endmark.faces.http.access import EVERYTHING, Identity
from endmark.faces.pages import decision, home, job, listing, stability
from endmark.ledger.patch_queries import PatchQueries

TABLES = ("attempts", "decisions", "reviews", "events", "bodies", "answers")
LIMITED = Identity(name="bob", scopes=("approve",), targets=("prod", "other"), branches=("main",))


@pytest.fixture
def asked(empty):
    """What SQL a page comes to, with how SQLite answers it."""
    merged = furnished(empty)
    with empty.book() as ledger:
        first, decided = ledger.page(1)[0], PatchQueries(ledger).get(merged)

        def of(ask):
            said: list[str] = []
            ledger.store.connection.set_trace_callback(said.append)
            ask(ledger)
            ledger.store.connection.set_trace_callback(None)
            assert said
            return [
                (sql, [row[3] for row in ledger.store.connection.execute(f"EXPLAIN QUERY PLAN {sql}")]) for sql in said
            ]

        names = {who.name: home.Names(empty.service, who) for who in (EVERYTHING, LIMITED)}
        yield SimpleNamespace(
            of=of, names=names, now=empty.service.clock(), first=first, merged=merged, decision=decided
        )


def reads_through(sql, plan):
    """Whether it may read all of a table: from the newest row on, up to a limit, it does not."""
    keyset = sql.rstrip().endswith("LIMIT 51") and "ORDER BY n DESC" in sql and not any("TEMP" in step for step in plan)
    return any(step.startswith(f"SCAN {table}") for step in plan for table in TABLES) and not keyset


@pytest.mark.parametrize("who", [EVERYTHING, LIMITED], ids=lambda who: who.name)
def test_every_question_of_a_page_goes_by_an_index(asked, who):
    names = asked.names[who.name]
    pages = {
        "home": lambda book: home.look(book, who, names, asked.now),
        "jobs": lambda book: listing.jobs(book, names, None, names.identities, None),
        "older jobs": lambda book: listing.jobs(book, names, None, names.identities, asked.first.attempt_id),
        "jobs in a state": lambda book: listing.jobs(book, names, "staged", names.identities, asked.first.attempt_id),
        "search": lambda book: listing.search(book, who, names, "att_"),
        "a job": lambda book: job.whole(book, job.Bodies(), asked.first),
        "decisions": lambda book: listing.decisions(book, who, None, None),
        "older decisions": lambda book: listing.decisions(book, who, "fail", asked.merged),
        "a decision": lambda book: decision.whole(book, asked.decision, None),
        "stability": lambda book: stability.look(book, who),
    }
    for name, ask in pages.items():
        for sql, plan in asked.of(ask):
            assert not reads_through(sql, plan), (name, sql, plan)
            assert "OFFSET" not in sql, name
            assert "count(*)" not in sql, name


def test_the_look_at_plans_sees_what_it_should(asked):
    for sql in ("SELECT * FROM attempts WHERE detail = 'x'", "SELECT count(*) FROM decisions"):
        assert all(reads_through(text, plan) for text, plan in asked.of(lambda book, sql=sql: book.ask(tuple, sql)))
