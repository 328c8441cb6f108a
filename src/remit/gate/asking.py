"""Putting a call to a person, where one can answer: for this once, or for more."""

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from difflib import unified_diff

from msgspec import UNSET
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.contents import sha256
from remit.core.decision import Decision, Finding
from remit.core.edits import Proposed
from remit.core.facts import Facts
from remit.core.grant import Grant
from remit.core.identifiers import uuid7
from remit.core.record import Body, CallPart, Record
from remit.core.redaction import redact
from remit.core.secret_files import names_a_secret
from remit.core.text import shown
from remit.gate import asker
from remit.gate.approvals import Approvals, Question, Reply
from remit.gate.constraining import proposals
from remit.gate.environment import Environment
from remit.gate.governing import Governing
from remit.gate.project_grants import CannotWrite, ProjectGrants
from remit.gate.recorder import Recorder
from remit.ledger.index import Index
from remit.ledger.segments import LedgerError
from remit.policy.commands.prefix import proposed_prefix
from remit.policy.engine import about
from remit.policy.grants import RuleRefused, rule_for, touched
from remit.policy.lasting import holding
from remit.policy.risk import Around, folder, risk
from remit.policy.threshold import weighed
from remit.policy.violations import SAID_NO

TIMEOUT_S = 590.0
"""How long a question waits: below every wired agent's own time-out, since all of them run the tool when it is over."""

ACTION_CHARS = 2000
RECORDED_CHARS = 500
DIFF_LINES = 40
MOST_LINES = 2000
SEEN_CHARS = 64 * 1024
FAMILIAR_RECORDS = 200
"""The newest changes of an intent that tell where it has been before."""

NOBODY = Reply(False, "nobody answered in time", "nobody")
GONE = Reply(False, "the process that asked was gone before anybody answered", "nobody")


