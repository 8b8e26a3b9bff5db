"""`endmark replay`: do reviewers repeat their verdicts?"""

import os
import re
from datetime import datetime, timedelta

import click

from endmark.core.refusal import Refused
from endmark.faces.alerts import AlertsTable, document_of, tell
from endmark.faces.api import now
from endmark.faces.cli.at_gate import LEDGER, settings
from endmark.faces.cli.at_patch import opened, refused
from endmark.faces.cli.common import JSON, Result, Verb
from endmark.faces.misuse import Misuse
from endmark.faces.terminal import Progress, safe, say
from endmark.faces.words import many
from endmark.replay import Replayed

_UNITS = {"m": 60, "h": 3600, "d": 86400, "w": 604800}


@click.command("replay", cls=Verb)
@click.option("--since", metavar="TIME", default="24h", show_default=True, help="30m, 24h, 7d, or an RFC 3339 time.")
@click.option("-k", "times", type=click.IntRange(1, 100), default=1, show_default=True, help="Repetitions of each.")
@click.option("-n", "workers", type=click.IntRange(1, 256), default=4, show_default=True, help="Asked at a time.")
@click.option("--repo", metavar="DIR", default=".", help="The repository, or a folder in it (default: this one).")
@click.option("--policy", metavar="FILE", help="A policy on this machine, instead of each base commit's.")
@click.option("--alert-url", metavar="URL", help="On an incident, the JSON object is posted here; else [alerts] url.")
@click.option(
    "--alert-command",
    metavar="CMD",
    help="On an incident, this program gets the JSON object on its input; else [alerts] command.",
)
@LEDGER
@JSON
@click.pass_context
def command(
    ctx: click.Context,
    since: str,
    times: int,
    workers: int,
    repo: str,
    policy: str | None,
    alert_url: str | None,
    alert_command: str | None,
    ledger: str | None,
    config: str | None,
) -> Result:
    """Ask reviewers again about what they judged, on fresh connections, and compare.

    Exit code 1: a verdict on a change that stands merged was not repeated, pass for fail or fail for pass. The flip
    rate of each model, policy and prompt comes with its 95 % interval: one repetition that agrees proves little. Exit
    code 13: there was something to repeat, and nobody gave a whole verdict.

    \b
    Example (every night):
      endmark replay --since 24h -k 3 --alert-command 'mail -s verdicts ops@example.org'
    """
    moment = _moment(since)
    progress = Progress()
    progress.stages = ["asking again"]
    ctx.call_on_close(progress.clear)
    try:
        with opened(ctx, repo=repo, fetch=None, policy=policy, ledger=ledger, config=config, create=False) as patches:
            done = patches.replay(moment, times=times, workers=workers, progress=progress)
    except Refused as refusal:
        return refused(refusal)
    progress.clear()
    document = document_of(done)
    if done.incidents:
        table = settings(ledger, config).alerts
        told = AlertsTable(url=alert_url or table.url, command=alert_command or table.command)
        for problem in tell(document, told, os.environ):
            say(f"endmark: {safe(problem)}")
    return Result("\n".join(_lines(done)), document, document["exit_code"])


def _moment(text: str) -> datetime:
    span = re.fullmatch(r"(\d{1,6})([mhdw])", text)
    if span:
        return now() - timedelta(seconds=int(span[1]) * _UNITS[span[2]])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Misuse(f"--since: {text!r} is neither 30m, 24h, 7d nor an RFC 3339 time.") from None
    if moment.tzinfo is None:
        raise Misuse(f"--since: {text!r} has no time zone; write 2026-07-01T00:00:00Z.")
    return moment


def _lines(done: Replayed) -> list[str]:
    flipped = [pair for pair in done.pairs if pair.flipped]
    counts = (len(done.pairs), "repetition"), (len(flipped), "flip"), (len(done.incidents), "incident")
    lines = [f"{', '.join(many(*one) for one in counts)}; {many(len(done.skipped), 'review')} not repeated"]
    for pair in flipped:
        stands = "MERGED" if pair.merged else "not merged"
        lines.append(f"  {pair.decision_id}  {safe(pair.reviewer)}: {pair.first} > {pair.again}  ({stands})")
    for rate in done.rates:
        share = "-" if rate.rate is None else f"{rate.rate:.1%}"
        between = f"95 %: {rate.low:.1%} to {rate.high:.1%}"
        lines.append(
            f"  {safe(rate.model)}, policy {safe(rate.policy_version)}, prompt {rate.prompt_sha256[:12]}: "
            f"{rate.flips} of {rate.pairs} flipped, {share} ({between}), {rate.incomplete} incomplete"
        )
    lines += [f"  {one.decision_id}  {safe(one.reviewer)}: not repeated, {safe(one.why)}" for one in done.skipped]
    return lines
