"""Before a call: gather, decide, ask where somebody can answer, record, and only then answer.

Before a call that may go on: what it may change is looked at and kept, and the call is remembered.
"""

import os
from pathlib import Path

from msgspec import UNSET
from msgspec.structs import replace

from remit.adapters import can_ask
from remit.core.call import ToolCall, hash_arguments
from remit.core.decision import Decision, Finding, Violation
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts, Waiver
from remit.core.record import Body, DecisionPart, Record
from remit.gate.answer import Answer
from remit.gate.answer import join_lines as lines
from remit.gate.approvals.ask import ApprovalRequests, add_reply
from remit.gate.containment.rewrite_call import CommandRewriter, ContainmentPlan
from remit.gate.context import WorkspaceContext
from remit.gate.effects.between_calls import ChangesBetweenCalls, add_session_with_commands
from remit.gate.evidence.file_tool_lines import predict_blobs
from remit.gate.gather import CUT_NOTE, GatheredCall, gather_facts
from remit.gate.records import record_parts
from remit.gate.rules.companions import scope_at_decision
from remit.gate.rules.load import Rules
from remit.gate.rules.trust import trusted_hooks
from remit.gate.snapshots.take import NO_SNAPSHOT, SnapshotOutcome, SnapshotTaker, add_refusal, describe_way_back
from remit.gate.state.questions import ApprovalReply
from remit.gate.state.setbacks import Setbacks
from remit.gate.state.workspace_state import PendingCall, RemitCall
from remit.gate.team_hooks.before_call import HookReplies, RepositoryHooks
from remit.gate.team_hooks.registry import join_findings, load_installed_checks, run_registered_checks
from remit.gate.undo.git_files import GitFileCopies
from remit.policy.classify import classify
from remit.policy.commands import analyse
from remit.policy.decide import blocking_findings, can_agent_ask, decide, hold_irreversible, waiver_for
from remit.policy.violations import explain, leading_violation
from remit.workspace.observe.git_arrivals import list_known_commits
from remit.workspace.observe.observation import Observation, observe_paths, try_observe_file, versions_by_path


