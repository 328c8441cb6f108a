"""Step 8: find what a call did, record it, and undo what it had no right to do.

1. The pending call is found, and its effects are observed.
2. The records are made, and appended or spooled: what is known of a call that has run is never lost.
3. In enforce, governing files are put back, and violations are undone.
4. The state is brought up to date.
5. The team's commands, the intent's constraints and the hooks look at the changes.
6. The model is told.
"""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from remit.core.call import COMPARED_CLASSES, Outcome, ToolCall
from remit.core.decision import Decision
from remit.core.record import Record, Vcs, parse_time
from remit.core.untrusted_input import quote_path
from remit.gate.context import Answer, Attempts, WorkspaceContext, contents_of_changes, join_lines
from remit.gate.effects.changes import (
    CompletedCall,
    Effects,
    find_stray_changes,
    make_call_records,
    observe_effects,
    update_state,
)
from remit.gate.effects.own_lines import find_differences
from remit.gate.hooks.registered_checks import RegisteredHooks
from remit.gate.hooks.tool_call_hooks import run_after_hooks
from remit.gate.people.messages import PendingMessages
from remit.gate.records.call_records import (
    ChangeEvidence,
    intent_at_decision,
    is_in_scope,
    mutation_record,
    restore_record,
)
from remit.gate.records.recorder import find_recorded_events
from remit.gate.state.workspace_state import PendingCall, baseline_head
from remit.gate.undo.violations import NOTHING_UNDONE, describe_undo, list_paths, undo_violations
from remit.policy.decide import classify
from remit.workspace.observe.observation import Change, is_governing_path


def remember(
    context: WorkspaceContext,
    call: ToolCall,
    outcome: Outcome,
    hooks: RegisteredHooks,
    token: str,
    *,
    in_process: bool = False,
) -> Answer:
    """Record what came of a call, and return the words for the model. A step that fails does not stop the next.

    `token` is the ticket of a command that ran contained. `in_process`: the words are sure to reach the model.
    """
    attempts = Attempts()

    # 8.1 Find the call as it was when it was allowed, and compare the workspace with what it was then. A call that no
    # hook asked about is compared only if it may have changed something.
    row: int | None = None
    pending: PendingCall | None = None
    with attempts:
        row, pending = context.state.find_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256)
    known: dict[str, str] = {}
    with Attempts():
        since = pending.recorded_at if pending is not None else ("", 0)
        known = find_recorded_events(context.recorder, call, since, resumed=context.is_resumed(call))
    is_known = "tool_result" in known
    if outcome.duration_ms is None:  # few agents tell it
        with Attempts():
            now = context.environment.clock.now()
            begun_at = context.state.find_call_time(row) if row is not None else parse_time(known.get("tool_use", ""))
            if begun_at is not None:
                outcome = replace(outcome, duration_ms=max(0, round(1000 * (now - begun_at))))
    if is_known and row is None:
        return Answer(Decision("allow", "allow", classify(call), "observe"))
    vcs: Vcs | None = None
    with attempts:
        vcs = context.recorder.vcs
    effects = Effects()
    if pending is not None or classify(call) in COMPARED_CLASSES:
        with attempts:
            effects = observe_effects(context, call, pending, vcs)

    # 8.2 Record the effects; the records are spooled where the log cannot be written. A process that died here may have
    # recorded them.
    done = CompletedCall(context, call, outcome, row, pending, vcs, attempts)
    spooled, stray = (None, ()) if is_known else record_effects(done, effects)

    # 8.3 In enforce, undo what the call had no right to change.
    left, handled, undo_notice = effects.changes, frozenset[str](), ""
    if pending is not None and pending.mode == "enforce":
        left, handled, undo_notice = undo_effects(done, outcome, pending, effects, in_process=in_process)

    if pending is not None and pending.effect == "unproved" and effects.changes:
        # Imported here: a call that names neither path nor command rarely changes a file.
        from remit.gate.facts.unlisted_tools import note_changing_tool

        with attempts:
            undo_notice = join_lines(undo_notice, note_changing_tool(context.state, call, effects.changes))

    if pending is not None and pending.whole and (pending.writes is None or pending.names):
        # Imported here: few calls run uncontained with an effect that their text does not tell.
        from remit.gate.state.staged_entries import note_staged
        from remit.gate.undo.git_state import GitStateCheck

        with attempts:
            restored = GitStateCheck(context, call, pending).restore([change.path for change in stray])
            undo_notice = join_lines(undo_notice, restored)
            note_staged(context.workspace, context.state, "person" if pending.grants else "unknown")

    # 8.4 Bring the state up to date. A call without records stays pending, and is settled later.
    is_recorded = not attempts.failures
    with attempts:
        update_state(done, left, recorded=is_recorded)

    # 8.5 Let the team's commands, the intent's constraints and the hooks look at the changes. No failure here turns the
    # call, which is done and recorded, into a failure.
    own = tuple(c for c in effects.changes if not c.from_git and not c.possible_sessions)
    checks = check_changes(context, call, tuple(c.path for c in own)) if own else ""
    has_hooks = True  # in doubt, a hook wants to hear of the call
    with Attempts():
        has_hooks = bool(hooks.listeners or (context.last_rules or context.rules).hooks)
    paths = tuple(c.path for c in effects.changes)
    heard = run_after_hooks(context, hooks, call, outcome, paths) if has_hooks else ""
    after_command = ""
    if call.whole_workspace:
        ran_bare = pending is not None and not token
        after_command = finish_command(context, call, outcome, token, in_process=in_process, ran_bare=ran_bare)

    # 8.6 Tell the model.
    waiting = ""
    with Attempts():
        messages = PendingMessages(context.state)
        waiting = messages.take_messages(call.session) if in_process else messages.take_for_result(call, outcome)
    warnings = describe_effects(done, effects, stray, [c.path for c in own if c.path not in handled], undo_notice)
    spool_notice = ""
    if spooled:
        why = spooled.splitlines()[0]
        spool_notice = f"Remit could not write its log ({why}); the record waits in the spool. Tell the person."
    text = join_lines(*warnings, spool_notice, attempts.failure_notice, checks, heard, after_command, waiting)
    return Answer(Decision("allow", "allow", classify(call), "observe"), context=text)


