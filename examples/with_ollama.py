"""A plan from Ollama's SDK, applied only if the whole answer arrived.

pip install '.[capture]' ollama
MODEL=... python with_ollama.py 'a web shop' sqlite:///shop.db
OLLAMA_HOST names another server.

Ollama hands arguments over as an object that it has parsed, so the tool takes the whole plan as one string.
"""

import os
import sys

import httpx
import ollama

import endmark


def main(task: str, target: str) -> int:
    with endmark.capture() as c, ollama.Client(transport=c.transport()) as client:
        try:
            for _part in client.chat(
                model=os.environ["MODEL"],
                messages=[{"role": "user", "content": f"Make the SQLite schema of {task}. Call apply_schema."}],
                tools=[endmark.tool("ollama")],
                options={"num_predict": 8192},
                stream=True,
            ):
                print(".", end="", flush=True)  # the SDK works as ever
        except (ollama.ResponseError, httpx.TransportError, ValueError) as fault:
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
