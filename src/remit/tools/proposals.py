"""The tools that ask a person: for an intent, and for a wider scope."""

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
"""What a question shows of an action, and a little less: nobody says yes to what they were not shown."""

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
    """The new DRAFT, or what the person said."""
    validate_scope(given.owned_scope)
    wanted = Intent(
        id="",
        owned_scope=tuple(given.owned_scope),
        name=sanitise_line(given.name, 200),
        constraints=tuple(Constraint(text) for text in given.constraints),
        acceptance_criteria=tuple(Criterion(text) for text in given.criteria),
    )
    action = f"propose_intent: {wanted.name} (owns {', '.join(given.owned_scope)})"
    scope = " ".join(f"--scope {shlex.quote(p)}" for p in given.owned_scope)
    by_hand = f"remit intent new {shlex.quote(wanted.name)} {scope}"
    question = make_question(gate, caller, "MISSING_OR_INVALID_INTENT", action, given.reason, given.owned_scope)
    reply = ask_person(gate, caller, question, "propose_intent", by_hand)
    made = gate.intents.create(wanted, by=reply.by)
    text = f"The person said yes: {made.id} is there as DRAFT. Select it with select_active_intent."
    return ToolAnswer(text, {"success": True, "intent": {"id": made.id, "status": made.status}})


def request_scope_expansion(gate: Gate, caller: Caller, given: RequestScopeExpansion) -> ToolAnswer:
    """The intent's new context, or what the person said."""
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
    now = gate.intents.get(intent.id).owned_scope
    gate.intents.edit(intent.id, {"owned_scope": tuple(dict.fromkeys((*now, *patterns)))}, by=reply.by)
    block = gate.intents.deliver_block(caller.session)
    text = f"The person said yes: {intent.id} now also owns {', '.join(patterns)}.\n{block}"
    return ToolAnswer(text, {"success": True, "added": list(patterns), "context": block})


def check_expansion(paths: Sequence[str]) -> None:
    """Raise ValueError for paths that add nothing, or that the file would refuse."""
    taken = next((path for path in paths if path.startswith("!")), None)
    if taken is not None:
        raise ValueError(f"{taken!r} takes away from the scope; expected paths to add")
    validate_scope(paths)


def make_question(
    gate: Gate, caller: Caller, code: ErrorType, action: str, reason: str, patterns: Sequence[str]
) -> Question:
    """The question. It names a path only where there is exactly one, and that is no pattern.

    Raises ValueError where a person would not see all that they are asked for.
    """
    if len(sanitise_line(action, 2 * MAX_ACTION_CHARS)) > MAX_ACTION_CHARS:
        raise ValueError(f"that is too long for one question ({MAX_ACTION_CHARS} characters); ask for less")
    now = gate.environment.clock()
    literal = len(patterns) == 1 and not GLOB_CHARS & set(patterns[0])
    grave = [path for path in patterns if is_sensitive_path(path)]
    first = ["it widens what an agent may change"] if patterns else []
    reasons = (*first, *(f"{sanitise_line(p, 80)} is security- or release-relevant" for p in grave))
    return Question(
        id=make_uuid7(int(now * 1000), os.urandom(10)),
        session_id=caller.session.session_id,
        agent=caller.agent,
        intent_id=gate.state.active_session(caller.session).intent_id,
        code=code,
        action=redact(sanitise_line(action, MAX_ACTION_CHARS)),
        message=redact(sanitise_line(reason, 500)),
        path=patterns[0] if literal else None,
        risk=40 if grave else 20,
        reasons=reasons[:2],
        asked_at=now,
        expires_at=now + (gate.rules.config.approvals.timeout_s or QUESTION_TIMEOUT_S),
    )


def ask_person(gate: Gate, caller: Caller, question: Question, tool: str, by_hand: str) -> ApprovalReply:
    """The person's yes. Raises Refused for a no, and where nobody can answer; NeedsPerson where the agent asks for us.

    A terminal that watches is asked rather than the agent: nothing but a person can answer there.
    """
    said = caller.dialog_answer
    if said is not None and (said.question.action, said.question.code) == (question.action, question.code):
        if said.reply is not None:
            return require_yes(gate, caller, said.question, said.reply, tool)
        record_answer(gate, caller, said.question, NOBODY_REPLY)
        raise nobody_there_refusal(question, tool, by_hand)
    detail: dict[str, object] = {"rule": question.code, "risk": question.risk}
    if gate.questions.is_watcher_present():
        gate.questions.put_question(question)
        record_question(gate, caller, question, "approval_requested", detail)
        return require_yes(
            gate, caller, question, gate.questions.wait_for_reply(question, gate.environment.release_lock), tool
        )
    if caller.has_dialog:
        record_question(gate, caller, question, "approval_requested", {**detail, "through": "elicitation"})
        raise NeedsPerson(caller, question)
    raise nobody_there_refusal(question, tool, by_hand)


def nobody_there_refusal(question: Question, tool: str, by_hand: str) -> IntentRefused:
    """The refusal where no person can be asked, and what one can do."""
    return make_refusal(
        "USER_REJECTED",
        f"Nobody is there to be asked. Ask the person in your answer; they can run `{by_hand}` themselves, "
        "or start `remit approvals watch` in a terminal before you call this again.",
        tool,
        question.intent_id,
    )


def require_yes(
    gate: Gate, caller: Caller, question: Question, reply: ApprovalReply | None, tool: str
) -> ApprovalReply:
    """The yes, recorded. Raises Refused for anything else."""
    reply = reply or NOBODY_REPLY
    record_answer(gate, caller, question, reply)
    if not reply.allow:
        words = f": {sanitise_line(reply.words)}" if reply.words else ""
        raise make_refusal("USER_REJECTED", f"The person was asked and said no{words}.", tool, question.intent_id)
    return reply


def record_answer(gate: Gate, caller: Caller, question: Question, reply: ApprovalReply) -> None:
    """Record the answer."""
    said = {
        "by": reply.by,
        "answer": "allow" if reply.allow else "deny",
        "words": sanitise_line(redact(reply.words), 500),
    }
    record_question(gate, caller, question, "approval_answered", {**said, "grant": None})


def ask_to_vouch(gate: Gate, caller: Caller, intent_id: str) -> bool:
    """Whether a person says that the criteria are met whose commands nobody may run here.

    False where there are none, or where nobody can be asked: completing is then refused, with its reason. Raises
    Refused where they say no.
    """
    intent = gate.intents.find_intent(intent_id)
    unrun = (
        gate.completion.find_unrun_criteria(intent)
        if intent and gate.state.active_session(caller.session).intent_id == intent_id
        else []
    )
    if intent is None or not unrun or gate.completion.find_obstacles(intent, vouched=True):
        return False
    if not (caller.has_dialog or caller.dialog_answer or gate.questions.is_watcher_present()):
        return False
    action = f"complete_intent: {intent_id} is done, and these criteria are met: {'; '.join(unrun)}"
    reason = "their commands were not run, because no person has trusted them on this machine"
    question = make_question(gate, caller, "MISSING_OR_INVALID_INTENT", action, reason, ())
    by_hand = f"remit intent set-status {intent_id} DONE"
    return ask_person(gate, caller, question, "complete_intent", by_hand).allow


def record_question(
    gate: Gate, caller: Caller, question: Question, event: EventName, detail: dict[str, object]
) -> None:
    """A record about the question."""
    body = Body(
        event=event,
        intent_id=question.intent_id,
        session_id=question.session_id,
        detail={"approval": {"id": question.id, "action": question.action[:500], **detail}},
    )
    gate.recorder.append([gate.recorder.make_record(body, caller.agent)])
