"""After a call: what really changed, into the ledger; what could not be written, into the spool.

What is looked at after a call changed files: what the team's commands say of them, and the intent's constraints.
"""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.display_text import sanitise_line
from remit.core.record import Body
from remit.gate.answer import Attempts, join_lines
from remit.gate.context import WorkspaceContext
from remit.gate.effects.concurrent_calls import ConcurrentCalls, is_in_paths
from remit.gate.effects.redirected_writes import (
    RedirectedPaths,
    find_redirected,
    find_redirected_changes,
    is_link_free,
    outside_record,
    outside_warning,
)
from remit.gate.effects.stray_commits import find_stray_changes, stray_commit_warning
from remit.gate.records import record_parts
from remit.gate.records.call_records import CallRecords, intent_at_decision
from remit.gate.state.baseline import find_known_versions, mark_recorded
from remit.gate.state.setbacks import Setbacks
from remit.gate.state.workspace_state import PendingCall
from remit.gate.undo.find_violations import is_bookkeeping, must_revert
from remit.gate.undo.messages import describe_undo
from remit.gate.undo.undo import NOTHING_UNDONE, UndoResult, ViolationUndo
from remit.policy.classify import classify
from remit.workspace.files.atomic import remove_below, write_below
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.observe.git_arrivals import find_git_arrivals
from remit.workspace.observe.observation import (
    Change,
    Observation,
    content_identity,
    find_changes,
    observe_paths,
    read_at_commit,
)
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER

MAX_REMARKS = 20
"""Remarks on a comparison that one record holds."""


