"""Calls of several sessions that ran at the same time: whose a change is, where that can be told at all.

A command's changes are what differs after it; so what another session wrote meanwhile is among them. What the other's
record names already is the other's; what both commands could have done is nobody's, and both are named.
"""

import json
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import SessionKey, ToolCall
from remit.core.diff.contents import ContentVersion
from remit.gate.records.record_parts import redact_command
from remit.gate.state.workspace_state import OpenCall, PendingCall, State
from remit.workspace.observe.observation import Change, content_identity

MAX_CALL_S = 600.0
"""A call that is under way for longer has been given up."""

RECORDED_FACT = "recorded_meanwhile"


class RecordedChange(Struct, frozen=True):
    """A change that was recorded while calls of other sessions were under way."""

    session: str
    path: str
    after: tuple[str, str] | None
    at: float


class ConcurrentCalls:
    """The calls under way beside one that came back, in one workspace. `now` is seconds since the epoch."""

    def __init__(self, state: State, now: float) -> None:
        self.state = state
        self.now = now

    def exclude_other_sessions(
        self, call: ToolCall, pending: PendingCall, done: tuple[Change, ...]
    ) -> tuple[Change, ...]:
        """The changes, without what another session's record names, or will name: where only the text of its command
        says that it writes there. Those of unclear origin come with their candidates.

        Raises StateError.
        """
        others = self.other_calls(call.session)
        told = {(t.path, t.after) for t in self.recorded_changes() if t.session != call.session.session_id}
        if not others and not told:
            return done
        left = [c for c in done if not pending.whole or c.from_git or (c.path, content_identity(c.after)) not in told]
        left = [
            c for c in left if c.from_git or not is_output_of_any(others, c.path) or declares_write(pending, c.path)
        ]
        return tuple(replace(c, possible_sessions=find_candidates(c, call.session, pending, others)) for c in left)

    def other_calls(self, session: SessionKey) -> list[OpenCall]:
        """The calls of other sessions that are under way and may change something."""
        rows = self.state.fetch_row(
            "SELECT 1 FROM calls WHERE workspace=? AND session_id<>? AND at>?",
            *(self.state.workspace, session.session_id, self.now - MAX_CALL_S),
        )
        if rows is None:
            return []
        return [
            c
            for c in self.state.list_open_calls()
            if c.session.session_id != session.session_id and c.at > self.now - MAX_CALL_S and c.pending is not None
        ]

    def describe_candidates(self, sessions: Iterable[str], own: ToolCall) -> list[dict[str, str]]:
        """The candidates as records name them: session, agent, intent and command, as far as these are known."""
        known = {
            session: describe_call(call.pending)
            for call in self.other_calls(own.session)
            for session in [call.session.session_id]
        }
        known[own.session.session_id] = {
            **intent_entry(self.state.active_session(own.session).intent_id),
            "agent": own.agent,
            **({"command": redact_command(own.command)} if own.command else {}),
        }
        return [{"session_id": session, **known.get(session, {})} for session in sessions]

    def recorded_changes(self) -> list[RecordedChange]:
        """What was recorded lately while others worked."""
        text = self.state.read_fact(RECORDED_FACT)
        found = msgspec.convert(json.loads(text), list[RecordedChange]) if text else []
        return [t for t in found if t.at > self.now - MAX_CALL_S]

    def record_changes(self, session: SessionKey, done: Iterable[Change]) -> None:
        """These changes have a record; the calls of other sessions that are under way will see them too."""
        if not self.other_calls(session):
            return
        fresh = [RecordedChange(session.session_id, c.path, content_identity(c.after), self.now) for c in done]
        if fresh:
            kept = [*self.recorded_changes(), *fresh]
            self.state.put_fact(RECORDED_FACT, json.dumps(msgspec.to_builtins(kept)))


def describe_call(pending: PendingCall | None) -> dict[str, str]:
    """What a call under way is known by."""
    return {} if pending is None else {"agent": pending.agent, **intent_entry(pending.intent_id)}


def intent_entry(intent_id: str | None) -> dict[str, str]:
    """An intent, where there is one."""
    return {"intent_id": intent_id} if intent_id else {}


def find_candidates(change: Change, own: SessionKey, pending: PendingCall, others: list[OpenCall]) -> tuple[str, ...]:
    """The sessions that may have made the change; nothing where only this one can have.

    A file tool that came back wrote the path that it named.
    """
    if change.from_git or not pending.whole or change.path in pending.judged:
        return ()
    found = dict.fromkeys(c.session.session_id for c in others if c.pending and can_be_author(change, c.pending))
    return (own.session_id, *found) if found else ()


def is_output_of_any(others: Iterable[OpenCall], path: str) -> bool:
    """Whether the text of one of these commands says that it writes there."""
    return any(c.pending and c.pending.whole and declares_write(c.pending, path) for c in others)


def declares_write(call: PendingCall, path: str) -> bool:
    """Whether a call says that it writes there: a file tool by its path, a command by its text."""
    return is_in_paths(path, call.writes or ()) if call.whole else path in call.judged


def is_in_paths(path: str, places: Iterable[str]) -> bool:
    """Whether a path is one of these, or lies in one."""
    return any(path == place or path.startswith(f"{place.rstrip('/')}/") for place in places)


def can_be_author(change: Change, other: PendingCall) -> bool:
    """Whether the other call may have made this change: it may write there, and began before the change was there."""
    if not other.whole or other.writes is not None:
        return declares_write(other, change.path)
    return change.path not in other.before or version_identity(other.before[change.path]) != content_identity(
        change.after
    )


def version_identity(version: ContentVersion | None) -> tuple[str, str] | None:
    """What makes two versions the same."""
    return None if version is None else (version.sha256, version.mode)


def candidate_sessions(changes: Iterable[Change]) -> Iterator[str]:
    """All candidates of these changes, each once."""
    return iter(dict.fromkeys(session for change in changes for session in change.possible_sessions))
