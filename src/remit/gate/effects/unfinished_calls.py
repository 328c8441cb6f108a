"""What no hook told: calls that never came back, and changes that no record explains.

A call that never came back has no end: what changed since it began may be a person's. So in enforce only that is undone
which is the call's for certain: what its own text says word by word, and what a process of it is seen to write.
"""

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from msgspec import UNSET

from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.diff.contents import ContentVersion
from remit.core.record import KEY, Body, Record
from remit.gate.answer import Attempts
from remit.gate.context import WorkspaceContext
from remit.gate.effects.background_processes import BackgroundProcesses
from remit.gate.effects.between_calls import ChangesBetweenCalls
from remit.gate.evidence.command_lines import is_change_in_text
from remit.gate.records import record_parts
from remit.gate.records.call_records import contents_of_changes
from remit.gate.remember import Remembrance
from remit.gate.sessions.pending_messages import PendingMessages
from remit.gate.state.baseline import mark_recorded, read_baseline
from remit.gate.state.workspace_state import OpenCall, PendingCall
from remit.gate.undo.messages import describe_undo
from remit.gate.undo.undo import NOTHING_UNDONE, UndoResult, ViolationUndo
from remit.ledger.index.index import Index
from remit.ledger.segments import LedgerError
from remit.workspace.observe.observation import Change, Observation, content_identity

MAX_RECORDS_SEARCHED = 1000
"""The newest calls of a session among whose records the one that never came back is looked for."""


class UnfinishedCalls:
    """Settles what is open in one workspace. Each step is tried; what failed is in `tries`."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.state = context.state
        self.attempts = Attempts()
        self.observation: Observation | None = None
        """The workspace as it was found, where nothing was undone since."""

    def settle_calls(self, when: str, mine: Callable[[SessionKey], bool], session: SessionKey | None = None) -> str:
        """Settle the calls of the sessions that `mine` names, and those idle too long; then look for other changes.

        What could not be done, in words. `when` and `session` say on what occasion this looked.
        """
        for call in self.attempts.attempt(self.state.list_open_calls, []):
            if mine(call.session) or call.at < self.idle_since:
                self.attempts.attempt(lambda call=call: self.settle_call(call), None)
        self.attempts.attempt(lambda: self.record_unexplained(when, session), None)
        return self.attempts.failure_notice

    def settle_idle_calls(self) -> str:
        """The same where nothing happened but that time went by; nothing is looked at where no call is that old."""
        if any(call.at < self.idle_since for call in self.attempts.attempt(self.state.list_open_calls, [])):
            return self.settle_calls("idle", lambda _: False)
        return self.attempts.failure_notice

    @property
    def idle_since(self) -> float:
        """When a call that is still under way was let through too long ago."""
        return self.context.environment.clock() - self.context.rules.config.session.idle_minutes * 60

    def settle_call(self, open_call: OpenCall) -> None:
        """Record what became of a call that never came back."""
        pending = open_call.pending
        if not self.state.delete_call(open_call.row) or pending is None:
            return
        call, remembering = make_call(open_call, pending, str(self.context.workspace.root)), Remembrance(self.context)
        explained = {o.path: o.version for o in read_baseline(self.state)}
        done = tuple(
            c
            for c in remembering.observe_effects(call, pending)
            if c.path not in explained or not is_recorded_version(c, explained)
        )
        records: list[Record] = [self.missing_record(call, pending)]
        if done:
            self.context.keep_contents(contents_of_changes(done))
            known = remembering.records.find_differences(call, Outcome(), done)
            model = self.state.active_session(call.session).model
            changed = remembering.records.make_change_records(
                call, Outcome(), pending, done, known, model, self.attempts
            )
            records = [*changed, *records]
            self.context.recorder.append_or_spool(records, sync=True)
            after = remembering.observation
            undone = self.attempts.attempt(
                lambda: self.undo_violations(call, pending, done, known, after), NOTHING_UNDONE
            )
            mark_recorded(self.state, undone.apply_undo(done))
        else:
            self.context.recorder.append_or_spool(records)

    def undo_violations(
        self,
        call: ToolCall,
        pending: PendingCall,
        done: tuple[Change, ...],
        known: Mapping[str, record_parts.Difference],
        after: Observation | None,
    ) -> UndoResult:
        """In enforce, undo what the call had no right to, where it is the call's for certain; told when it is heard."""
        if after is None or pending.mode != "enforce" or not pending.whole:
            return NOTHING_UNDONE
        words, made = self.find_command(call), BackgroundProcesses(self.context).find_changes_made(done, loose=True)
        certain = tuple(
            c
            for c in done
            if is_change_in_text(c, known.get(c.path), words)
            or (c.path in made and made[c.path].session == call.session.session_id)
        )
        found = ViolationUndo(self.context).undo_violations(call, pending, certain, after)
        PendingMessages(self.state).add_message(call.session, describe_undo(call, pending, found))
        return found

    def find_command(self, call: ToolCall) -> str:
        """The command of a call, as its record holds it; empty where no record does. Raises OSError, LedgerError."""
        workspace = self.context.workspace
        try:
            with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
                found = index.find(event="tool_use", session_id=call.session.session_id, limit=MAX_RECORDS_SEARCHED)
        except sqlite3.Error as error:
            raise LedgerError(f"the index of the ledger cannot be asked: {error}") from error
        parts = (record["metadata"][KEY].get("call", {}) for record in found)
        return next((str(part.get("command", "")) for part in parts if is_record_of(part, call)), "")

    def missing_record(self, call: ToolCall, pending: PendingCall) -> Record:
        """The record that no result was ever told."""
        body = Body(
            event="tool_result",
            intent_id=pending.intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=record_parts.call_part(call),
            result={"ok": None, "missing": True},
        )
        return self.context.recorder.make_record(body, call.agent)

    def record_unexplained(self, when: str, session: SessionKey | None) -> None:
        """Record the changes since the last observation that no record explains, and observe anew."""
        seen = self.context.observe(fully=True)
        undone = ChangesBetweenCalls(self.context).record_unattributed_changes(when, seen, session)
        self.observation = None if undone else seen


def is_record_of(part: Mapping[str, Any], call: ToolCall) -> bool:
    """Whether a record's `call` is of this one."""
    if call.call_id:
        return part.get("id") == call.call_id
    return (part.get("name"), part.get("arguments_sha256")) == (call.tool, call.arguments_sha256)


def make_call(open_call: OpenCall, pending: PendingCall, root: str) -> ToolCall:
    """The call as far as it was kept."""
    return ToolCall(
        agent=pending.agent,
        session=open_call.session,
        tool=open_call.tool,
        effect=pending.effect,
        cwd=root,
        call_id=open_call.call_id,
        arguments_sha256=open_call.arguments_sha256,
        whole_workspace=pending.whole,
        transcript=pending.transcript,
    )


def is_recorded_version(change: Change, explained: dict[str, ContentVersion | None]) -> bool:
    """Whether the content that is there now is one that a record explains already."""
    version = explained[change.path]
    return content_identity(change.after) == (None if version is None else (version.sha256, version.mode))
