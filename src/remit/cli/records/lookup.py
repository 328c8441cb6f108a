"""Ids as people type them: whole, by their beginning, or by the part that a view shows. One resolver for all kinds.

The records that commands read: the index of the logs that lie here, and the logs of other machines and tools.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from remit.cli.failure import Failure
from remit.core.display_text import sanitise_line
from remit.core.ids import match_ids
from remit.core.json_guards import as_object
from remit.core.record import KEY
from remit.gate.context import WorkspaceContext
from remit.gate.log_sharing.check_logs import count_proved_records
from remit.gate.records.tree_heads import trusted_keys
from remit.ledger.foreign_logs import read_foreign_records
from remit.ledger.index.index import open_index
from remit.ledger.machine_logs import list_local_names
from remit.workspace.sharing.tracked_logs import list_other_logs as others_tracked


def load_foreign_records(gate: WorkspaceContext) -> list[dict[str, Any]]:
    """The records of other machines and older tools, oldest first."""
    workspace = gate.workspace
    config = gate.rules.config
    keys = trusted_keys(gate.environment.home, config) if config.ledger.trusted_keys else ()
    tracked = others_tracked(workspace.tracked_logs, workspace.state)
    own = list_local_names(workspace.log_folder, gate.recorder.log.name)
    return read_foreign_records(workspace.view_path, workspace.log_folder, own, keys, tracked)


def mark_unproved(gate: WorkspaceContext, documents: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The same records; what another machine wrote in this repository is `unproved` without a trusted key."""
    own, proved = gate.recorder.log.name, count_proved_records(gate.recorder, gate.rules.config)
    for document in documents:
        body = as_object(document["metadata"].get(KEY))
        chain = as_object(body.get("chain"))
        log, seq = chain.get("log"), chain.get("seq")
        if log != own and not (isinstance(seq, int) and seq < proved.get(str(log), 0)):
            body["unproved"] = True
        yield document


def find_by_id(gate: WorkspaceContext, named: str) -> list[dict[str, Any]]:
    """The records whose id is `named`, else those whose id begins with, or holds it."""
    with open_index(gate.workspace.state, gate.workspace.log_folder) as index:
        own = list(mark_unproved(gate, index.find_by_id_prefix(named) or index.find_by_id_part(named)))
    found = [d for d in (*own, *load_foreign_records(gate)) if named in str(d["id"])]
    return [d for d in found if d["id"] == named] or found


MAX_CANDIDATES = 10
MAX_SESSIONS = 1000
MAX_SEARCHED = 20_000
"""The newest records, among which calls, questions and snapshots are looked for."""


def choose_id(kind: str, given: str, known: Iterable[str], listing: str) -> str:
    """Return the id that is meant. Raises Failure: with the candidates where several fit, with `listing` for none."""
    found = match_ids(given, known)
    if len(found) == 1:
        return found[0]
    if not found:
        raise Failure("NOT_FOUND", f"no {kind} {given!r}", fix=f"{listing} lists them", target=given)
    raise Failure(
        "AMBIGUOUS", f"{given!r} fits {len(found)} {kind}s: {join_ids(found)}", fix="give more of it", target=given
    )


def join_ids(names: Sequence[str]) -> str:
    """Return the first of some ids, and how many more there are."""
    more = f" and {len(names) - MAX_CANDIDATES} more" if len(names) > MAX_CANDIDATES else ""
    return ", ".join(sanitise_line(name, 80) for name in names[:MAX_CANDIDATES]) + more


def find_session(site: WorkspaceContext, given: str) -> str:
    """Return the session whose id is `given` or begins so, in any log. Raises Failure."""
    with open_index(site.workspace.state, site.workspace.log_folder) as index:
        own = index.list_values("session_id", MAX_SESSIONS, prefix=given)
    others = (
        (str(d["metadata"][KEY].get("session_id") or "") for d in load_foreign_records(site))
        if given not in own
        else ()
    )
    heard = [key.session_id for key in site.state.list_recent_sessions(MAX_SESSIONS)]
    try:
        return choose_id("session", given, [*own, *heard, *filter(None, others)], "`remit log --event session_start`")
    except Failure as failure:
        if failure.code == "NOT_FOUND" and heard:
            failure.fix = f"the newest: {join_ids(heard)}"
        raise


def find_record(site: WorkspaceContext, given: str) -> dict[str, Any]:
    """Return the record of that id, or the one that tells most of the call, question or snapshot of that id.

    Raises Failure.
    """
    found = {str(document["id"]): document for document in find_by_id(site, given)}
    if found:
        return found[choose_id("record", given, found, "`remit log`")]
    about = records_by_subject(site, given)
    return about[choose_id("record, call, question or snapshot", given, about, "`remit log`")]


def records_by_subject(site: WorkspaceContext, given: str) -> dict[str, dict[str, Any]]:
    """Return, by the id of each call, question and snapshot, the record that tells most of it.

    Raises Failure where a session or an intent is meant, which have views of their own.
    """
    if given in site.rules.intents.ids:
        raise Failure("NOT_FOUND", f"{given} is an intent", fix=f"`remit intent show {given}`", target=given)
    with open_index(site.workspace.state, site.workspace.log_folder) as index:
        sessions = index.list_values("session_id", 1, prefix=given)
        newest = index.find(limit=MAX_SEARCHED)
    if sessions:
        raise Failure("NOT_FOUND", f"{given!r} is a session", fix=f"`remit session {given}`", target=given)
    about: dict[str, dict[str, Any]] = {}
    for document in newest:  # the newest first: a question's answer before it, a call's result before its beginning
        body: dict[str, Any] = document["metadata"][KEY]
        subject = subject_id(body)
        if subject not in about or body.get("event") in ("tool_use", "denied"):
            about[subject] = document
    about.pop("", None)
    return about


def subject_id(body: dict[str, Any]) -> str:
    """Return the id of what a record is about: a question, a snapshot, or a call."""
    if approval := body.get("approval"):
        return str(approval.get("id") or "")
    if body.get("event") == "snapshot":
        return str(body.get("id") or "")
    call: dict[str, Any] = body.get("call") or {}
    return str(call.get("id") or "")
