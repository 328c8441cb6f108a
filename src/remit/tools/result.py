"""Caller and result of a tool."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from remit.core.call import SessionKey
from remit.gate.state.questions import ApprovalReply, Question

ToolText = Annotated[str, Meta(max_length=20_000)]


class DialogAnswer(Struct, frozen=True):
    """The answer from an agent's own dialog; `reply` is None without an answer."""

    question: Question
    reply: ApprovalReply | None


class Caller(Struct, frozen=True):
    """The session behind a call.

    `has_dialog`: the agent can show a person a question; `dialog_answer` is the result.
    """

    session: SessionKey
    agent: str
    has_dialog: bool = False
    dialog_answer: DialogAnswer | None = None


class NeedsPerson(Exception):
    """The tool needs a person's answer: the server asks, and runs the tool again with `dialog_answer`."""

    def __init__(self, caller: Caller, question: Question) -> None:
        super().__init__(question.action)
        self.caller = caller
        self.question = question


class ToolAnswer(Struct, frozen=True):
    """A tool's answer: text for the model, and data."""

    text: str
    data: dict[str, Any]
    ok: bool = True
