"""`remit log` and `remit search`: the newest records."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from remit.cli.output import emit, emit_view, governed_site, json_option, repo_option, reports_failures, view_options
from remit.cli.reading import filter_options, found_records, wanted, with_classes
from remit.cli.screen import Screen
from remit.core.text import shown
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
@click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 100_000))
@repo_option
@json_option
@view_options
@reports_failures
def log(text: tuple[str, ...], reverse: bool, limit: int, repo: Path, as_json: bool, **filters: Any) -> None:
    """List the newest records, the newest first; those of other machines and older tools too."""
    gate = governed_site(repo)
    found = found_records(gate, wanted(gate, repo, filters), text, limit)
    found = with_classes(gate, found) if as_json else found
    answer(found[::-1] if reverse else found, as_json)


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
    """List the records that say all these words, the best first.

    Words are sought in reasons, lessons, intents' names, commands, results, refusals and paths, in any form: `change`
    finds `changes`. `auth*` stands for all that begins so; '"two words"' in double quotes stand together. With --talk
    they are sought in the agents' conversations, as far as these are kept; of the filters --session and --since count.
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
    lines = [*map(spoken_line, found), *([f"note: {trouble}"] if trouble else [])]
    emit(msgspec.to_builtins(found), as_json, "\n".join(lines) or "nothing that was kept says so")


def spoken_line(one: heard.Heard) -> str:
    """Something that was said, on one line."""
    at = shown(one.at[:19].replace("T", " "), 19)
    return f"{shown(one.session_id[-12:], 12)}  {at:<19}  {one.role:<9} {shown(one.around, 160)}"


def answer(found: list[dict[str, Any]], as_json: bool) -> None:
    """Answer with the records, a row each."""
    emit_view(found, as_json, lambda screen: record_view(found, screen))


def record_view(found: list[dict[str, Any]], screen: Screen) -> "Iterator[Part]":
    """Return the records as rows."""
    from remit.cli.record_rows import record_table

    yield record_table(found, screen) if found else "no records"
