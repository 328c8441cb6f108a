"""What the commands that read records share: their filters, and where records come from."""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import click

from remit.cli.blame.answer import path_in_workspace
from remit.cli.completion import complete_events, complete_intents, complete_sessions
from remit.cli.output import Failure
from remit.cli.records.lookup import find_session, load_foreign_records, mark_unproved
from remit.core.display_text import sanitise_line
from remit.core.record import EventName
from remit.gate.context import WorkspaceContext
from remit.ledger.foreign_logs import matches_filters, merge_documents
from remit.ledger.index.index import Filters, Index, open_index
from remit.ledger.index.search import build_query, search_documents
from remit.ledger.parse_time import parse_time

F = TypeVar("F", bound=Callable[..., Any])

MAX_CLASSIFIED = 500
"""Records whose changes are classed for one answer: each may take several milliseconds."""
FOLLOW_INTERVAL_S = 0.3
MAX_FOLLOWED_RECORDS = 1000
"""No more records of one interval are shown: the log is there to be read."""

MANY_RECORDS = 100_000
"""Records whose words are taken in while a person waits long enough to wonder."""

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
        "--since",
        metavar="TIME",
        help="Only records since then: a date in UTC, 7d, yesterday, '2 days ago'.",
    ),
    click.option("--until", metavar="TIME", help="Only records before then, written alike."),
)


def filter_options(command: F) -> F:
    """The filters that every command over records takes."""
    for option in reversed(FILTER_OPTIONS):
        command = option(command)
    return command


def resolve_filters(gate: WorkspaceContext, repo: Path, given: dict[str, Any]) -> Filters:
    """The filters as they were given, with times and the path as records write them. Raises Failure, NotATime."""
    asked = Filters(**given)
    if asked.get("line") is not None and not asked.get("path"):
        raise Failure("USAGE", "--line needs a file", fix="add --path, for example --path src/app.py --line 42")
    if path := asked.get("path"):
        asked["path"] = path_in_workspace(gate.workspace, repo, path)
    if session := asked.get("session_id"):
        asked["session_id"] = find_session(gate, session)
    now = datetime.now(UTC)
    if (since := asked.get("since")) is not None:
        asked["since"] = parse_time(since, now)
    if (until := asked.get("until")) is not None:
        asked["until"] = parse_time(until, now)
    return asked


def find_records(
    gate: WorkspaceContext, asked: Filters, words: Sequence[str], limit: int, *, ranked: bool = False
) -> list[dict[str, Any]]:
    """The newest records that are asked for, newest first, or the best, best first: then, after those that say all
    words, come those that say any. Raises Failure, NoWords.
    """
    others = load_foreign_records(gate)
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        if words and build_query(words) and index.count_unsearchable() > MANY_RECORDS:
            click.echo(f"taking in the words of {index.count_unsearchable()} records, once …", err=True)
        fitting = [document for document in reversed(others) if matches_filters(document, asked)]
        found = best_records(gate, index, fitting, asked, words, limit, ranked=ranked)
        if ranked and len(found) < limit:
            known = {document["id"] for document in found}
            more = best_records(gate, index, fitting, asked, words, limit, ranked=True, any_word=True)
            found += [document for document in more if document["id"] not in known][: limit - len(found)]
        if not found:
            check_names_exist(gate, index, others, asked)
    return found


def best_records(
    gate: WorkspaceContext,
    index: Index,
    others: list[dict[str, Any]],
    asked: Filters,
    words: Sequence[str],
    limit: int,
    *,
    ranked: bool,
    any_word: bool = False,
) -> list[dict[str, Any]]:
    """The records that say all words, or any, of those in the index and `others`, which fit the filters."""
    found = index.find(words=words, ranked=ranked, any_word=any_word, limit=limit, **asked)
    if words and others:
        said = search_documents(others, words, any_word=any_word)
        others = said if ranked else [document for document in others if document in said]
    return merge_documents(list(mark_unproved(gate, found)), others, limit, ranked=ranked)


def follow_records(
    gate: WorkspaceContext, asked: Filters, words: Sequence[str], seen: Iterable[dict[str, Any]]
) -> Iterator[list[dict[str, Any]]]:
    """Yield the records that are appended after the newest that was `seen`, the oldest first, without end."""
    known = {str(document["id"]) for document in seen}
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        while True:
            fresh = index.find(words=words, limit=MAX_FOLLOWED_RECORDS, **asked)
            found = list(takewhile(partial(is_unknown, known), fresh))
            if found:
                known |= {str(document["id"]) for document in found}
                yield list(mark_unproved(gate, found[::-1]))
            time.sleep(FOLLOW_INTERVAL_S)
            while not index.catch_up():
                time.sleep(FOLLOW_INTERVAL_S)


def is_unknown(known: set[str], document: dict[str, Any]) -> bool:
    """Return whether a record is none of those whose ids are known."""
    return document["id"] not in known


def add_classes(site: WorkspaceContext, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records, each change with the class that its contents show, where a hook had no time to find it."""
    from remit.provenance.map.change_classes import add_computed_classes  # parsers, which not every answer needs

    newest, rest = found[:MAX_CLASSIFIED], found[MAX_CLASSIFIED:]
    return [*add_computed_classes(newest, site.contents), *rest]


def each_record(gate: WorkspaceContext, asked: Filters) -> Iterator[dict[str, Any]]:
    """All records that are asked for, the oldest first, few of them in memory. Raises Failure."""
    others = load_foreign_records(gate)
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        fitting = [document for document in others if matches_filters(document, asked)]
        if not fitting and not index.find(limit=1, **asked):
            check_names_exist(gate, index, others, asked)
        yield from heapq.merge(
            mark_unproved(gate, index.iterate_records(**asked)),
            fitting,
            key=lambda document: str(document["timestamp"]),
        )


NameField = Literal["intent_id", "agent"]
NAME_OPTIONS: tuple[tuple[NameField, str], ...] = (("intent_id", "intent"), ("agent", "agent"))


def check_names_exist(gate: WorkspaceContext, index: Index, others: Sequence[dict[str, Any]], asked: Filters) -> None:
    """Nothing was found: say so where that is for a name that nothing has. Raises Failure."""
    event = asked.get("event")
    if (
        event is not None
        and event not in get_args(EventName)
        and not any(matches_filters(d, {"event": event}) for d in others)
    ):
        raise unknown_name_failure("event", event, get_args(EventName))
    for field, option in NAME_OPTIONS:
        value = asked.get(field)
        only = Filters(**{field: value})
        if value is None or index.find(limit=1, **only) or any(matches_filters(d, only) for d in others):
            continue
        planned = tuple(gate.rules.intents.ids) if field == "intent_id" else ()
        if value not in planned:
            raise unknown_name_failure(option, value, tuple(dict.fromkeys([*planned, *index.list_values(field)])))


def unknown_name_failure(option: str, value: str, known: Sequence[str]) -> Failure:
    """The failure that names what there is."""
    few = ", ".join(sanitise_line(name, 60) for name in known[:24])
    return Failure(
        "NOT_FOUND", f"no record has the {option} {value!r}", fix=f"there is {few or 'none yet'}", target=value
    )
