"""Questions to a person about one call, and the grants that their answers leave behind."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from difflib import unified_diff

from msgspec import UNSET
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Decision, Finding
from remit.core.diff.contents import sha256
from remit.core.diff.edits import ProposedFile
from remit.core.display_text import sanitise_line
from remit.core.facts import Facts
from remit.core.grant import Grant
from remit.core.ids import make_uuid7
from remit.core.record import Body, CallPart, EventName, Record
from remit.core.secrets.redaction import redact
from remit.core.secrets.secret_files import is_secret_file
from remit.gate.approvals.project_grants import GRANT_WRITE_ERRORS, ProjectGrants
from remit.gate.environment import Environment
from remit.gate.evidence.constraint_facts import propose_contents
from remit.gate.records.recorder import Recorder
from remit.gate.rules.load import Rules
from remit.gate.state.questions import CLIENT_GONE, ApprovalReply, Question, QuestionStore
from remit.ledger.index.index import open_index
from remit.ledger.segments import LedgerError
from remit.policy.approval.command_prefix import propose_prefix
from remit.policy.approval.grants import GrantRuleError, make_rule, target_paths
from remit.policy.approval.risk import RiskContext, parent_folder, weigh_risk
from remit.policy.decide import apply_threshold, blocking_findings, target_contents
from remit.policy.violations import REFUSED_BY_PERSON

QUESTION_TIMEOUT_S = 590.0
"""How long a question waits. Every wired agent has a longer timeout, and runs the tool when its own timeout ends."""

MAX_ACTION_CHARS = 2000
MAX_RECORDED_CHARS = 500
MAX_SHOWN_DIFF_LINES = 40
MAX_REDACTED_LINES = 2000
MAX_DIFFED_CHARS = 64 * 1024
MAX_FAMILIAR_RECORDS = 200
"""Newest changes of an intent that define its familiar folders."""

NOBODY_REPLY = ApprovalReply(False, "nobody answered in time", "nobody")
CLIENT_GONE_REPLY = ApprovalReply(False, "the process that asked was gone before anybody answered", "nobody")


class ApprovalRequests:
    """Questions to a person in one workspace, one call at a time."""

    def __init__(self, questions: QuestionStore, recorder: Recorder, environment: Environment) -> None:
        self.questions = questions
        self.recorder = recorder
        self.environment = environment

    def apply_risk_threshold(self, decision: Decision, call: ToolCall, facts: Facts, rules: Rules) -> Decision:
        """Return the decision, turned into a question if its risk reaches `approvals.threshold`."""
        threshold = rules.config.approvals.threshold
        if threshold is None or decision.verdict not in ("allow", "contain") or decision.call_class != "destructive":
            return decision
        return apply_threshold(decision, call, facts, threshold, self.assess_risk(call, decision, facts))

    def assess_risk(self, call: ToolCall, decision: Decision, facts: Facts) -> tuple[int, tuple[str, ...]]:
        """Return the risk of the call and the reasons.

        A file tool's targets are saved beforehand; a command's effects are unknown.
        """
        familiar = self.find_familiar_folders(facts.session.intent_id) if facts.targets else None
        return weigh_risk(
            call, decision, facts, RiskContext(contents_kept=not call.whole_workspace, familiar_folders=familiar)
        )

    def find_familiar_folders(self, intent_id: str | None) -> frozenset[str] | None:
        """Return the folders changed under the intent; None without an intent or without a usable index."""
        if intent_id is None:
            return None
        workspace = self.recorder.workspace
        try:
            with open_index(workspace.state, workspace.log_folder) as index:
                found = index.find(event="mutation", intent_id=intent_id, limit=MAX_FAMILIAR_RECORDS)
        except (sqlite3.Error, OSError, LedgerError):
            return None
        return frozenset(
            parent_folder(str(file.get("path", ""))) for record in found for file in record.get("files", [])
        )

    def ask_person(self, call: ToolCall, facts: Facts, decision: Decision, rules: Rules) -> ApprovalReply | None:
        """Return a person's answer to a denial; None if the denial cannot be waived or no person is present.

        A late yes to the same call is used up now, without a second question.
        """
        finding = decision.leading
        if finding is None or decision.effect in ("allow", "contain") or not is_waivable(decision, rules):
            return None
        self.close_orphaned_questions(rules)
        digest = question_digest(call, facts, decision)
        earlier = self.questions.take_late_approval(digest)
        if earlier is not None:
            return earlier
        if not self.questions.is_watcher_present():
            return None
        question = self.make_question(call, facts, decision, finding, rules)
        self.questions.put_question(question, digest)
        detail: dict[str, object] = {"risk": question.risk, "reasons": list(question.reasons)}
        self.recorder.append([self.make_record("approval_requested", question, detail)])
        reply = self.questions.wait_for_reply(question, self.environment.release_lock)
        if reply is None:
            reply = CLIENT_GONE_REPLY if CLIENT_GONE.get()() else NOBODY_REPLY
        self.record_answer(question, reply, rules)
        return reply

    def make_question(
        self, call: ToolCall, facts: Facts, decision: Decision, finding: Finding, rules: Rules
    ) -> Question:
        now = self.environment.clock()
        weight, reasons = self.assess_risk(call, decision, facts)
        return Question(
            id=make_uuid7(int(now * 1000), os.urandom(10)),
            session_id=call.session.session_id,
            agent=call.agent,
            intent_id=facts.session.intent_id,
            code=finding.code,
            action=describe_call(call),
            message=finding.message,
            path=find_subject_path(call, facts, finding),
            risk=weight,
            reasons=reasons,
            asked_at=now,
            expires_at=now + (rules.config.approvals.timeout_s or QUESTION_TIMEOUT_S) - self.environment.waited_s,
            tool=call.tool,
            call_id=call.call_id,
            arguments_sha256=call.arguments_sha256,
            is_command=call.command is not None,
            diff=format_diff(propose_contents(call, facts.targets, self.recorder.workspace)),
            prefix=drop_secret_prefix(propose_prefix(call.command)) if call.command is not None else (),
        )

    def close_orphaned_questions(self, rules: Rules) -> None:
        """Close questions whose asking process has ended, and record each outcome.

        Closing and recording share one transaction: a failed record leaves the question open for the next caller.
        """
        if not self.questions.find_orphans():
            return
        with self.questions.state.group_changes():
            ended = self.questions.close_orphans()
            self.recorder.append(
                [self.make_answer_record(question, reply or CLIENT_GONE_REPLY, rules) for question, reply in ended]
            )

    def record_answer(self, question: Question, reply: ApprovalReply, rules: Rules) -> None:
        self.recorder.append([self.make_answer_record(question, reply, rules)])

    def make_answer_record(self, question: Question, reply: ApprovalReply, rules: Rules) -> Record:
        """Return the record of an answer, and store the grant of a yes with a wider extent."""
        grant = self.make_grant(question, reply, rules) if reply.allow and reply.extent != "once" else None
        if grant is not None:
            self.store_grant(grant, rules)
        detail: dict[str, object] = {
            "by": reply.by,
            "answer": "allow" if reply.allow else "deny",
            "extent": grant.extent if grant else "once",
            "words": sanitise_line(redact(reply.words), 500),
            "grant": {"id": grant.id, "extent": grant.extent, "rule": grant.rule} if grant else None,
        }
        return self.make_record("approval_answered", question, detail)

    def store_grant(self, grant: Grant, rules: Rules) -> None:
        """Store a grant: a project grant in `remit.toml` if the file is writable, any other in the state."""
        if grant.extent == "project":
            with suppress(*GRANT_WRITE_ERRORS):
                ProjectGrants(self.recorder.workspace, self.questions.state).add_grant(grant, rules)
                return
        self.questions.put_grant(grant)

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
        body = Body(
            event=event,
            intent_id=question.intent_id,
            session_id=question.session_id,
            call=call,
            detail={"approval": {**about, **detail}},
        )
        return self.recorder.make_record(body, question.agent)

    def make_grant(self, question: Question, reply: ApprovalReply, rules: Rules) -> Grant | None:
        """Return the grant that a yes implies; None if the question allows no wider yes."""
        try:
            rule = make_rule(question.subject, reply.extent, reply.pattern)
        except GrantRuleError:
            return None
        until = self.environment.clock() + rules.config.approvals.grant_hours * 3600
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


def find_subject_path(call: ToolCall, facts: Facts, finding: Finding) -> str | None:
    """Return the path a wider yes would cover: the finding's path, or the first path of a file tool."""
    targets = target_paths(facts) if call.command is None else ()
    return finding.path or next(iter(targets), None)


