"""Asking a person through the agent, by MCP elicitation: a form that the client shows.

A client could answer by itself. So it is used only for agents whose row says that a person sees the form, for calls
that the agent's hook announced, and where the process above this server is that agent. None of that is proof against a
program of the same user that means to deceive; what is answered there is recorded as `elicitation`.
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
from remit.core.text import shown
from remit.gate.approvals import Question, Reply
from remit.tools.result import Caller, NeedsPerson, Said
from remit.workspace.processes import look_up, program

KEY = "person"
"""What our one request is called."""

FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "answer": {"type": "string", "enum": ["no", "yes"], "title": "May the agent do this?"},
        "words": {"type": "string", "title": "Why not, or what instead", "maxLength": 500},
    },
    "required": ["answer"],
}
DECLINED = "the dialog was declined, or the agent did not show it"
MOST = 64
"""Calls that may wait for an answer."""


class Held(Struct, frozen=True):
    """A call that waits for what the client brings back. `digest` is of the tool and its arguments."""

    caller: Caller
    question: Question
    digest: str


class Dialogs:
    """The calls of one connection that wait for a person."""

    def __init__(self) -> None:
        self.held: dict[str, Held] = {}

    def hold(self, needed: NeedsPerson, name: str, arguments: dict[str, Any]) -> types.InputRequiredResult:
        """Ask the client for the answer, and to call again: connections since 2026-07-28 take no requests of ours."""
        while len(self.held) >= MOST:
            self.held.pop(next(iter(self.held)))
        token = secrets.token_urlsafe(18)
        self.held[token] = Held(needed.caller, needed.question, digest_of(name, arguments))
        form = types.ElicitRequestFormParams(message=message(needed.question), requested_schema=FORM)
        return types.InputRequiredResult(input_requests={KEY: types.ElicitRequest(params=form)}, request_state=token)

    def resumed(self, params: types.CallToolRequestParams, now: float) -> Caller | None:
        """The caller with what was said, where this is the call again that waited; it goes on once."""
        held = self.held.pop(params.request_state, None) if params.request_state else None
        if held is None or held.digest != digest_of(params.name, params.arguments or {}):
            return None
        if now >= held.question.expires_at:
            return with_said(held.caller, held.question, None)
        result = (params.input_responses or {}).get(KEY)
        reply = reply_of(result) if isinstance(result, types.ElicitResult) else None
        return with_said(held.caller, held.question, reply)


async def elicited(session: ServerSession, question: Question, seconds: float) -> Reply | None:
    """The answer over a connection that takes our requests; None where none came, or the client cannot."""
    with anyio.move_on_after(seconds):
        try:
            return reply_of(await session.elicit_form(message(question), FORM))
        except (MCPError, ValueError):  # it said no to the question itself, or answered in another shape
            return None
    return None


def reply_of(result: types.ElicitResult) -> Reply | None:
    """What was answered; None where nobody decided."""
    content = result.content or {}
    words = str(content.get("words") or "")
    if result.action == "accept" and content.get("answer") in ("yes", "no"):
        return Reply(content["answer"] == "yes", words, by="elicitation")
    return Reply(False, DECLINED, by="elicitation") if result.action == "decline" else None


def with_said(caller: Caller, question: Question, reply: Reply | None) -> Caller:
    """The caller, with the answer."""
    return Caller(caller.session, caller.agent, caller.dialog, Said(question, reply))


def message(question: Question) -> str:
    """The question in words. What an agent wrote stands between what is Remit's."""
    reasons = f" ({'; '.join(question.reasons)})" if question.reasons else ""
    return (
        f"Remit asks for the agent {shown(question.agent, 60)}: {shown(question.action, 480)}\n"
        f"Its reason: {shown(question.message, 500)}\nRisk {question.risk} of 100{reasons}."
    )


def digest_of(name: str, arguments: dict[str, Any]) -> str:
    """The same for the same call."""
    return hash_arguments([name, hash_arguments(arguments)])


def shows_forms(agent: str, capabilities: types.ClientCapabilities | None) -> bool:
    """Whether a form reaches a person: the client says that it takes them, and it is an agent that shows them."""
    row = ROWS.get(agent)
    declared = capabilities.elicitation if capabilities else None
    if row is None or not row.shows_forms or declared is None or (declared.url and not declared.form):
        return False
    parent = look_up(os.getppid())
    return parent is not None and program(parent.words) == row.binary
