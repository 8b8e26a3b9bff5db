"""`endmark seal`: make the envelope that proves the bytes from here on."""

from typing import Any

import click

from endmark.core.outcome import of_refusal
from endmark.core.refusal import Refused
from endmark.faces.api import seal, sign
from endmark.faces.cli.captured import CAPTURED, Asked, marks_in, write_claims
from endmark.faces.cli.common import FILE, Result, Verb, at, read
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import say
from endmark.faces.words import sentence


@click.command("seal", cls=Verb)
@FILE
@CAPTURED
@click.option(
    "--marks", metavar="FILE", help="The marks that the reviewer was asked to echo, one a line. Needs --wire."
)
@click.option("--evidence", metavar="FILE", help="Write there what stands behind the answer. Needs --wire.")
@click.option("--key", metavar="KEYFILE", help="Sign the envelope with this private key (see 'endmark key new').")
def command(file: str, marks: str | None, evidence: str | None, key: str | None, **asked: Any) -> Result:
    """A whole body, the witness form of a plan, or a captured answer, as an MC1 envelope on standard output.

    The envelope proves what happens to the bytes from here on. That they were whole before rests on their own witness,
    and with --wire on the provider's own end of the answer: seal where the whole answer was captured, and nowhere
    later. Refused bytes give no output at all.

    The envelope carries neither the evidence nor the SHA-256 of the capture. With --evidence they go into a file, which
    'endmark apply --evidence' puts on the job's record as claimed. 'endmark apply --wire' seals and applies at once.

    \b
    Examples:
      endmark seal answer.json > plan.mc1
      endmark seal - < answer.json | ssh db endmark apply - --to prod
      endmark seal --wire anthropic --tool apply_schema stream.sse > plan.mc1
    """
    wanted = Asked(**asked, marks=None if marks is None else marks_in(marks))
    wanted.check()
    if evidence is not None and wanted.wire is None:
        raise Misuse("--evidence is that of a captured answer; name its format with --wire.")
    try:
        raw = read(file)
        if wanted.wire is None:
            made = seal(raw)
            return Result("", raw=made if key is None else sign(made, key))
        sealed = wanted.seal(raw)
        out = bytes(sealed) if key is None else sign(sealed, key)
        if evidence is not None:
            write_claims(evidence, sealed, out)
        return Result("", raw=out)
    except Refused as refused:
        # Standard output is the envelope's: a refusal is told beside it.
        outcome = of_refusal(refused, at())
        say(f"endmark: {sentence(outcome)}")
        return Result("", exit_code=outcome.exit_code, raw=b"")
