"""`remit completion`: completion for a shell."""

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what your shell needs to complete `remit`.

    bash: eval "$(remit completion bash)" in ~/.bashrc. zsh likewise in ~/.zshrc. fish: remit completion fish | source
    """
    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"{shell} is not known here")
    click.echo(kind(context.find_root().command, {}, "remit", "_REMIT_COMPLETE").source())
