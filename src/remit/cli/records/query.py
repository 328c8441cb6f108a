"""Shared by the commands that read records: filter options and queries."""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import click

from remit.cli.completion import complete_events, complete_intents, complete_sessions
from remit.cli.output import Failure
from remit.cli.records.lookup import find_session, load_foreign_records, mark_unproved
from remit.cli.repository import open_index, path_in_workspace
from remit.core.display_text import sanitise_line
from remit.core.record import EventName
from remit.gate.context import WorkspaceContext
from remit.ledger.foreign_logs import matches_filters, merge_documents
from remit.ledger.index.index import Filters, Index
from remit.ledger.index.search import build_query, search_documents
from remit.ledger.parse_time import parse_time

F = TypeVar("F", bound=Callable[..., Any])

MAX_CLASSIFIED = 500
"""Changes classified per answer: each may take several milliseconds."""
FOLLOW_INTERVAL_S = 0.3
MAX_FOLLOWED_RECORDS = 1000
"""Records shown per interval; the rest stays readable in the log."""

MANY_RECORDS = 100_000
"""From this number of unindexed records on, a notice explains the wait."""

FILTER_OPTIONS = (
    click.option("--event", help="Only these events, such as mutation or denied.", shell_complete=complete_events),
    click.option(
        "--intent", "intent_id", metavar="ID", help="Only records under this intent.", shell_complete=complete_intents
    ),
    click.option(
        "--session", "session_id", metavar="ID", help="Only records of this session.", shell_complete=complete_sessions
    ),
    click.option("--agent", metavar="NAME", help="Only records of this agent, such as claude-code."),
    click.option("--path", help="Only records that touched this file."),
    click.option(
        "--line", type=click.IntRange(1), help="With --path: only changes of that line, counted as it was then."
    ),
    click.option(
        "--hash",
        "content_hash",
        metavar="SHA256",
        help="Only records that wrote lines of that hash, or found or left a file of it.",
    ),
    click.option(
        "--since", metavar="TIME", help="Only records since then: a date in UTC, 7d, yesterday, '2 days ago'."
    ),
    click.option("--until", metavar="TIME", help="Only records before then, written alike."),
)


def filter_options(command: F) -> F:
    for option in reversed(FILTER_OPTIONS):
        command = option(command)
    return command


def resolve_filters(context: WorkspaceContext, repo: Path, given: dict[str, Any]) -> Filters:
    """Return the filters with times and paths in the format of records. Raises Failure, NotATime."""
    filters = Filters(**given)
    if filters.get("line") is not None and not filters.get("path"):
        raise Failure("USAGE", "--line needs a file", fix="add --path, for example --path src/app.py --line 42")
    if path := filters.get("path"):
        filters["path"] = path_in_workspace(context.workspace, repo, path)
    if session := filters.get("session_id"):
        filters["session_id"] = find_session(context, session)
    now = datetime.now(UTC)
    if (since := filters.get("since")) is not None:
        filters["since"] = parse_time(since, now)
    if (until := filters.get("until")) is not None:
        filters["until"] = parse_time(until, now)
    return filters


def find_records(
    context: WorkspaceContext, filters: Filters, words: Sequence[str], limit: int, *, ranked: bool = False
) -> list[dict[str, Any]]:
    """Return matching records, newest first or best first.

    A ranked search appends records with any of the words after those with each word. Raises Failure, NoWords.
    """
    others = load_foreign_records(context)
    with open_index(context.workspace) as index:
        if words and build_query(words) and index.count_unsearchable() > MANY_RECORDS:
            click.echo(f"taking in the words of {index.count_unsearchable()} records, once …", err=True)
        matching = [document for document in reversed(others) if matches_filters(document, filters)]
        found = best_records(context, index, matching, filters, words, limit, ranked=ranked)
        if ranked and len(found) < limit:
            known = {document["id"] for document in found}
            more = best_records(context, index, matching, filters, words, limit, ranked=True, any_word=True)
            found += [document for document in more if document["id"] not in known][: limit - len(found)]
        if not found:
            check_names_exist(context, index, others, filters)
    return found


