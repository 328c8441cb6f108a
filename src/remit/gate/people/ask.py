"""Questions to a person about a call."""

import os
from collections.abc import Sequence
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path
from typing import NamedTuple

from msgspec import UNSET, to_builtins
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import ASSIGNMENT_RULE, REFUSED_BY_PERSON, Decision, Facts, Finding, Grant
from remit.core.diff.contents import sha256
from remit.core.diff.edits import ProposedFile
from remit.core.record import Body, CallPart, EventName, Record, make_uuid7
from remit.core.redaction import is_secret_file, redact
from remit.core.untrusted_input import sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.facts.constraint_facts import propose_contents
from remit.gate.governing.rules import Rules
from remit.gate.people.grants import GRANT_WRITE_ERRORS, add_project_grant
from remit.gate.people.questions import CLIENT_GONE, ApprovalReply, Question, QuestionStore
from remit.ledger.log_files import LedgerError
from remit.policy.decide import apply_threshold, blocking_findings, target_contents
from remit.policy.grants import GrantRuleError, make_rule, propose_prefix, target_paths
from remit.policy.risk import RiskContext, parent_folder, weigh_risk

QUESTION_TIMEOUT_S = 590.0
"""How long a question waits. Every wired agent has a longer timeout, and runs the tool when its own timeout ends."""

MAX_ACTION_CHARS = 64 * 1024
MAX_RECORDED_CHARS = 500
MAX_DIFF_LINES = 2000
MAX_DIFFED_CHARS = 64 * 1024
MAX_LINE_CHARS = 2000
LEFT_OUT = "CHARACTERS LEFT OUT HERE"
MAX_FAMILIAR_RECORDS = 200  # newest changes of an intent that define its familiar folders
NOBODY_REPLY = ApprovalReply(False, "nobody answered in time", "nobody")
NOBODY_LEFT_REPLY = ApprovalReply(False, "the terminal or page that could have answered went away", "nobody")
CLIENT_GONE_REPLY = ApprovalReply(False, "the process that asked was gone before anybody answered", "nobody")


