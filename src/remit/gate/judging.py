"""Before a call: gather, decide, ask where somebody can answer, record, and only then answer."""

from msgspec import UNSET
from msgspec.structs import replace

from remit.adapters import asks
from remit.core.call import ToolCall, hash_arguments
from remit.core.decision import Decision, Finding, Violation
from remit.core.facts import Facts, Waiver
from remit.core.record import Body, DecisionPart, Record
from remit.core.text import shown
from remit.gate import effects
from remit.gate.answer import Answer
from remit.gate.answer import joined as lines
from remit.gate.approvals import Reply
from remit.gate.asking import Asking, with_words
from remit.gate.contained_calls import Carried, ContainedCalls
from remit.gate.gather import CUT, Gathered, gather
from remit.gate.governing import Governing
from remit.gate.installed import installed_checks
from remit.gate.preparing import Preparing
from remit.gate.pressure import Pressure
from remit.gate.repository_hooks import RepositoryHooks, Said
from remit.gate.site import Site
from remit.gate.snapshots import NOTHING, refused_by, way_back
from remit.gate.state import RemitCall
from remit.gate.trusting import trusted_hooks
from remit.gate.user_hooks import findings, joined
from remit.policy.classify import classify
from remit.policy.commands import analyse
from remit.policy.engine import decide, waiver
from remit.policy.lasting import held_back, holding, may_be_passed_on
from remit.policy.violations import explain, violation_of
from remit.workspace.observe import glance


