"""Lookup of records and ids: own logs, logs of other machines and tools, ids as people type them.

An id may be given whole, by its beginning, or by the part that a view shows.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from remit.cli.failure import Failure
from remit.cli.repository import open_index
from remit.core.display_text import sanitise_line
from remit.core.ids import match_ids
from remit.core.json_guards import as_object
from remit.core.record import KEY
from remit.gate.context import WorkspaceContext
from remit.gate.log_sharing.check_logs import count_proved_records
from remit.gate.records.tree_heads import trusted_keys
from remit.ledger.foreign_logs import read_foreign_records
from remit.ledger.machine_logs import list_local_names
from remit.workspace.sharing.tracked_logs import list_other_logs as others_tracked

MAX_CANDIDATES = 10
MAX_SESSIONS = 1000
MAX_SEARCHED = 20_000
"""The newest records to search for calls, questions and snapshots."""


def load_foreign_records(context: WorkspaceContext) -> list[dict[str, Any]]:
    """Return the records of other machines and older tools, oldest first."""
    workspace = context.workspace
    config = context.rules.config
    keys = trusted_keys(context.environment.home, config) if config.ledger.trusted_keys else ()
    tracked = others_tracked(workspace.tracked_logs, workspace.state)
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


def find_by_id(context: WorkspaceContext, text: str) -> list[dict[str, Any]]:
    """Return the records with this id, else the records whose id contains the text."""
    with open_index(context.workspace) as index:
        own = list(mark_unproved(context, index.find_by_id_prefix(text) or index.find_by_id_part(text)))
    matching = [document for document in (*own, *load_foreign_records(context)) if text in str(document["id"])]
    return [document for document in matching if document["id"] == text] or matching


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


def find_record(context: WorkspaceContext, given: str) -> dict[str, Any]:
    """Return the record of this id, or the main record of a call, question or snapshot. Raises Failure."""
    records = {str(document["id"]): document for document in find_by_id(context, given)}
    if records:
        return records[choose_id("record", given, records, "`remit log`")]
    by_subject = records_by_subject(context, given)
    return by_subject[choose_id("record, call, question or snapshot", given, by_subject, "`remit log`")]


def records_by_subject(context: WorkspaceContext, given: str) -> dict[str, dict[str, Any]]:
    """Return the main record of each call, question and snapshot, by id.

    Raises Failure for the id of a session or an intent, which have commands of their own.
    """
    if given in context.rules.intents.ids:
        raise Failure("NOT_FOUND", f"{given} is an intent", fix=f"`remit intent show {given}`", target=given)
    with open_index(context.workspace) as index:
        sessions = index.list_values("session_id", 1, prefix=given)
        newest = index.find(limit=MAX_SEARCHED)
    if sessions:
        raise Failure("NOT_FOUND", f"{given!r} is a session", fix=f"`remit session {given}`", target=given)
    by_subject: dict[str, dict[str, Any]] = {}
    for document in newest:  # newest first: an answer comes before its question, a result before its call
        body: dict[str, Any] = document["metadata"][KEY]
        subject = subject_id(body)
        if subject not in by_subject or body.get("event") in ("tool_use", "denied"):
            by_subject[subject] = document
    by_subject.pop("", None)
    return by_subject


def subject_id(body: dict[str, Any]) -> str:
    """Return the id of the question, snapshot or call that a record is about."""
    if approval := body.get("approval"):
        return str(approval.get("id") or "")
    if body.get("event") == "snapshot":
        return str(body.get("id") or "")
    call: dict[str, Any] = body.get("call") or {}
    return str(call.get("id") or "")
