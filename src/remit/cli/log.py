"""`remit log` and `remit search`: the newest records."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
import msgspec

from remit.cli.failure import INTERRUPTED
from remit.cli.output import (
    current_screen,
    document,
    emit_view,
    governed_site,
    json_option,
    repo_option,
    reports_failures,
    say,
    view_options,
)
from remit.cli.reading import filter_options, follow_records, found_records, wanted, with_classes
from remit.cli.screen import Screen
from remit.core.text import defused
from remit.gate.site import Site
from remit.ledger.index import Filters
from remit.provenance.why import heard
from remit.tools.conversations import everything

if TYPE_CHECKING:
    from remit.cli.view import Part


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
    asked = wanted(gate, repo, filters)
    found = found_records(gate, asked, text, limit)
    if follow:
        emit_feed(chain([found[::-1]], follow_records(gate, asked, text, found)), as_json)
    found = with_classes(gate, found) if as_json else found
    answer(found[::-1] if reverse else found, as_json)


def emit_feed(batches: Iterable[list[dict[str, Any]]], as_json: bool) -> NoReturn:
    """Print records as they come: rows, or a JSON document each. Ends the process when the person says so."""
    from remit.cli.record_rows import record_table
    from remit.cli.view import render

    try:
        for documents in batches:
            if as_json:
                for found in documents:
                    say(document(found))
            elif documents:
                screen = current_screen()
                say(
                    defused(render([record_table(documents, screen, is_feed=True)], screen)),
                    has_colour=screen.is_coloured,
                )
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    sys.exit(INTERRUPTED)


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
        said(gate, words, wanted(gate, repo, filters), limit, newest=newest, as_json=as_json)
        return
    found = found_records(gate, wanted(gate, repo, filters), words, limit, ranked=not newest)
    answer(with_classes(gate, found) if as_json else found, as_json)


def said(gate: Site, words: tuple[str, ...], by: Filters, limit: int, *, newest: bool, as_json: bool) -> None:
    """What was said with those words, or one line each."""
    with everything(gate).conversations(gate.environment.clock()) as kept:
        session, since = by.get("session_id") or "", by.get("since") or ""
        found = heard.search(kept.database, words, limit, session=session, since=since, newest=newest)
        trouble = kept.trouble
    emit_view(msgspec.to_builtins(found), as_json, partial(talk_view, found, trouble))


def talk_view(found: Sequence[heard.Heard], trouble: str, screen: Screen) -> "Iterator[Part]":
    """Return what was said, a row each."""
    from remit.cli.view import Table, mark, words

    rows = [
        (
            words(one.session_id[:8], "yellow"),
            words(screen.time(one.at), "dim"),
            mark("person" if one.role == "user" else "agent", one.role),
            words(one.around),
        )
        for one in found
    ]
    yield Table(rows) if rows else "nothing that was kept says so"
    if trouble:
        yield f"note: {trouble}"


def answer(found: list[dict[str, Any]], as_json: bool) -> None:
    """Answer with the records, a row each."""
    emit_view(found, as_json, lambda screen: record_view(found, screen))


def record_view(found: list[dict[str, Any]], screen: Screen) -> "Iterator[Part]":
    """Return the records as rows."""
    from remit.cli.record_rows import record_table

    yield record_table(found, screen) if found else "no records"
