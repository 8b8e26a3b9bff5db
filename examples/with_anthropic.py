"""A plan from Anthropic's SDK, async, applied only if the whole answer arrived.

pip install '.[capture]' anthropic
MODEL=... ANTHROPIC_API_KEY=... python with_anthropic.py 'a web shop' sqlite:///shop.db
ANTHROPIC_BASE_URL names another server.
"""

import asyncio
import os
import sys

import anthropic
import httpx2  # the library that this SDK brings; it takes no other

import endmark


async def ask(task: str) -> endmark.Sealed:
    async with endmark.capture() as c:
        # A retry would be a second answer in one capture, and be refused.
        http = httpx2.AsyncClient(transport=c.async_transport())
        async with anthropic.AsyncAnthropic(http_client=http, max_retries=0) as client:
            try:
                async with client.messages.stream(
                    model=os.environ["MODEL"],
                    messages=[{"role": "user", "content": f"Make the SQLite schema of {task}."}],
                    tools=[endmark.tool("anthropic")],
                    tool_choice={"type": "tool", "name": "apply_schema"},
                    max_tokens=8192,
                ) as stream:
                    await stream.until_done()
            except (anthropic.APIError, httpx2.TransportError) as fault:
                print(f"the SDK noticed: {fault}")
        return c.seal(tool="apply_schema")


def main(task: str, target: str) -> int:
    try:
        sealed = asyncio.run(ask(task))
    except endmark.AnswerRefused as refused:
        print(refused.for_model())  # this is what to answer the model
        return 1
    with endmark.Gate("ledger.db") as gate:
        outcome = gate.submit(sealed).apply(target)
    print(f"{outcome.state}: {outcome.statements_run} statements, {', '.join(outcome.evidence)}")
    return outcome.exit_code


if __name__ == "__main__":
    raise SystemExit(main(*sys.argv[1:]))