class Asking:
    """Asks about one call at a time."""

    def __init__(self, approvals: Approvals, recorder: Recorder, environment: Environment) -> None:
        self.approvals = approvals
        self.recorder = recorder
        self.environment = environment

    def weighed(self, decision: Decision, call: ToolCall, facts: Facts, rules: Governing) -> Decision:
        """The decision, with the yes that `approvals.threshold` asks for where nothing else stops the call."""
        threshold = rules.config.approvals.threshold
        if threshold is None or decision.verdict not in ("allow", "contain") or decision.call_class != "destructive":
            return decision
        return weighed(decision, call, facts, threshold, self.risk(call, decision, facts))

    def risk(self, call: ToolCall, decision: Decision, facts: Facts) -> tuple[int, tuple[str, ...]]:
        """What the call could cost. What a file tool names is kept before it runs; of a command nobody knows."""
        familiar = self.familiar(facts.session.intent_id) if facts.targets else None
        return risk(call, decision, facts, Around(kept=not call.whole_workspace, familiar=familiar))

    def familiar(self, intent_id: str | None) -> frozenset[str] | None:
        """The folders that the intent has changed; None without one, or where the index cannot be used."""
        if intent_id is None:
            return None
        workspace = self.recorder.workspace
        try:
            with Index.open(workspace.state / "index.db", workspace.log_folder) as index:
                found = index.find(event="mutation", intent_id=intent_id, limit=FAMILIAR_RECORDS)
        except (sqlite3.Error, OSError, LedgerError):
            return None
        return frozenset(folder(str(file.get("path", ""))) for record in found for file in record.get("files", []))

    def ask(self, call: ToolCall, facts: Facts, decision: Decision, rules: Governing) -> Reply | None:
        """A person's answer to this denial; None where it is none that a person may waive, or nobody is there.

        A yes that came too late for the same call before is used up now, and nobody is asked again.
        """
        finding = decision.leading
        if finding is None or decision.effect in ("allow", "contain") or not may_be_waived(decision, rules):
            return None
        self.close_orphans(rules)
        digest = call_digest(call, facts, decision)
        earlier = self.approvals.take_late_yes(digest)
        if earlier is not None:
            return earlier
        if not self.approvals.somebody_there():
            return None
        question = self.question(call, facts, decision, finding, rules)
        self.approvals.ask(question, digest)
        self.requested(question)
        reply = self.approvals.wait(question, self.environment.unlocked) or (GONE if asker.GONE.get()() else NOBODY)
        self.answered(question, reply, rules)
        return reply

    def question(
        self, call: ToolCall, facts: Facts, decision: Decision, finding: Finding, rules: Governing
    ) -> Question:
        """The question, as a person sees it."""
        now = self.environment.clock()
        weight, reasons = self.risk(call, decision, facts)
        return Question(
            id=uuid7(int(now * 1000), os.urandom(10)),
            session_id=call.session.session_id,
            agent=call.agent,
            intent_id=facts.session.intent_id,
            code=finding.code,
            action=action(call),
            message=finding.message,
            path=subject_path(call, facts, finding),
            risk=weight,
            reasons=reasons,
            asked_at=now,
            expires_at=now + (rules.config.approvals.timeout_s or TIMEOUT_S) - self.environment.waited_s,
            tool=call.tool,
            call_id=call.call_id,
            arguments_sha256=call.arguments_sha256,
            is_command=call.command is not None,
            diff=differing(proposals(call, facts.targets, self.recorder.workspace)),
            prefix=clean(proposed_prefix(call.command)) if call.command is not None else (),
        )

    def close_orphans(self, rules: Governing) -> None:
        """Close the questions whose asker is gone, and record how each ended: here or nowhere.

        They are closed once that is in the log: what cannot be recorded now stays open for the next one.
        """
        if not self.approvals.orphans():
            return
        with self.approvals.state.together():
            ended = self.approvals.close_orphans()
            self.recorder.append([self.answer(question, reply or GONE, rules) for question, reply in ended])

    def answered(self, question: Question, reply: Reply, rules: Governing) -> None:
        """Record the answer, and keep a yes that goes further than this call."""
        self.recorder.append([self.answer(question, reply, rules)])

    def answer(self, question: Question, reply: Reply, rules: Governing) -> Record:
        """The record of an answer; a yes that goes further than this call is kept."""
        grant = self.grant(question, reply, rules) if reply.allow and reply.extent != "once" else None
        if grant is not None:
            self.keep(grant, rules)
        detail: dict[str, object] = {
            **asked_about(question),
            "by": reply.by,
            "answer": "allow" if reply.allow else "deny",
            "extent": grant.extent if grant else "once",
            "words": shown(redact(reply.words), 500),
            "grant": {"id": grant.id, "extent": grant.extent, "rule": grant.rule} if grant else None,
        }
        body = Body(
            event="approval_answered",
            intent_id=question.intent_id,
            session_id=question.session_id,
            call=call_of(question),
            detail={"approval": detail},
        )
        return self.recorder.record(body, question.agent)

    def keep(self, grant: Grant, rules: Governing) -> None:
        """Keep a yes: the project's in `remit.toml`, as far as that can be written, any other in the state."""
        if grant.extent == "project":
            with suppress(*CannotWrite):
                ProjectGrants(self.recorder.workspace, self.approvals.state).put(grant, rules)
                return
        self.approvals.put_grant(grant)

    def requested(self, question: Question) -> None:
        """Record that a person was asked."""
        detail = {**asked_about(question), "risk": question.risk, "reasons": list(question.reasons)}
        body = Body(
            event="approval_requested",
            intent_id=question.intent_id,
            session_id=question.session_id,
            call=call_of(question),
            detail={"approval": detail},
        )
        self.recorder.append([self.recorder.record(body, question.agent)])

    def grant(self, question: Question, reply: Reply, rules: Governing) -> Grant | None:
        """What a yes leaves behind; nothing where it may not go further than this call, whatever it says."""
        try:
            rule = rule_for(question.subject, reply.extent, reply.pattern)
        except RuleRefused:
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


