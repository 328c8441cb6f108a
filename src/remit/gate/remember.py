"""Step 8: find what a call did, record it, and undo what it had no right to do.

1. The pending call is found, and its effects are observed.
2. The records are made, and appended or spooled: what is known of a call that has run is never lost.
3. In enforce, governing files are put back, and violations are undone.
4. The state is brought up to date.
5. The team's commands, the intent's constraints and the hooks look at the changes.
6. The model is told.
"""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import Outcome, ToolCall
from remit.core.decision import Decision
from remit.core.display_text import sanitise_line
from remit.core.record import Record, Vcs
from remit.gate.answer import Answer, Attempts, join_lines
from remit.gate.context import WorkspaceContext, contents_of_changes
from remit.gate.effects.changes import (
    Effects,
    make_call_records,
    observe_effects,
    update_state,
)
from remit.gate.effects.stray_commits import find_stray_changes, stray_commit_warning
from remit.gate.effects.writes_through_links import outside_record, outside_warning
from remit.gate.evidence.differences import find_differences
from remit.gate.records.call_records import ChangeEvidence, intent_at_decision, mutation_record
from remit.gate.records.record_parts import is_in_scope
from remit.gate.sessions.pending_messages import PendingMessages
from remit.gate.state.pending_calls import PendingCall
from remit.gate.team_hooks.after_call import run_after_hooks
from remit.gate.team_hooks.registered_checks import RegisteredHooks
from remit.gate.undo.governing_files import revert_governing_files, revert_notice
from remit.policy.classify import classify
from remit.workspace.observe.observation import Change

MAX_NAMED = 10
"""Paths that one message names."""


def remember(context: WorkspaceContext, call: ToolCall, outcome: Outcome, hooks: RegisteredHooks, token: str) -> Answer:
    """Record what came of a call, and return the words for the model. A step that fails does not stop the next.

    `token` is the ticket of a command that ran contained.
    """
    attempts = Attempts()

    # 8.1 Find the call as it was when it was allowed, and compare the workspace with what it was then. A call that no
    # hook asked about is compared only if it may have changed something.
    row: int | None = None
    pending: PendingCall | None = None
    with attempts.step():
        row, pending = context.state.find_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256)
    vcs: Vcs | None = None
    with attempts.step():
        vcs = context.recorder.vcs
    effects = Effects()
    if pending is not None or classify(call) == "destructive":
        with attempts.step():
            effects = observe_effects(context, call, pending, vcs)

    # 8.2 Record the effects; the records are spooled where the log cannot be written.
    recorded = record_effects(context, call, outcome, pending, row, effects, vcs, attempts)

    # 8.3 In enforce, undo what the call had no right to change.
    undo = UndoneEffects(effects.changes)
    if pending is not None and pending.mode == "enforce":
        undo = undo_effects(context, call, pending, effects, attempts)

    # 8.4 Bring the state up to date. A call without records stays pending, and is settled later.
    is_recorded = not attempts.failures
    with attempts.step():
        update_state(context, call, outcome, pending, row, undo.left, recorded=is_recorded)

    # 8.5 Let the team's commands, the intent's constraints and the hooks look at the changes.
    messages = PendingMessages(context.state)
    if undo.notice:
        with Attempts().step():
            messages.add_unheard_message(call, outcome, undo.notice)
    checks = check_changes(context, call, effects.own_paths) if effects.own_paths else ""
    heard = run_after_hooks(context, hooks, call, outcome, effects.paths) if has_after_hooks(context, hooks) else ""
    after_command = finish_command(context, call, outcome, token) if call.whole_workspace else ""

    # 8.6 Tell the model.
    waiting = ""
    with Attempts().step():
        waiting = messages.take_for_result(call, outcome)
    text = join_lines(
        outside_warning(call, effects.redirected.outside) if pending is not None and pending.mode != "observe" else "",
        revert_notice(undo.reverted),
        undo.notice,
        stray_commit_warning(recorded.stray) if recorded.stray else "",
        scope_warning(call, pending, [c for c in effects.changes if c.path not in undo.handled]),
        spool_notice(recorded.spooled),
        attempts.failure_notice,
        checks,
        heard,
        after_command,
        waiting,
    )
    return Answer(Decision("allow", "allow", classify(call), "observe"), context=text)


# 8.2 Records


class RecordedEffects(Struct, frozen=True):
    """Records of a call that were made: why they had to be `spooled`, and the changes of stray commits."""

    spooled: str | None = None
    stray: tuple[Change, ...] = ()


def record_effects(
    context: WorkspaceContext,
    call: ToolCall,
    outcome: Outcome,
    pending: PendingCall | None,
    row: int | None,
    effects: Effects,
    vcs: Vcs | None,
    attempts: Attempts,
) -> RecordedEffects:
    """Make the records of a call, its effects first, and append or spool them."""
    records: list[Record] = []
    stray: tuple[Change, ...] = ()
    with attempts.step():
        records = make_call_records(context, call, outcome, pending, row, effects, vcs, attempts)
    if pending is not None and pending.whole:
        with attempts.step():
            # Where the comparison failed, commits are looked for all the same: they are no change of the working tree.
            observation = effects.observation or context.observe()
            stray = find_stray_changes(context.workspace, call, pending, observation.files)
        if stray:
            with attempts.step():
                context.keep_contents(contents_of_changes(stray))
                differences = find_differences(stray, {}, context.contents)
                model = context.state.active_session(call.session).model
                evidence = ChangeEvidence(differences, model=model)
                records.append(mutation_record(context.recorder, call, outcome, pending, stray, evidence, vcs))
    if pending is not None and effects.redirected.outside:
        records.append(outside_record(context, call, pending, effects.redirected.outside))
    spooled: str | None = None
    with attempts.step():
        spooled = context.recorder.append_or_spool(records, sync=bool(effects.changes))
    return RecordedEffects(spooled, stray)