class Remembrance:
    """Step 8 of a call, in one workspace."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.records = CallRecords(context)
        """Who writes down what it comes to."""
        self.changed_paths: tuple[str, ...] = ()
        """The paths that the call turned out to have changed."""
        self.own_paths: tuple[str, ...] = ()
        """Those of them that it wrote itself: not what git brought, and not what others may have written."""
        self.undo_notice = ""
        """What the model must hear of effects that were undone, now or with the next answer that it hears."""
        self.observation: Observation | None = None
        """What was found when the call came back."""
        self.redirected = RedirectedPaths()
        """Where a file tool wrote that was judged for another place."""
        self.call_row: int | None = None
        """Where the state has the call that came back."""

    def remember(self, call: ToolCall, outcome: Outcome) -> str:
        """Record what came of the call; what the model should know about it.

        A step that fails does not stop the next: the tool has run, and what is known of it must not get lost.
        """
        tries = Attempts()
        pending = self.find_pending_call(call, tries)
        done = tries.attempt(lambda: self.observe_effects(call, pending), ()) if pending or is_destructive(call) else ()
        self.changed_paths = tuple(c.path for c in done)
        self.own_paths = tuple(c.path for c in done if not c.from_git and not c.possible_sessions)
        records = tries.attempt(lambda: self.records.make_records(call, outcome, pending, done, tries), ())
        committed = tries.attempt(lambda: self.stray_changes(call, pending), ())
        if committed:
            records = [*records, self.records.stray_commit_record(call, outcome, pending, committed)]
        outside = self.redirected.outside
        if pending is not None and outside:
            records = [*records, outside_record(self.context, call, pending, outside)]
        waiting = tries.attempt(lambda: self.context.recorder.append_or_spool(records, sync=bool(done)), None)
        put_back = tries.attempt(lambda: self.revert_governing_files(pending, done), ())
        stray = tuple(c for c in done if c.path not in put_back)
        undone = tries.attempt(lambda: self.undo_violations(call, pending, stray), NOTHING_UNDONE)
        left = undone.apply_undo(tuple(replace(c, after=c.before) if c.path in put_back else c for c in done))
        tries.attempt(lambda: self.update_state(call, outcome, pending, left, tries), None)
        self.undo_notice = describe_undo(call, pending, undone) if pending else ""
        return join_lines(
            outside_warning(call, outside) if pending is not None and pending.mode != "observe" else "",
            revert_notice(put_back),
            self.undo_notice,
            stray_commit_warning(committed),
            self.scope_warning(
                call, pending, tuple(c for c in stray if c.path not in {**undone.undone, **undone.not_undone})
            ),
            spool_notice(waiting) if waiting else "",
            tries.failure_notice,
        )

    def stray_changes(self, call: ToolCall, pending: PendingCall | None) -> tuple[Change, ...]:
        """What commits of the call hold out of the scope that no file held. Raises GitError."""
        if pending is None or self.observation is None:
            return ()
        return find_stray_changes(self.context.workspace, call, pending, self.observation.files)

    def update_state(
        self, call: ToolCall, outcome: Outcome, pending: PendingCall | None, done: tuple[Change, ...], tries: Attempts
    ) -> None:
        """Bring the state up to date, as one change of it; the call stays open where its records could not be made."""
        with self.context.state.group_changes():
            if not tries.failures:
                self.forget_call()
            mark_recorded(self.context.state, done)
            self.concurrent_calls.record_changes(call.session, done)
            self.count_setback(call, outcome)
            if not tries.failures and (outcome.ok or call.effect != "read"):
                self.mark_seen(call, pending, done)

    def mark_seen(self, call: ToolCall, pending: PendingCall | None, done: tuple[Change, ...]) -> None:
        """The session knows what it read, and what it wrote: that was looked at, and is not looked at again."""
        written = {c.path: c.after.version if c.after else None for c in done}
        paths = self.paths_seen(call, pending)
        self.context.state.put_seen_files(call.session, {path: written[path] for path in paths if path in written})
        self.context.mark_files_seen(call.session, [path for path in paths if path not in written])

    def revert_governing_files(self, pending: PendingCall | None, done: tuple[Change, ...]) -> tuple[str, ...]:
        """In enforce, undo what a call did to the files that govern it; which those were. Its version stays kept.

        A person changes them with an editor or `remit`, not in the middle of an agent's call.
        """
        if pending is None or pending.mode != "enforce":
            return ()
        return self.revert_governing_changes(done, pending.intent_id)

    def revert_governing_changes(self, done: tuple[Change, ...], intent_id: str | None) -> tuple[str, ...]:
        """Put back what governs and was changed; which that was."""
        governing = [c for c in done if must_revert(c)]
        for change in governing:
            restore_file(self.context.workspace.root, change.path, change.before)
        if governing:
            detail: dict[str, object] = {"paths": [c.path for c in governing], "why": "it governs the agent"}
            body = Body(event="restore", intent_id=intent_id, session_id=None, detail=detail)
            self.context.recorder.append_or_spool([self.context.recorder.make_record(body)])
        return tuple(c.path for c in governing)

    def undo_violations(self, call: ToolCall, pending: PendingCall | None, done: tuple[Change, ...]) -> UndoResult:
        """In enforce, what the call had no right to change is undone, where nobody else may have written it."""
        if pending is None or self.observation is None or not done:
            return NOTHING_UNDONE
        if self.redirected:
            pending = replace(pending, whole=True, head=self.observation.head)
            done = tuple(c for c in done if c.path in self.redirected.inside)
        return ViolationUndo(self.context).undo_violations(call, pending, done, self.observation)

    def count_setback(self, call: ToolCall, outcome: Outcome) -> None:
        """Count what went wrong in a row."""
        Setbacks(self.context.state, self.context.environment.clock()).count_outcome(call, outcome, classify(call))

    def find_pending_call(self, call: ToolCall, tries: "Attempts") -> PendingCall | None:
        """The call as it was when it was let through. It is forgotten only when its effects are recorded."""
        asked = (call.session, call.call_id, call.tool, call.arguments_sha256)
        self.call_row, pending = tries.attempt(lambda: self.context.state.find_pending_call(*asked), (None, None))
        self.records.call_row = self.call_row
        return pending

    def forget_call(self) -> None:
        """The call is settled: nothing is left for the sweep."""
        if self.call_row is not None:
            self.context.state.delete_call(self.call_row)

    def observe_effects(self, call: ToolCall, pending: PendingCall | None) -> tuple[Change, ...]:
        """What the call changed, by comparing; where it was never seen before, against HEAD, its own paths only."""
        if pending is None:
            paths = self.context.paths_of_call(call)
            now = observe_paths(self.context.workspace, paths)
            head = self.records.vcs.revision if self.records.vcs else None
            old = read_at_commit(self.context.workspace, head, paths) if isinstance(head, str) else dict.fromkeys(paths)
            return find_changes(self.context.workspace, Observation(None, old), now)
        after = self.context.observe() if pending.whole else observe_paths(self.context.workspace, pending.judged)
        self.observation = after
        self.records.remarks = tuple(sanitise_line(remark, 200) for remark in after.remarks[:MAX_REMARKS])
        before = self.observation_before(pending)
        found = find_changes(self.context.workspace, before, after)
        if not pending.whole:
            found = self.adjust_for_others(found, pending)
            self.redirected = find_redirected(self.context, call, pending)
        if self.redirected:
            found = self.observe_redirected(call, found)
        if call.remit_tool is not None:
            found = tuple(c for c in found if not c.path.startswith(f"{ORCHESTRATION_FOLDER}/"))
        found = tuple(c for c in found if not is_bookkeeping(c))
        paths = {c.path for c in found} if pending.whole else set[str]()
        old = find_git_arrivals(self.context.workspace, before, after, paths, pending.known_commits)
        apart = self.concurrent_calls.exclude_other_sessions(
            call, pending, tuple(replace(c, from_git=c.path in old) for c in found)
        )
        return tuple(mark_undeclared(c, call, pending) for c in apart)

    def observe_redirected(self, call: ToolCall, found: tuple[Change, ...]) -> tuple[Change, ...]:
        """Return the changes at the places that the call really wrote to, and those where it was judged and wrote."""
        head, root = self.records.vcs.revision if self.records.vcs else None, self.context.workspace.root
        self.observation = self.context.observe()
        elsewhere = find_redirected_changes(
            self.context, call, self.redirected, head if isinstance(head, str) else None
        )
        return (*(c for c in found if is_link_free(root, c.path)), *elsewhere)

    def adjust_for_others(self, found: tuple[Change, ...], pending: PendingCall) -> tuple[Change, ...]:
        """A file tool's changes; what was recorded while it was under way is what it changed, not what was before."""
        doubtful = [c.path for c in found if c.after and c.after.version.git_blob != pending.announced.get(c.path)]
        known = find_known_versions(self.context.state, doubtful) if doubtful else {}
        return tuple(
            replace(c, before=record_parts.load_version(version, self.context.contents))
            if (version := known.get(c.path)) and content_identity(c.after) != (version.sha256, version.mode)
            else c
            for c in found
        )

    @property
    def concurrent_calls(self) -> ConcurrentCalls:
        """The calls of other sessions at the same time."""
        return ConcurrentCalls(self.context.state, self.context.environment.clock())

    def observation_before(self, pending: PendingCall) -> Observation:
        """The observation from before the call, its contents from the store."""
        return Observation(
            pending.head, {p: record_parts.load_version(v, self.context.contents) for p, v in pending.before.items()}
        )

    def scope_warning(self, call: ToolCall, pending: PendingCall | None, done: tuple[Change, ...]) -> str:
        """What the model is told about effects that its intent does not own."""
        if pending is None and is_destructive(call):
            return f"Remit: this {call.tool} call ran without a verdict: its hook did not ask before. Tell the person."
        if pending is None or not pending.intent_id or not pending.whole:
            return ""
        intent = intent_at_decision(pending)
        stray = [
            c.path
            for c in done
            if not c.from_git and not c.possible_sessions and not record_parts.is_in_scope(c.path, intent)
        ]
        if not stray:
            return ""
        names = ", ".join(sanitise_line(path, 120) for path in stray[:10]) + (" …" if len(stray) > 10 else "")
        return (
            f"Remit: this {call.tool} call changed {names}, outside the scope of {pending.intent_id}. It is "
            "recorded as out of scope. Undo those changes, and do such work with your file tools inside the scope."
        )

    def paths_seen(self, call: ToolCall, pending: PendingCall | None) -> Sequence[str]:
        """The files whose content the session knows after this call: what it read, and what it wrote itself.

        What a command changed it has not seen; a person may have written there at the same time.
        """
        if call.whole_workspace:
            return []
        return self.context.paths_of_call(call) if pending is None else pending.judged


