"""A line of the log, decoded for as much of Remit's own part of it as a reader needs."""

from typing import Generic, TypeVar

from msgspec import Struct

from remit.core.record import KEY

BodyT = TypeVar("BodyT")


class Metadata(Struct, Generic[BodyT], rename={"body": KEY}):
    """What a record says beside what Agent Trace does."""

    body: BodyT


class Line(Struct, Generic[BodyT]):
    """A line: `json.Decoder(Line[Body])` passes over all that `Body` does not name."""

    metadata: Metadata[BodyT]