# 8.3 Undoing


class UndoneEffects(Struct, frozen=True):
    """Changes as they are `left` after undoing, the governing files that were `reverted`, and the notice to the model.

    `handled` are the paths that a message names already.
    """

    left: tuple[Change, ...]
    reverted: tuple[str, ...] = ()
    notice: str = ""
    handled: frozenset[str] = frozenset()


def undo_effects(
    context: WorkspaceContext, call: ToolCall, pending: PendingCall, effects: Effects, attempts: Attempts
) -> UndoneEffects:
    """Put back governing files, and undo violations of a command, or of a file tool that was redirected."""
    reverted: tuple[str, ...] = ()
    with attempts.step():
        reverted = revert_governing_files(context, effects.changes, pending.intent_id)
    left = tuple(replace(c, after=c.before) if c.path in reverted else c for c in effects.changes)
    suspects = tuple(c for c in effects.changes if c.path not in reverted)
    if effects.observation is None or not suspects or not (pending.whole or effects.redirected):
        return UndoneEffects(left, reverted, handled=frozenset(reverted))

    # Imported here: a file tool was judged by the path that it names.
    from remit.gate.undo.messages import describe_undo
    from remit.gate.undo.undo import NOTHING_UNDONE, undo_violations

    judged = pending
    if effects.redirected:
        judged = replace(pending, whole=True, head=effects.observation.head)
        suspects = tuple(c for c in suspects if c.path in effects.redirected.inside)
    result = NOTHING_UNDONE
    with attempts.step():
        result = undo_violations(context, call, judged, suspects, effects.observation)
    handled = frozenset((*reverted, *result.undone, *result.not_undone))
    return UndoneEffects(result.apply_undo(left), reverted, describe_undo(call, pending, result), handled)


# 8.5 Checks


def check_changes(context: WorkspaceContext, call: ToolCall, changed: tuple[str, ...]) -> str:
    """Run the team's commands on the changed files, hold them against the intent's constraints, and return the words.

    The call is done and recorded: no failure here turns it into a failure.
    """
    attempts = Attempts()
    verified = broken = ""
    with attempts.step():
        rules = context.last_rules or context.rules
        if rules.config.verify.on_write:
            # Imported here: few repositories have such commands.
            from remit.gate.team_hooks.verify_commands import verify_write

            verified = verify_write(context, call, changed)
    with attempts.step():
        rules = context.last_rules or context.rules
        intent = rules.intents.get(context.state.active_session(call.session).intent_id)
        if intent is not None and intent.rules:
            # Imported here: the module loads all kinds of constraints.
            from remit.gate.team_hooks.constraints import check_after_call

            broken = check_after_call(context, call, intent, rules.mode, changed)
    return join_lines(verified, broken, attempts.failure_notice)


def has_after_hooks(context: WorkspaceContext, hooks: RegisteredHooks) -> bool:
    """Return True if a hook may want to hear of the call; in doubt, too."""
    with Attempts().step():
        return bool(hooks.listeners or (context.last_rules or context.rules).hooks)
    return True


def finish_command(context: WorkspaceContext, call: ToolCall, outcome: Outcome, token: str) -> str:
    """Return what to say of a command that missed the launcher, had writes refused, or took out Remit's hooks."""
    # Imported here: a file tool needs none of the three.
    from remit.gate.containment.refused_writes import record_refused_writes
    from remit.gate.containment.rewrite_call import CommandRewriter
    from remit.gate.undo.agent_settings import AgentSettings

    attempts, messages = Attempts(), PendingMessages(context.state)
    missed = refused = restored = ""
    with attempts.step():
        missed = CommandRewriter(context).report_missed_launcher(call)
    with attempts.step():
        messages.drop_contained_result(call, token)
    if token and outcome.read_only and not missed:
        with attempts.step():
            refused = record_refused_writes(context, call)
        with attempts.step():
            messages.add_unheard_message(call, outcome, refused)
    with attempts.step():
        restored = AgentSettings(context).restore_hooks(call)
    return join_lines(missed, refused, restored, attempts.failure_notice)


# 8.6 Words


def scope_warning(call: ToolCall, pending: PendingCall | None, changes: Sequence[Change]) -> str:
    """Return the message to the model about changes outside the scope of its intent that were not undone."""
    if pending is None and classify(call) == "destructive":
        return f"Remit: this {call.tool} call ran without a verdict: its hook did not ask before. Tell the person."
    if pending is None or not pending.intent_id or not pending.whole:
        return ""
    intent = intent_at_decision(pending)
    outside = [
        c.path for c in changes if not c.from_git and not c.possible_sessions and not is_in_scope(c.path, intent)
    ]
    if not outside:
        return ""
    names = ", ".join(sanitise_line(path, 120) for path in outside[:MAX_NAMED]) + " …" * (len(outside) > MAX_NAMED)
    return (
        f"Remit: this {call.tool} call changed {names}, outside the scope of {pending.intent_id}. It is "
        "recorded as out of scope. Undo those changes, and do such work with your file tools inside the scope."
    )


def spool_notice(why: str | None) -> str:
    if not why:
        return ""
    return f"Remit could not write its log ({why.splitlines()[0]}); the record waits in the spool. Tell the person."
