"""`remit log` and `remit search`: the newest records."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from remit.cli.failure import INTERRUPT
from remit.cli.output import current_screen, emit_view, encode_json, governed_context, print_text, view_command_options
from remit.cli.records.query import add_classes, filter_options, find_records, follow_records, resolve_filters
from remit.cli.terminal.screen import Screen
from remit.core.display_text import sanitise_text
from remit.gate.context import WorkspaceContext
from remit.ledger.index.index import Filters
from remit.provenance.why.conversation_search import ConversationMatch, search_conversations
from remit.tools.conversations import intake_of_all_sessions

if TYPE_CHECKING:
    from remit.cli.terminal.view import ViewPart


@click.command()
@filter_options
@click.option(
    "--text", metavar="WORD", multiple=True, help="Only records that say this, as `search` reads it; repeatable."
)
@click.option("--reverse", is_flag=True, help="The oldest of them first.")
@click.option("-f", "--follow", is_flag=True, help="Then show records as they come, the oldest first, until Ctrl-C.")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 100_000))
@view_command_options
def log(
    text: tuple[str, ...], reverse: bool, follow: bool, limit: int, repo: Path, as_json: bool, **filters: Any
) -> None:
    """List the newest records, the newest first; those of other machines and older tools too.

    With --follow and --json each record is a document on a line of its own.
    """
    context = governed_context(repo)
    resolved = resolve_filters(context, repo, filters)
    documents = find_records(context, resolved, text, limit)
    if follow:
        emit_feed(chain([documents[::-1]], follow_records(context, resolved, text, documents)), as_json)
    documents = add_classes(context, documents) if as_json else documents
    emit_records(documents[::-1] if reverse else documents, as_json)


def emit_feed(batches: Iterable[list[dict[str, Any]]], as_json: bool) -> NoReturn:
    """Print records as they arrive: rows, or a JSON document each. Ends the process on Ctrl-C."""
    from remit.cli.records.record_table import record_table
    from remit.cli.terminal.view import render

    try:
        for documents in batches:
            if as_json:
                for document in documents:
                    print_text(encode_json(document))
            elif documents:
                screen = current_screen()
                text = render([record_table(documents, screen, is_feed=True)], screen)
                print_text(sanitise_text(text), has_colour=screen.is_coloured)
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    sys.exit(INTERRUPT)


@click.command()
@click.argument("words", nargs=-1, required=True)
@filter_options
@click.option("--newest", is_flag=True, help="The newest first, not the best.")
@click.option("--talk", is_flag=True, help="What people and agents said to each other, instead of records.")
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 100_000))
@view_command_options
def search(
    words: tuple[str, ...], newest: bool, talk: bool, limit: int, repo: Path, as_json: bool, **filters: Any
) -> None:
    """List the records that say these words, the best first: those that say all of them, then those that say any.

    A question will do: `remit search "why did we drop the cache?"`. With --newest each record says all words. Words
    are sought in reasons, lessons, intents' names, commands, results, refusals and paths, in any form: `change` finds
    `changes`. `auth*` stands for all that begins so; '"two words"' in double quotes stand together. With --talk they
    are sought in the agents' conversations, as far as these are kept; of the filters --session and --since count.
    """
    context = governed_context(repo)
    resolved = resolve_filters(context, repo, filters)
    if talk:
        emit_conversations(context, words, resolved, limit, newest=newest, as_json=as_json)
        return
    documents = find_records(context, resolved, words, limit, ranked=not newest)
    emit_records(add_classes(context, documents) if as_json else documents, as_json)


def emit_conversations(
    context: WorkspaceContext, words: tuple[str, ...], filters: Filters, limit: int, *, newest: bool, as_json: bool
) -> None:
    """Print the conversation entries that match the words."""
    session, since = filters.get("session_id") or "", filters.get("since") or ""
    with intake_of_all_sessions(context).open_conversations(context.environment.clock()) as conversations:
        database = conversations.database
        matches = search_conversations(database, words, limit, session=session, since=since, newest=newest)
        problem = conversations.problem
    emit_view(matches, as_json, partial(conversation_view, matches, problem))


def conversation_view(matches: Sequence[ConversationMatch], problem: str, screen: Screen) -> "Iterator[ViewPart]":
    from remit.cli.terminal.view import TextTable, mark, styled_text

    rows = [
        (
            styled_text(match.session_id[:8], "yellow"),
            styled_text(screen.format_time(match.at), "dim"),
            mark("person" if match.role == "user" else "agent", match.role),
            styled_text(match.around),
        )
        for match in matches
    ]
    yield TextTable(rows) if rows else "no kept conversation matches"
    if problem:
        yield f"note: {problem}"


def emit_records(documents: list[dict[str, Any]], as_json: bool) -> None:
    def record_view(screen: Screen) -> "Iterator[ViewPart]":
        from remit.cli.records.record_table import record_table

        yield record_table(documents, screen) if documents else "no records"

    emit_view(documents, as_json, record_view)