def mark_undeclared(change: Change, call: ToolCall, pending: PendingCall) -> Change:
    """The change; of unclear origin where the command's own text says that it writes other files only."""
    if (
        pending.writes is None
        or change.from_git
        or change.possible_sessions
        or is_in_paths(change.path, pending.writes)
    ):
        return change
    return replace(change, possible_sessions=(call.session.session_id,))


def is_destructive(call: ToolCall) -> bool:
    """Whether the call may have changed something."""
    return classify(call) == "destructive"


def restore_file(root: Path, path: str, before: ObservedFile | None) -> None:
    """Make the file what it was, or leave none. Raises OSError."""
    if before is None:
        remove_below(root, root / path)
    elif before.content is not None:
        write_below(root, root / path, before.content)


def revert_notice(paths: tuple[str, ...]) -> str:
    """What the model is told when rules were put back."""
    if not paths:
        return ""
    return (
        f"Remit: this call changed {', '.join(paths)}, which governs you; it was put back as it was, and recorded. "
        "Say in your answer which rule should change, and why."
    )


def spool_notice(why: str) -> str:
    """What the model is told when a record had to wait."""
    return f"Remit could not write its log ({why.splitlines()[0]}); the record waits in the spool. Tell the person."


def check_changes(context: WorkspaceContext, call: ToolCall, changed: tuple[str, ...]) -> str:
    """What the model should know. The call is done and recorded: nothing here turns it into a failure."""
    tries = Attempts()
    verified = tries.attempt(lambda: run_write_commands(context, call, changed), "") if changed else ""
    kept = tries.attempt(lambda: check_constraints(context, call, changed), "") if changed else ""
    return join_lines(verified, kept, tries.failure_notice)


def run_write_commands(context: WorkspaceContext, call: ToolCall, changed: tuple[str, ...]) -> str:
    """What the commands of `[verify] on_write` say."""
    rules = context.last_rules or context.rules
    if not rules.config.verify.on_write:
        return ""
    from remit.gate.team_hooks.verify_commands import verify_write  # for those who have such commands

    return verify_write(context, call, changed)


def check_constraints(context: WorkspaceContext, call: ToolCall, changed: tuple[str, ...]) -> str:
    """Which constraints of its intent the call left broken."""
    rules = context.last_rules or context.rules
    intent = rules.intents.get(context.state.active_session(call.session).intent_id)
    if intent is None or not intent.rules:
        return ""
    from remit.gate.team_hooks.constraints import check_after_call  # all kinds of constraints, for those who have one

    return check_after_call(context, call, intent, rules.mode, changed)
