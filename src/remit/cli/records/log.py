"""`remit log` and `remit search`: the newest records."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import msgspec

from remit.cli.failure import INTERRUPT
from remit.cli.output import (
    current_screen,
    emit_view,
    encode_json,
    governed_site,
    json_option,
    print_text,
    repo_option,
    reports_failures,
    view_options,
)
from remit.cli.records.query import add_classes, filter_options, find_records, follow_records, resolve_filters
from remit.cli.terminal.screen import Screen
from remit.core.display_text import sanitise_text
from remit.gate.context import WorkspaceContext
from remit.ledger.index.index import Filters
from remit.provenance.why import conversation_search
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
@repo_option
@json_option
@view_options
@reports_failures
def log(
    text: tuple[str, ...], reverse: bool, follow: bool, limit: int, repo: Path, as_json: bool, **filters: Any
) -> None:
    """List the newest records, the newest first; those of other machines and older tools too.

    With --follow and --json each record is a document on a line of its own.
    """
    gate = governed_site(repo)
    asked = resolve_filters(gate, repo, filters)
    found = find_records(gate, asked, text, limit)
    if follow:
        emit_feed(chain([found[::-1]], follow_records(gate, asked, text, found)), as_json)
    found = add_classes(gate, found) if as_json else found
    emit_records(found[::-1] if reverse else found, as_json)


def emit_feed(batches: Iterable[list[dict[str, Any]]], as_json: bool) -> NoReturn:
    """Print records as they come: rows, or a JSON document each. Ends the process when the person says so."""
    from remit.cli.records.record_table import record_table
    from remit.cli.terminal.view import render

    try:
        for documents in batches:
            if as_json:
                for found in documents:
                    print_text(encode_json(found))
            elif documents:
                screen = current_screen()
                print_text(
                    sanitise_text(render([record_table(documents, screen, is_feed=True)], screen)),
                    has_colour=screen.is_coloured,
                )
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
@repo_option
@json_option
@view_options
@reports_failures
def search(
    words: tuple[str, ...], newest: bool, talk: bool, limit: int, repo: Path, as_json: bool, **filters: Any
) -> None:
    """List the records that say these words, the best first: those that say all of them, then those that say any.

    A question will do: `remit search "why did we drop the cache?"`. With --newest each record says all words. Words
    are sought in reasons, lessons, intents' names, commands, results, refusals and paths, in any form: `change` finds
    `changes`. `auth*` stands for all that begins so; '"two words"' in double quotes stand together. With --talk they
    are sought in the agents' conversations, as far as these are kept; of the filters --session and --since count.
    """
    gate = governed_site(repo)
    if talk:
        emit_conversations(gate, words, resolve_filters(gate, repo, filters), limit, newest=newest, as_json=as_json)
        return
    found = find_records(gate, resolve_filters(gate, repo, filters), words, limit, ranked=not newest)
    emit_records(add_classes(gate, found) if as_json else found, as_json)


def emit_conversations(
    gate: WorkspaceContext, words: tuple[str, ...], by: Filters, limit: int, *, newest: bool, as_json: bool
) -> None:
    """What was said with those words, or one line each."""
    with intake_of_all_sessions(gate).open_conversations(gate.environment.clock()) as kept:
        session, since = by.get("session_id") or "", by.get("since") or ""
        found = conversation_search.search_conversations(
            kept.database, words, limit, session=session, since=since, newest=newest
        )
        trouble = kept.problem
    emit_view(msgspec.to_builtins(found), as_json, partial(conversation_view, found, trouble))


def conversation_view(
    found: Sequence[conversation_search.ConversationMatch], trouble: str, screen: Screen
) -> "Iterator[ViewPart]":
    """Return what was said, a row each."""
    from remit.cli.terminal.view import TextTable, mark, styled_text

    rows = [
        (
            styled_text(one.session_id[:8], "yellow"),
            styled_text(screen.format_time(one.at), "dim"),
            mark("person" if one.role == "user" else "agent", one.role),
            styled_text(one.around),
        )
        for one in found
    ]
    yield TextTable(rows) if rows else "nothing that was kept says so"
    if trouble:
        yield f"note: {trouble}"


def emit_records(found: list[dict[str, Any]], as_json: bool) -> None:
    """Answer with the records, a row each."""
    emit_view(found, as_json, lambda screen: record_view(found, screen))


def record_view(found: list[dict[str, Any]], screen: Screen) -> "Iterator[ViewPart]":
    """Return the records as rows."""
    from remit.cli.records.record_table import record_table

    yield record_table(found, screen) if found else "no records"
