"""Unfinished calls: calls of which no result was ever reported, and changes that no record explains.

An unfinished call has no end, so a change since its begin may be a person's. In enforce, a change is undone only where
the call is certainly its author: the command's text holds the change word by word, or a process of the call is seen to
write it.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.record import KEY
from remit.gate.answer import Attempts
from remit.gate.context import WorkspaceContext, contents_of_changes
from remit.gate.effects.background_processes import BackgroundProcesses
from remit.gate.effects.between_calls import ChangesBetweenCalls
from remit.gate.effects.changes import find_line_differences, make_change_records, observe_effects
from remit.gate.evidence.command_lines import is_change_in_text
from remit.gate.evidence.differences import Difference
from remit.gate.records.call_records import missing_result_record
from remit.gate.state.baseline import mark_recorded, read_baseline, version_identity
from remit.gate.state.messages import add_message
from remit.gate.state.pending_calls import OpenCall, PendingCall
from remit.gate.undo.messages import describe_undo
from remit.gate.undo.undo import NOTHING_UNDONE, UndoResult, undo_violations
from remit.workspace.observe.observation import Change, Observation, content_identity

MAX_RECORDS_SEARCHED = 1000
"""Newest `tool_use` records of a session that are searched for the command of an unfinished call."""


class UnfinishedCalls:
    """Settles the unfinished calls of a workspace; steps that fail are in `attempts`."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.state = context.state
        self.attempts = Attempts()
        self.observation: Observation | None = None
        """The workspace as it was observed last; None if files were restored since."""

    def settle_calls(self, when: str, is_mine: Callable[[SessionKey], bool], session: SessionKey | None = None) -> str:
        """Settle calls selected by `is_mine` or idle too long, and record unexplained changes.

        Returns the failures in words. `when` and `session` name the occasion in the records.
        """
        for call in self.list_open_calls():
            if is_mine(call.session) or call.at < self.idle_since:
                with self.attempts.step():
                    self.settle_call(call)
        with self.attempts.step():
            observation = self.context.observe(fully=True)
            changed = ChangesBetweenCalls(self.context).record_unattributed_changes(when, observation, session)
            self.observation = None if changed else observation
        return self.attempts.failure_notice

    def settle_idle_calls(self) -> str:
        if any(call.at < self.idle_since for call in self.list_open_calls()):
            return self.settle_calls("idle", lambda _: False)
        return self.attempts.failure_notice

    def list_open_calls(self) -> list[OpenCall]:
        with self.attempts.step():
            return self.state.list_open_calls()
        return []

    @property
    def idle_since(self) -> float:
        return self.context.environment.clock() - self.context.rules.config.session.idle_minutes * 60

    def settle_call(self, open_call: OpenCall) -> None:
        """Record the changes of a call that never came back. Raises RECORDING_ERRORS."""
        context, pending = self.context, open_call.pending
        # Another process may settle the call at the same time: only one of them deletes it.
        if not self.state.delete_call(open_call.row) or pending is None:
            return
        call, vcs = make_call(open_call, pending, str(context.workspace.root)), context.recorder.vcs
        effects = observe_effects(context, call, pending, vcs)
        recorded = {o.path: version_identity(o.version) for o in read_baseline(self.state)}
        changes = tuple(
            c for c in effects.changes if c.path not in recorded or content_identity(c.after) != recorded[c.path]
        )
        missing = missing_result_record(context.recorder, call, pending)
        if not changes:
            context.recorder.append_or_spool([missing])
            return
        context.keep_contents(contents_of_changes(changes))
        differences = find_line_differences(context, call, Outcome(), changes)
        model = self.state.active_session(call.session).model
        records = make_change_records(
            context, call, Outcome(), pending, changes, differences, model, None, vcs, self.attempts
        )
        context.recorder.append_or_spool([*records, missing], sync=True)
        result = NOTHING_UNDONE
        with self.attempts.step():
            result = self.undo_violations(call, pending, changes, differences, effects.observation)
        mark_recorded(self.state, result.apply_undo(changes))

    def undo_violations(
        self,
        call: ToolCall,
        pending: PendingCall,
        changes: Sequence[Change],
        differences: Mapping[str, Difference],
        after: Observation | None,
    ) -> UndoResult:
        """In enforce, undo the violations of which the call is certainly the author, and queue a message about them."""
        if after is None or pending.mode != "enforce" or not pending.whole:
            return NOTHING_UNDONE
        command = self.find_command(call)
        authors = BackgroundProcesses(self.context).find_authors(changes, has_open_sessions=True)
        certain = [
            c
            for c in changes
            if is_change_in_text(c, differences.get(c.path), command)
            or (c.path in authors and authors[c.path].session == call.session.session_id)
        ]
        result = undo_violations(self.context, call, pending, certain, after)
        add_message(self.state, call.session, describe_undo(call, pending, result))
        return result

    def find_command(self, call: ToolCall) -> str:
        """Return the command of a call from the record, or an empty text. Raises OSError, LedgerError."""
        with self.context.index() as index:
            records = index.find(event="tool_use", session_id=call.session.session_id, limit=MAX_RECORDS_SEARCHED)
        parts = (record["metadata"][KEY].get("call", {}) for record in records)
        return next((str(part.get("command", "")) for part in parts if is_record_of(part, call)), "")


def is_record_of(part: Mapping[str, Any], call: ToolCall) -> bool:
    if call.call_id:
        return part.get("id") == call.call_id
    return (part.get("name"), part.get("arguments_sha256")) == (call.tool, call.arguments_sha256)


def make_call(open_call: OpenCall, pending: PendingCall, root: str) -> ToolCall:
    """Return the call as far as the state holds it."""
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
