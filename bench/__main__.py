"""`python -m bench [--quick] [--only NAME] [--json]`: every figure, as one table.

`--only peers` and `--only cut-files` are tables of their own, of other people's programs; nothing else makes them.
"""

import argparse
import os
import platform
import sqlite3
import sys
from importlib import import_module
from pathlib import Path

from bench.measure import Row, as_json, fsync_seconds, show

ROOMS = {
    "reading": "reading",
    "applying": "applying",
    "mariadb": "mariadb",
    "processes": "processes",
    "ledger": "ledger_scale",
    "ledger-postgres": "ledger_postgres",
    "wires": "wires",
    "capture": "capture",
    "git": "git_reading",
    "hook": "hook",
    "patches": "patches",
    "proxy": "proxy",
    "postgres": "postgres",
    "queue": "queue",
    "rehearsals": "rehearsing",
    "drills": "drilling",
    "service": "service",
    "pages": "pages",
}
TABLES = {"peers": "peers", "cut-files": "cut_files"}


def main() -> int:
    options = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    options.add_argument("--quick", action="store_true", help="few repetitions, smaller sizes: for a look")
    options.add_argument("--only", choices=[*sorted(ROOMS), *TABLES], help="one part")
    options.add_argument("--json", action="store_true", help="machine-readable")
    wanted = options.parse_args()
    # What is installed is compiled once. With this set, every program that is started here would compile itself anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    if wanted.only in TABLES:
        print(import_module(f"bench.{TABLES[wanted.only]}").table(wanted.quick))
        return 0
    rows: list[Row] = []
    for name, module in ROOMS.items():
        if wanted.only in (None, name):
            print(f"measuring {name} ...", file=sys.stderr)
            rows += import_module(f"bench.{module}").measure(wanted.quick)
    if wanted.json:
        print(as_json(rows))
        return 0
    machine = f"{platform.system()} {platform.machine()}"
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, {machine}")
    print(f"one fsync of 4 KiB: {fsync_seconds(Path('.')) * 1e6:.0f} µs\n")
    print(show(rows))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
