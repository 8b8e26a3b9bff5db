"""Models over real HTTP, as providers stream them: each answer is made from the very prompt that was sent."""

import json
import re

from tests.support import answers
from tests.support.server import Script

from endmark.core import strictjson

KEY = "sk-0123456789abcdef"


def kind(name, url, **changes):
    """The table of a reviewer of this kind."""
    made = {"kind": name, "model": "m-1", "url": f"{url}/v1" if name == "openai" else url, "capacity": "dedicated"}
    return made | {"key": "env:REVIEW_KEY", "max_output_tokens": 4_000} | changes


def prompt_of(body):
    """What the model reads."""
    return strictjson.loads(body)["messages"][0]["content"]


def verdict_on(prompt, **changes):
    """A whole verdict on what a prompt shows."""
    asked = prompt[prompt.rindex("Answer with one JSON object") :]
    said = {"verdict": "pass"}
    for key in ("diff_sha", "policy_version"):
        said[key] = re.findall(f'"{key}": "(.*)"', asked)[0]
    marks = re.findall(r"^\[mark (.*)\]$", prompt, re.MULTILINE)
    return {**said, "findings": [], "marks": marks} | changes


def stream(provider, text):
    if provider == "openai":
        return answers.chat_text(text)
    return answers.messages_text(text).replace(b'"input_tokens":40', b'"input_tokens":4000')


def answer(provider="openai", text=json.dumps, how=None, **changes):
    """A script for the server: the stream of a verdict. `text` spells it; `how` are fields of the Script."""

    def made(_head, body):
        said = verdict_on(prompt_of(body), **changes)
        return Script(stream(provider, text(said)), **(how or {}))

    return made


FAIL = {"verdict": "fail", "findings": [{"severity": "blocking", "path": "app.py", "line": 3, "message": "it breaks"}]}
