"""A command reviewer to start from: put it into your repository as tools/review.py (docs/policy.md).

It reads the prompt from standard input and prints its verdict in an envelope. Here it refuses changes that add what
stands in FORBIDDEN; put your own checks, or a call of your own model, in its place. Whatever else happens (an error,
another exit code, nothing printed), the review is incomplete and nothing is merged.
"""

import hashlib
import json
import re
import sys

FORBIDDEN = {"DROP TABLE": "this drops a table", "verify=False": "this turns off the check of certificates"}


def main() -> None:
    prompt = sys.stdin.buffer.read().decode()
    # What the verdict is bound to stands after the change, which may quote anything.
    asked = prompt[prompt.rindex("Answer with one JSON object") :]
    findings = [
        {"severity": "blocking", "path": "(the change)", "message": why}
        for what, why in FORBIDDEN.items()
        if re.search(rf"^\+.*{re.escape(what)}", prompt, re.MULTILINE)
    ]
    verdict = {
        "verdict": "fail" if findings else "pass",
        "diff_sha": re.findall('"diff_sha": "([0-9a-f]{64})"', asked)[0],
        "policy_version": re.findall('"policy_version": "([^"]+)"', asked)[0],
        "findings": findings,
        "marks": re.findall(r"^\[mark ([0-9]+-[0-9a-f]+)\]$", prompt, re.MULTILINE),  # the last key of all
    }
    body = json.dumps(verdict).encode() + b"\nEND\n"
    sys.stdout.buffer.write(b"MC1 %d %s\n%s" % (len(body), hashlib.sha256(body).hexdigest().encode(), body))


if __name__ == "__main__":
    main()
