"""A plan from Google's Gen AI SDK, applied only if the whole answer arrived.

pip install '.[capture]' google-genai
MODEL=... GEMINI_API_KEY=... python with_gemini.py 'a web shop' sqlite:///shop.db
GOOGLE_GEMINI_BASE_URL names another server.

Gemini hands arguments over as an object that it has parsed, so the tool takes the whole plan as one string.
"""

import os
import sys

import httpx2
from google import genai
from google.genai import types

import endmark


def main(task: str, target: str) -> int:
    with endmark.capture() as c, httpx2.Client(transport=c.transport()) as http:
        client = genai.Client(http_options=types.HttpOptions(httpx_client=http))
        declared = types.FunctionDeclaration(**endmark.tool("gemini"))
        only = types.FunctionCallingConfig(
            mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["apply_schema"]
        )
        stream = client.models.generate_content_stream(
            model=os.environ["MODEL"],
            contents=f"Make the SQLite schema of {task}.",
            config=types.GenerateContentConfig(
                tools=[types.Tool(function_declarations=[declared])],
                tool_config=types.ToolConfig(function_calling_config=only),
                max_output_tokens=8192,
            ),
        )
        try:
            for _part in stream:
                print(".", end="", flush=True)  # the SDK works as ever
        except (genai.errors.APIError, httpx2.TransportError, ValueError) as fault:
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
