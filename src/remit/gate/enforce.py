"""Steps 4 to 6 of a call: gather, decide, and enforce the decision; it is recorded before the call is answered.

1. The repository's hooks see the call first, and may rewrite it.
2. The facts are gathered and the checks decide.
3. A person is asked about a denial that can be waived; after an approval, the call is judged again.
4. A denial is recorded and put into words.
5. Before a call that may go on, its state is kept so that every effect can be found and undone; else it is denied.
6. The decision is on disk before the answer leaves.
"""

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import json
from msgspec.structs import replace

from remit.adapters import can_ask
from remit.core.call import COMPARED_CLASSES, OWN_AGENT, ToolCall, hash_arguments
from remit.core.decision import Decision, Facts, Finding, SessionFacts, Waiver, Ways, explain, leading_violation
from remit.gate.containment.rewrite_call import CommandRewriter, ContainmentPlan
from remit.gate.context import Answer, WorkspaceContext, contents_to_keep, join_lines
from remit.gate.effects.other_writers import ChangesBetweenCalls, add_session_with_commands
from remit.gate.effects.own_lines import predict_blobs
from remit.gate.gather import CUT_NOTE, gather_facts, scope_at_decision
from remit.gate.governing.rules import Rules
from remit.gate.hooks.registered_checks import (
    HookReplies,
    RegisteredHooks,
    join_findings,
    load_installed_checks,
    run_registered_checks,
)
from remit.gate.records.call_records import failed_check_records, record_denial, tool_use_record
from remit.gate.records.recorder import RESULT_EVENTS, find_recorded_events
from remit.gate.state.workspace_state import PendingCall, RemitCall, Setbacks
from remit.gate.undo.snapshots import NO_SNAPSHOT, SnapshotOutcome, SnapshotTaker, describe_way_back
from remit.gate.undo.violations import GitFileCopies
from remit.policy.commands import analyse
from remit.policy.commands.background_and_input import find_background_word
from remit.policy.decide import blocking_findings, can_agent_ask, classify, decide, hold_irreversible, waiver_for
from remit.policy.floor import describe_told
from remit.workspace.observe.observation import list_known_commits, observe_paths, try_observe_file, versions_by_path

if TYPE_CHECKING:
    from remit.gate.people.questions import ApprovalReply, DialogQuestion