class ApprovalRequests:
    """Questions to a person in a workspace, a call at a time."""

    def __init__(self, context: WorkspaceContext) -> None:
        self.context = context
        self.questions = QuestionStore(context.state, context.environment.clock, context.question_listener)

    def apply_risk_threshold(self, decision: Decision, call: ToolCall, facts: Facts, rules: Rules) -> Decision:
        """Return the decision, turned into a question if its risk reaches `approvals.threshold`."""
        threshold = rules.config.approvals.threshold
        if threshold is None or decision.verdict not in ("allow", "contain") or decision.call_class != "destructive":
            return decision
        return apply_threshold(decision, call, facts, threshold, self.assess_risk(call, decision, facts))

    def assess_risk(self, call: ToolCall, decision: Decision, facts: Facts) -> tuple[int, tuple[str, ...]]:
        familiar: frozenset[str] | None = None
        intent_id = facts.session.intent_id
        if facts.targets and intent_id is not None:
            with suppress(OSError, LedgerError), self.context.index() as index:
                found = index.find(event="mutation", intent_id=intent_id, limit=MAX_FAMILIAR_RECORDS)
                files = (str(file.get("path", "")) for record in found for file in record.get("files", []))
                familiar = frozenset(map(parent_folder, files))
        risk = RiskContext(contents_kept=not call.whole_workspace, familiar_folders=familiar)
        return weigh_risk(call, decision, facts, risk)

    def ask_person(
        self, call: ToolCall, facts: Facts, decision: Decision, rules: Rules, spent_s: float
    ) -> ApprovalReply | None:
        """Return a person's answer to a denial; None if the denial cannot be waived or no person is present. A late yes
        to the same call is used up now, without a second question. `spent_s` is the part of the agent's patience that
        the hooks have used up.
        """
        # A denial can be waived if every finding only asks, or is listed in `overrides`.
        is_waivable = all(
            f.rule != ASSIGNMENT_RULE
            and (f.verdict == "ask" or f.context.get("lasting") or f.code in rules.config.overrides)
            for f in blocking_findings(decision)
        )
        finding = decision.leading
        if finding is None or decision.effect in ("allow", "contain") or not is_waivable:
            return None
        self.close_orphaned_questions(rules)
        # Equal for equal questions: session, tool, arguments, folder, intent, objections, contents.
        parts = (
            *(call.agent, call.session, call.tool, call.cwd, call.command, call.paths, call.arguments_sha256),
            *(facts.session.intent_id, tuple(f.code for f in decision.findings), target_contents(facts)),
        )
        digest = sha256(repr(parts).encode("utf-8", "backslashreplace"))
        earlier = self.questions.take_late_approval(digest)
        if earlier is not None:
            return earlier
        if not self.questions.is_watcher_present(call.session.session_id):
            return None
        question = self.make_question(call, facts, decision, finding, rules, spent_s)
        self.questions.put_question(question, digest)
        detail: dict[str, object] = {"risk": question.risk, "reasons": list(question.reasons)}
        self.context.recorder.append([self.make_record("approval_requested", question, detail)])
        reply = self.questions.wait_for_reply(question, self.context.environment.release_lock)
        if reply is None:
            is_over = self.context.environment.clock.now() >= question.expires_at
            reply = CLIENT_GONE_REPLY if CLIENT_GONE.get()() else NOBODY_REPLY if is_over else NOBODY_LEFT_REPLY
        self.record_answer(question, reply, rules)
        return reply

    def make_question(
        self, call: ToolCall, facts: Facts, decision: Decision, finding: Finding, rules: Rules, spent_s: float
    ) -> Question:
        environment = self.context.environment
        now, waited_s = environment.clock.now(), environment.waited_s + spent_s
        weight, reasons = self.assess_risk(call, decision, facts)
        action = describe_call(call, self.context.workspace.root)
        change = format_diff(propose_contents(call, facts.targets, self.context.workspace))
        is_command = call.command is not None
        # A wider yes covers the finding's path, or the first path of a file tool; or first words without a secret.
        path = finding.path or (None if is_command else next(iter(target_paths(facts)), None))
        prefix = propose_prefix(call.command) if call.command is not None else ()
        return Question(
            id=make_uuid7(int(now * 1000), os.urandom(10)),
            session_id=call.session.session_id,
            agent=call.agent,
            intent_id=facts.session.intent_id,
            code=finding.code,
            rule=finding.rule,
            action=action,
            message=finding.message,
            path=path,
            risk=weight,
            reasons=reasons,
            asked_at=now,
            expires_at=now + (rules.config.approvals.timeout_s or QUESTION_TIMEOUT_S) - waited_s,
            tool=call.tool,
            call_id=call.call_id,
            arguments_sha256=call.arguments_sha256,
            is_command=is_command,
            diff=change.diff,
            is_cut=change.is_cut or LEFT_OUT in action,
            prefix=prefix if all(redact(word) == word for word in prefix) else (),
        )

    def close_orphaned_questions(self, rules: Rules) -> None:
        """Close questions whose asking process has ended, and record each outcome. Closing and recording share one
        transaction: a failed record leaves the question open for the next caller.
        """
        if self.questions.find_orphans():
            with self.context.state.transaction():
                ended = self.questions.close_orphans()
                self.context.recorder.append(
                    [self.make_answer_record(question, reply or CLIENT_GONE_REPLY, rules) for question, reply in ended]
                )

    def record_answer(self, question: Question, reply: ApprovalReply, rules: Rules) -> None:
        self.context.recorder.append([self.make_answer_record(question, reply, rules)])

    def make_answer_record(self, question: Question, reply: ApprovalReply, rules: Rules) -> Record:
        grant = self.make_grant(question, reply, rules) if reply.allow and reply.extent != "once" else None
        if grant is not None:
            is_written = False
            if grant.extent == "project":
                with suppress(*GRANT_WRITE_ERRORS):
                    add_project_grant(self.context, grant, rules)
                    is_written = True
            if not is_written:
                self.context.state.put_grant(grant)
        detail: dict[str, object] = {
            "by": reply.by,
            "answer": "allow" if reply.allow else "deny",
            "extent": grant.extent if grant else "once",
            "words": sanitise_line(redact(reply.words), 500),
            **({"through": reply.through} if reply.through else {}),
            **({"who": to_builtins(reply.who)} if reply.who else {}),
            "grant": {"id": grant.id, "extent": grant.extent, "rule": grant.rule} if grant else None,
        }
        return self.make_record("approval_answered", question, detail)

    def make_record(self, event: EventName, question: Question, detail: dict[str, object]) -> Record:
        """Return a record about the question, without secrets; its call is identified as in the call's own records."""
        about = {
            "id": question.id,
            "rule": question.code,
            "action": sanitise_line(question.action, MAX_RECORDED_CHARS),
            "message": sanitise_line(redact(question.message), MAX_RECORDED_CHARS),
        }
        call = CallPart(
            id=question.call_id or UNSET, name=question.tool, arguments_sha256=question.arguments_sha256 or UNSET
        )
        detail = {"approval": {**about, **detail}}
        body = Body(event=event, intent_id=question.intent_id, session_id=question.session_id, call=call, detail=detail)
        return self.context.recorder.make_record(body, question.agent)

    def make_grant(self, question: Question, reply: ApprovalReply, rules: Rules) -> Grant | None:
        """Return the grant that a yes implies; None if the question allows no wider yes."""
        try:
            rule = make_rule(question.subject, reply.extent, reply.pattern)
        except GrantRuleError:
            return None
        until = self.context.environment.clock.now() + rules.config.approvals.grant_hours * 3600
        return Grant(
            id=question.id,
            code=question.code,
            extent=reply.extent,
            pattern=rule.pattern,
            session_id=question.session_id,
            intent_id=question.intent_id,
            until=None if reply.extent == "project" else until,
            by=reply.by,
            command=rule.command,
            tool=rule.tool,
        )


