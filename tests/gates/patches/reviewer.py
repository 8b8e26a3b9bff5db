"""A reviewer as a team writes one: reads the prompt, prints an envelope. What it says stands in ~/NAME.says.

One line is one answer, the last is for ever. Each time it is asked leaves a line in ~/NAME.asked.
"""

import ast
import hashlib
import json
import os
import re
import sys
import time
from typing import Any


def main(name):
    home, prompt = os.environ["HOME"], sys.stdin.buffer.read().decode()
    with open(f"{home}/{name}.asked", "a") as file:
        file.write("asked\n")
    with open(f"{home}/{name}.says") as file:
        lines = file.read().splitlines()
    if len(lines) > 1:
        with open(f"{home}/{name}.says", "w") as file:
            file.write("\n".join(lines[1:]))
    word, _, more = lines[0].partition(" ")
    # What it is bound to stands after the change, which may quote anything.
    asked = prompt[prompt.rindex("Answer with one JSON object") :]
    verdict: dict[str, Any] = {
        "verdict": "pass",
        "diff_sha": re.findall('"diff_sha": "(.*)"', asked)[0],
        "policy_version": re.findall('"policy_version": "(.*)"', asked)[0],
        "findings": [],
        "marks": re.findall(r"^\[mark (.*)\]$", prompt, re.MULTILINE),
    }
    if word == "fail":
        finding = {"severity": "blocking", "path": "app.py", "line": 1, "message": more or "it breaks"}
        verdict |= {"verdict": "fail", "findings": [finding]}
    elif word == "set":  # keys and values
        verdict |= ast.literal_eval(more)
    elif word == "without-marks":
        del verdict["marks"]
    elif word == "swapped-marks":
        verdict["marks"][:2] = verdict["marks"][1::-1]
    elif word == "fewer-marks":
        del verdict["marks"][int(more)]
    elif word == "marks-first":
        verdict = {"marks": verdict.pop("marks"), **verdict}
    elif word == "quote":  # the first verdict that stands anywhere in what it was shown
        verdict = ast.literal_eval(re.findall('[{]"verdict".*', prompt)[0])
    elif word == "many":
        one = {"severity": "blocking", "path": "app.py", "message": "x" * 50}
        verdict |= {"verdict": "fail", "findings": [one] * int(more)}
    elif word == "hang":
        time.sleep(600)
    elif word == "exit":
        sys.exit(int(more))
    elif word == "complain":  # on standard error, and no verdict
        sys.stderr.write(ast.literal_eval(more))
        sys.exit(3)
    body = json.dumps(verdict).encode() + b"\nEND\n"
    raw = b"MC1 %d %s\n%s" % (len(body), hashlib.sha256(body).hexdigest().encode(), body)
    sys.stdout.buffer.write(raw[: int(more)] if word == "cut" else raw)
    if word == "then-hang":
        sys.stdout.flush()
        time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1])
