"""Gates of their own at a MariaDB world, ended by SIGKILL at a query: -m tests.support.mariadb_child FOLDER NAME.

Each line on stdin asks for one: {"plan": FILE or null to reconcile, "at": N, "when": "before" | "after"}. The answer is
a line of JSON: how it ended, how many queries it sent, and at which one its receipt was begun.
"""

import json
import os
import signal
import sys
from pathlib import Path

import pymysql
from tests.support.mariadb import MariaWorld
from tests.support.world import PATIENT


def strike_at(at, when, told):
    """The process ends itself at its query number `at`; `told` gets (number, query) of each."""
    real = pymysql.connections.Connection.query
    seen = 0

    def query(self, sql, unbuffered=False):
        nonlocal seen
        seen += 1
        mine = seen
        told(mine, sql if isinstance(sql, str) else bytes(sql).decode("utf-8", "replace"))
        if mine == at and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = real(self, sql, unbuffered)
        if mine == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(pymysql.connections.Connection, "query", query)  # noqa: B010  # the stubs know the real one


def one(folder, name, asked):
    """One gate in a process of its own; its words come back through a pipe."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)

        def told(number, sql):
            if sql.startswith("INSERT INTO schema_jobs") or not number % 10:
                os.write(writer, f"{number} {int(sql.startswith('INSERT INTO schema_jobs'))}\n".encode())

        strike_at(asked["at"], asked["when"], told)
        world = MariaWorld(Path(folder), name)
        if asked["plan"] is None:
            world.reconcile(lock_timeout=20)
        else:
            world.deliver(Path(asked["plan"]).read_bytes(), options=PATIENT)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        heard = [line.split() for line in stream]
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    begun = [int(number) for number, is_begin in heard if is_begin == "1"]
    return {"code": code, "queries": int(heard[-1][0]) if heard else 0, "begun": begun[0] if begun else None}


if __name__ == "__main__":
    print(json.dumps("ready"), flush=True)
    _module, folder, name = sys.argv
    for line in sys.stdin:
        print(json.dumps(one(folder, name, json.loads(line))), flush=True)  # noqa: TID251  # our own words
