"""`remit completion`: completion for a shell, and the values that are completed."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, get_args

import click
from click.shell_completion import CompletionItem, get_completion_class

MAX_ITEMS = 50
"""The newest of a kind that are offered."""

Complete: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


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


def complete_files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave file names to the shell."""
    return [CompletionItem(incomplete, type="file")]


def complete_events(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of records' events."""
    from remit.core.record import EventName

    return [CompletionItem(name) for name in get_args(EventName) if name.startswith(incomplete)]


def complete_intents(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of intents, with their names."""

    def find(repo: Path) -> Iterable[tuple[str, str]]:
        from remit.cli.output import governed_site

        document = governed_site(repo).rules.document
        return [(intent.id, intent.name) for intent in document.intents] if document else []

    return complete_items(context, incomplete, find)


def complete_sessions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of the newest sessions."""

    def find(repo: Path) -> Iterable[tuple[str, str]]:
        from remit.cli.output import governed_site

        return [(key.session_id, "") for key in governed_site(repo).state.list_recent_sessions(MAX_ITEMS)]

    return complete_items(context, incomplete, find)


def complete_records(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the short ids of the newest records, with their events."""

    def find(repo: Path) -> Iterable[tuple[str, str]]:
        from remit.cli.output import governed_site
        from remit.core.record import KEY
        from remit.ledger.index.index import open_index

        workspace = governed_site(repo).workspace
        with open_index(workspace.state, workspace.log_folder) as index:
            found = index.find(limit=MAX_ITEMS)
        return [(str(document["id"])[-12:], document["metadata"][KEY]["event"]) for document in found]

    return complete_items(context, incomplete, find)


def complete_snapshots(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the words of `remit restore` and the newest snapshots, with the command that each precedes."""

    def find(repo: Path) -> Iterable[tuple[str, str]]:
        from remit.cli.output import governed_site
        from remit.gate.snapshots.restore import select_offered

        words = [("list", ""), ("latest", ""), ("undo", ""), ("pin", ""), ("unpin", "")]
        found = select_offered(governed_site(repo).snapshots.list_snapshots())[:MAX_ITEMS]
        return [*words, *((one.id, one.occasion.command or one.occasion.tool or one.occasion.kind) for one in found)]

    return complete_items(context, incomplete, find)


def complete_questions(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the short ids of the questions that wait, with the calls that they are about."""

    def find(repo: Path) -> Iterable[tuple[str, str]]:
        from remit.cli.output import governed_gate

        asked = governed_gate(repo).questions.list_unanswered()
        return [(one.question.id[-8:], one.question.action) for one in asked]

    return complete_items(context, incomplete, find)


def complete_items(
    context: click.Context, incomplete: str, find: Callable[[Path], Iterable[tuple[str, str]]]
) -> list[CompletionItem]:
    """Return the values that begin with `incomplete`, each with a remark of one line.

    A shell that completes has no place for errors: where the repository cannot be read, there is nothing to offer.
    """
    from remit.cli.output import UNAVAILABLE_ERRORS, Failure
    from remit.core.display_text import sanitise_line

    repo = context.params.get("repo") or Path()
    with suppress(*UNAVAILABLE_ERRORS, Failure, ValueError):
        found = find(Path(repo))
        return [
            CompletionItem(name, help=sanitise_line(about, 60)) for name, about in found if name.startswith(incomplete)
        ]
    return []