class Judging:
    """Steps 4 to 6 of a call, in one workspace."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def judged(self, call: ToolCall, waived: frozenset[Waiver] = frozenset(), heard: Said | None = None) -> Answer:
        """The answer, recorded. Raises what CannotRecord names.

        `waived` are the rules that a person has just waived for this call: all else is judged anew, since the world
        went on while they thought. Another file, or another content, is another question. `heard` is what the
        repository's hooks said of it before.
        """
        rules = self.site.governing
        self.site.notice(rules)
        gathered, said = self.hooked(call, rules, heard)
        call, contained = gathered.call, ContainedCalls(self.site)
        available = contained.available(call, rules, waived)
        facts = replace(
            gathered.facts,
            grants=self.site.approvals.grants(rules.config.grants),
            waived=waived,
            containable=available,
            bare=contained.why_bare(call, rules, available=available),
        )
        carried = contained.carried(call, self.decided(call, facts, said, rules))
        decision = carried.decision
        reply = None if waived else self.asking_after(said.spent_s).ask(call, facts, decision, rules)
        if reply is not None:
            self.pressure.reset(call.session)
        if reply is not None and reply.allow:
            once = frozenset(waiver(f, facts) for f in holding(decision))
            return self.judged(said.call, once, said)
        decision = after_asking(call, decision, reply)
        if call.remit_tool is not None:
            self.announce(call)
        if waived and decision.effect == "allow":
            self.pressure.permit(call.session, tuple(str(t.path or t.resolved) for t in facts.targets))
        if decision.effect not in ("allow", "ask", "contain"):
            return with_said(self.refused(call, facts, decision), said)
        return self.let_through(call, facts, replace(carried, decision=decision), rules, said)

    def let_through(self, call: ToolCall, facts: Facts, carried: Carried, rules: Governing, said: Said) -> Answer:
        """Keep what the call may change, record the decision, and answer; refused where it cannot be kept."""
        contained, decision = ContainedCalls(self.site), carried.decision
        kept = NOTHING
        if decision.effect == "contain" and contained.staged:
            contained.remember(call, facts, decision, rules)
        elif decision.call_class == "destructive" or call.remit_tool is not None:
            kept = Preparing(self.site).prepared(call, facts, decision, rules)
        if kept.refusal is not None:
            return with_said(self.refused(call, facts, refused_by(decision, kept.refusal)), said)
        use = self.use_record(call, facts, decision, rules, said, carried.uncontained)
        self.site.recorder.append([*kept.records, use, *self.broken(call, decision)])
        told = lines(self.remark(call, decision), way_back(decision, kept), kept.trouble)
        answer = with_said(Answer(decision, reason=self.question(decision), context=told), said)
        return contained.answered(answer, call, facts, carried.permission) if decision.effect == "contain" else answer

    def hooked(self, call: ToolCall, rules: Governing, heard: Said | None) -> tuple[Gathered, Said]:
        """The call as the repository's hooks leave it, what they said, and the facts then.

        They run before Remit's checks and while other calls pass: so what they saw is gathered once more after them.
        """
        hooks = RepositoryHooks(trusted_hooks(rules, self.site.recorder), self.site.workspace, self.site.environment)
        if heard is not None or not hooks.hooks:
            return self.gathered(call, rules), heard or Said(call)
        said = hooks.before(call, self.gathered(call, rules).facts)
        if said.rewriters:
            said = hooks.again(said, self.gathered(said.call, rules).facts)
        return self.gathered(said.call, rules), said

    def gathered(self, call: ToolCall, rules: Governing) -> Gathered:
        """The facts now."""
        return gather(call, self.site.workspace, rules, self.site.state, self.site.store, self.site.environment)

    def decided(self, call: ToolCall, facts: Facts, said: Said, rules: Governing) -> Decision:
        """What Remit's checks, those of others and the hooks say together."""
        checks = {**installed_checks(self.site.environment.home), **self.site.hooks.checks}
        found = (*findings(checks, call, facts), *said.findings)
        decision = joined(decide(call, facts), found, call, facts)
        return held_back(self.asking_after(0).weighed(decision, call, facts, rules))

    @property
    def pressure(self) -> Pressure:
        """What the sessions ran into lately."""
        return Pressure(self.site.state, self.site.environment.clock())

    def asking_after(self, spent_s: float) -> Asking:
        """Who puts a denial to a person. So much of the agent's patience the hooks have taken already."""
        around = self.site.environment
        around = replace(around, waited_s=around.waited_s + spent_s)
        return Asking(self.site.approvals, self.site.recorder, around)

    def announce(self, call: ToolCall) -> None:
        """Tell the MCP server whose call it is about to get: the hook knows, the server does not."""
        digest = hash_arguments([call.remit_tool, call.arguments_sha256])
        self.site.state.put_remit_call(
            RemitCall(call.session, call.agent), call.call_id, digest, self.site.environment.clock()
        )

    def refused(self, call: ToolCall, facts: Facts, decision: Decision) -> Answer:
        """A denial, recorded, in words. One that delivers the difference counts as a read."""
        violation = self.denied(call, facts, decision)
        leading = tuple(f for f in decision.findings if f is decision.leading)
        self.pressure.refused(call, (*leading, *(f for f in decision.findings if f is not decision.leading)))
        if violation.error_type == "STALE_FILE" and violation.context.get("diff"):
            self.delivered(call, facts, str(violation.path))
        return Answer(decision, reason=explain(violation))

    def denied(self, call: ToolCall, facts: Facts, decision: Decision) -> Violation:
        """What leads of a denial, recorded. The session does not have to answer for it: see `refused`."""
        violation = violation_of(call, decision)
        if violation is None:
            raise AssertionError("a refusal has a finding")
        body = Body(
            event="denied",
            intent_id=facts.session.intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=effects.call_part(call, named(facts)),
            decision=self.decision_part(decision),
            violation=effects.as_document(violation),
        )
        self.site.recorder.append([self.site.recorder.record(body, call.agent), *self.broken(call, decision)])
        return violation

    def delivered(self, call: ToolCall, facts: Facts, path: str) -> None:
        """The difference was told, whole: so the session has read the file, as it was when it was compared."""
        target = next((t for t in facts.targets if t.path == path), None)
        now = glance(self.site.workspace.root / path)
        if target is None or now is None or now.version.sha256 != target.sha256 or target.diff.endswith(CUT):
            return
        self.site.keep(effects.keepable([(path, now)]))
        self.site.state.put_seen(call.session, {path: now.version})

    def use_record(
        self, call: ToolCall, facts: Facts, decision: Decision, rules: Governing, said: Said, uncontained: str
    ) -> Record:
        """The record of a call that may go on, as it goes on; with why it is not contained, where it should be."""
        detail: dict[str, object] = {"rewritten_by": list(said.rewriters)} if said.rewriters else {}
        detail |= {"uncontained": uncontained} if uncontained else {}
        body = Body(
            event="tool_use",
            intent_id=facts.session.intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=effects.call_part(call, named(facts)),
            decision=self.decision_part(decision, rules),
            detail=detail or UNSET,
        )
        return self.site.recorder.record(body, call.agent)

    def decision_part(self, decision: Decision, rules: Governing | None = None) -> DecisionPart:
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

    def broken(self, call: ToolCall, decision: Decision) -> list[Record]:
        """A record for each of Remit's own checks that broke."""
        return [
            self.site.recorder.record(
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

    def remark(self, call: ToolCall, decision: Decision) -> str:
        """In warn: what enforce would have said, for the model."""
        violation = violation_of(call, decision)
        if violation is None or decision.mode != "warn" or decision.verdict == "contain" or decision.effect == "ask":
            return ""
        return f"Remit (warn): this went through, but in enforce it would be refused. {explain(violation)}"

    def question(self, decision: Decision) -> str:
        """What the agent's own person is asked, where it is left to them; the agent reads it, where nobody is there."""
        leading = decision.leading
        return f"[{leading.code}] {leading.message}" if leading is not None and decision.effect == "ask" else ""

    def unrecordable(self, call: ToolCall, error: Exception) -> Answer:
        """A decision that cannot be written down: enforce refuses what may change something; the rest passes.

        A dangerous command is refused in every mode: nobody can be asked, and no snapshot is there to go back to.
        """
        mode = self.site.mode_now()
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
            violation = violation_of(call, decision)
            return Answer(decision, reason=explain(violation) if violation else trouble)
        return Answer(Decision("allow", "allow", call_class, mode), context=f"{trouble}. This call was not recorded.")


def after_asking(call: ToolCall, decision: Decision, reply: Reply | None) -> Decision:
    """The decision in the words of a person who did not say yes; where nobody was asked, the agent may ask its own."""
    if reply is not None:
        return with_words(decision, reply)
    return replace(decision, effect="ask") if may_be_passed_on(decision) and asks(call.agent) else decision


def with_said(answer: Answer, said: Said) -> Answer:
    """The answer with the hooks' words, and their arguments."""
    if not said.ran:
        return answer
    arguments = said.call.arguments if said.rewriters else None
    return replace(answer, context=lines(answer.context, *said.words), arguments=arguments)


def named(facts: Facts) -> list[str]:
    """The paths of a call as records name them."""
    return [str(t.path) if t.path is not None else shown(t.resolved) for t in facts.targets]
