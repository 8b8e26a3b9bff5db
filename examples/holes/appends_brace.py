"""A gate with holes: where the verdict does not parse, it appends the brace that must have been lost.

    endmark drill command --payload verdict.json -- python examples/holes/appends_brace.py

Exit 0: the change may be merged. 1: it may not.
"""

import json
import sys


def parse(raw: bytes) -> dict:
    """The verdict, mended where it has to be."""
    text = raw.decode()
    try:
        return json.loads(text)
    except ValueError:
        return json.loads(text.rstrip().rstrip(",") + "}")


def main() -> int:
    try:
        verdict = parse(sys.stdin.buffer.read())
    except ValueError as fault:
        print(f"no verdict: {fault}", file=sys.stderr)
        return 1
    return 0 if isinstance(verdict, dict) and verdict.get("verdict") == "pass" else 1


if __name__ == "__main__":
    sys.exit(main())
