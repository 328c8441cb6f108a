"""What every agent-facing tool is made of: its arguments as a Struct, its caller, its answer, and a person's answer."""

from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from remit.core.call import SessionKey
from remit.gate.gate import Gate
from remit.gate.people.questions import ApprovalReply, Question

ToolText = Annotated[str, Meta(max_length=20_000)]


DialogName: TypeAlias = Literal["elicitation", "agent dialog"]
"""Which dialog of the agent shows a question: a form of an MCP server, or the one for its own permissions."""


class DialogAnswer(Struct, frozen=True):
    """The answer from an agent's own dialog; `reply` is None without an answer."""

    question: Question
    reply: ApprovalReply | None


class Caller(Struct, frozen=True):
    """The session behind a call.

    `has_dialog`: the agent can show a person a question, in the dialog of this name; `dialog_answer` is the result.
    `why_no_dialog` is a sentence for the person who would have expected one.
    """

    session: SessionKey
    agent: str
    has_dialog: bool = False
    dialog_answer: DialogAnswer | None = None
    dialog_name: DialogName = "elicitation"
    why_no_dialog: str = ""


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


class AgentTool(Struct, frozen=True):
    """One tool. The description and JSON Schema come from its Struct of arguments."""

    arguments: type[Struct]
    run: Callable[[Gate, Caller, Any], ToolAnswer]
    acts_for_session: bool = False
    """True if the tool acts for a session, which must then be known."""

    @property
    def description(self) -> str:
        return (self.arguments.__doc__ or "").strip()

    @property
    def schema(self) -> dict[str, Any]:
        (_, components) = msgspec.json.schema_components([self.arguments], ref_template="#/$defs/{name}")
        own = components.pop(self.arguments.__name__)
        schema = {key: value for key, value in own.items() if key not in ("title", "description")}
        return {**schema, **({"$defs": components} if components else {})}
