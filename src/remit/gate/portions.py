"""No line of the log is longer than 64 KB: a record of many files becomes several, and long lists are counted.

The parts of one record are appended together. Each says the same of its own files, and its `part` names the others.
What no file makes long is cut: a list keeps its beginning, its count and a digest stand beside it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from remit.core.contents import sha256
from remit.core.identifiers import part_id
from remit.core.record import Body, MutatedFile, Record, TracedFile

T = TypeVar("T")

MAX_LINE_BYTES = 64 * 1024
CHAIN_BYTES = 1024
"""What the place in the chain and the names around a record come to."""

MAX_BYTES = MAX_LINE_BYTES - CHAIN_BYTES
MAX_ENTRIES = 50
"""Entries of a list, or a table, that are kept where a record is too long."""

MAX_CHARS = 2048
"""Characters of a text that are kept where a record is too long."""

MAX_UNPROVED = 200


def portions(records: Iterable[Record]) -> list[Record]:
    """Return the records, those too long for a line in several, or cut."""
    return [part for record in records for part in split(record)]


def split(record: Record) -> Iterator[Record]:
    """Return one record, or as many as its files need."""
    if size(record) <= MAX_BYTES:
        yield record
        return
    files = record.body.files
    if isinstance(files, UnsetType) or not files:
        yield cut(record)
        return
    bare = cut(with_files(record, (), (), 1, 1))
    groups = list(grouped([shrink(pair, MAX_BYTES - size(bare)) for pair in pairs(record)], MAX_BYTES - size(bare)))
    for number, group in enumerate(groups, 1):
        mutated, traced = zip(*group, strict=True)
        part = with_files(record, mutated, tuple(one for one in traced if one is not None), number, len(groups))
        yield part if size(part) <= MAX_BYTES else cut(part)


def size(part: object) -> int:
    """Return how many bytes it comes to on a line."""
    return len(msgspec.json.encode(part))


Pair = tuple[MutatedFile, TracedFile | None]


def pairs(record: Record) -> list[Pair]:
    """Return each changed file with its published form."""
    files = () if isinstance(record.body.files, UnsetType) else record.body.files
    traced = {one.path: one for one in record.files}
    return [(file, traced.get(file.path)) for file in files]


def grouped(found: Sequence[Pair], room: int) -> Iterator[list[Pair]]:
    """Return the files, as many at a time as have room. A path stands in the files of the call, too."""
    group: list[Pair] = []
    left = room
    for pair in found:
        needs = size(pair) + size(pair[0].path) + 2
        if group and needs > left:
            yield group
            group, left = [], room
        group.append(pair)
        left -= needs
    yield group


def with_files(
    record: Record, files: tuple[MutatedFile, ...], traced: tuple[TracedFile, ...], number: int, count: int
) -> Record:
    """Return one part of a record, the first of which keeps its id."""
    body = record.body
    every = () if isinstance(body.files, UnsetType) else body.files
    names = {file.path for file in files}
    detail: dict[str, Any] = {} if isinstance(body.detail, UnsetType) else dict(body.detail)
    if count > 1 or not files:
        detail["part"] = {"first": record.id, "number": number, "of": count}
        if any(is_deletion(file) for file in every) and not any(is_deletion(file) for file in files):
            detail["took_away"] = True
    call = body.call
    if not isinstance(call, UnsetType) and not isinstance(call.paths, UnsetType):
        own = {file.path for file in every}
        call = replace(call, paths=tuple(path for path in call.paths if path in names or path not in own))
    scoped = isinstance(body.in_scope, bool) and bool(files)
    part = replace(
        body,
        files=files,
        call=call,
        detail=detail or UNSET,
        in_scope=all(file.in_scope is not False for file in files) if scoped else body.in_scope,
    )
    return replace(record, id=part_id(record.id, number), body=part, files=traced)


def is_deletion(file: MutatedFile) -> bool:
    """Return whether a file was taken away."""
    return file.after is UNSET and file.before is not UNSET


def shrink(pair: Pair, room: int) -> Pair:
    """Return a file that has room on a line by itself. Its blobs tell what a reader no longer finds here.

    Lines that nothing proves to be the call's never become its own: where they are too many, all lines are open.
    """
    file, traced = pair
    if size(pair) <= room // 2:
        return pair
    if traced is not None:
        file = replace(file, ranges=UNSET)
    if not isinstance(file.unproved, UnsetType) and len(file.unproved) > MAX_UNPROVED:
        file = replace(file, unproved=((1, max(end for _, end in file.unproved)),))
    if size((file, traced)) <= room // 2:
        return file, traced
    file = replace(file, hunks=UNSET, ranges=first(file.ranges, MAX_UNPROVED))
    if traced is not None and not isinstance(traced.conversations, UnsetType):
        spoken = tuple(replace(one, ranges=first(one.ranges, MAX_UNPROVED)) for one in traced.conversations)
        traced = replace(traced, conversations=spoken)
    return file, traced


def first(entries: "tuple[T, ...] | UnsetType", most: int) -> "tuple[T, ...] | UnsetType":
    """Return the first entries."""
    return entries if isinstance(entries, UnsetType) else entries[:most]


# -- what no file makes long -----------------------------------------------------------------------------------


def cut(record: Record) -> Record:
    """Return a record whose lists and texts are cut until it has room on a line."""
    entries, chars = MAX_ENTRIES, MAX_CHARS
    while True:
        part = replace(record, body=cut_body(record.body, entries, chars))
        if size(part) <= MAX_BYTES or entries <= 1:
            return part
        entries, chars = entries // 2, chars // 2


def cut_body(body: Body, entries: int, chars: int) -> Body:
    """Return a record's own part with shorter lists and texts."""
    call, detail = body.call, {} if isinstance(body.detail, UnsetType) else body.detail
    if not isinstance(call, UnsetType) and not isinstance(call.paths, UnsetType) and len(call.paths) > entries:
        detail = {**detail, **counted("call_paths", call.paths)}
        call = replace(call, paths=call.paths[:entries])
    return replace(
        body,
        call=call,
        detail=shortened(detail, entries, chars) if detail else UNSET,
        violation=shortened(body.violation, entries, chars) if isinstance(body.violation, dict) else UNSET,
        result=shortened(body.result, entries, chars) if isinstance(body.result, dict) else UNSET,
    )


def shortened(value: Any, entries: int, chars: int) -> Any:
    """Return a JSON value with its lists, tables and texts cut; what was cut in a table is counted beside it."""
    match value:
        case str():
            return value if len(value) <= chars else f"{value[:chars]}…"
        case list() | tuple():
            return [shortened(one, entries, chars) for one in cast("list[Any]", value)[:entries]]
        case dict():
            table = cast("dict[str, Any]", value)
            short = {key: shortened(table[key], entries, chars) for key in list(table)[:entries]}
            for key in list(short):
                if isinstance(table[key], list | tuple | dict) and len(table[key]) > entries:
                    short |= counted(key, table[key])
            return short
        case _:
            return value


def counted(name: str, entries: Any) -> dict[str, Any]:
    """Return how many entries there were, with a digest of all of them."""
    digest = sha256(msgspec.json.encode(entries, order="sorted"))
    return {f"{name}_count": len(entries), f"{name}_digest": f"sha256:{digest}"}
