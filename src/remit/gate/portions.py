"""A record of more files than one line of the log may hold becomes several: none of them is lost."""

import os
from collections.abc import Iterable, Iterator

import msgspec
from msgspec import UnsetType
from msgspec.structs import replace

from remit.core.identifiers import uuid7
from remit.core.record import Record
from remit.ledger.segments import LINE_LIMIT

FEW = 100
"""Files of a record that is not measured: it is short enough, whatever their names are."""

ROOM = LINE_LIMIT // 2
"""Bytes of a record's own; its place in the chain comes to that."""


def portions(records: Iterable[Record], now: float) -> list[Record]:
    """The records, those too long for a line in several: each says the same of its own files. `now` is in seconds."""
    return [part for record in records for part in split(record, now)]


def split(record: Record, now: float) -> Iterator[Record]:
    """One record, or its halves, as often as that takes."""
    files = record.body.files
    if isinstance(files, UnsetType) or len(files) <= FEW or len(msgspec.json.encode(record)) < ROOM:
        yield record
        return
    middle = len(files) // 2
    first = {file.path for file in files[:middle]}
    traced = [file for file in record.files if file.path in first], [f for f in record.files if f.path not in first]
    yield from split(replace(record, body=replace(record.body, files=files[:middle]), files=tuple(traced[0])), now)
    other = replace(
        record,
        id=uuid7(int(now * 1000), os.urandom(10)),
        body=replace(record.body, files=files[middle:]),
        files=tuple(traced[1]),
    )
    yield from split(other, now)
