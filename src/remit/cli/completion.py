"""`remit completion`: shell completion, and the values to complete."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, get_args

import click
from click.shell_completion import CompletionItem, get_completion_class

from remit.cli.output import Failure, governed_context, governed_gate, open_index, unavailable_errors
from remit.core.record import KEY, EventName
from remit.core.untrusted_input import sanitise_line

Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
MAX_ITEMS = 50  # the newest items of a kind are offered


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


def completer(find: Callable[[Path], Iterable[tuple[str, str]]]) -> Completer:
    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        with suppress(*unavailable_errors(), Failure, ValueError):
            items = [item for item in find(Path(context.params.get("repo") or "")) if item[0].startswith(incomplete)]
            return [CompletionItem(value, help=sanitise_line(remark, 60)) for value, remark in items]
        return []

    return complete


@completer
def complete_events(repo: Path) -> Iterable[tuple[str, str]]:
    return [(name, "") for name in get_args(EventName)]


@completer
def complete_intents(repo: Path) -> Iterable[tuple[str, str]]:
    document = governed_context(repo).rules.document
    return [(intent.id, intent.name) for intent in document.intents] if document else []


class IntentType(click.ParamType[str]):
    """An id of an intent, or a part of its number or name that no other has. The command itself says what is wrong with
    an id, and with words that fit no intent.
    """

    name = "id"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if ctx is None or not value:
            return value
        # Imported here: most commands are given no intent.
        from remit.core.intent import MAX_LISTED_IDS, match_intents

        document, own = None, dict(os.environ)
        with suppress(*unavailable_errors(), Failure, ValueError):
            document = governed_context(Path(ctx.params.get("repo") or "")).rules.document
        os.environ.update(own)  # without variables that redirect git; the command may need them for a program it runs
        found = match_intents(value, document.intents) if document else []
        if len(found) > 1:
            named = ", ".join(f"{intent.id} ({sanitise_line(intent.title, 40)})" for intent in found[:MAX_LISTED_IDS])
            more = f" and {len(found) - MAX_LISTED_IDS} more" if len(found) > MAX_LISTED_IDS else ""
            self.fail(f"{value!r} fits {named}{more}: say more of it", param, ctx)
        return found[0].id if found else value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return complete_intents(ctx, param, incomplete)


INTENT = IntentType()


@completer
def complete_sessions(repo: Path) -> Iterable[tuple[str, str]]:
    return [(key.session_id, "") for key in governed_context(repo).state.list_recent_sessions(MAX_ITEMS)]


@completer
def complete_records(repo: Path) -> Iterable[tuple[str, str]]:
    with open_index(governed_context(repo).workspace) as index:
        documents = index.find(limit=MAX_ITEMS)
    return [(str(document["id"])[-12:], document["metadata"][KEY]["event"]) for document in documents]


@completer
def complete_snapshots(repo: Path) -> Iterable[tuple[str, str]]:
    """Return the actions of `remit restore`, and the newest snapshots with the command that each precedes."""
    from remit.gate.undo.restore import select_offered

    snapshots = select_offered(governed_context(repo).snapshots.list_snapshots())[:MAX_ITEMS]
    occasions = [(snapshot.id, snapshot.occasion) for snapshot in snapshots]
    words = [(word, "") for word in ("list", "latest", "undo", "pin", "unpin")]
    return [*words, *((short_id, why.command or why.tool or why.kind) for short_id, why in occasions)]


@completer
def complete_questions(repo: Path) -> Iterable[tuple[str, str]]:
    questions = [waiting.question for waiting in governed_gate(repo).questions.list_unanswered()]
    return [(question.id[-8:], question.action) for question in questions]
