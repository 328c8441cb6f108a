"""The port to a model: the loop's request to a provider, and the provider's stream.

Only `library.py` knows the library that talks to real providers.
"""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct

from remit_agent.models.messages import Conversation, ModelTurn

ErrorKind: TypeAlias = Literal[
    "auth", "quota", "rejected", "window", "rate", "overloaded", "server", "connection", "truncated", "junk"
]
RETRIED_KINDS: frozenset[ErrorKind] = frozenset(("rate", "overloaded", "server", "connection", "truncated", "junk"))


class ToolSchema(Struct, frozen=True):
    """A tool as offered to a model. `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


class CompletionRequest(Struct, frozen=True):
    """One request to a model. Equal requests give equal bytes on the wire.

    `images` holds the bytes of the images that the conversation names, by SHA-256. `max_tokens` None leaves the limit
    of the output to the provider.
    """

    system: str
    tools: tuple[ToolSchema, ...]
    conversation: Conversation
    images: dict[str, bytes] = {}
    max_tokens: int | None = None


class TextDelta(Struct, frozen=True, tag=True):
    """More text of the turn under way."""

    text: str


class ThoughtDelta(Struct, frozen=True, tag=True):
    """More thinking of the turn under way."""

    text: str


class CallDelta(Struct, frozen=True, tag=True):
    """More of a tool call: shown, and never run. `index` counts the calls of the turn from 0."""

    index: int
    id: str = ""
    tool: str = ""
    json: str = ""


class WholeTurn(Struct, frozen=True, tag=True):
    """The whole turn, at the end of a stream with a stop reason. The last delta of every stream."""

    turn: ModelTurn


Delta: TypeAlias = TextDelta | ThoughtDelta | CallDelta | WholeTurn


class ProviderError(Exception):
    """A request without a whole turn. `kind` decides whether it is tried again; `retry_after_s` is the server's."""

    def __init__(self, kind: ErrorKind, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.kind = kind
        self.retry_after_s = retry_after_s


class Provider(Protocol):
    """A model. `id` is `provider:model`; `window` is its context window in tokens, None if unknown."""

    @property
    def id(self) -> str: ...

    @property
    def window(self) -> int | None: ...

    def stream(self, request: CompletionRequest) -> AbstractAsyncContextManager[AsyncIterator[Delta]]:
        """Open one request. Iterating raises ProviderError; leaving the context closes the connection."""
        ...