class Preparation:
    """Prepares one workspace for a call."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context

    def prepare_call(self, call: ToolCall, facts: Facts, decision: Decision, rules: Rules) -> SnapshotOutcome:
        """Look at what the call may change, keep it, and remember that the call is under way, unless it may not be."""
        now = self.context.environment.clock()
        judged = tuple(str(t.path) for t in facts.targets if t.path is not None)
        whole = call.whole_workspace or call.remit_tool is not None
        before = self.context.observe() if whole else observe_paths(self.context.workspace, judged)
        if self.record_changes_before(call, before):
            before = self.context.observe()
        self.context.keep_contents(record_parts.contents_to_keep(before.files.items()))
        if whole:
            GitFileCopies(self.context.workspace).keep_files(before.files)
        kept = SnapshotTaker(self.context).take_before_call(call, facts, decision, before)
        if kept.refusal is not None:
            return kept
        pending = PendingCall(
            intent_id=facts.session.intent_id,
            verdict=decision.verdict,
            mode=decision.mode,
            rules=tuple(f.rule for f in decision.findings),
            judged=judged,
            whole=whole,
            head=before.head,
            before=versions_by_path(before),
            intent_sha256=rules.document.sha256 if rules.document else "",
            agent=call.agent,
            effect=call.effect,
            transcript=call.transcript,
            owned_scope=scope_at_decision(facts, decision),
            known_commits=list_known_commits(self.context.workspace, before.head) if whole else (),
            writes=declared_writes(call, facts),
            announced={} if whole else predict_blobs(call, facts.targets, before),
            grants=decision.grants,
            snapshot=kept.snapshot,
            places=() if whole else tuple(t.resolved for t in facts.targets),
            spelled=() if whole else tuple(os.path.normpath(Path(call.cwd, t.raw)) for t in facts.targets),
        )
        self.context.state.put_pending_call(call.session, call.call_id, call.tool, call.arguments_sha256, pending, now)
        if call.transcript:
            self.context.state.put_transcript(call.session, call.agent, call.transcript)
        return kept

    def record_changes_before(self, call: ToolCall, before: Observation) -> bool:
        """What changed since the last call, before this one can have done it; whether anything of that was undone."""
        between, undone = ChangesBetweenCalls(self.context), False
        if call.whole_workspace:
            undone = between.record_unattributed_changes("before a command", before, call.session)
            add_session_with_commands(self.context.state, call.session.session_id)
        elif call.remit_tool is None:
            between.record_changed_files("before an edit", before.files, call.session)
        return undone


def declared_writes(call: ToolCall, facts: Facts) -> tuple[str, ...] | None:
    """All that a command writes in the workspace, where its text tells; None where it does not, or is no command."""
    if call.command is None or call.unproved or analyse(call.command).outcome != "literal_writes":
        return None
    return tuple(str(t.path) for t in (*facts.targets, *facts.perhaps) if t.path is not None)


class Enforcement:
    """Steps 4 to 6 of a call, in one workspace."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context

    def enforce(
        self, call: ToolCall, waived: frozenset[Waiver] = frozenset(), heard: HookReplies | None = None
    ) -> Answer:
        """The answer, recorded. Raises what CannotRecord names.

        `waived` are the rules that a person has just waived for this call: all else is judged anew, since the world
        went on while they thought. Another file, or another content, is another question. `heard` is what the
        repository's hooks said of it before.
        """
        rules = self.context.rules
        self.context.notice_rules(rules)
        gathered, said = self.run_before_hooks(call, rules, heard)
        call, contained = gathered.call, CommandRewriter(self.context)
        available = contained.is_available(call, rules, waived)
        facts = replace(
            gathered.facts,
            grants=self.context.questions.active_grants(rules.config.grants),
            waived=waived,
            containable=available,
            bare=contained.explain_bare_run(call, rules, available=available),
        )
        carried = contained.resolve_containment(call, self.decide_call(call, facts, said, rules))
        decision = carried.decision
        reply = None if waived else self.make_asking(said.spent_s).ask_person(call, facts, decision, rules)
        if reply is not None:
            self.setbacks.reset(call.session)
        if reply is not None and reply.allow:
            once = frozenset(waiver_for(f, facts) for f in blocking_findings(decision))
            return self.enforce(said.call, once, said)
        decision = after_asking(call, decision, reply)
        if call.remit_tool is not None:
            self.announce_remit_call(call)
        if waived and decision.effect == "allow":
            self.setbacks.allow_paths(call.session, tuple(str(t.path or t.resolved) for t in facts.targets))
        if decision.effect not in ("allow", "ask", "contain"):
            return with_hook_output(self.deny(call, facts, decision), said)
        return self.allow_call(call, facts, replace(carried, decision=decision), rules, said)

    def allow_call(
        self, call: ToolCall, facts: Facts, carried: ContainmentPlan, rules: Rules, said: HookReplies
    ) -> Answer:
        """Keep what the call may change, record the decision, and answer; refused where it cannot be kept."""
        contained, decision = CommandRewriter(self.context), carried.decision
        kept = NO_SNAPSHOT
        if decision.effect == "contain" and contained.has_overlay:
            contained.put_pending_call(call, facts, decision, rules)
        elif decision.call_class == "destructive" or call.remit_tool is not None:
            kept = Preparation(self.context).prepare_call(call, facts, decision, rules)
        if kept.refusal is not None:
            return with_hook_output(self.deny(call, facts, add_refusal(decision, kept.refusal)), said)
        use = self.use_record(call, facts, decision, rules, said, carried.uncontained)
        self.context.recorder.append([*kept.records, use, *self.failed_check_records(call, decision)])
        told = lines(self.warn_remark(call, decision), describe_way_back(decision, kept), kept.trouble)
        answer = with_hook_output(Answer(decision, reason=self.question_text(decision), context=told), said)
        return (
            contained.rewrite_answer(answer, call, facts, carried.permission)
            if decision.effect == "contain"
            else answer
        )

    def run_before_hooks(
        self, call: ToolCall, rules: Rules, heard: HookReplies | None
    ) -> tuple[GatheredCall, HookReplies]:
        """The call as the repository's hooks leave it, what they said, and the facts then.

        They run before Remit's checks and while other calls pass: so what they saw is gathered once more after them.
        """
        hooks = RepositoryHooks(
            trusted_hooks(rules, self.context.recorder), self.context.workspace, self.context.environment
        )
        if heard is not None or not hooks.hooks:
            return self.gather(call, rules), heard or HookReplies(call)
        said = hooks.ask_before_hooks(call, self.gather(call, rules).facts)
        if said.rewriters:
            said = hooks.ask_about_rewritten(said, self.gather(said.call, rules).facts)
        return self.gather(said.call, rules), said

    def gather(self, call: ToolCall, rules: Rules) -> GatheredCall:
        """The facts now."""
        return gather_facts(
            call, self.context.workspace, rules, self.context.state, self.context.contents, self.context.environment
        )

    def decide_call(self, call: ToolCall, facts: Facts, said: HookReplies, rules: Rules) -> Decision:
        """What Remit's checks, those of others and the hooks say together."""
        checks = {**load_installed_checks(self.context.environment.home), **self.context.hooks.checks}
        found = (*run_registered_checks(checks, call, facts), *said.findings)
        decision = join_findings(decide(call, facts), found, call, facts)
        return hold_irreversible(self.make_asking(0).apply_risk_threshold(decision, call, facts, rules))

    @property
    def setbacks(self) -> Setbacks:
        """What the sessions ran into lately."""
        return Setbacks(self.context.state, self.context.environment.clock())

    def make_asking(self, spent_s: float) -> ApprovalRequests:
        """Who puts a denial to a person. So much of the agent's patience the hooks have taken already."""
        around = self.context.environment
        around = replace(around, waited_s=around.waited_s + spent_s)
        return ApprovalRequests(self.context.questions, self.context.recorder, around)

    def announce_remit_call(self, call: ToolCall) -> None:
        """Tell the MCP server whose call it is about to get: the hook knows, the server does not."""
        digest = hash_arguments([call.remit_tool, call.arguments_sha256])
        self.context.state.put_remit_call(
            RemitCall(call.session, call.agent), call.call_id, digest, self.context.environment.clock()
        )

    def deny(self, call: ToolCall, facts: Facts, decision: Decision) -> Answer:
        """A denial, recorded, in words. One that delivers the difference counts as a read."""
        violation = self.record_denial(call, facts, decision)
        leading = tuple(f for f in decision.findings if f is decision.leading)
        self.setbacks.count_denial(call, (*leading, *(f for f in decision.findings if f is not decision.leading)))
        if violation.error_type == "STALE_FILE" and violation.context.get("diff"):
            self.mark_diff_delivered(call, facts, str(violation.path))
        return Answer(decision, reason=explain(violation))

    def record_denial(self, call: ToolCall, facts: Facts, decision: Decision) -> Violation:
        """What leads of a denial, recorded. The session does not have to answer for it: see `refused`."""
        violation = leading_violation(call, decision)
        if violation is None:
            raise AssertionError("a refusal has a finding")
        body = Body(
            event="denied",
            intent_id=facts.session.intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=record_parts.call_part(call, path_names(facts)),
            decision=self.decision_part(decision),
            violation=record_parts.violation_document(violation),
        )
        self.context.recorder.append(
            [self.context.recorder.make_record(body, call.agent), *self.failed_check_records(call, decision)]
        )
        return violation

    def mark_diff_delivered(self, call: ToolCall, facts: Facts, path: str) -> None:
        """The difference was told, whole: so the session has read the file, as it was when it was compared."""
        target = next((t for t in facts.targets if t.path == path), None)
        now = try_observe_file(self.context.workspace.root / path)
        if target is None or now is None or now.version.sha256 != target.sha256 or target.diff.endswith(CUT_NOTE):
            return
        self.context.keep_contents(record_parts.contents_to_keep([(path, now)]))
        self.context.state.put_seen_files(call.session, {path: now.version})

    def use_record(
        self, call: ToolCall, facts: Facts, decision: Decision, rules: Rules, said: HookReplies, uncontained: str
    ) -> Record:
        """The record of a call that may go on, as it goes on; with why it is not contained, where it should be."""
        detail: dict[str, object] = {"rewritten_by": list(said.rewriters)} if said.rewriters else {}
        detail |= {"uncontained": uncontained} if uncontained else {}
        body = Body(
            event="tool_use",
            intent_id=facts.session.intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=record_parts.call_part(call, path_names(facts)),
            decision=self.decision_part(decision, rules),
            detail=detail or UNSET,
        )
        return self.context.recorder.make_record(body, call.agent)

    def decision_part(self, decision: Decision, rules: Rules | None = None) -> DecisionPart:
        """The decision as records hold it."""
        document = rules.document if rules else None
        return DecisionPart(
            effect=decision.effect,
            verdict=decision.verdict,
            mode=decision.mode,
            rules=tuple(f.rule for f in decision.findings),
            approved_by="person" if decision.grants else None,
            grant=", ".join(dict.fromkeys(decision.grants)) or None,
            intent_sha256=document.sha256 if document and document.sha256 else UNSET,
        )

    def failed_check_records(self, call: ToolCall, decision: Decision) -> list[Record]:
        """A record for each of Remit's own checks that broke."""
        return [
            self.context.recorder.make_record(
                Body(
                    event="check_failed",
                    intent_id=decision.intent_id,
                    session_id=call.session.session_id,
                    detail=dict(finding.context),
                )
            )
            for finding in decision.findings
            if "exception" in finding.context
        ]

    def warn_remark(self, call: ToolCall, decision: Decision) -> str:
        """In warn: what enforce would have said, for the model."""
        violation = leading_violation(call, decision)
        if violation is None or decision.mode != "warn" or decision.verdict == "contain" or decision.effect == "ask":
            return ""
        return f"Remit (warn): this went through, but in enforce it would be refused. {explain(violation)}"

    def question_text(self, decision: Decision) -> str:
        """What the agent's own person is asked, where it is left to them; the agent reads it, where nobody is there."""
        leading = decision.leading
        return f"[{leading.code}] {leading.message}" if leading is not None and decision.effect == "ask" else ""

    def answer_unrecordable(self, call: ToolCall, error: Exception) -> Answer:
        """A decision that cannot be written down: enforce refuses what may change something; the rest passes.

        A dangerous command is refused in every mode: nobody can be asked, and no snapshot is there to go back to.
        """
        mode = self.context.read_mode()
        call_class = classify(call)
        trouble = f"Remit cannot keep its records: {error}".strip()
        dangerous = call.command is not None and analyse(call.command).outcome == "dangerous"
        if call_class == "destructive" and (mode == "enforce" or dangerous):
            finding = Finding(
                rule="recording",
                code="HOOK_BLOCKED",
                message=f"{trouble}. Until that is mended, changes are refused: tell the person.",
            )
            decision = Decision("deny", "deny", call_class, mode, (finding,))
            violation = leading_violation(call, decision)
            return Answer(decision, reason=explain(violation) if violation else trouble)
        return Answer(Decision("allow", "allow", call_class, mode), context=f"{trouble}. This call was not recorded.")


def after_asking(call: ToolCall, decision: Decision, reply: ApprovalReply | None) -> Decision:
    """The decision in the words of a person who did not say yes; where nobody was asked, the agent may ask its own."""
    if reply is not None:
        return add_reply(decision, reply)
    return replace(decision, effect="ask") if can_agent_ask(decision) and can_ask(call.agent) else decision


def with_hook_output(answer: Answer, said: HookReplies) -> Answer:
    """The answer with the hooks' words, and their arguments."""
    if not said.ran:
        return answer
    arguments = said.call.arguments if said.rewriters else None
    return replace(answer, context=lines(answer.context, *said.words), arguments=arguments)


def path_names(facts: Facts) -> list[str]:
    """The paths of a call as records name them."""
    return [str(t.path) if t.path is not None else sanitise_line(t.resolved) for t in facts.targets]
