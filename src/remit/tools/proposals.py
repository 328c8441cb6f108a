"""The tools that ask a person: for a new intent, or a wider scope."""

import os
import shlex
from collections.abc import Sequence

from msgspec import Struct

from remit.core.decision import ErrorType
from remit.core.display_text import sanitise_line
from remit.core.ids import make_uuid7
from remit.core.intent import Constraint, Criterion, Intent
from remit.core.record import Body, EventName
from remit.core.secrets.redaction import redact
from remit.gate.approvals.ask import NOBODY_REPLY, QUESTION_TIMEOUT_S
from remit.gate.gate import Gate
from remit.gate.intents.refusals import IntentRefused, make_refusal, validate_scope
from remit.gate.state.questions import ApprovalReply, Question
from remit.policy.approval.risk import is_sensitive_path
from remit.tools.result import Caller, NeedsPerson, ToolAnswer, ToolText

MAX_ACTION_CHARS = 480
"""Slightly less than a question shows of an action: people approve only text they have seen."""

GLOB_CHARS = frozenset("*?[{!\\")


class ProposeIntent(Struct, frozen=True, forbid_unknown_fields=True):
    """Propose a new intent to the person, where no existing one covers the work. It is made only if they say yes."""

    name: ToolText
    owned_scope: list[ToolText]
    reason: ToolText
    constraints: list[ToolText] = []
    criteria: list[ToolText] = []


class RequestScopeExpansion(Struct, frozen=True, forbid_unknown_fields=True):
    """Ask the person to add files to the active intent's owned_scope. Nothing changes unless they say yes."""

    paths: list[ToolText]
    reason: ToolText


def propose_intent(gate: Gate, caller: Caller, given: ProposeIntent) -> ToolAnswer:
    validate_scope(given.owned_scope)
    proposal = Intent(
        id="",
        owned_scope=tuple(given.owned_scope),
        name=sanitise_line(given.name, 200),
        constraints=tuple(Constraint(text) for text in given.constraints),
        acceptance_criteria=tuple(Criterion(text) for text in given.criteria),
    )
    action = f"propose_intent: {proposal.name} (owns {', '.join(given.owned_scope)})"
    scope = " ".join(f"--scope {shlex.quote(p)}" for p in given.owned_scope)
    command = f"remit intent new {shlex.quote(proposal.name)} {scope}"
    question = make_question(gate, caller, "MISSING_OR_INVALID_INTENT", action, given.reason, given.owned_scope)
    reply = ask_person(gate, caller, question, "propose_intent", command)
    created = gate.intents.create(proposal, by=reply.by)
    text = f"The person said yes: {created.id} is there as DRAFT. Select it with select_active_intent."
    return ToolAnswer(text, {"success": True, "intent": {"id": created.id, "status": created.status}})


def request_scope_expansion(gate: Gate, caller: Caller, given: RequestScopeExpansion) -> ToolAnswer:
    tool = "request_scope_expansion"
    intent = gate.intents.find_intent(gate.state.active_session(caller.session).intent_id)
    if intent is None:
        raise make_refusal("MISSING_OR_INVALID_INTENT", "No intent is active: select one first.", tool, None)
    check_expansion(given.paths)
    action = f"{tool}: add {', '.join(given.paths)} to the scope of {intent.id}"
    added = " ".join(f"--add-scope {shlex.quote(p)}" for p in given.paths)
    question = make_question(gate, caller, "SCOPE_VIOLATION", action, given.reason, given.paths)
    reply = ask_person(gate, caller, question, tool, f"remit intent edit {intent.id} {added}")
    patterns = [reply.pattern] if reply.pattern else given.paths
    validate_scope(patterns)
    owned = gate.intents.get(intent.id).owned_scope  # may have changed while the person thought
    gate.intents.edit(intent.id, {"owned_scope": tuple(dict.fromkeys((*owned, *patterns)))}, by=reply.by)
    block = gate.intents.deliver_block(caller.session)
    text = f"The person said yes: {intent.id} now also owns {', '.join(patterns)}.\n{block}"
    return ToolAnswer(text, {"success": True, "added": list(patterns), "context": block})


def check_expansion(paths: Sequence[str]) -> None:
    """Raise ValueError for exclusions and for paths that the intents file would refuse."""
    exclusion = next((path for path in paths if path.startswith("!")), None)
    if exclusion is not None:
        raise ValueError(f"{exclusion!r} takes away from the scope; expected paths to add")
    validate_scope(paths)