def format_diff(files: Sequence[ProposedFile]) -> str:
    """Return the proposed changes as a truncated diff without secrets; "" if the contents are unknown."""
    found: list[str] = []
    for file in files:
        if not file.known or is_secret_file(file.path):
            continue
        before, after = ((side or b"").decode("utf-8", "replace") for side in (file.before, file.after))
        sides = (before[:MAX_DIFFED_CHARS].splitlines(), after[:MAX_DIFFED_CHARS].splitlines())
        found += [*([f"@@ {file.path}"] if len(files) > 1 else []), *[*unified_diff(*sides, lineterm="", n=2)][2:]]
    lines = [sanitise_line(redact(line), 200) for line in found[:MAX_REDACTED_LINES]]
    more = [f"… and {len(lines) - MAX_SHOWN_DIFF_LINES} lines more"] if len(lines) > MAX_SHOWN_DIFF_LINES else []
    return "\n".join((*lines[:MAX_SHOWN_DIFF_LINES], *more))


def drop_secret_prefix(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words, or none if a word looks like a secret: a rule must not store secrets."""
    return words if all(redact(word) == word for word in words) else ()


def question_digest(call: ToolCall, facts: Facts, decision: Decision) -> str:
    """Return a digest that is equal for equal questions: session, tool, arguments, folder, intent, objections,
    contents.
    """
    parts = (
        *(call.agent, call.session, call.tool, call.cwd, call.command, call.paths, call.arguments_sha256),
        *(facts.session.intent_id, tuple(f.code for f in decision.findings), target_contents(facts)),
    )
    return sha256(repr(parts).encode("utf-8", "backslashreplace"))


def is_waivable(decision: Decision, rules: Rules) -> bool:
    """Return True if every finding only asks or is listed in `overrides`."""
    overrides = rules.config.overrides
    return all(
        f.verdict == "ask" or f.context.get("lasting") or f.code in overrides for f in blocking_findings(decision)
    )


def add_reply(decision: Decision, reply: ApprovalReply) -> Decision:
    """Return the denial with the person's answer, and without the hint to ask them again."""
    leading = decision.leading
    if leading is None:
        return decision
    words = f": {sanitise_line(reply.words)}" if reply.words else "."
    answer = "The person was asked and said no" if reply.by != "nobody" else "The person was asked"
    answered = replace(
        leading, message=f"{leading.message} {answer}{words}", context={**leading.context, REFUSED_BY_PERSON: True}
    )
    return replace(decision, findings=tuple(answered if f is leading else f for f in decision.findings))


def describe_call(call: ToolCall) -> str:
    """Return the call as text without secrets; a long text is shortened in the middle and identified by its hash."""
    what = call.command if call.command is not None else ", ".join(call.paths)
    text = redact(f"{call.tool}: {what}")
    excess = len(text) - MAX_ACTION_CHARS
    if excess <= 0:
        return text
    missing = (
        f" [… {excess} CHARACTERS LEFT OUT HERE, sha256 {sha256(text.encode('utf-8', 'backslashreplace'))[:12]} …] "
    )
    return text[: MAX_ACTION_CHARS // 2] + missing + text[-MAX_ACTION_CHARS // 2 :]