def best_records(
    context: WorkspaceContext,
    index: Index,
    others: list[dict[str, Any]],
    filters: Filters,
    words: Sequence[str],
    limit: int,
    *,
    ranked: bool,
    any_word: bool = False,
) -> list[dict[str, Any]]:
    """Return the records with each word, or any word, from the index and from `others`, which match the filters."""
    own = list(
        mark_unproved(context, index.find(words=words, ranked=ranked, any_word=any_word, limit=limit, **filters))
    )
    if words and others:
        hits = search_documents(others, words, any_word=any_word)
        others = hits if ranked else [document for document in others if document in hits]
    return merge_documents(own, others, limit, ranked=ranked)


def follow_records(
    context: WorkspaceContext, filters: Filters, words: Sequence[str], seen: Iterable[dict[str, Any]]
) -> Iterator[list[dict[str, Any]]]:
    """Yield the records appended after the newest in `seen`, oldest first, without end."""
    known = {str(document["id"]) for document in seen}
    with open_index(context.workspace) as index:
        while True:
            fresh: list[dict[str, Any]] = []
            for document in index.find(words=words, limit=MAX_FOLLOWED_RECORDS, **filters):  # newest first
                if document["id"] in known:
                    break
                fresh.append(document)
            if fresh:
                known |= {str(document["id"]) for document in fresh}
                yield list(mark_unproved(context, fresh[::-1]))
            time.sleep(FOLLOW_INTERVAL_S)
            while not index.catch_up():
                time.sleep(FOLLOW_INTERVAL_S)


def add_classes(context: WorkspaceContext, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records, each change with its computed class; a hook may have had no time to compute."""
    # imports parsers, which not every answer needs
    from remit.provenance.map.change_classes import add_computed_classes

    newest, rest = documents[:MAX_CLASSIFIED], documents[MAX_CLASSIFIED:]
    return [*add_computed_classes(newest, context.contents), *rest]


def each_record(context: WorkspaceContext, filters: Filters) -> Iterator[dict[str, Any]]:
    """Yield matching records, oldest first, with bounded memory. Raises Failure."""
    others = load_foreign_records(context)
    with open_index(context.workspace) as index:
        matching = [document for document in others if matches_filters(document, filters)]
        if not matching and not index.find(limit=1, **filters):
            check_names_exist(context, index, others, filters)
        own = mark_unproved(context, index.iterate_records(**filters))
        yield from heapq.merge(own, matching, key=lambda document: str(document["timestamp"]))


NameField = Literal["intent_id", "agent"]
NAME_OPTIONS: tuple[tuple[NameField, str], ...] = (("intent_id", "intent"), ("agent", "agent"))


def check_names_exist(
    context: WorkspaceContext, index: Index, others: Sequence[dict[str, Any]], filters: Filters
) -> None:
    """Raise Failure if an empty result is due to a name that no record has."""

    def occurs_elsewhere(wanted: Filters) -> bool:
        return any(matches_filters(document, wanted) for document in others)

    event, known_events = filters.get("event"), get_args(EventName)
    if event is not None and event not in known_events and not occurs_elsewhere({"event": event}):
        raise unknown_name_failure("event", event, known_events)
    for field, option in NAME_OPTIONS:
        value = filters.get(field)
        only = Filters(**{field: value})
        if value is None or index.find(limit=1, **only) or occurs_elsewhere(only):
            continue
        planned = tuple(context.rules.intents.ids) if field == "intent_id" else ()
        if value not in planned:
            raise unknown_name_failure(option, value, tuple(dict.fromkeys([*planned, *index.list_values(field)])))


def unknown_name_failure(option: str, value: str, known: Sequence[str]) -> Failure:
    names = ", ".join(sanitise_line(name, 60) for name in known[:24])
    message = f"no record has the {option} {value!r}"
    return Failure("NOT_FOUND", message, fix=f"there is {names or 'none yet'}", target=value)
