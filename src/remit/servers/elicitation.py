"""Questions to a person through the agent, by MCP elicitation: a form shown by the client.

A client could answer by itself. Elicitation is therefore used only for agents whose row promises that a person sees the
form, for calls announced by the agent's hook, and if the parent process of this server is that agent. A deceptive
program of the same user can still answer; such an answer is recorded as `elicitation`.
"""

import os
import secrets
from typing import Any

import anyio
import mcp_types as types
from mcp.server.session import ServerSession
from mcp.shared.exceptions import MCPError
from msgspec import Struct

from remit.adapters import ROWS
from remit.core.call import hash_arguments
from remit.core.display_text import sanitise_line
from remit.gate.state.questions import ApprovalReply, Question
from remit.tools.result import Caller, DialogAnswer, NeedsPerson
from remit.workspace.processes.process_info import program_name, read_process

REQUEST_KEY = "person"
"""Name of the only input request."""

ANSWER_FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "enum": ["no", "yes"], "title": "May the agent do this?"},
        "words": {"type": "string", "title": "Why not, or what instead", "maxLength": 500},
    },
    "required": ["answer"],
}
DECLINED_REASON = "the dialog was declined, or the agent did not show it"
MAX_WAITING_CALLS = 64
"""Calls that may wait for an answer."""


class WaitingCall(Struct, frozen=True):
    """Call that waits for the client's answer. `digest` covers the tool and its arguments."""

    caller: Caller
    question: Question
    digest: str


class Elicitations:
    """Calls of one connection that wait for a person."""

    def __init__(self) -> None:
        self.waiting_calls: dict[str, WaitingCall] = {}

    def request_answer(self, needed: NeedsPerson, name: str, arguments: dict[str, Any]) -> types.InputRequiredResult:
        """Ask the client for an answer and a repeated call: since 2026-07-28 servers send no requests of their own."""
        while len(self.waiting_calls) >= MAX_WAITING_CALLS:
            self.waiting_calls.pop(next(iter(self.waiting_calls)))
        token = secrets.token_urlsafe(18)
        self.waiting_calls[token] = WaitingCall(needed.caller, needed.question, digest_call(name, arguments))
        form = types.ElicitRequestFormParams(message=format_question(needed.question), requested_schema=ANSWER_FORM)
        return types.InputRequiredResult(
            input_requests={REQUEST_KEY: types.ElicitRequest(params=form)}, request_state=token
        )

    def resume_call(self, params: types.CallToolRequestParams, now: float) -> Caller | None:
        """Return the caller with the person's answer if this call repeats a waiting one; each waiting call resumes
        once.
        """
        held = self.waiting_calls.pop(params.request_state, None) if params.request_state else None
        if held is None or held.digest != digest_call(params.name, params.arguments or {}):
            return None
        if now >= held.question.expires_at:
            return add_reply(held.caller, held.question, None)
        result = (params.input_responses or {}).get(REQUEST_KEY)
        reply = parse_reply(result) if isinstance(result, types.ElicitResult) else None
        return add_reply(held.caller, held.question, reply)


async def elicit_answer(session: ServerSession, question: Question, seconds: float) -> ApprovalReply | None:
    """Return the answer over a connection that takes requests; None without an answer or support."""
    with anyio.move_on_after(seconds):
        try:
            return parse_reply(await session.elicit_form(format_question(question), ANSWER_FORM))
        except (MCPError, ValueError):  # it said no to the question itself, or answered in another shape
            return None
    return None


def parse_reply(result: types.ElicitResult) -> ApprovalReply | None:
    """Return the person's reply; None if undecided."""
    content = result.content or {}
    words = str(content.get("words") or "")
    if result.action == "accept" and content.get("answer") in ("yes", "no"):
        return ApprovalReply(content["answer"] == "yes", words, by="elicitation")
    return ApprovalReply(False, DECLINED_REASON, by="elicitation") if result.action == "decline" else None


def add_reply(caller: Caller, question: Question, reply: ApprovalReply | None) -> Caller:
    return Caller(caller.session, caller.agent, caller.has_dialog, DialogAnswer(question, reply))


def format_question(question: Question) -> str:
    reasons = f" ({'; '.join(question.reasons)})" if question.reasons else ""
    return (
        f"Remit asks for the agent {sanitise_line(question.agent, 60)}: {sanitise_line(question.action, 480)}\n"
        f"Its reason: {sanitise_line(question.message, 500)}\nRisk {question.risk} of 100{reasons}."
    )


def digest_call(name: str, arguments: dict[str, Any]) -> str:
    return hash_arguments([name, hash_arguments(arguments)])


def can_show_forms(agent: str, capabilities: types.ClientCapabilities | None) -> bool:
    """Return True if a form reaches a person: the client supports forms, and is an agent that shows them."""
    row = ROWS.get(agent)
    declared = capabilities.elicitation if capabilities else None
    if row is None or not row.shows_forms or declared is None or (declared.url and not declared.form):
        return False
    parent = read_process(os.getppid())
    return parent is not None and program_name(parent.argv) == row.binary
