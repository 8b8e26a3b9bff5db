"""`endmark seal`: make the envelope that proves the bytes from here on."""

import click

from endmark.core import mc1
from endmark.core.outcome import of_refusal
from endmark.core.refusal import Refused
from endmark.faces.api import seal, sign
from endmark.faces.cli.common import FILE, Result, Verb, at, read
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import say
from endmark.faces.words import sentence


@click.command("seal", cls=Verb)
@FILE
@click.option("--wire", metavar="NAME", help="FILE is a captured answer in this provider's format, e.g. openai-chat.")
@click.option("--tool", metavar="NAME", help="Seal the answer's one call of this tool, not its text. Needs --wire.")
@click.option("--max-output-tokens", type=click.IntRange(min=1), help="The cap that was requested. Needs --wire.")
@click.option("--content-encoding", metavar="NAME", help="How FILE is coded, e.g. gzip. Needs --wire.")
@click.option("--key", metavar="KEYFILE", help="Sign the envelope with this private key (see 'endmark key new').")
def command(
    file: str,
    wire: str | None,
    tool: str | None,
    max_output_tokens: int | None,
    content_encoding: str | None,
    key: str | None,
) -> Result:
    """A whole body, the witness form of a plan, or a captured answer, as an MC1 envelope on standard output.

    The envelope proves what happens to the bytes from here on. That they were whole before rests on their own witness,
    and with --wire on the provider's own end of the answer: seal where the whole answer was captured, and nowhere
    later. Refused bytes give no output at all.

    \b
    Examples:
      endmark seal answer.json > plan.mc1
      endmark seal - < answer.json | ssh db endmark apply - --to prod
      endmark seal --wire anthropic --tool apply_schema stream.sse > plan.mc1
    """
    if wire is None and (tool, max_output_tokens, content_encoding) != (None, None, None):
        raise Misuse(
            "--tool, --max-output-tokens and --content-encoding are for a captured answer; name its format with --wire."
        )
    try:
        if wire is None:
            sealed = seal(read(file))
        else:
            sealed = _captured(read(file), wire, tool, max_output_tokens, content_encoding or "")
        return Result("", raw=sealed if key is None else sign(sealed, key))
    except Refused as refused:
        # Standard output is the envelope's: a refusal is told beside it.
        outcome = of_refusal(refused, at())
        say(f"endmark: {sentence(outcome)}")
        return Result("", exit_code=outcome.exit_code, raw=b"")


def _captured(raw: bytes, wire: str, tool: str | None, max_output_tokens: int | None, coding: str) -> bytes:
    import msgspec

    from endmark.seal import seal as seal_answer
    from endmark.sources.capture import of_file

    # As much as was read may be less than there is; what fills the limit of the reading is refused.
    capture = of_file(raw, wire=wire, limit=mc1.DEFAULT_CAP + mc1.HEADER_MAX)
    capture = msgspec.structs.replace(capture, max_output_tokens=max_output_tokens, content_encoding=coding)
    try:
        return seal_answer(capture, tool=tool).envelope
    except ValueError as fault:
        raise Misuse(f"{fault}.") from None
