"""Unfinished calls: no result of them was ever reported. They have no end, so a change since their begin may be a
person's. In enforce, a change is undone only where the call is certainly its author: the command's text holds the
change word by word, or a process of the call is seen to write it.
"""

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from remit.core.call import Outcome, SessionKey, ToolCall
from remit.core.diff.contents import sha256
from remit.core.record import KEY
from remit.gate.context import Attempts, WorkspaceContext
from remit.gate.effects.changes import CompletedCall, Effects, find_line_differences, make_call_records, observe_effects
from remit.gate.effects.other_writers import ChangesBetweenCalls, find_process_authors
from remit.gate.effects.own_lines import is_change_in_text
from remit.gate.people.messages import PendingMessages
from remit.gate.records.recorder import RESULT_EVENTS, find_recorded_events
from remit.gate.state.workspace_state import OpenCall, PendingCall, mark_recorded, read_baseline, version_identity
from remit.gate.undo.violations import NOTHING_UNDONE, UndoResult, describe_undo, undo_violations
from remit.workspace.observe.observation import Observation, content_identity
from remit.workspace.safe_files import remove_below, temporary_name

MAX_RECORDS_SEARCHED = 1000
"""Newest `tool_use` records of a session that are searched for the command of an unfinished call."""


def temporary_token(session: SessionKey, call_id: str) -> str:
    """Return the part of a temporary file's name that tells which call writes it."""
    parts = (session.session_id, session.agent_id, call_id)
    return sha256("\0".join(parts).encode("utf-8", "surrogateescape"))[:12]


def remove_unfinished_writes(context: WorkspaceContext, call: ToolCall, pending: PendingCall) -> None:
    """Remove the temporary files that the writes of a killed process left: nobody's edit. Raises OSError."""
    root, token = context.workspace.root, temporary_token(call.session, call.call_id)
    for path in pending.judged if call.call_id and not pending.whole else ():
        name = temporary_name(path.rpartition("/")[2], token)
        with suppress(NotADirectoryError):
            remove_below(root, (root / path).with_name(name), follow_links=False)


class UnfinishedCalls:
    """Settles the unfinished calls of a workspace; steps that fail are in `attempts`."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.state = context.state
        self.attempts = Attempts()
        self.observation: Observation | None = None
        """The workspace as it was observed last; None if files were restored since."""

    def settle_calls(
        self, when: str, is_mine: Callable[[SessionKey], bool], session: SessionKey | None = None, *, spared: str = ""
    ) -> str:
        """Settle calls selected by `is_mine` or idle too long, and record unexplained changes.

        Returns the failures in words. `when` and `session` name the occasion in the records; calls of the session
        `spared` stay open for the program that resumes them.
        """
        for call in self.list_open_calls():
            if spared and call.session.session_id == spared:
                continue
            if is_mine(call.session) or call.at < self.idle_since:
                with self.attempts:
                    self.settle_call(call)
        with self.attempts:
            observation = self.context.observe(fully=True)
            changed = ChangesBetweenCalls(self.context).record_unattributed_changes(when, observation, session)
            self.observation = None if changed else observation
        return self.attempts.failure_notice

    def settle_idle_calls(self) -> str:
        if any(call.at < self.idle_since for call in self.list_open_calls()):
            return self.settle_calls("idle", lambda _: False)
        return self.attempts.failure_notice

    def list_open_calls(self) -> list[OpenCall]:
        with self.attempts:
            return self.state.list_open_calls()
        return []

    @property
    def idle_since(self) -> float:
        return self.context.environment.clock.now() - self.context.rules.config.session.idle_minutes * 60

    def settle_call(self, open_call: OpenCall) -> None:
        """Record the changes of a call that never came back. Raises RECORDING_ERRORS."""
        context, pending = self.context, open_call.pending
        if pending is None:
            self.state.delete_call(open_call.row)
            return
        call = ToolCall(
            agent=pending.agent,
            session=open_call.session,
            tool=open_call.tool,
            effect=pending.effect,
            cwd=str(context.workspace.root),
            call_id=open_call.call_id,
            arguments_sha256=open_call.arguments_sha256,
            whole_workspace=pending.whole,
            transcript=pending.transcript,
        )
        remove_unfinished_writes(context, call, pending)
        vcs = context.recorder.vcs
        effects = observe_effects(context, call, pending, vcs)
        recorded = {o.path: version_identity(o.version) for o in read_baseline(self.state)}
        changes = tuple(
            c for c in effects.changes if c.path not in recorded or content_identity(c.after) != recorded[c.path]
        )
        effects = replace(effects, changes=changes)
        done = CompletedCall(context, call, None, None, pending, vcs, self.attempts)
        records = make_call_records(done, effects)
        # Another process may settle the call at the same time, or have died when it had recorded the result. Without
        # its records the call stays open: the spool may hold them already. Where a step failed after the call, only
        # what is missing is recorded.
        with self.state.transaction():
            if not self.state.delete_call(open_call.row):
                return
            known = find_recorded_events(context.recorder, call, resumed=True)
            if pending.has_failed:
                records = [record for record in records if record.body.event not in known]
            elif not RESULT_EVENTS.isdisjoint(known):
                records = []
            context.recorder.append(records)
        result = NOTHING_UNDONE
        with self.attempts:
            result = self.undo_violations(call, pending, effects)
        mark_recorded(self.state, result.apply_undo(changes))

    def undo_violations(self, call: ToolCall, pending: PendingCall, effects: Effects) -> UndoResult:
        """In enforce, undo the violations of which the call is certainly the author, and queue a message about them."""
        changes, after = effects.changes, effects.observation
        if not changes or after is None or pending.mode != "enforce" or not pending.whole:
            return NOTHING_UNDONE
        # The command is in the call's record.
        with self.context.index() as index:
            records = index.find(event="tool_use", session_id=call.session.session_id, limit=MAX_RECORDS_SEARCHED)
        parts = (record["metadata"][KEY].get("call", {}) for record in records)
        named = ("id",) if call.call_id else ("name", "arguments_sha256")
        own = {"id": call.call_id, "name": call.tool, "arguments_sha256": call.arguments_sha256}
        command = next((p.get("command", "") for p in parts if all(p.get(key) == own[key] for key in named)), "")

        differences = find_line_differences(self.context, call, Outcome(), changes)
        authors = find_process_authors(self.context, changes, has_open_sessions=True)
        certain = [
            c
            for c in changes
            if is_change_in_text(c, differences.get(c.path), command)
            or (c.path in authors and authors[c.path].session == call.session.session_id)
        ]
        result = undo_violations(self.context, call, pending, certain, after)
        PendingMessages(self.state).add_message(call.session, describe_undo(call, pending, result))
        return result