def asked_about(question: Question) -> dict[str, object]:
    """Return what a record of the question, and of its answer, says about it. The action is without secrets."""
    about = {"id": question.id, "rule": question.code, "action": shown(question.action, RECORDED_CHARS)}
    return {**about, "message": shown(redact(question.message), RECORDED_CHARS)}


def call_of(question: Question) -> CallPart:
    """Return the call that the question is about: the record of what came of it names the same."""
    return CallPart(
        id=question.call_id or UNSET, name=question.tool, arguments_sha256=question.arguments_sha256 or UNSET
    )


def subject_path(call: ToolCall, facts: Facts, finding: Finding) -> str | None:
    """The path that a wider yes would be about: the finding's, else the first one that a file tool names."""
    named = touched(facts) if call.command is None else ()
    return finding.path or next(iter(named), None)


def differing(files: Sequence[Proposed]) -> str:
    """What would change in the files, as a diff without secrets, cut; empty where that cannot be told."""
    found: list[str] = []
    for file in files:
        if not file.known or names_a_secret(file.path):
            continue
        before, after = ((side or b"").decode("utf-8", "replace") for side in (file.before, file.after))
        sides = (before[:SEEN_CHARS].splitlines(), after[:SEEN_CHARS].splitlines())
        found += [*([f"@@ {file.path}"] if len(files) > 1 else []), *[*unified_diff(*sides, lineterm="", n=2)][2:]]
    lines = [shown(redact(line), 200) for line in found[:MOST_LINES]]
    more = [f"… and {len(lines) - DIFF_LINES} lines more"] if len(lines) > DIFF_LINES else []
    return "\n".join((*lines[:DIFF_LINES], *more))


def clean(words: tuple[str, ...]) -> tuple[str, ...]:
    """The words, unless one of them looks like a secret: then no rule is made of them."""
    return words if all(redact(word) == word for word in words) else ()


def call_digest(call: ToolCall, facts: Facts, decision: Decision) -> str:
    """What makes two calls the same question: session, tool, arguments, folder, intent, objections, contents."""
    parts = (
        *(call.agent, call.session, call.tool, call.cwd, call.command, call.paths, call.arguments_sha256),
        *(facts.session.intent_id, tuple(f.code for f in decision.findings), about(facts)),
    )
    return sha256(repr(parts).encode("utf-8", "backslashreplace"))


def may_be_waived(decision: Decision, rules: Governing) -> bool:
    """Whether every objection is one that only asks, or of a kind that the configuration lets a person waive."""
    overrides = rules.config.overrides
    return all(f.verdict == "ask" or f.context.get("lasting") or f.code in overrides for f in holding(decision))


def with_words(decision: Decision, reply: Reply) -> Decision:
    """The same denial, with what the person said about it, and without a hint to ask them the same again."""
    leading = decision.leading
    if leading is None:
        return decision
    words = f": {shown(reply.words)}" if reply.words else "."
    answer = "The person was asked and said no" if reply.by != "nobody" else "The person was asked"
    told = replace(leading, message=f"{leading.message} {answer}{words}", context={**leading.context, SAID_NO: True})
    return replace(decision, findings=tuple(told if f is leading else f for f in decision.findings))


def action(call: ToolCall) -> str:
    """The exact call in words. Of a long one the beginning and the end, and what tells it from others like it."""
    what = call.command if call.command is not None else ", ".join(call.paths)
    text = redact(f"{call.tool}: {what}")
    left = len(text) - ACTION_CHARS
    if left <= 0:
        return text
    missing = f" [… {left} CHARACTERS LEFT OUT HERE, sha256 {sha256(text.encode('utf-8', 'backslashreplace'))[:12]} …] "
    return text[: ACTION_CHARS // 2] + missing + text[-ACTION_CHARS // 2 :]