def enforce(
    context: WorkspaceContext,
    call: ToolCall,
    hooks: RegisteredHooks,
    *,
    in_process: bool = False,
    asked: "DialogQuestion | None" = None,
) -> Answer:
    """Decide a call, record the decision, and return the answer. Raises RECORDING_ERRORS.

    `in_process`: the gate's own process runs the tool, so that a contained command needs no launcher. `asked`: the
    agent's dialog is to ask its person this about the call, one of Remit's own.
    """
    rules = context.rules
    context.notice_rules(rules)

    # 6.1 The repository's hooks see the call first, and may give it other arguments.
    replies = ask_repository_hooks(context, call, rules)

    # 6.2 Gather the facts, and decide.
    call, facts, plan = judge(context, replies, rules, hooks, frozenset(), in_process=in_process)
    if plan.decision.call_class == "destructive" and facts.assignment is not None and facts.assignment.is_paused:
        wait_for_resume(context, rules, replies.spent_s)
        rules = context.rules
        context.notice_rules(rules)
        call, facts, plan = judge(context, replies, rules, hooks, frozenset(), in_process=in_process)
    setbacks = Setbacks(context.state, context.environment.clock.now())

    # 6.3 Ask a person. An approval waives the rules that blocked this call. Everything else is judged again, since the
    # files may have changed while the person thought: another file, or another content, is another question.
    reply: ApprovalReply | None = None
    if plan.decision.effect not in ("allow", "contain"):
        from remit.gate.people.ask import ApprovalRequests

        reply = ApprovalRequests(context).ask_person(call, facts, plan.decision, rules, replies.spent_s)
    if reply is not None:
        setbacks.reset(call.session)
    if reply is not None and reply.allow:
        waived = frozenset(waiver_for(finding, facts) for finding in blocking_findings(plan.decision))
        rules = context.rules
        context.notice_rules(rules)
        call, facts, plan = judge(context, replies, rules, hooks, waived, in_process=in_process)
        if plan.decision.effect == "allow":
            setbacks.allow_paths(call.session, tuple(str(t.path or t.resolved) for t in facts.targets))
            if any(t.secret for t in facts.targets):
                from remit.gate.facts.secret_targets import note_shown

                note_shown(context.state, call.session, facts.targets)
    decision = plan.decision
    if reply is not None and not reply.allow:
        from remit.gate.people.ask import add_reply

        decision = add_reply(decision, reply)
    elif can_agent_ask(decision) and can_ask(call.agent):
        # Without an answer, the agent may ask its own person.
        decision = replace(decision, effect="ask")
    # A person sees the arguments that the agent gave: a hook that gives others takes the question with them.
    asked = asked if decision.effect == "allow" and not replies.rewriters else None
    if asked is not None:
        decision = replace(decision, effect="ask")

    # The tool server serves a tool of Remit only for a call that a hook announced, also one that is denied here.
    if (call.remit_tool is not None or asked is not None) and not in_process:
        digest = hash_arguments([call.remit_tool or call.tool, call.arguments_sha256])
        announced = RemitCall(call.session, call.agent, json.encode(asked) if asked is not None else b"")
        context.state.put_remit_call(announced, call.call_id, digest, context.environment.clock.now())
        if call.remit_tool is not None:
            context.state.note_tools(call.session.session_id)

    # 6.4 Deny.
    if decision.effect not in ("allow", "ask", "contain"):
        return with_hook_output(deny(context, call, facts, decision, in_process=in_process), replies)

    # 6.5 Keep what the call may change. In an overlay nothing changes yet: the snapshot is taken before its changes are
    # brought over (`containment/take_over.py`).
    kept = NO_SNAPSHOT
    pending: PendingCall | None = None
    rewriter = CommandRewriter(context, in_process=in_process) if decision.effect == "contain" else None
    if rewriter is not None and rewriter.has_overlay:
        pending = rewriter.prepare_staged_call(call, facts, decision, rules)
    elif decision.call_class in COMPARED_CLASSES or call.remit_tool is not None:
        kept, pending = prepare_call(context, call, facts, decision, rules)
    if kept.refusal is not None:
        verdict = kept.refusal.verdict
        refused = replace(decision, effect="deny", verdict=verdict, findings=(kept.refusal, *decision.findings))
        reply = None
        if verdict == "ask":
            from remit.gate.people.ask import ApprovalRequests

            reply = ApprovalRequests(context).ask_person(call, facts, refused, rules, replies.spent_s)
        if reply is None or not reply.allow:
            return with_hook_output(deny(context, call, facts, refused, in_process=in_process), replies)
        # The yes is about what no snapshot holds: the floor has nothing more to ask here.
        kept, pending = prepare_call(context, call, replace(facts, has_floor=False), decision, rules)

    # 6.6 Record the decision, and store the call as pending after that: none is pending without its record. A call that
    # is asked about again, after a crash in between, is recorded once. Then answer.
    known, records = find_recorded_events(context.recorder, call, resumed=context.is_resumed(call)), [*kept.records]
    row, earlier = context.state.find_same_call(call) if known or in_process else (None, None)
    if row is None and ("tool_use" not in known or not RESULT_EVENTS.isdisjoint(known)):
        records.append(
            tool_use_record(context.recorder, call, facts, decision, rules, replies.rewriters, plan.uncontained)
        )
        records += failed_check_records(context.recorder, call, decision)
    appended = context.recorder.append(records)
    if pending is not None:
        if appended:
            pending = replace(pending, recorded_at=(appended[-1].segment, appended[-1].end))
        put_pending_call(context, call, pending, row, earlier)
    violation, warning = leading_violation(call, decision), ""
    if violation is not None and decision.mode == "warn" and decision.verdict != "contain" and decision.effect != "ask":
        explained = explain(violation, find_ways(context, call))
        warning = f"Remit (warn): this went through, but in enforce it would be refused. {explained}"
    told = describe_told(call, decision) if decision.findings and decision.mode != "enforce" else ""
    way_back = describe_way_back(decision, kept) if kept.snapshot else ""
    remarks = join_lines(warning, told, way_back, kept.trouble)
    leading = decision.leading
    question = f"[{leading.code}] {leading.message}" if leading is not None and decision.effect == "ask" else ""
    question = asked.text if asked is not None else question
    answer = with_hook_output(Answer(decision, reason=question, context=remarks), replies)
    if rewriter is None or in_process:
        return answer
    return rewriter.rewrite_answer(answer, call, facts, plan.permission)


