"""Views of records: structs that decode only the fields a reader needs, and skip the rest of the line."""

from typing import Generic, TypeVar

from msgspec import Struct, json

from remit.core.record import KEY
from remit.ledger.segments import DECODE_ERRORS

ViewT = TypeVar("ViewT")


class RecordMetadata(Struct, Generic[ViewT], rename={"body": KEY}):
    """Remit's part of a record, under `dev.remit`."""

    body: ViewT


class RecordLine(Struct, Generic[ViewT]):
    """A log line as a view: `json.Decoder(RecordLine[View])` skips all fields that `View` does not name."""

    metadata: RecordMetadata[ViewT]


class ChainView(Struct):
    """A record's place in the chain of its log."""

    log: str
    seq: int
    prev: str


class HeaderView(Struct):
    """The event of a record, and its place in the chain."""

    chain: ChainView
    event: str = ""


class RecordHeader(RecordLine[HeaderView]):
    """The fields that each record has. A line without them is not a record."""

    id: str
    timestamp: str

    @property
    def chain(self) -> ChainView:
        return self.metadata.body.chain

    @property
    def event(self) -> str:
        return self.metadata.body.event


class RepairView(Struct):
    """The detail of a `recovery` or `pruned` record. `pruned` are first and last seq of parts with possible gaps."""

    reason: str = ""
    synced_seq: int = -1
    pruned: tuple[tuple[int, int], ...] = ()


class AcknowledgedFinding(Struct):
    """A finding named in an acknowledgement."""

    log: str
    subject: str


class AcknowledgementView(Struct):
    """The detail of a `recovery` record that acknowledges findings."""

    reason: str = ""
    findings: tuple[AcknowledgedFinding, ...] = ()


class NoteView(Struct):
    """The signed note of a `tree_head` record."""

    note: str = ""


_HEADER = json.Decoder(RecordHeader)
_REPAIR = json.Decoder(RecordLine[RepairView])
_ACKNOWLEDGEMENT = json.Decoder(RecordLine[AcknowledgementView])
_NOTE = json.Decoder(RecordLine[NoteView])


def decode_header(line: bytes) -> RecordHeader | None:
    """Decode id, time, event and place of a record; None if the line is not a record."""
    try:
        line.decode()  # msgspec skips other fields, also those that are not UTF-8
        return _HEADER.decode(line)
    except DECODE_ERRORS:
        return None


def decode_repair(line: bytes) -> RepairView:
    """Decode the detail of a `recovery` or `pruned` record; empty if it has another form."""
    try:
        return _REPAIR.decode(line).metadata.body
    except DECODE_ERRORS:
        return RepairView()


def decode_acknowledgement(line: bytes) -> AcknowledgementView:
    """Decode the detail of an acknowledging `recovery` record; empty if it has another form."""
    try:
        return _ACKNOWLEDGEMENT.decode(line).metadata.body
    except DECODE_ERRORS:
        return AcknowledgementView()


def decode_note(line: bytes) -> str:
    """Return the signed note in a record; empty if there is none."""
    try:
        return _NOTE.decode(line).metadata.body.note
    except DECODE_ERRORS:
        return ""
