"""Putting a denial to a person, where one can answer: for this once, or for more."""

import os

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision, Finding
from remit.core.facts import Facts
from remit.core.grant import Grant, proposed_pattern
from remit.core.identifiers import uuid7
from remit.core.record import Body
from remit.core.redaction import redact
from remit.core.text import shown
from remit.gate.approvals import Approvals, Question, Reply
from remit.gate.environment import Environment
from remit.gate.governing import Governing
from remit.gate.recorder import Recorder
from remit.policy.risk import risk

TIMEOUT_S = 590.0
"""How long a question waits: below every wired agent's own time-out, since all of them run the tool when it is over."""

ACTION_CHARS = 2000


class Asking:
    """Asks about one call at a time."""

    def __init__(self, approvals: Approvals, recorder: Recorder, environment: Environment) -> None:
        self.approvals = approvals
        self.recorder = recorder
        self.environment = environment

    def ask(self, call: ToolCall, facts: Facts, decision: Decision, rules: Governing) -> Reply | None:
        """A person's answer to this denial; None where it is none that a person may waive, or nobody is there."""
        finding = decision.leading
        if finding is None or decision.effect == "allow" or not may_be_waived(decision, rules):
            return None
        if not self.approvals.somebody_there():
            return None
        question = self.question(call, facts, decision, finding, rules)
        self.approvals.ask(question)
        self.record(
            "approval_requested", call, facts, {"id": question.id, "rule": question.code, "risk": question.risk}
        )
        reply = self.approvals.wait(question, self.environment.unlocked) or Reply(
            False, "nobody answered in time", "nobody"
        )
        self.answered(call, facts, question, reply, rules)
        return reply

    def question(
        self, call: ToolCall, facts: Facts, decision: Decision, finding: Finding, rules: Governing
    ) -> Question:
        """The question, as a person sees it."""
        now = self.environment.clock()
        weight, reasons = risk(call, decision, facts)
        return Question(
            id=uuid7(int(now * 1000), os.urandom(10)),
            session_id=call.session.session_id,
            agent=call.agent,
            intent_id=facts.session.intent_id,
            code=finding.code,
            action=action(call),
            message=finding.message,
            path=finding.path,
            risk=weight,
            reasons=reasons,
            asked_at=now,
            expires_at=now + (rules.config.approvals.timeout_s or TIMEOUT_S),
        )

    def answered(self, call: ToolCall, facts: Facts, question: Question, reply: Reply, rules: Governing) -> None:
        """Record the answer, and keep a yes that goes further than this call."""
        grant = self.grant(question, reply, rules) if reply.allow and reply.extent != "once" else None
        if grant is not None:
            self.approvals.put_grant(grant)
        detail: dict[str, object] = {
            "id": question.id,
            "by": reply.by,
            "answer": "allow" if reply.allow else "deny",
            "words": shown(redact(reply.words), 500),
            "grant": {"id": grant.id, "extent": grant.extent, "pattern": grant.pattern} if grant else None,
        }
        self.record("approval_answered", call, facts, detail)

    def grant(self, question: Question, reply: Reply, rules: Governing) -> Grant:
        """What a yes leaves behind."""
        until = self.environment.clock() + rules.config.approvals.grant_hours * 3600
        return Grant(
            id=question.id,
            code=question.code,
            extent=reply.extent,
            pattern=reply.pattern or proposed_pattern(question.path, reply.extent),
            session_id=question.session_id,
            intent_id=question.intent_id,
            until=None if reply.extent == "project" else until,
            by=reply.by,
        )

    def record(self, event: str, call: ToolCall, facts: Facts, detail: dict[str, object]) -> None:
        """A record about a question."""
        body = Body(
            event="approval_requested" if event == "approval_requested" else "approval_answered",
            intent_id=facts.session.intent_id,
            session_id=call.session.session_id,
            detail={"approval": detail},
        )
        self.recorder.append([self.recorder.record(body, call.agent)])


def may_be_waived(decision: Decision, rules: Governing) -> bool:
    """Whether every objection is of a kind that the configuration lets a person waive."""
    return all(f.code in rules.config.overrides for f in decision.findings)


def with_words(decision: Decision, reply: Reply) -> Decision:
    """The same denial, with what the person said about it."""
    leading = decision.leading
    if leading is None or not reply.words:
        return decision
    told = replace(leading, message=f"{leading.message} The person was asked and said no: {shown(reply.words)}")
    return replace(decision, findings=tuple(told if f is leading else f for f in decision.findings))


def action(call: ToolCall) -> str:
    """The exact call in words."""
    what = call.command if call.command is not None else ", ".join(call.paths)
    return redact(f"{call.tool}: {what}")[:ACTION_CHARS]