# 8.2 Records


def record_effects(done: CompletedCall, effects: Effects) -> tuple[str | None, tuple[Change, ...]]:
    context, call, pending, attempts = done.context, done.call, done.pending, done.attempts
    records: list[Record] = []
    stray: tuple[Change, ...] = ()
    with attempts:
        records = make_call_records(done, effects)
    if pending is not None and pending.whole:
        with attempts:
            # Where the comparison failed, commits are looked for all the same: they are no change of the working tree.
            observation = effects.observation or context.observe()
            stray = find_stray_changes(context.workspace, context.state, call, pending, observation.files)
        if stray:
            with attempts:
                context.keep_contents(contents_of_changes(stray))
                differences = find_differences(stray, {}, context.contents)
                model = context.state.active_session(call.session).model
                evidence = ChangeEvidence(differences, model=model)
                outcome = done.outcome or Outcome()
                records.append(mutation_record(context.recorder, call, outcome, pending, stray, evidence, done.vcs))
    if pending is not None and effects.redirected.outside:
        why = "a link on the way led out of the workspace after the call was judged; its former content was not kept"
        detail: dict[str, object] = {"paths": [], "why": "the call wrote where it was not judged"}
        detail |= {"left": {quote_path(path): why for path in effects.redirected.outside}}
        records.append(restore_record(context.recorder, call, pending.intent_id, detail))
    spooled: str | None = None
    with attempts:
        spooled = context.recorder.append_or_spool(records, sync=bool(effects.changes))
    return spooled, stray


# 8.3 Undoing


def undo_effects(
    done: CompletedCall, outcome: Outcome, pending: PendingCall, effects: Effects, *, in_process: bool
) -> tuple[tuple[Change, ...], frozenset[str], str]:
    context, call, attempts = done.context, done.call, done.attempts
    reverted, revert_notice = tuple[str, ...](), ""
    if any(is_governing_path(c.path) for c in effects.changes):
        # Imported here: few calls change what governs.
        from remit.gate.undo.governing_files import describe_revert, revert_governing_files

        with attempts:
            reverted = revert_governing_files(context, effects.changes, pending.intent_id)
        revert_notice = describe_revert(reverted)
    left = tuple(replace(c, after=c.before) if c.path in reverted else c for c in effects.changes)
    suspects = tuple(c for c in effects.changes if c.path not in reverted)
    if effects.observation is None or not suspects or not (pending.whole or effects.redirected):
        return left, frozenset(reverted), revert_notice

    judged = pending
    if effects.redirected:
        judged = replace(pending, whole=True, head=effects.observation.head)
        suspects = tuple(c for c in suspects if c.path in effects.redirected.inside)
    result = NOTHING_UNDONE
    with attempts:
        result = undo_violations(context, call, judged, suspects, effects.observation)
    notice = describe_undo(call, pending, result)
    if notice and not in_process:
        with Attempts():
            PendingMessages(context.state).add_unheard_message(call, outcome, notice)
    handled = frozenset((*reverted, *result.undone, *result.not_undone))
    return result.apply_undo(left), handled, join_lines(revert_notice, notice)