class ChangeText(NamedTuple):
    """A proposed change as text, and whether it was cut."""

    diff: str
    is_cut: bool


def format_diff(files: Sequence[ProposedFile]) -> ChangeText:
    found: list[str] = []
    is_cut = False
    for file in files:
        if file.known and not is_secret_file(file.path):
            sides = [(side or b"").decode("utf-8", "replace") for side in (file.before, file.after)]
            is_cut |= any(len(side) > MAX_DIFFED_CHARS for side in sides)
            before, after = (side[:MAX_DIFFED_CHARS].splitlines() for side in sides)
            found += [f"@@ {file.path}"] if len(files) > 1 else []
            found += [*unified_diff(before, after, lineterm="", n=2)][2:]
    is_cut |= len(found) > MAX_DIFF_LINES or any(len(line) > MAX_LINE_CHARS for line in found)
    lines = [sanitise_line(redact(line), MAX_LINE_CHARS) for line in found[:MAX_DIFF_LINES]]
    return ChangeText(
        "\n".join((*lines, *(["… the change goes on: it is too long to be shown whole"] if is_cut else []))), is_cut
    )


def add_reply(decision: Decision, reply: ApprovalReply) -> Decision:
    """Return the denial with the person's answer, and without the hint to ask them again."""
    leading = decision.leading
    if leading is None:
        return decision
    words = f": {sanitise_line(reply.words)}" if reply.words else "."
    answer = "The person was asked and said no" if reply.by != "nobody" else "The person was asked"
    context = {**leading.context, REFUSED_BY_PERSON: True}
    answered = replace(leading, message=f"{leading.message} {answer}{words}", context=context)
    return replace(decision, findings=tuple(answered if f is leading else f for f in decision.findings))


def describe_call(call: ToolCall, root: Path) -> str:
    """Return the call as text without secrets, paths inside `root` relative to it; a long text is shortened in the
    middle and identified by its hash.
    """
    what = call.command if call.command is not None else ", ".join(shorten_path(path, root) for path in call.paths)
    text = redact(f"{call.tool}: {what}")
    excess, half = len(text) - MAX_ACTION_CHARS, MAX_ACTION_CHARS // 2
    if excess <= 0:
        return text
    digest = sha256(text.encode("utf-8", "backslashreplace"))[:12]
    return f"{text[:half]} [… {excess} {LEFT_OUT}, sha256 {digest} …] {text[-half:]}"


def shorten_path(path: str, root: Path) -> str:
    return path if "/../" in path else path.removeprefix(f"{root}/")
