"""Before a call: gather, decide, ask where somebody can answer, record, and only then answer."""

from msgspec import UNSET
from msgspec.structs import replace

from remit.core.call import ToolCall, hash_arguments
from remit.core.decision import Decision, Finding
from remit.core.facts import Facts, Waiver
from remit.core.record import Body, DecisionPart, Record
from remit.core.text import shown
from remit.gate import effects
from remit.gate.answer import Answer
from remit.gate.asking import Asking, with_words
from remit.gate.gather import CUT, gather
from remit.gate.governing import Governing
from remit.gate.pressure import Pressure
from remit.gate.site import Site
from remit.gate.state import PendingCall, RemitCall
from remit.policy.classify import classify
from remit.policy.engine import decide, waiver
from remit.policy.violations import explain, violation_of
from remit.workspace.history import known_commits
from remit.workspace.observe import glance, observe, observe_paths, versions


class Judging:
    """Steps 4 to 6 of a call, in one workspace."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def judged(self, call: ToolCall, waived: frozenset[Waiver] = frozenset()) -> Answer:
        """The answer, recorded. Raises what CannotRecord names.

        `waived` are the rules that a person has just waived for this call: all else is judged anew, since the world
        went on while they thought. Another file, or another content, is another question.
        """
        rules = self.site.governing
        self.site.notice(rules)
        gathered = gather(call, self.site.workspace, rules, self.site.state, self.site.store, self.site.environment)
        call, facts = gathered.call, replace(gathered.facts, grants=self.site.approvals.grants(), waived=waived)
        decision = self.site.hooks.joined(decide(call, facts), call, facts)
        reply = None if waived else self.asking.ask(call, facts, decision, rules)
        if reply is not None:
            self.pressure.reset(call.session)
        if reply is not None and reply.allow:
            return self.judged(call, frozenset(waiver(f, facts) for f in decision.findings))
        if reply is not None:
            decision = with_words(decision, reply)
        if call.remit_tool is not None:
            self.announce(call)
        if waived and decision.effect == "allow":
            self.pressure.permit(call.session, tuple(str(t.path or t.resolved) for t in facts.targets))
        if decision.effect != "allow":
            return self.refused(call, facts, decision)
        if decision.call_class == "destructive" or call.remit_tool is not None:
            self.prepare(call, facts, decision, rules)
        self.site.recorder.append([self.use_record(call, facts, decision, rules), *self.broken(call, decision)])
        return Answer(decision, context=self.remark(call, decision))

    @property
    def pressure(self) -> Pressure:
        """What the sessions ran into lately."""
        return Pressure(self.site.state, self.site.environment.clock())

    @property
    def asking(self) -> Asking:
        """Who puts a denial to a person."""
        return Asking(self.site.approvals, self.site.recorder, self.site.environment)

    def announce(self, call: ToolCall) -> None:
        """Tell the MCP server whose call it is about to get: the hook knows, the server does not."""
        digest = hash_arguments([call.remit_tool, call.arguments_sha256])
        self.site.state.put_remit_call(
            RemitCall(call.session, call.agent), call.call_id, digest, self.site.environment.clock()
        )

    def refused(self, call: ToolCall, facts: Facts, decision: Decision) -> Answer:
        """A denial, recorded, in words. One that delivers the difference counts as a read."""
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
        leading = tuple(f for f in decision.findings if f is decision.leading)
        self.pressure.refused(call, (*leading, *(f for f in decision.findings if f is not decision.leading)))
        if violation.error_type == "STALE_FILE" and violation.context.get("diff"):
            self.delivered(call, facts, str(violation.path))
        return Answer(decision, reason=explain(violation))

    def delivered(self, call: ToolCall, facts: Facts, path: str) -> None:
        """The difference was told, whole: so the session has read the file, as it was when it was compared."""
        target = next((t for t in facts.targets if t.path == path), None)
        now = glance(self.site.workspace.root / path)
        if target is None or now is None or now.version.sha256 != target.sha256 or target.diff.endswith(CUT):
            return
        self.site.keep([now.content] if now.content is not None else [])
        self.site.state.put_seen(call.session, {path: now.version})

    def prepare(self, call: ToolCall, facts: Facts, decision: Decision, rules: Governing) -> None:
        """Look at what the call may change, keep it, and remember that the call is under way."""
        now = self.site.environment.clock()
        judged = tuple(str(t.path) for t in facts.targets if t.path is not None)
        whole = call.whole_workspace or call.remit_tool is not None
        before = observe(self.site.workspace) if whole else observe_paths(self.site.workspace, judged)
        self.site.keep(effects.keepable(before.files))
        pending = PendingCall(
            intent_id=facts.session.intent_id,
            verdict=decision.verdict,
            mode=decision.mode,
            rules=tuple(f.rule for f in decision.findings),
            judged=judged,
            whole=whole,
            head=before.head,
            before=versions(before),
            intent_sha256=rules.document.sha256 if rules.document else "",
            agent=call.agent,
            effect=call.effect,
            transcript=call.transcript,
            owned_scope=facts.active.owned_scope if facts.active else (),
            known_commits=known_commits(self.site.workspace, before.head) if whole else (),
        )
        self.site.state.put_call(call.session, call.call_id, call.tool, call.arguments_sha256, pending, now)

    def use_record(self, call: ToolCall, facts: Facts, decision: Decision, rules: Governing) -> Record:
        """The record of a call that may go on."""
        body = Body(
            event="tool_use",
            intent_id=facts.session.intent_id,
            session_id=call.session.session_id,
            agent_id=call.session.agent_id or UNSET,
            call=effects.call_part(call, named(facts)),
            decision=self.decision_part(decision, rules),
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
            grant=", ".join(decision.grants) or None,
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
        if violation is None or decision.mode != "warn":
            return ""
        return f"Remit (warn): this went through, but in enforce it would be refused. {explain(violation)}"

    def unrecordable(self, call: ToolCall, error: Exception) -> Answer:
        """A decision that cannot be written down: enforce refuses what may change something; the rest passes."""
        mode = self.site.mode_now()
        call_class = classify(call)
        trouble = f"Remit cannot keep its records: {error}".strip()
        if mode == "enforce" and call_class == "destructive":
            finding = Finding(
                rule="recording",
                code="HOOK_BLOCKED",
                message=f"{trouble}. Until that is mended, changes are refused: tell the person.",
            )
            decision = Decision("deny", "deny", call_class, mode, (finding,))
            violation = violation_of(call, decision)
            return Answer(decision, reason=explain(violation) if violation else trouble)
        return Answer(Decision("allow", "allow", call_class, mode), context=f"{trouble}. This call was not recorded.")


def named(facts: Facts) -> list[str]:
    """The paths of a call as records name them."""
    return [str(t.path) if t.path is not None else shown(t.resolved) for t in facts.targets]
