"""A plan from Mistral's SDK, applied only if the whole answer arrived.

pip install '.[capture]' mistralai
MODEL=... MISTRAL_API_KEY=... python with_mistral.py 'a web shop' sqlite:///shop.db
MISTRAL_SERVER_URL names another server.
"""

import os
import sys

import httpx2  # the library that this SDK brings
from mistralai.client import Mistral
from mistralai.client.errors import MistralError
from mistralai.client.models import UserMessage

import endmark


def main(task: str, target: str) -> int:
    # Mistral's route is also OpenAI's: at another host than Mistral's own, the wire has to be named.
    with endmark.capture(wire="mistral") as c, httpx2.Client(transport=c.transport()) as http:
        client = Mistral(
            api_key=os.environ.get("MISTRAL_API_KEY"), server_url=os.environ.get("MISTRAL_SERVER_URL"), client=http
        )
        try:
            with client.chat.stream(
                model=os.environ["MODEL"],
                messages=[UserMessage(content=f"Make the SQLite schema of {task}.")],
                tools=[endmark.tool("mistral")],
                tool_choice="any",
                max_tokens=8192,
            ) as stream:
                for _event in stream:
                    print(".", end="", flush=True)  # the SDK works as ever
        except (MistralError, httpx2.TransportError, ValueError) as fault:
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
