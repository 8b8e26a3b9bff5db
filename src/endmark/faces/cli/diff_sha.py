"""`endmark diff-sha`: what a verdict must be bound to."""

import os
import re

import click
import msgspec

from endmark.core.outcome import Outcome, of_refusal
from endmark.core.refusal import Refused
from endmark.effects.git import Change, Gate, Git, open_repository, read_change
from endmark.effects.git.fetch import fetch_missing
from endmark.faces.cli.common import JSON, Result, Verb, at

_NAME = "a branch, a tag, a remote branch, HEAD or a full object id"


@click.command("diff-sha", cls=Verb)
@click.option("--base", metavar="B", required=True, help=f"What is merged into: {_NAME}.")
@click.option("--head", metavar="H", required=True, help=f"What is merged: {_NAME}.")
@click.option("--repo", metavar="DIR", default=".", help="The repository, or a folder in it (default: this one).")
@click.option("--ref", metavar="REF", help="The branch that is merged into, where --base is not its name.")
@click.option("--fetch", metavar="REMOTE", help="First fetch from this remote what the clone lacks.")
@JSON
def command(base: str, head: str, repo: str, ref: str | None, fetch: str | None) -> Result | Outcome:
    """The identity of a change, in 64 hex digits: what a verdict's `diff_sha` must be.

    It covers the branch that is merged into, both commits, the tree that the merge gives and every path that differs.
    It is the same on every machine, whatever git is configured to do there. Nothing is written.

    \b
    Examples:
      endmark diff-sha --base main --head topic
      endmark diff-sha --base origin/main --head HEAD --ref main --json
    """
    repository = open_repository(Git(os.environ), repo)
    if fetch is not None:
        oids = [name for name in (base, head) if re.fullmatch(rf"[0-9a-f]{{{repository.oid_length}}}", name)]
        repository = fetch_missing(repository, fetch, *oids)
    try:
        with Gate(repository) as gate:
            change = read_change(gate, base=base, head=head, ref=ref)
    except Refused as refused:  # no bytes were given
        return msgspec.structs.replace(of_refusal(refused, at()), received_bytes=None)
    return Result(change.diff_sha, _document(change))


def _document(change: Change) -> dict[str, object]:
    return {
        "version": 1,
        "diff_sha": change.diff_sha,
        "object_format": change.object_format,
        "target_ref": change.target_ref,
        "base_commit": change.base.oid,
        "base_tree": change.base.tree,
        "head_commit": change.head.oid,
        "head_tree": change.head.tree,
        "merge_tree": change.merge_tree,
        "merge_bases": list(change.merge_bases),
        "fast_forward": change.fast_forward,
        "files_changed": len(change.records),
        "exit_code": 0,
        "at": at(),
    }
