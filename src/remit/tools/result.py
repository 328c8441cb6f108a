"""What goes into a tool and what comes out of one."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from remit.core.call import SessionKey
from remit.gate.state.questions import ApprovalReply, Question

ToolText = Annotated[str, Meta(max_length=20_000)]


class DialogAnswer(Struct, frozen=True):
    """What came back from a dialog of the agent's own; `reply` is None where nobody answered."""

    question: Question
    reply: ApprovalReply | None


class Caller(Struct, frozen=True):
    """Whose call it is. `dialog`: the agent would show a person a question; `said` is what came of it."""

    session: SessionKey
    agent: str
    has_dialog: bool = False
    dialog_answer: DialogAnswer | None = None


class NeedsPerson(Exception):
    """The tool goes on when a person has answered: the door asks, and runs it again with what they said."""

    def __init__(self, caller: Caller, question: Question) -> None:
        super().__init__(question.action)
        self.caller = caller
        self.question = question


class ToolAnswer(Struct, frozen=True):
    """What a tool answers: text for the model, and the same as data."""

    text: str
    data: dict[str, Any]
    ok: bool = True
