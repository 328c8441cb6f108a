"""A line of the log, decoded for as much of Remit's own part of it as a reader needs."""

from typing import Generic, TypeVar

from msgspec import Struct

from remit.core.record import KEY

ViewT = TypeVar("ViewT")


class RecordMetadata(Struct, Generic[ViewT], rename={"body": KEY}):
    """What a record says beside what Agent Trace does."""

    body: ViewT


class RecordLine(Struct, Generic[ViewT]):
    """A line: `json.Decoder(Line[Body])` passes over all that `Body` does not name."""

    metadata: RecordMetadata[ViewT]
