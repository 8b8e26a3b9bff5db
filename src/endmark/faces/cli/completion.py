"""`endmark completion`: the words of the command line, completed by the shell."""

import click

from endmark.faces.cli.common import Result, Verb


@click.command("completion", cls=Verb)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def command(ctx: click.Context, shell: str) -> Result:
    """The script that completes endmark's words in a shell.

    \b
    Examples:
      endmark completion bash > ~/.local/share/bash-completion/completions/endmark
      endmark completion zsh > ~/.zfunc/_endmark
      endmark completion fish > ~/.config/fish/completions/endmark.fish
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101  # the three above are click's own
    return Result(kind(ctx.find_root().command, {}, "endmark", "_ENDMARK_COMPLETE").source().strip("\n"))
