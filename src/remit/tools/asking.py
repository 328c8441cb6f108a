"""Questions of agent-facing tools to a person: by a watching terminal or page first, else by the agent's own dialog."""

import os
from collections.abc import Sequence

from msgspec import to_builtins
from msgspec.structs import replace

from remit.core.decision import ErrorType
from remit.core.record import Body, EventName, make_uuid7
from remit.core.redaction import redact
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.intents.intents import SelectedIntent
from remit.gate.intents.refusals import SWITCH_CODE, SwitchRefused, make_refusal
from remit.gate.people.answer import choose_typed_word, find_dialog_limit
from remit.gate.people.ask import NOBODY_REPLY, QUESTION_TIMEOUT_S
from remit.gate.people.questions import ApprovalReply, Question
from remit.policy.risk import is_sensitive_path
from remit.tools.agent_tool import Caller, NeedsPerson

MAX_ACTION_CHARS = 480
"""Slightly less than a question shows of an action: people approve only text they have seen."""

GLOB_CHARS = frozenset("*?[{!\\")

NOBODY_THERE = (
    "Nobody is there to be asked. Ask the person in your answer; they can run `{command}` themselves, or start `remit "
    "approvals watch` in a terminal before you call this again."
)


def make_question(
    gate: Gate, caller: Caller, code: ErrorType, action: str, reason: str, patterns: Sequence[str]
) -> Question:
    """Return the question; its path is set for exactly one path without a pattern.

    Raises ValueError if a person could not see the whole request.
    """
    if len(sanitise_line(action, 2 * MAX_ACTION_CHARS)) > MAX_ACTION_CHARS:
        raise ValueError(f"that is too long for one question ({MAX_ACTION_CHARS} characters); ask for less")
    now = gate.environment.clock.now()
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
    dialog = caller.dialog_answer
    detail: dict[str, object] = {"rule": question.code, "risk": question.risk}
    reply: ApprovalReply | None = None
    if dialog is not None and (dialog.question.action, dialog.question.code) == (question.action, question.code):
        question, reply = dialog.question, dialog.reply
        typed = choose_typed_word(question)
        if reply is not None and reply.allow and typed and reply.words.strip() != typed:
            reply = replace(reply, allow=False, words=f"a yes to this takes the word {typed}, typed beside it")
    elif gate.questions.is_watcher_present(question.session_id):
        gate.questions.put_question(question)
        record_question(gate, caller, question, "approval_requested", detail)
        reply = gate.questions.wait_for_reply(question, gate.environment.release_lock) or NOBODY_REPLY
    elif caller.has_dialog:
        if caller.dialog_name == "agent dialog" and (why := find_dialog_limit(question)):
            absent = describe_absence(replace(caller, why_no_dialog=why), command)
            raise make_refusal("USER_REJECTED", absent, tool, question.intent_id)
        record_question(gate, caller, question, "approval_requested", {**detail, "through": caller.dialog_name})
        raise NeedsPerson(caller, question)
    else:
        raise make_refusal("USER_REJECTED", describe_absence(caller, command), tool, question.intent_id)
    given = reply or NOBODY_REPLY
    words = sanitise_line(redact(given.words), 500)
    answered: dict[str, object] = {
        "by": given.by,
        "answer": "allow" if given.allow else "deny",
        "words": words,
        "grant": None,
        "tool": tool,
        **({"through": given.through} if given.through else {}),
        **({"who": to_builtins(given.who)} if given.who is not None else {}),
    }
    if question.proposal is not None and given.allow:
        answered["scope"] = list(given.scope or question.proposal.scope)
        answered["trusted"] = [redact(command) for command in question.proposal.untrusted]
    record_question(gate, caller, question, "approval_answered", answered)
    if reply is None:
        raise make_refusal("USER_REJECTED", describe_absence(caller, command), tool, question.intent_id)
    if not reply.allow:
        said = f": {sanitise_line(reply.words)}" if reply.words else ""
        raise make_refusal("USER_REJECTED", f"The person was asked and said no{said}.", tool, question.intent_id)
    return reply


def describe_absence(caller: Caller, command: str) -> str:
    why = f" ({caller.agent}'s own dialog cannot ask: {caller.why_no_dialog}.)" if caller.why_no_dialog else ""
    return f"{NOBODY_THERE.format(command=command)}{why}"


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


def can_reach_person(gate: Gate, caller: Caller) -> bool:
    watched = gate.questions.is_watcher_present(caller.session.session_id)
    return caller.has_dialog or caller.dialog_answer is not None or watched


def select_for_agent(
    gate: Gate, caller: Caller, intent_id: str, tool: str, reasoning: str = "", expected: Sequence[str] = ()
) -> SelectedIntent:
    """Select an intent for an agent's session; a person is asked about one that owns what the session was refused.
    Raises IntentRefused; NeedsPerson to use the agent's dialog.
    """
    try:
        return gate.intents.select(
            caller.session, caller.agent, intent_id, reasoning=reasoning, expected=expected, tool=tool
        )
    except SwitchRefused as refused:
        if not can_reach_person(gate, caller):
            raise
        action = f"switch to {intent_id}: {refused.what}"
        question = make_question(gate, caller, SWITCH_CODE, action, reasoning or "none was given", ())
        reply = ask_person(gate, caller, question, tool, f"remit intent select {intent_id}")
    return gate.intents.select(
        caller.session, caller.agent, intent_id, reasoning=reasoning, expected=expected, tool=tool, said_by=reply.by
    )
