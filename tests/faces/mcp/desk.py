"""What the tests of the agents' door share: its folder, the official client, and what is looked at afterwards."""

import os
import sys
from contextlib import asynccontextmanager

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from tests.support.world import dump

from endmark.faces.config import load
from endmark.faces.mcp import server, settings
from endmark.faces.mcp.desk import Desk
from endmark.ledger.book import Ledger

SEEN = ("CREATE TABLE invoices (id INTEGER PRIMARY KEY, note TEXT)", "INSERT INTO invoices VALUES (1, 'Žluť ∎ 😀')")


class Room:
    def __init__(self, folder):
        self.folder = folder

    def configure(self, mcp='target = "prod"\nmin_evidence = "witness"', target="", more=""):
        (self.folder / "endmark.toml").write_text(
            f'{more}\n[ledger]\nurl = "sqlite:///ledger.db"\n'
            f'[targets.prod]\nurl = "sqlite:///app.db"\nbackup = "none"\n{target}\n[mcp]\n{mcp}\n'
        )

    @property
    def config(self):
        return load(None, None, os.environ)

    def dump(self):
        return dump(self.folder / "app.db")

    def entries(self):
        with Ledger.open(self.folder / "ledger.db", create=False) as book:
            return book.page(1_000)

    def states(self):
        return {entry.job_id: entry.state.value for entry in self.entries() if entry.job_id}

    def command(self, *flags):
        return [sys.executable, "-W", "error", "-m", "endmark", "mcp", *flags]

    @asynccontextmanager
    async def stdio(self):
        """The official client, and the program as a process of its own."""
        command = self.command()
        with open(self.folder / "talk", "w") as talk:
            from mcp.client.stdio import stdio_client

            where = StdioServerParameters(
                command=command[0], args=command[1:], cwd=str(self.folder), env=dict(os.environ)
            )
            async with Client(stdio_client(where, errlog=talk)) as client:
                yield client

    @asynccontextmanager
    async def here(self, *, answer_within=server.ANSWER_WITHIN, desk=None):
        """The official client, and the server in this process."""
        opened = settings.read(self.config)
        at_work = desk or Desk(opened)
        async with Client(server.make(opened, at_work, answer_within=answer_within)) as client:
            yield client, at_work


def run(main, *arguments):
    return anyio.run(main, *arguments)


def words(result):
    return "\n".join(block.text for block in result.content)
