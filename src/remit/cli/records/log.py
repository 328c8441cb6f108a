"""`remit log`, `remit search` and `remit export`: lists of records."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast, get_args

import click

from remit.cli import output
from remit.cli.records import query
from remit.cli.screen import Screen
from remit.core.formats.foreign_records import Format, export_record, format_csv_header
from remit.provenance.why.conversation_store import ConversationMatch, search_conversations
from remit.tools.conversations import intake_of_all_sessions

if TYPE_CHECKING:
    from remit.cli.view import ViewPart

limit_option = click.option("-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 100_000))


@click.command()
@query.filter_options
@click.option(
    "--text", metavar="WORD", multiple=True, help="Only records that say this, as `search` reads it; repeatable."
)
@click.option("--reverse", is_flag=True, help="The oldest of them first.")
@click.option("-f", "--follow", is_flag=True, help="Then show records as they come, the oldest first, until Ctrl-C.")
@limit_option
@output.view_command_options
def log(
    text: tuple[str, ...], reverse: bool, follow: bool, limit: int, repo: Path, as_json: bool, **filters: Any
) -> None:
    """List the newest records, the newest first; those of other machines and older tools too.

    With --follow and --json each record is a document on a line of its own.
    """
    context = output.governed_context(repo)
    resolved = query.resolve_filters(context, repo, filters)
    documents = query.find_records(context, resolved, text, limit)
    if follow:
        emit_feed(chain([documents[::-1]], query.follow_records(context, resolved, text, documents)), as_json)
    documents = query.add_classes(context, documents) if as_json else documents
    emit_records(documents[::-1] if reverse else documents, as_json)


def emit_feed(batches: Iterable[list[dict[str, Any]]], as_json: bool) -> NoReturn:
    from remit.cli.records.record_table import record_table
    from remit.cli.view import render

    try:
        for documents in batches:
            for document in documents if as_json else ():
                output.print_text(output.encode_json(document))
            if documents and not as_json:
                screen = output.current_screen()
                text = render([record_table(documents, screen, is_feed=True)], screen)
                output.print_text(text, has_colour=screen.is_coloured)
            sys.stdout.flush()
    except KeyboardInterrupt:
        pass
    sys.exit(output.INTERRUPT)


@click.command()
@click.argument("words", nargs=-1, required=True)
@query.filter_options
@click.option("--newest", is_flag=True, help="The newest first, not the best.")
@click.option("--talk", is_flag=True, help="What people and agents said to each other, instead of records.")
@limit_option
@output.view_command_options
def search(
    words: tuple[str, ...], newest: bool, talk: bool, limit: int, repo: Path, as_json: bool, **filters: Any
) -> None:
    """List the records that contain these words, the best first: records with all words, then records with some.

    A question works too: `remit search "why did we drop the cache?"`. With --newest each record contains all words.
    Words are sought in reasons, lessons, intents' names, commands, results, refusals and paths, in any form: `change`
    finds `changes`. `auth*` finds all words with the beginning `auth`; '"two words"' in double quotes stand together.
    With --talk the words are sought in the agents' stored conversations; only the filters --session and --since count.
    """
    context = output.governed_context(repo)
    resolved = query.resolve_filters(context, repo, filters)
    if not talk:
        documents = query.find_records(context, resolved, words, limit, ranked=not newest)
        emit_records(query.add_classes(context, documents) if as_json else documents, as_json)
        return
    session, since = resolved.get("session_id") or "", resolved.get("since") or ""
    with intake_of_all_sessions(context).open_conversations(context.environment.clock.now()) as conversations:
        database = conversations.database
        matches = search_conversations(database, words, limit, session=session, since=since, newest=newest)
        problem = conversations.problem
    output.emit_view(matches, as_json, partial(conversation_view, matches, problem))


def conversation_view(matches: Sequence[ConversationMatch], problem: str, screen: Screen) -> "Iterator[ViewPart]":
    from remit.cli.view import TextTable, mark, styled_text

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

    output.emit_view(documents, as_json, record_view)


@click.command()
@click.option("--as", "form", type=click.Choice(get_args(Format)), default="agent-trace", show_default=True)
@query.filter_options
@output.command_options
def export(form: str, repo: Path, as_json: bool, **filters: Any) -> None:
    """Write records, the oldest first, in another form. s1 to s4 are the ledgers of older tools.

    A form leaves out what it has no words for: s1, s3, s4 and in-toto know changes of files only. in-toto is one
    Statement a line, unsigned, about the contents that a change left. In csv a text that a spreadsheet would run begins
    with an apostrophe.
    """
    context = output.governed_context(repo)
    records = query.each_record(context, query.resolve_filters(context, repo, filters))
    # Fetch the first record now: errors surface before any output.
    records = chain(list(islice(records, 1)), records)
    text_form = cast("Format", form)
    lines = (line for record in records for line in export_record(record, text_form))
    if not as_json:
        for line in chain([format_csv_header()] if form == "csv" else [], lines):
            output.write_content(f"{line}\n".encode("utf-8", "replace"))
        return
    # One JSON document, line by line to bound memory.
    output.say(f'{{"schema_version":1,"data":{{"as":{output.encode_json(form)},"lines":[', nl=False)
    for number, line in enumerate(lines):
        output.say("," * bool(number) + output.encode_json(line), nl=False)
    output.say("]}}")