# 6.1 Hooks


def ask_repository_hooks(context: WorkspaceContext, call: ToolCall, rules: Rules) -> HookReplies:
    if not rules.hooks:
        return HookReplies(call)
    # Imported here: few repositories have hooks.
    from remit.gate.hooks.tool_call_hooks import ask_about_rewritten, ask_before_hooks, list_trusted_hooks

    trusted = list_trusted_hooks(context, rules)
    if not trusted:
        return HookReplies(call)
    replies = ask_before_hooks(context, trusted, HookReplies(call), gather_facts(context, call, rules).facts)
    if replies.rewriters:
        facts = gather_facts(context, replies.call, rules).facts
        replies = ask_about_rewritten(context, trusted, replies, facts)
    return replies


def with_hook_output(answer: Answer, replies: HookReplies) -> Answer:
    if not replies.ran:
        return answer
    arguments = replies.call.arguments if replies.rewriters else None
    return replace(answer, context=join_lines(answer.context, *replies.words), arguments=arguments)


# 6.2 Decision


def judge(
    context: WorkspaceContext,
    replies: HookReplies,
    rules: Rules,
    hooks: RegisteredHooks,
    waived: frozenset[Waiver],
    *,
    in_process: bool,
    session: SessionFacts | None = None,
) -> tuple[ToolCall, Facts, ContainmentPlan]:
    """Gather the facts of a call and decide; `waived` are the rules that a person has just waived. Return the call with
    its facts, and the decision with the way to carry it out. Changes nothing. `session`: judge as if this were its
    session.
    """
    gathered = gather_facts(context, replies.call, rules)
    grants = context.active_grants(rules)
    call, facts = gathered.call, replace(gathered.facts, grants=grants, waived=waived)
    facts = facts if session is None else replace(facts, session=session)
    if call.command is not None:
        rewriter = CommandRewriter(context, in_process=in_process)
        is_available = rewriter.is_available(call, rules, waived)
        bare = rewriter.explain_bare_run(call, rules, available=is_available)
        uncontained = rewriter.explain_uncontained(call, rules, available=is_available)
        exposed: tuple[str, ...] = ()
        if "git" in call.command and rewriter.exposes_git(call, rules, available=is_available):
            # Imported here: most commands run contained, or run no git.
            from remit.gate.undo.git_state import find_exposed_names

            exposed = find_exposed_names(context, call, facts)
        facts = replace(facts, containable=is_available, bare=bare, uncontained=uncontained, exposed=exposed)
        if is_available and analyse(call.command).is_restorable and rewriter.is_staged(call, rules):
            # What it discards shows at its end: each file is judged then, and a snapshot taken first.
            facts = replace(facts, restorable=True, targets=(), perhaps=())

    # Remit's checks, those of installed packages and of this gate, and the hooks: the strictest finding decides.
    checks = {**load_installed_checks(context.environment.home), **hooks.checks}
    found = (*run_registered_checks(checks, call, facts), *replies.findings)
    decision = join_findings(decide(call, facts), found, call, facts)
    if rules.config.approvals.threshold is not None:
        # Imported here: weighing the risk of a call reads the ledger's index.
        from remit.gate.people.ask import ApprovalRequests

        decision = ApprovalRequests(context).apply_risk_threshold(decision, call, facts, rules)
    decision = hold_irreversible(decision)
    plan = ContainmentPlan(decision)
    if decision.effect == "contain":
        plan = CommandRewriter(context, in_process=in_process).resolve_containment(call, decision)
    return call, facts, plan


# 6.3 Pause

PAUSE_POLL_S = 0.1


