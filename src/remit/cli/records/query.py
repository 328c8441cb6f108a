"""Finding records: filter options, search, feeds, and ids as people type them.

An id may be given whole, by its beginning, or by the part that a view shows. Records of other machines and tools are
read beside our own.
"""

import heapq
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import click

from remit.cli.completion import INTENT, complete_events, complete_sessions
from remit.cli.output import Failure, open_index, path_in_workspace, say
from remit.core.agents import ROWS
from remit.core.record import KEY, EventName, match_ids
from remit.core.untrusted_input import as_object, sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.records.check_logs import count_proved_records
from remit.gate.records.tree_heads import trusted_keys
from remit.ledger.foreign_logs import merge_documents, read_foreign_records
from remit.ledger.index.index import Filters, Index, filter_documents
from remit.ledger.index.search import build_query, search_documents
from remit.ledger.log_files import list_local_names
from remit.ledger.parse_time import parse_time
from remit.workspace.sharing.tracked_logs import list_other_logs

F = TypeVar("F", bound=Callable[..., Any])
MAX_CANDIDATES = 10
MAX_SESSIONS = 1000
MAX_SEARCHED = 20_000  # the newest records to search for calls, questions and snapshots
MAX_CLASSIFIED = 500  # changes classified per answer: each may take several milliseconds
FOLLOW_INTERVAL_S = 0.3
MAX_FOLLOWED_RECORDS = 1000  # records shown per interval; the rest stays readable in the log
MANY_RECORDS = 100_000  # from this number of unindexed records on, a notice explains the wait