# 8.5 Checks


def check_changes(context: WorkspaceContext, call: ToolCall, changed: tuple[str, ...]) -> str:
    """Return the words of the team's commands and of the intent's constraints about the changed files."""
    attempts = Attempts()
    verified = broken = ""
    with attempts:
        rules = context.last_rules or context.rules
        if rules.config.verify.on_write:
            # Imported here: few repositories have such commands.
            from remit.gate.hooks.verify_commands import verify_write

            verified = verify_write(context, call, changed)
    with attempts:
        rules = context.last_rules or context.rules
        intent = rules.intents.get(context.state.active_session(call.session).intent_id)
        if intent is not None and intent.rules:
            # Imported here: the module loads all kinds of constraints.
            from remit.gate.hooks.verify_commands import check_after_call

            broken = check_after_call(context, call, intent, rules.mode, changed)
    return join_lines(verified, broken, attempts.failure_notice)


def finish_command(
    context: WorkspaceContext, call: ToolCall, outcome: Outcome, token: str, *, in_process: bool, ran_bare: bool
) -> str:
    """Return what to say of a command that missed the launcher, had writes refused, or took out Remit's hooks."""
    # Imported here: a file tool needs none of the three.
    from remit.gate.containment.rewrite_call import CommandRewriter, record_refused_writes
    from remit.gate.undo.governing_files import AgentSettings

    attempts, messages = Attempts(), PendingMessages(context.state)
    missed = refused = restored = ""
    with attempts:
        missed = CommandRewriter(context).report_missed_launcher(call)
    with attempts:
        messages.drop_contained_result(call, token)
    if token and outcome.read_only and not missed:
        with attempts:
            refused = record_refused_writes(context, call)
        with attempts:
            if not in_process:
                messages.add_unheard_message(call, outcome, refused)
    with attempts:
        restored = AgentSettings(context).restore_hooks(call, ran_bare=ran_bare)
    return join_lines(missed, refused, restored, attempts.failure_notice)


# 8.6 Words


def describe_effects(
    done: CompletedCall, effects: Effects, stray: Sequence[Change], changed: Sequence[str], undo_notice: str
) -> Iterator[str]:
    pending, tool, redirected = done.pending, done.call.tool, effects.redirected.outside
    if pending is None and classify(done.call) == "destructive":
        yield f"Remit: this {tool} call ran without a verdict: its hook did not ask before. Tell the person."
    if pending is not None and pending.mode != "observe" and redirected:
        yield (
            f"Remit [OUTSIDE_WORKSPACE]: this {tool} call wrote to {list_paths(redirected)}: while it ran, another "
            "command put a link on the way. It was not undone, because nothing outside the workspace is kept. Tell the "
            "person at once."
        )
    yield undo_notice
    if stray:
        yield (
            f"Remit: a commit of this call holds {list_paths([change.path for change in stray])}, outside the scope "
            "and not as any file here. It is recorded as out of scope, and `remit verify` names it. Tell the person."
        )
    intent = intent_at_decision(pending)
    outside = [path for path in changed if not is_in_scope(path, intent)]
    if intent is not None and pending is not None and pending.whole and outside:
        yield (
            f"Remit: this {tool} call changed {list_paths(outside)}, outside the scope of {intent.id}. It is recorded "
            "as out of scope. Undo those changes, and do such work with your file tools inside the scope."
        )


def is_new_worktree(context: WorkspaceContext, call: ToolCall) -> bool:
    """Return True if the call created the workspace by `git worktree add`: nothing observed it before."""
    if classify(call) != "destructive" or baseline_head(context.state) is not None:
        return False
    return context.state.find_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256)[1] is None