def wait_for_resume(context: WorkspaceContext, rules: Rules, spent_s: float) -> None:
    # Imported here: few calls are made in a paused worktree.
    from remit.gate.people.ask import QUESTION_TIMEOUT_S
    from remit.gate.people.questions import CLIENT_GONE
    from remit.workspace.place.assignment_file import read_assignment

    patience_s = rules.config.approvals.timeout_s or QUESTION_TIMEOUT_S
    until = context.environment.clock.now() + patience_s - context.environment.waited_s - spent_s
    with context.environment.release_lock():
        while context.environment.clock.now() < until and not CLIENT_GONE.get()():
            held = read_assignment(context.workspace)
            if held is None or not held.is_paused:
                return
            context.environment.clock.wait(threading.Event(), PAUSE_POLL_S)


# 6.4 Denial


def find_ways(context: WorkspaceContext, call: ToolCall) -> Ways:
    """Return which way to Remit's tools a refusal names first: an agent may have none, or connect them later."""
    if call.agent == OWN_AGENT:
        return "tool only"
    return "tool first" if call.session.session_id in context.state.list_sessions_with_tools() else "shell first"


def deny(context: WorkspaceContext, call: ToolCall, facts: Facts, decision: Decision, *, in_process: bool) -> Answer:
    """Record a denial, count a setback, and return the denial in words. In this process no call id is used again: a
    denial that is recorded already was not heard, because the process died.
    """
    violation = leading_violation(call, decision)
    if violation is None:
        raise AssertionError("a denial has a finding")
    if in_process and "denied" in find_recorded_events(context.recorder, call, resumed=context.is_resumed(call)):
        return Answer(decision, reason=explain(violation, find_ways(context, call)))
    record_denial(context.recorder, call, facts, decision)
    leading = tuple(f for f in decision.findings if f is decision.leading)
    findings = (*leading, *(f for f in decision.findings if f is not decision.leading))
    Setbacks(context.state, context.environment.clock.now()).count_denial(call, findings)
    # A stale file counts as read if the denial delivers the whole difference.
    target = next((t for t in facts.targets if t.path == violation.path), None)
    if violation.error_type == "STALE_FILE" and violation.context.get("diff") and target is not None:
        now = try_observe_file(context.workspace.root / str(violation.path))
        if now is not None and now.version.sha256 == target.sha256 and not target.diff.endswith(CUT_NOTE):
            context.keep_contents(contents_to_keep([(str(violation.path), now)]))
            context.state.put_seen_files(call.session, {str(violation.path): now.version})
    return Answer(decision, reason=explain(violation, find_ways(context, call)))


def answer_unrecordable(context: WorkspaceContext, call: ToolCall, error: Exception) -> Answer:
    """Return the answer to a call whose decision cannot be recorded: enforce denies changes, the rest is allowed. A
    dangerous command is denied in every mode, since no snapshot is there to go back to.
    """
    mode = context.read_mode()
    call_class = classify(call)
    trouble = f"Remit cannot keep its records: {error}".strip()
    is_dangerous = call.command is not None and analyse(call.command).outcome == "dangerous"
    decision, violation = Decision("allow", "allow", call_class, mode), None
    if call_class in COMPARED_CLASSES and (mode == "enforce" or is_dangerous):
        message = f"{trouble}. Until that is mended, changes are refused: tell the person."
        finding = Finding(rule="recording", code="HOOK_BLOCKED", message=message)
        decision = Decision("deny", "deny", call_class, mode, (finding,))
        violation = leading_violation(call, decision)
    is_kept = context.record_late(call, decision, violation, error)
    if violation is not None:
        return Answer(decision, reason=explain(violation))
    when = "is not recorded yet: its record goes to the log later" if is_kept else "was not recorded"
    return Answer(decision, context=f"{trouble}. This call {when}.")


# 6.5 Preparation


