"""`remit completion`: shell completion, and the values to complete."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import get_args

import click
from click.shell_completion import CompletionItem, get_completion_class

MAX_ITEMS = 50
"""The newest items of a kind are offered."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what your shell needs to complete `remit`.

    bash: eval "$(remit completion bash)" in ~/.bashrc. zsh likewise in ~/.zshrc. fish: remit completion fish | source
    """
    shell_class = get_completion_class(shell)
    if shell_class is None:
        raise click.UsageError(f"{shell} is not known here")
    click.echo(shell_class(context.find_root().command, {}, "remit", "_REMIT_COMPLETE").source())


def complete_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(incomplete, type="file")]


def complete_events(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from remit.core.record import EventName

    return [CompletionItem(name) for name in get_args(EventName) if name.startswith(incomplete)]


def complete_intents(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return intent ids with their names."""

    def find(repo: Path) -> Iterable[tuple[str, str]]:
        from remit.cli.output import governed_context

        document = governed_context(repo).rules.document
        return [(intent.id, intent.name) for intent in document.intents] if document else []

    return complete_items(context, incomplete, find)


def complete_sessions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of the newest sessions."""

    def find(repo: Path) -> Iterable[tuple[str, str]]:
        from remit.cli.output import governed_context

        return [(key.session_id, "") for key in governed_context(repo).state.list_recent_sessions(MAX_ITEMS)]

    return complete_items(context, incomplete, find)


def complete_records(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the short ids of the newest records, with their events."""

    def find(repo: Path) -> Iterable[tuple[str, str]]:
        from remit.cli.output import governed_context
        from remit.cli.repository import open_index
        from remit.core.record import KEY

        workspace = governed_context(repo).workspace
        with open_index(workspace) as index:
            documents = index.find(limit=MAX_ITEMS)
        return [(str(document["id"])[-12:], document["metadata"][KEY]["event"]) for document in documents]

    return complete_items(context, incomplete, find)


def complete_snapshots(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the actions of `remit restore`, and the newest snapshots with the command that each precedes."""

    def find(repo: Path) -> Iterable[tuple[str, str]]:
        from remit.cli.output import governed_context
        from remit.gate.snapshots.restore import select_offered

        words = [("list", ""), ("latest", ""), ("undo", ""), ("pin", ""), ("unpin", "")]
        snapshots = select_offered(governed_context(repo).snapshots.list_snapshots())[:MAX_ITEMS]
        occasions = [(snapshot.id, snapshot.occasion) for snapshot in snapshots]
        return [*words, *((short_id, why.command or why.tool or why.kind) for short_id, why in occasions)]

    return complete_items(context, incomplete, find)


def complete_questions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the short ids of waiting questions, with their calls."""

    def find(repo: Path) -> Iterable[tuple[str, str]]:
        from remit.cli.output import governed_gate

        questions = [waiting.question for waiting in governed_gate(repo).questions.list_unanswered()]
        return [(question.id[-8:], question.action) for question in questions]

    return complete_items(context, incomplete, find)


def complete_items(
    context: click.Context, incomplete: str, find: Callable[[Path], Iterable[tuple[str, str]]]
) -> list[CompletionItem]:
    """Return the values that begin with `incomplete`, each with a remark of one line.

    A completing shell cannot show errors: an unreadable repository offers no values.
    """
    from remit.cli.output import UNAVAILABLE_ERRORS, Failure
    from remit.core.display_text import sanitise_line

    repo = context.params.get("repo") or Path()
    with suppress(*UNAVAILABLE_ERRORS, Failure, ValueError):
        items = [item for item in find(Path(repo)) if item[0].startswith(incomplete)]
        return [CompletionItem(value, help=sanitise_line(remark, 60)) for value, remark in items]
    return []