FILTER_OPTIONS = (
    click.option("--event", help="Only these events, such as mutation or denied.", shell_complete=complete_events),
    click.option("--intent", "intent_id", metavar="ID", help="Only records under this intent.", type=INTENT),
    click.option(
        "--session", "session_id", metavar="ID", help="Only records of this session.", shell_complete=complete_sessions
    ),
    click.option("--agent", metavar="NAME", help=f"Only records of this agent, such as {next(iter(ROWS))}."),
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


# --- records -----------------------------------------------------------------------------------------------


def load_foreign_records(context: WorkspaceContext) -> list[dict[str, Any]]:
    workspace, config = context.workspace, context.rules.config
    keys = trusted_keys(context.environment.home, config) if config.ledger.trusted_keys else ()
    tracked = list_other_logs(workspace.tracked_logs, workspace.state)
    own = list_local_names(workspace.log_folder, context.recorder.log.name)
    return read_foreign_records(workspace.view_path, workspace.log_folder, own, keys, tracked)


def mark_unproved(context: WorkspaceContext, documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the records; mark another machine's record as `unproved` unless a trusted key signed its log."""
    own, proved = context.recorder.log.name, count_proved_records(context.recorder, context.rules.config)
    for document in documents:
        body = as_object(document["metadata"].get(KEY))
        chain = as_object(body.get("chain"))
        log, seq = chain.get("log"), chain.get("seq")
        if log != own and not (isinstance(seq, int) and seq < proved.get(str(log), 0)):
            body["unproved"] = True
        yield document


def find_records(
    context: WorkspaceContext, filters: Filters, words: Sequence[str], limit: int, *, ranked: bool = False
) -> list[dict[str, Any]]:
    """Return matching records, newest or best first; ranked, those with any of the words follow those with each."""
    others = load_foreign_records(context)
    matching = filter_documents(others, filters)[::-1]
    found: list[dict[str, Any]] = []
    with open_index(context.workspace) as index:
        if words and build_query(words) and index.count_unsearchable() > MANY_RECORDS:
            say(f"taking in the words of {index.count_unsearchable()} records, once …", err=True)
        for any_word in (False, True):
            if len(found) >= limit or (any_word and not ranked):
                break
            own = index.find(words=words, ranked=ranked, any_word=any_word, limit=limit, **filters)
            hits = matching
            if words and matching:
                best = search_documents(matching, words, any_word=any_word)
                hits = best if ranked else [document for document in matching if document in best]
            known = {document["id"] for document in found}
            more = merge_documents(list(mark_unproved(context, own)), hits, limit, ranked=ranked)
            found += [document for document in more if document["id"] not in known][: limit - len(found)]
        if not found:
            check_names_exist(context, index, others, filters)
    return found


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


def each_record(context: WorkspaceContext, filters: Filters) -> Iterator[dict[str, Any]]:
    """Yield matching records, oldest first, with bounded memory. Raises Failure."""
    others = load_foreign_records(context)
    with open_index(context.workspace) as index:
        matching = filter_documents(others, filters)
        if not matching and not index.find(limit=1, **filters):
            check_names_exist(context, index, others, filters)
        own = mark_unproved(context, index.iterate_records(**filters))
        yield from heapq.merge(own, matching, key=lambda document: str(document["timestamp"]))


def add_classes(context: WorkspaceContext, documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the records, each change with its computed class; a hook may have had no time to compute."""
    # imports parsers, which not every answer needs
    from remit.provenance.map.change_classes import add_computed_classes

    return [*add_computed_classes(documents[:MAX_CLASSIFIED], context.contents), *documents[MAX_CLASSIFIED:]]


def check_names_exist(
    context: WorkspaceContext, index: Index, others: Sequence[dict[str, Any]], filters: Filters
) -> None:
    """Raise Failure if an empty result is due to a name that no record has."""
    fields: tuple[Literal["event", "intent_id", "agent"], ...] = ("event", "intent_id", "agent")
    for field in fields:
        value = filters.get(field)
        only = Filters(**{field: value})
        known: tuple[str, ...] = get_args(EventName) if field == "event" else ()
        known = tuple(context.rules.intents.ids) if field == "intent_id" else known
        if value is None or value in known or filter_documents(others, only):
            continue
        if field != "event":
            if index.find(limit=1, **only):
                continue
            known = tuple(dict.fromkeys([*known, *index.list_values(field)]))
        names = ", ".join(sanitise_line(name, 60) for name in known[:24])
        message = f"no record has the {field.removesuffix('_id')} {value!r}"
        raise Failure("NOT_FOUND", message, fix=f"there is {names or 'none yet'}", target=value)


# --- ids ---------------------------------------------------------------------------------------------------


def choose_id(kind: str, given: str, known: Iterable[str], listing: str) -> str:
    """Return the id that fits. Raises Failure: with the candidates for several, with `listing` for none."""
    ids = match_ids(given, known)
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise Failure("NOT_FOUND", f"no {kind} {given!r}", fix=f"{listing} lists them", target=given)
    message = f"{given!r} fits {len(ids)} {kind}s: {join_ids(ids)}"
    raise Failure("AMBIGUOUS", message, fix="give more of it", target=given)


def join_ids(names: Sequence[str]) -> str:
    more = f" and {len(names) - MAX_CANDIDATES} more" if len(names) > MAX_CANDIDATES else ""
    return ", ".join(sanitise_line(name, 80) for name in names[:MAX_CANDIDATES]) + more


def find_session(context: WorkspaceContext, given: str) -> str:
    """Return the session id that is `given` or begins with the text, from any log. Raises Failure."""
    with open_index(context.workspace) as index:
        own = index.list_values("session_id", MAX_SESSIONS, prefix=given)
    recent = [key.session_id for key in context.state.list_recent_sessions(MAX_SESSIONS)]
    others: list[str] = []
    if given not in own:  # reading the other logs is slow
        others = [str(record["metadata"][KEY].get("session_id") or "") for record in load_foreign_records(context)]
    try:
        return choose_id("session", given, [*own, *recent, *filter(None, others)], "`remit log --event session_start`")
    except Failure as failure:
        if failure.code == "NOT_FOUND" and recent:
            failure.fix = f"the newest: {join_ids(recent)}"
        raise


def find_by_id(context: WorkspaceContext, text: str) -> list[dict[str, Any]]:
    with open_index(context.workspace) as index:
        own = list(mark_unproved(context, index.find_by_id_prefix(text) or index.find_by_id_part(text)))
    matching = [document for document in (*own, *load_foreign_records(context)) if text in str(document["id"])]
    return [document for document in matching if document["id"] == text] or matching


def find_record(context: WorkspaceContext, given: str) -> dict[str, Any]:
    """Return the record of this id, or the main record of a call, question or snapshot. Raises Failure, also for the id
    of a session or an intent, which have commands of their own.
    """
    if records := {str(document["id"]): document for document in find_by_id(context, given)}:
        return records[choose_id("record", given, records, "`remit log`")]
    if given in context.rules.intents.ids:
        raise Failure("NOT_FOUND", f"{given} is an intent", fix=f"`remit intent show {given}`", target=given)
    with open_index(context.workspace) as index:
        if index.list_values("session_id", 1, prefix=given):
            raise Failure("NOT_FOUND", f"{given!r} is a session", fix=f"`remit session {given}`", target=given)
        newest = index.find(limit=MAX_SEARCHED)
    by_subject: dict[str, dict[str, Any]] = {}
    for document in newest:  # newest first: an answer comes before its question, a result before its call
        body: dict[str, Any] = document["metadata"][KEY]
        subject = body.get("approval") or (body if body.get("event") == "snapshot" else body.get("call")) or {}
        name = str(subject.get("id") or "")
        if name not in by_subject or body.get("event") in ("tool_use", "denied"):
            by_subject[name] = document
    by_subject.pop("", None)
    return by_subject[choose_id("record, call, question or snapshot", given, by_subject, "`remit log`")]