def prepare_call(
    context: WorkspaceContext, call: ToolCall, facts: Facts, decision: Decision, rules: Rules
) -> tuple[SnapshotOutcome, PendingCall | None]:
    """Observe and keep what a call may change. Return the snapshot, and the pending call; a failed snapshot may refuse
    the call.
    """
    judged = tuple(str(t.path) for t in facts.targets if t.path is not None)

    # Observe: a command or a foreign tool may change anything, a file tool only the paths that it names.
    is_whole = call.whole_workspace or call.remit_tool is not None
    before = context.observe() if is_whole else observe_paths(context.workspace, judged)

    # A command's text may name everything that it writes: then it leaves nothing running, unless told to.
    is_clear = call.command is not None and not call.unproved and analyse(call.command).outcome == "literal_writes"
    # With a working tree git makes a branch, which the text need not name.
    makes_branch = is_clear and any(w.is_work_tree and w.adds_names for w in analyse(call.command or "").writes or ())
    ends_with_call = is_clear and not find_background_word(call.command or "", call.arguments)

    # What changed since the last call is not this call's doing.
    between, names = ChangesBetweenCalls(context), dict[str, str]()
    if call.whole_workspace:
        if between.record_unattributed_changes("before a command", before, call.session):
            before = context.observe()
        if not ends_with_call and call.effect != "unproved":
            add_session_with_commands(context.state, call.session.session_id)
        if not is_clear or makes_branch:
            # Imported here: what the text tells changes the index only where it changes files.
            from remit.gate.state.staged_entries import note_persons_staging
            from remit.gate.undo.git_state import read_names

            note_persons_staging(context.workspace, context.state, call)
            names = read_names(context.workspace) if decision.mode == "enforce" and not decision.grants else {}
    elif call.remit_tool is None:
        between.record_changed_files("before an edit", before.files, call.session)

    # Keep the contents; a snapshot also holds what the content store does not, such as secrets.
    context.keep_contents(contents_to_keep(before.files.items()))
    if is_whole:
        GitFileCopies(context.workspace).keep_files(before.files)
    kept = NO_SNAPSHOT
    if is_whole or call.effect == "delete":
        kept = SnapshotTaker(context).take_before_call(call, facts, decision, before)
    if kept.refusal is not None:
        return kept, None
    if call.command is not None and decision.effect != "contain" and rules.config.containment.data:
        # Imported here: few repositories name runtime data.
        from remit.gate.containment.bound_data import copy_before_bare

        kept = replace(kept, records=(*kept.records, *copy_before_bare(context, call, facts.session.intent_id)))

    writes = tuple(str(t.path) for t in (*facts.targets, *facts.perhaps) if t.path is not None) if is_clear else None
    pending = PendingCall(
        intent_id=facts.session.intent_id,
        verdict=decision.verdict,
        mode=decision.mode,
        rules=tuple(f.rule for f in decision.findings),
        judged=judged,
        whole=is_whole,
        head=before.head,
        before=versions_by_path(before),
        intent_sha256=rules.document.find_version(facts.session.intent_id) if rules.document else "",
        agent=call.agent,
        effect=call.effect,
        transcript=call.transcript,
        owned_scope=scope_at_decision(facts, decision),
        known_commits=list_known_commits(context.workspace, before.head) if is_whole else (),
        writes=writes,
        announced={} if is_whole else predict_blobs(call, facts.targets, before),
        grants=decision.grants,
        snapshot=kept.snapshot,
        places=() if is_whole else tuple(t.resolved for t in facts.targets),
        names=names,
        spelled=() if is_whole else tuple(os.path.normpath(Path(call.cwd, t.raw)) for t in facts.targets),
    )
    return kept, pending


def put_pending_call(
    context: WorkspaceContext, call: ToolCall, pending: PendingCall, row: int | None, earlier: PendingCall | None
) -> None:
    """Store the call as pending. If it is pending already, in `row`, it is compared with what was there `earlier`: the
    tool may be at work since.
    """
    state, now = context.state, context.environment.clock.now()
    if earlier is not None and (earlier.whole, earlier.judged) == (pending.whole, pending.judged):
        pending = replace(pending, before=earlier.before, head=earlier.head, known_commits=earlier.known_commits)
    with state.transaction():
        if row is not None:
            state.delete_call(row)
        state.put_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256, pending, now)
        if call.transcript:
            state.put_transcript(call.session, call.agent, call.transcript)
