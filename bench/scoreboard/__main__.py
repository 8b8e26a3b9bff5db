"""`python -m bench.scoreboard [ROW]...`: run these rows, or all, and write what was found into docs/reliability.md.

Each row is written as soon as it ended: an interrupted run keeps what it has measured. Exit 1 where one does not hold.
"""

import signal
import sys
from datetime import UTC, datetime

from bench.scoreboard import bodies, page, rows, running


def main(names: list[str]) -> int:
    try:
        wanted = rows.chosen(names)
    except KeyError as unknown:
        print(f"{unknown} is no row; some of {', '.join(rows.BY_NAME)} were expected.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what runs is ended with us
    bodies.main()
    version, bad = running.version(), 0
    before = page.kept(page.PAGE.read_text(encoding="utf-8"))
    times = {name: seconds for name, line in before.items() if (seconds := page.took(line)) is not None}
    for number, row in enumerate(wanted):
        left = [times.get(other.name) for other in wanted[number:]]

        def tell(passed: float, row: rows.Row = row, number: int = number, left: list[float | None] = left) -> None:
            known = sum(seconds for seconds in left if seconds is not None)
            onward = f"{max(0.0, known - passed):,.0f} s left{' or more' if None in left else ''}"
            print(f"\r[{number + 1}/{len(wanted)}] {row.name}: {passed:,.0f} s, {onward}   ", end="", file=sys.stderr)
            sys.stderr.flush()

        tell(0.0)
        found = running.run(row, tell)
        bad += not found.holds
        print(f"\n{row.name}: {'holds' if found.holds else 'FAILS'}: {found.words}", file=sys.stderr)
        made = page.line(row, found, datetime.now(UTC).strftime("%Y-%m-%d"), version)
        text = page.PAGE.read_text(encoding="utf-8")  # anew: somebody may have edited it meanwhile
        page.PAGE.write_text(page.renewed(text, {row.name: made}), encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
