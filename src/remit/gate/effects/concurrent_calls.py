"""Concurrent calls of several sessions, and the likely session of each change.

The changes of a command are the differences after the command: writes of concurrent sessions are among them. A change
in a record of a second session belongs to the second session; a change with two possible commands makes both sessions
candidates.
"""

import json
from collections.abc import Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import SessionKey, ToolCall
from remit.gate.records.record_parts import redact_command
from remit.gate.state.baseline import version_identity
from remit.gate.state.pending_calls import OpenCall, PendingCall
from remit.gate.state.workspace_state import State
from remit.workspace.observe.observation import Change, content_identity

MAX_CALL_S = 600.0
"""Age after which a pending call counts as given up."""

RECORDED_FACT = "recorded_meanwhile"


class ConcurrentChange(Struct, frozen=True):
    """A change that was recorded while calls of other sessions were pending; `at` is seconds since the epoch."""

    session: str
    path: str
    after: tuple[str, str] | None
    at: float


class ConcurrentCalls:
    """Pending calls of concurrent sessions at the return of a call. Methods raise StateError."""

    def __init__(self, state: State, now: float) -> None:
        self.state = state
        self.now = now

    def exclude_other_sessions(
        self, call: ToolCall, pending: PendingCall, changes: tuple[Change, ...]
    ) -> tuple[Change, ...]:
        """Drop changes recorded by other sessions, or declared only by their running commands.

        Changes of unclear origin are returned with their candidate sessions.
        """
        others = self.other_calls(call.session)
        recorded = {(r.path, r.after) for r in self.recorded_changes() if r.session != call.session.session_id}
        if not others and not recorded:
            return changes
        left = [
            c for c in changes if not pending.whole or c.from_git or (c.path, content_identity(c.after)) not in recorded
        ]
        left = [
            c for c in left if c.from_git or not is_output_of_any(others, c.path) or declares_write(pending, c.path)
        ]
        return tuple(replace(c, possible_sessions=find_candidates(c, call.session, pending, others)) for c in left)

    def other_calls(self, session: SessionKey) -> list[OpenCall]:
        """Return the pending calls of other sessions."""
        if not self.state.has_other_call(session, self.now - MAX_CALL_S):
            return []
        return [
            c
            for c in self.state.list_open_calls()
            if c.session.session_id != session.session_id and c.at > self.now - MAX_CALL_S and c.pending is not None
        ]

    def describe_candidates(self, sessions: Iterable[str], own: ToolCall) -> list[dict[str, str]]:
        """Return the candidates as records name them: session, agent, intent and command, if known."""
        known = {call.session.session_id: describe_call(call.pending) for call in self.other_calls(own.session)}
        known[own.session.session_id] = {
            **intent_entry(self.state.active_session(own.session).intent_id),
            "agent": own.agent,
            **({"command": redact_command(own.command)} if own.command else {}),
        }
        return [{"session_id": session, **known.get(session, {})} for session in sessions]

    def recorded_changes(self) -> list[ConcurrentChange]:
        text = self.state.read_fact(RECORDED_FACT)
        found = msgspec.convert(json.loads(text), list[ConcurrentChange]) if text else []
        return [change for change in found if change.at > self.now - MAX_CALL_S]

    def record_changes(self, session: SessionKey, changes: Iterable[Change]) -> None:
        """Store recorded changes for the pending calls of concurrent sessions."""
        if not self.other_calls(session):
            return
        fresh = [ConcurrentChange(session.session_id, c.path, content_identity(c.after), self.now) for c in changes]
        if fresh:
            self.state.put_fact(RECORDED_FACT, json.dumps(msgspec.to_builtins([*self.recorded_changes(), *fresh])))


def describe_call(pending: PendingCall | None) -> dict[str, str]:
    return {} if pending is None else {"agent": pending.agent, **intent_entry(pending.intent_id)}


def intent_entry(intent_id: str | None) -> dict[str, str]:
    return {"intent_id": intent_id} if intent_id else {}


def find_candidates(
    change: Change, own: SessionKey, pending: PendingCall, others: Iterable[OpenCall]
) -> tuple[str, ...]:
    """Return the possible sessions of a change; empty if the call is the only possible author.

    A returned file tool wrote the path in its arguments.
    """
    if change.from_git or not pending.whole or change.path in pending.judged:
        return ()
    found = dict.fromkeys(c.session.session_id for c in others if c.pending and can_be_author(change, c.pending))
    return (own.session_id, *found) if found else ()


def is_output_of_any(others: Iterable[OpenCall], path: str) -> bool:
    return any(c.pending and c.pending.whole and declares_write(c.pending, path) for c in others)


def declares_write(call: PendingCall, path: str) -> bool:
    return is_in_paths(path, call.writes or ()) if call.whole else path in call.judged


def is_in_paths(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(f"{place.rstrip('/')}/") for place in places)


def can_be_author(change: Change, other: PendingCall) -> bool:
    """Return True if a concurrent call may have made the change: with write access, and an earlier start."""
    if not other.whole or other.writes is not None:
        return declares_write(other, change.path)
    return change.path not in other.before or version_identity(other.before[change.path]) != content_identity(
        change.after
    )


def candidate_sessions(changes: Iterable[Change]) -> list[str]:
    return list(dict.fromkeys(session for change in changes for session in change.possible_sessions))
