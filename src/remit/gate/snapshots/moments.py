"""The moment that a person names, and the snapshot from before it: an intent, a session, a time, a command's words, a
call or a record. The ledger tells when something began; an agent whose file tools alone changed files left no snapshot
of its own, and the one from before it counts.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct

from remit.core.record import KEY, format_utc, match_ids
from remit.gate.context import WorkspaceContext
from remit.gate.snapshots.restore import NoSuchSnapshot
from remit.ledger.index.index import Index
from remit.ledger.parse_time import NotATime, parse_time
from remit.workspace.snapshots.snapshot import Snapshot

WORK_EVENTS = frozenset({"mutation", "generated", "data_changed"})
WORK_EFFECTS = frozenset({"write", "delete", "execute"})
"""What a call has done, or may do, that changes a file."""

CHANGE_EVENTS = ("mutation", "human_edit")
SEARCHED_CALLS = 5000
SHORTEST_ID_PART = 6
STATE_KINDS = ("call", "session", "restore")


class Moment(Struct, frozen=True):
    """When something began: the time as records have it, in words, and the call that began it."""

    at: str
    about: str
    session: str = ""
    call: str = ""


def find_snapshot_before(context: WorkspaceContext, found: Sequence[Snapshot], what: str) -> Snapshot:
    """Return the state before what a person names. `found` has the newest first. Raises NoSuchSnapshot."""
    with context.index() as index:
        moment = find_moment(context, index, what)
    if moment is None:
        of_command = (s for s in found if s.occasion.kind == "call" and what in (s.occasion.command or s.occasion.tool))
        if (snapshot := next(of_command, None)) is not None:
            return snapshot
        raise NoSuchSnapshot(
            f"no snapshot precedes {what!r}: no intent, session, call, record or time of that name, no command with "
            "these words; `remit restore list` shows what there is"
        )
    states = [s for s in found if s.occasion.kind in STATE_KINDS]
    own = (s for s in states if moment.call and (s.occasion.session, s.occasion.call) == (moment.session, moment.call))
    snapshot = next(own, None) or next((s for s in states if format_time(s.at) <= moment.at), None)
    if snapshot is None:
        raise NoSuchSnapshot(f"{moment.about} began at {moment.at}, and no snapshot is that old")
    return snapshot


def find_moment(context: WorkspaceContext, index: Index, what: str) -> Moment | None:
    """Return when the named thing began; None for a text that names none by itself."""
    if index.list_values("intent_id", 1, prefix=what) == (what,):
        return find_first_work(index, f"the work under {what}", intent_id=what)
    sessions = match_ids(what, index.list_values("session_id", prefix=what)) if len(what) >= SHORTEST_ID_PART else ()
    sessions = sessions or index.list_values("session_id", 1, prefix=what)
    if sessions and (what in sessions or (len(what) >= SHORTEST_ID_PART and len(sessions) == 1)):
        return find_first_work(index, f"session {sessions[0]}", session_id=sessions[0])
    with suppress(NotATime):
        at = parse_time(what, datetime.fromtimestamp(context.environment.clock.now(), UTC))
        return Moment(at, what)
    for document in index.find(event="tool_use", limit=SEARCHED_CALLS):
        if document["metadata"][KEY].get("call", {}).get("id") == what:
            return moment_of(document, f"the call {what}")
    part = len(what) >= SHORTEST_ID_PART and what.replace("-", "").isalnum()
    records = (index.find_by_id_prefix(what) or index.find_by_id_part(what)) if part else []
    return moment_of(records[0], f"the record {what}") if len(records) == 1 else None


def find_first_work(index: Index, about: str, **by: Any) -> Moment | None:
    """Return the first call of an intent or a session; without one, when it was selected or began."""
    first: dict[str, Any] | None = None
    for document in index.iterate_records(**by):
        body: dict[str, Any] = document["metadata"][KEY]
        call: dict[str, Any] = body.get("call") or {}
        first = first or (document if body.get("event") in ("intent_selected", "session_start") else None)
        is_own = str(call.get("name")).startswith("mcp__remit__") or str(call.get("command")).startswith("remit ")
        may_change = body.get("event") == "tool_use" and call.get("effect") in WORK_EFFECTS and not is_own
        if may_change or body.get("event") in WORK_EVENTS:
            return moment_of(document, about)
    return moment_of(first, about) if first else None


def moment_of(document: dict[str, Any], about: str) -> Moment:
    body: dict[str, Any] = document["metadata"][KEY]
    call: dict[str, Any] = body.get("call") or {}
    return Moment(str(document["timestamp"]), about, str(body.get("session_id") or ""), str(call.get("id") or ""))


def format_time(at: float) -> str:
    return format_utc(datetime.fromtimestamp(at, UTC))


def count_changes_between(context: WorkspaceContext, snapshot: Snapshot, what: str) -> int:
    """Return how many recorded changes lie between a snapshot and what a person named: they go back as well."""
    with context.index() as index:
        moment = find_moment(context, index, what)
        if moment is None:
            return 0
        since = format_time(snapshot.at)
        return sum(index.count_matching(event=event, since=since, until=moment.at) for event in CHANGE_EVENTS)