def make_question(
    gate: Gate, caller: Caller, code: ErrorType, action: str, reason: str, patterns: Sequence[str]
) -> Question:
    """Return the question; its path is set for exactly one path without a pattern.

    Raises ValueError if a person could not see the whole request.
    """
    if len(sanitise_line(action, 2 * MAX_ACTION_CHARS)) > MAX_ACTION_CHARS:
        raise ValueError(f"that is too long for one question ({MAX_ACTION_CHARS} characters); ask for less")
    now = gate.environment.clock()
    is_literal = len(patterns) == 1 and not GLOB_CHARS & set(patterns[0])
    sensitive = [path for path in patterns if is_sensitive_path(path)]
    reasons = ["it widens what an agent may change"] if patterns else []
    reasons += [f"{sanitise_line(path, 80)} is security- or release-relevant" for path in sensitive]
    return Question(
        id=make_uuid7(int(now * 1000), os.urandom(10)),
        session_id=caller.session.session_id,
        agent=caller.agent,
        intent_id=gate.state.active_session(caller.session).intent_id,
        code=code,
        action=redact(sanitise_line(action, MAX_ACTION_CHARS)),
        message=redact(sanitise_line(reason, 500)),
        path=patterns[0] if is_literal else None,
        risk=40 if sensitive else 20,
        reasons=tuple(reasons[:2]),
        asked_at=now,
        expires_at=now + (gate.rules.config.approvals.timeout_s or QUESTION_TIMEOUT_S),
    )


def ask_person(gate: Gate, caller: Caller, question: Question, tool: str, command: str) -> ApprovalReply:
    """Return the person's approval. Raises IntentRefused without a yes; NeedsPerson to use the agent's dialog.

    A watching terminal is asked before the agent: only a person can answer there. `command` does the same by hand.
    """
    answer = caller.dialog_answer
    if answer is not None and (answer.question.action, answer.question.code) == (question.action, question.code):
        if answer.reply is not None:
            return require_yes(gate, caller, answer.question, answer.reply, tool)
        record_answer(gate, caller, answer.question, NOBODY_REPLY)
        raise nobody_there_refusal(question, tool, command)
    detail: dict[str, object] = {"rule": question.code, "risk": question.risk}
    if gate.questions.is_watcher_present():
        gate.questions.put_question(question)
        record_question(gate, caller, question, "approval_requested", detail)
        reply = gate.questions.wait_for_reply(question, gate.environment.release_lock)
        return require_yes(gate, caller, question, reply or NOBODY_REPLY, tool)
    if caller.has_dialog:
        record_question(gate, caller, question, "approval_requested", {**detail, "through": "elicitation"})
        raise NeedsPerson(caller, question)
    raise nobody_there_refusal(question, tool, command)


def nobody_there_refusal(question: Question, tool: str, command: str) -> IntentRefused:
    return make_refusal(
        "USER_REJECTED",
        f"Nobody is there to be asked. Ask the person in your answer; they can run `{command}` themselves, "
        "or start `remit approvals watch` in a terminal before you call this again.",
        tool,
        question.intent_id,
    )


def require_yes(gate: Gate, caller: Caller, question: Question, reply: ApprovalReply, tool: str) -> ApprovalReply:
    """Record the answer and return it if yes. Raises IntentRefused for any other answer."""
    record_answer(gate, caller, question, reply)
    if not reply.allow:
        words = f": {sanitise_line(reply.words)}" if reply.words else ""
        raise make_refusal("USER_REJECTED", f"The person was asked and said no{words}.", tool, question.intent_id)
    return reply


def record_answer(gate: Gate, caller: Caller, question: Question, reply: ApprovalReply) -> None:
    answer = "allow" if reply.allow else "deny"
    words = sanitise_line(redact(reply.words), 500)
    detail: dict[str, object] = {"by": reply.by, "answer": answer, "words": words, "grant": None}
    record_question(gate, caller, question, "approval_answered", detail)


def ask_to_vouch(gate: Gate, caller: Caller, intent_id: str) -> bool:
    """Return whether a person confirms the criteria whose commands may not run here.

    False without such criteria or without a person: completion then gives its reason. Raises IntentRefused on a no.
    """
    intent = gate.intents.find_intent(intent_id)
    if intent is None or gate.state.active_session(caller.session).intent_id != intent_id:
        return False
    criteria = gate.completion.find_unrun_criteria(intent)
    if not criteria or gate.completion.find_obstacles(intent, vouched=True):
        return False
    if not (caller.has_dialog or caller.dialog_answer or gate.questions.is_watcher_present()):
        return False
    action = f"complete_intent: {intent_id} is done, and these criteria are met: {'; '.join(criteria)}"
    reason = "their commands were not run, because no person has trusted them on this machine"
    question = make_question(gate, caller, "MISSING_OR_INVALID_INTENT", action, reason, ())
    command = f"remit intent set-status {intent_id} DONE"
    return ask_person(gate, caller, question, "complete_intent", command).allow


def record_question(
    gate: Gate, caller: Caller, question: Question, event: EventName, detail: dict[str, object]
) -> None:
    body = Body(
        event=event,
        intent_id=question.intent_id,
        session_id=question.session_id,
        detail={"approval": {"id": question.id, "action": question.action[:500], **detail}},
    )
    gate.recorder.append([gate.recorder.make_record(body, caller.agent)])
