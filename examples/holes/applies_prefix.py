"""A gate with holes: it runs each statement as soon as that has arrived, and says only on standard output what became
of the rest. Its exit code is 0 whatever came.

    endmark drill command --payload plan.json --refused-if 'stdout:ended early' \
        --reset 'rm -f app.db' --effect 'cksum app.db' -- python examples/holes/applies_prefix.py app.db

With `--jobs` it keeps a table of jobs and takes none twice: which hides its holes from whoever does not reset it.
"""

import json
import re
import sqlite3
import sys


def statements(text: str) -> tuple[list[str], bool]:
    """Those that have arrived, and whether the list came to its end."""
    opened = re.search(r'"statements"\s*:\s*\[', text)
    found: list[str] = []
    at = opened.end() if opened else len(text)
    while at < len(text):
        try:
            statement, at = json.JSONDecoder().raw_decode(text, at)
        except ValueError:
            break
        found.append(statement)
        mark = re.compile(r"\s*([,\]])\s*").match(text, at)
        if mark is None:
            break
        if mark[1] == "]":
            return found, text.rstrip().endswith("}")
        at = mark.end()
    return found, False


def main() -> int:
    path, keeps_jobs = sys.argv[1], "--jobs" in sys.argv
    text = sys.stdin.buffer.read().decode("utf-8", "ignore")
    found, ended = statements(text)
    if found:
        job = re.search(r'"job_id"\s*:\s*"([^"]*)"', text)
        database = sqlite3.connect(path, isolation_level=None)
        if keeps_jobs and job:
            database.execute("CREATE TABLE IF NOT EXISTS jobs (job_id TEXT PRIMARY KEY)")
            try:
                database.execute("INSERT INTO jobs VALUES (?)", job.groups())
            except sqlite3.IntegrityError:
                print("this job is known")
                return 1
        for statement in found:
            database.execute(statement)
        database.close()
    print(f"applied {len(found)}" if ended else f"applied {len(found)}, the stream ended early")
    return 0


if __name__ == "__main__":
    sys.exit(main())
