"""Messages of a run of Remit's own agent: a person's input, turns of the model, results of its tool calls.

The structures are independent of every provider. `meta` of a part is opaque data of the provider that made the part
(a signature, its own ids): it goes back to that provider only.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal, TypeAlias

from msgspec import Struct

StopReason: TypeAlias = Literal["end", "tool_calls", "length", "refusal", "cancelled"]
ResultKind: TypeAlias = Literal["done", "failed", "denied", "cancelled", "interrupted", "skipped"]
InputSource: TypeAlias = Literal["person", "flag", "parent", "remit"]


class ImageRef(Struct, frozen=True):
    """An image kept in the run's folder by its SHA-256."""

    sha256: str
    media_type: str
    name: str = ""


class TextPart(Struct, frozen=True, tag="text", tag_field="part"):
    """Text of the model."""

    text: str
    meta: dict[str, Any] = {}


class ThoughtPart(Struct, frozen=True, tag="thought", tag_field="part"):
    """Thinking of the model. Without a signature in `meta` it is never sent back."""

    text: str
    meta: dict[str, Any] = {}


class ToolCallPart(Struct, frozen=True, tag="call", tag_field="part"):
    """A tool call of the model. `arguments` is None if `raw` is no JSON object; ids are unique in a run."""

    id: str
    tool: str
    arguments: dict[str, Any] | None = None
    raw: str = ""
    meta: dict[str, Any] = {}


ModelPart: TypeAlias = TextPart | ThoughtPart | ToolCallPart


class Usage(Struct, frozen=True):
    """Tokens of a request. `input_tokens` contains what came from the provider's cache (`cached_tokens`)."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
        )


class ModelTurn(Struct, frozen=True, tag="turn", tag_field="message"):
    """One whole turn of the model. `cost` is in US dollars; None if the model's price is unknown."""

    parts: tuple[ModelPart, ...]
    stop: StopReason
    model: str = ""
    usage: Usage = Usage()
    cost: float | None = None
    response_id: str = ""

    @property
    def calls(self) -> tuple[ToolCallPart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


class UserInput(Struct, frozen=True, tag="input", tag_field="message"):
    """Words to the model that are no result of a call."""

    text: str
    images: tuple[ImageRef, ...] = ()
    by: InputSource = "person"


class CallResult(Struct, frozen=True, tag="result", tag_field="message"):
    """The single result of a call, as text for the model: the tool's words and Remit's."""

    id: str
    tool: str
    kind: ResultKind
    text: str
    images: tuple[ImageRef, ...] = ()


class TailNote(Struct, frozen=True, tag="tail", tag_field="message"):
    """Changes since the last request: the intent's block, files, todo list. The changes follow inputs and results."""

    text: str


ConversationItem: TypeAlias = UserInput | ModelTurn | CallResult | TailNote
Conversation: TypeAlias = tuple[ConversationItem, ...]


def find_unanswered_calls(conversation: Conversation) -> Iterator[ToolCallPart]:
    answered = {item.id for item in conversation if isinstance(item, CallResult)}
    for item in conversation:
        if isinstance(item, ModelTurn):
            yield from (call for call in item.calls if call.id not in answered)


def name_output(call_id: str) -> str:
    """Return the id of the kept output of a call's command."""
    return f"cmd-{re.sub('[^A-Za-z0-9_-]', '_', call_id)}.txt"
