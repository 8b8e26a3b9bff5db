"""A plan from OpenAI's SDK, applied only if the whole answer arrived.

pip install '.[capture]' openai
MODEL=... OPENAI_API_KEY=... python with_openai.py 'a web shop' sqlite:///shop.db
OPENAI_BASE_URL names another server.
"""

import os
import sys

import httpx2  # the library that this SDK brings; httpx works alike
import openai

import endmark


def main(task: str, target: str) -> int:
    with endmark.capture() as c, httpx2.Client(transport=c.transport()) as http:
        # A retry would be a second answer in one capture, and be refused.
        client = openai.OpenAI(http_client=http, max_retries=0)
        stream = client.chat.completions.create(
            model=os.environ["MODEL"],
            messages=[{"role": "user", "content": f"Make the SQLite schema of {task}."}],
            tools=[endmark.tool("openai")],
            tool_choice={"type": "function", "function": {"name": "apply_schema"}},
            max_completion_tokens=8192,
            stream=True,
        )
        try:
            for _chunk in stream:
                print(".", end="", flush=True)  # the SDK works as ever
        except openai.APIError as fault:
            print(f" the SDK noticed: {fault}", end="")
        print()
        try:
            sealed = c.seal(tool="apply_schema")
        except endmark.AnswerRefused as refused:
            print(refused.for_model())  # this is what to answer the model
            return 1
    with endmark.Gate("ledger.db") as gate:
        outcome = gate.submit(sealed).apply(target)
    print(f"{outcome.state}: {outcome.statements_run} statements, {', '.join(outcome.evidence)}")
    return outcome.exit_code


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
