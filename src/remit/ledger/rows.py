"""What the index keeps of a record: rows of plain values, read from the line with nothing decoded in vain."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from msgspec import DecodeError, Struct, ValidationError, json

from remit.core.record import KEY
from remit.ledger.reader import LogLine
from remit.ledger.segments import UNREADABLE, first_seq

Row: TypeAlias = tuple[str | int | None, ...]


class _Side(Struct, gc=False):
    sha256: str | None = None
    git_blob: str | None = None


class _Range(Struct, gc=False):
    start_line: int | None = None
    end_line: int | None = None
    content_hash: str | None = None


class _File(Struct, gc=False):
    path: str
    operation: str | None = None
    before: _Side | None = None
    after: _Side | None = None
    ranges: tuple[_Range, ...] = ()


class _Call(Struct, gc=False):
    paths: tuple[str, ...] = ()


class _Chain(Struct, gc=False):
    seq: int


class _Body(Struct, gc=False):
    event: str | None = None
    session_id: str | None = None
    intent_id: str | None = None
    call: _Call | None = None
    files: tuple[_File, ...] = ()
    chain: _Chain | None = None


class _Metadata(Struct, rename={"body": KEY}, gc=False):
    body: _Body


class _Conversation(Struct, gc=False):
    ranges: tuple[_Range, ...] = ()


class _Traced(Struct, gc=False):
    path: str
    conversations: tuple[_Conversation, ...] = ()


class _Tool(Struct, gc=False):
    name: str | None = None


class Line(Struct, gc=False):
    """What the index needs of a record."""

    id: str
    timestamp: str
    metadata: _Metadata
    files: tuple[_Traced, ...] = ()
    tool: _Tool | None = None


class _Least(Struct):
    id: str
    timestamp: str


_LINE = json.Decoder(Line)
_LEAST = json.Decoder(_Least)
_NOTHING = _Metadata(_Body())
_NO_SIDE = _Side()


class Rows(Struct, frozen=True):
    """Rows by table, in the order of its columns."""

    records: list[Row]
    files: list[Row]
    ranges: list[Row]
    paths: list[Row]


def parsed(raw: bytes) -> Line | None:
    """The record on a line; None where there is none. One whose inner parts have another shape keeps id and time."""
    try:
        return _LINE.decode(raw)
    except (ValidationError, UnicodeDecodeError):
        pass
    except (DecodeError, RecursionError):
        return None
    try:
        least = _LEAST.decode(raw)
    except UNREADABLE:
        return None
    return Line(least.id, least.timestamp, _NOTHING)


class FoundLine(Struct, frozen=True, gc=False):
    """A line of the log at `place`, and the record on it. `at` is the latest time of that log's records so far."""

    at: str
    place: str
    line: LogLine
    record: Line | None


def rows_of(found: Sequence[tuple[Line, FoundLine]], number: int) -> Rows:
    """The rows of records that are numbered from `number` on."""
    numbered = [(n, record) for n, (record, _) in enumerate(found, number)]
    changing = [(n, record) for n, record in numbered if record.files or record.metadata.body.files]
    return Rows(
        [_record_row(n, record, line) for n, (record, line) in enumerate(found, number)],
        [row for n, record in changing for row in _file_rows(n, record)],
        [row for n, record in changing for row in _range_rows(n, record.files)],
        [(path, n) for n, record in numbered for path in _paths(record)],
    )


def _record_row(number: int, record: Line, found: FoundLine) -> Row:
    body, line = record.metadata.body, found.line
    chain, tool = body.chain, record.tool
    return (
        number,
        record.id,
        line.seq if chain is None else chain.seq,
        found.place,
        _first(line.segment),
        line.offset,
        len(line.raw),
        record.timestamp,
        body.event,
        None if tool is None else tool.name,
        body.session_id,
        body.intent_id,
    )


_first = lru_cache(8)(first_seq)


def _file_rows(number: int, record: Line) -> list[Row]:
    written = {traced.path: traced for traced in record.files}
    return [_file_row(number, file, written.get(file.path)) for file in record.metadata.body.files]


def _file_row(number: int, file: _File, traced: _Traced | None) -> Row:
    before, after = file.before or _NO_SIDE, file.after or _NO_SIDE
    start, end = _span([*file.ranges, *(_ranges(traced) if traced else ())])
    return (
        number,
        file.path,
        file.operation,
        before.git_blob,
        after.git_blob,
        before.sha256,
        after.sha256,
        start,
        end,
    )


def _span(ranges: Sequence[_Range]) -> tuple[int | None, int | None]:
    """The first and the last line of all ranges."""
    if len(ranges) == 1:
        return ranges[0].start_line, ranges[0].end_line
    starts = [r.start_line for r in ranges if r.start_line is not None]
    ends = [r.end_line for r in ranges if r.end_line is not None]
    return min(starts, default=None), max(ends, default=None)


def _ranges(traced: _Traced) -> Sequence[_Range]:
    spoken = traced.conversations
    return spoken[0].ranges if len(spoken) == 1 else [r for conversation in spoken for r in conversation.ranges]


def _range_rows(number: int, files: Iterable[_Traced]) -> list[Row]:
    return [
        (number, traced.path, r.start_line, r.end_line, r.content_hash) for traced in files for r in _ranges(traced)
    ]


def _paths(record: Line) -> Sequence[str]:
    """Each path that a call named or changed, once."""
    body = record.metadata.body
    named = () if body.call is None else body.call.paths
    if len(named) < 2 and not body.files and not record.files:
        return named
    return sorted({*named, *(file.path for file in body.files), *(file.path for file in record.files)})
