"""What goes into a tool and what comes out of one."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from remit.core.call import SessionKey

Words = Annotated[str, Meta(max_length=20_000)]


class Caller(Struct, frozen=True):
    """Whose call it is."""

    session: SessionKey
    agent: str


class ToolResult(Struct, frozen=True):
    """What a tool answers: text for the model, and the same as data."""

    text: str
    data: dict[str, Any]
    ok: bool = True
