"""Logs of foreign machines and tools: read beside this machine's log, never part of it.

A foreign record is `unproved` unless a tree head signed by a trusted key covers it. Foreign records never fail
`remit ledger verify`.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, json

from remit.core.diff.contents import sha256
from remit.core.formats.foreign_records import convert_older_record
from remit.core.formats.merkle import hash_leaf
from remit.core.json_guards import as_array, as_object
from remit.core.record import KEY
from remit.ledger.index.index import Filters
from remit.ledger.integrity.tree_heads import FoundHead, check_heads
from remit.ledger.record_views import RecordHeader, decode_header, decode_note
from remit.ledger.segments import FOREIGN_FOLDER, LINE_LIMIT, LedgerError

TRACKED_PREFIX = "tree-"
"""Prefix of the copies of tracked log files."""

LINES_PER_LOT = 500
"""Number of lines of a file that are processed together."""

MAX_IMPORT_BYTES = 256 * 1024 * 1024

Document: TypeAlias = dict[str, Any]


class NothingToImport(LedgerError):
    """A file without a readable record."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{str(path)!r} cannot be imported: {why}\nhint: expected a JSON record per line, as in agent_trace.jsonl"
        )
        self.why = why


class ImportResult(Struct, frozen=True):
    """Result of an import. `logs` are the names of the logs with records in the file; `older` counts records of older
    tools.
    """

    file: str
    records: int
    older: int
    logs: tuple[str, ...]


class _ForeignLine(Struct):
    """A line of a foreign log."""

    raw: bytes
    header: RecordHeader


def import_file(source: Path, folder: Path, own: Collection[str]) -> ImportResult:
    """Copy a log file of a foreign machine or older tool to the foreign folder. A repeated import changes nothing.

    Raises OSError, NothingToImport.
    """
    if source.stat().st_size > MAX_IMPORT_BYTES:
        raise NothingToImport(source, f"it is larger than {MAX_IMPORT_BYTES // 1024 // 1024} MiB")
    content = source.read_bytes()
    logs, older = _sort_lines(content.split(b"\n"), own)
    if not logs and not older:
        raise NothingToImport(source, "no line of it is a record of another log")
    name = f"{sha256(content)[:16]}.jsonl"
    _store_file(folder, name, content)
    return ImportResult(name, sum(map(len, logs.values())), len(older), tuple(sorted(logs)))


def store_shared_log(folder: Path, machine: str, content: bytes, own: Collection[str]) -> int:
    """Store a log shared by a machine, and return the number of records. Raises OSError."""
    logs, _ = _sort_lines(content.split(b"\n"), own)
    _store_file(folder, f"ref-{machine}.jsonl", content)
    return sum(map(len, logs.values()))


def store_tracked_log(folder: Path, name: str, contents: Sequence[bytes]) -> int:
    """Store all versions of a tracked log file, and return the number of distinct records. Raises OSError."""
    stem = f"{TRACKED_PREFIX}{name.removesuffix('.jsonl')}"
    for number, content in enumerate(contents):
        _store_file(folder, f"{stem}-{number}.jsonl", content)
    for path in (folder / FOREIGN_FOLDER).glob(f"{stem}-*.jsonl"):
        if int(path.stem.rpartition("-")[2]) >= len(contents):
            path.unlink()
    found = (_sort_lines(_drop_duplicates(content.split(b"\n")), ())[0].values() for content in contents)
    return len({line.raw for logs in found for of_log in logs for line in of_log})


def _store_file(folder: Path, name: str, content: bytes) -> None:
    path = folder / FOREIGN_FOLDER / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)


def read_foreign_records(
    view: Path, folder: Path, own: Collection[str], keys: Sequence[bytes], tracked: Iterable[Path] = ()
) -> list[Document]:
    """Return the records in the live view and in imported files that belong to none of the logs `own`, oldest first.

    Remit's part of a record is marked `unproved` unless a head signed by one of `keys` covers the record. Unreadable
    lines are skipped. `tracked` files may come from another clone on this machine, whose log has the same name, and a
    merge may have repeated lines.
    """
    found: dict[str, Document] = {}
    kept = sorted((folder / FOREIGN_FOLDER).glob("*.jsonl"))
    of_tracked = {path for path in kept if path.name.startswith(TRACKED_PREFIX)} | set(tracked)
    for path in (*kept, *sorted(of_tracked.difference(kept)), view):
        lines = _read_file_lines(path)
        logs, older = _sort_lines(_drop_duplicates(lines), ()) if path in of_tracked else _sort_lines(lines, own)
        for name, of_log in logs.items():
            proved = _count_proved_lines(name, of_log, keys)
            for number, line in enumerate(of_log):
                _add_document(found, _mark_unproved(line, number < proved))
        for document in older:
            _add_document(found, document)
    return sorted(found.values(), key=lambda document: str(document["timestamp"]))


def read_foreign_lots(path: Path, own: Collection[str], offset: int = 0) -> Iterator[tuple[list[Document], int]]:
    """Yield lots of foreign records of a file, each with the offset to continue from.

    Repeated lines are yielded repeatedly, and records are not marked `unproved`: for callers that only collect.
    """
    while lot := list(islice(_read_file_pieces(path, offset), LINES_PER_LOT)):
        offset += sum(map(len, lot))
        logs, older = _sort_lines((piece[:-1] for piece in lot if piece.endswith(b"\n")), own)
        yield [*(_mark_unproved(line, proved=True) for of_log in logs.values() for line in of_log), *older], offset


def _add_document(found: dict[str, Document], document: Document) -> None:
    known = found.get(str(document["id"]))
    if known is None or known["metadata"][KEY].get("unproved"):
        found[str(document["id"])] = document


def _drop_duplicates(lines: Iterable[bytes]) -> Iterable[bytes]:
    """Drop repeated lines, and the carriage returns that a checkout may have added."""
    return dict.fromkeys(line.removesuffix(b"\r") for line in lines)


def _read_file_lines(path: Path) -> Iterator[bytes]:
    """Yield the complete lines of a regular file; none for any other file."""
    return (piece[:-1] for piece in _read_file_pieces(path) if piece.endswith(b"\n"))


def _read_file_pieces(path: Path, offset: int = 0) -> Iterator[bytes]:
    """Yield complete lines with their newline; an oversized line comes in pieces."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        file.seek(offset)
        while (piece := file.readline(LINE_LIMIT)).endswith(b"\n") or len(piece) == LINE_LIMIT:
            yield piece


def _sort_lines(lines: Iterable[bytes], own: Collection[str]) -> tuple[dict[str, list[_ForeignLine]], list[Document]]:
    """Sort lines into records of other logs, by log name, and records of older tools."""
    logs: dict[str, list[_ForeignLine]] = {}
    older: list[Document] = []
    own_names = [b'"log":' + json.encode(name) for name in own]
    for raw in lines:
        if not raw or any(name in raw for name in own_names):
            continue
        header = decode_header(raw)
        if header is not None:
            logs.setdefault(header.chain.log, []).append(_ForeignLine(raw, header))
        elif (document := convert_older_record(raw)) is not None:
            older.append(document)
    return logs, older


def _count_proved_lines(name: str, of_log: list[_ForeignLine], keys: Sequence[bytes]) -> int:
    """Return the number of lines, from the log's beginning, that a trusted head covers."""
    if not keys:
        return 0
    notes = (decode_note(line.raw) for line in of_log if line.header.event == "tree_head")
    heads = [FoundHead(note, name) for note in notes if note]
    return check_heads((hash_leaf(line.raw) for line in of_log), heads, name, keys).witnessed if heads else 0


def _mark_unproved(line: _ForeignLine, proved: bool) -> Document:
    """Decode a record, marked `unproved` unless `proved`. The caller decides by the line's position, never by the
    stated seq.
    """
    document = json.decode(line.raw, type=dict[str, Any])
    if not proved:
        document["metadata"][KEY]["unproved"] = True
    return document


def matches_filters(document: Document, by: Filters) -> bool:
    """Return True if a record outside the index matches the filters, by the rules of `Index.find`."""
    body = as_object(document["metadata"][KEY])
    call = as_object(body.get("call"))
    files = [as_object(file) for file in as_array(body.get("files"))]
    paths = [*map(str, as_array(call.get("paths"))), *(str(file.get("path")) for file in files)]
    at = str(document["timestamp"])
    path, line, since, until = by.get("path"), by.get("line"), by.get("since"), by.get("until")
    content_hash = by.get("content_hash")
    requested: tuple[tuple[str | None, object], ...] = (
        (by.get("event"), body.get("event")),
        (by.get("session_id"), body.get("session_id")),
        (by.get("intent_id"), body.get("intent_id")),
        (by.get("agent"), as_object(document.get("tool")).get("name")),
    )
    return (
        all(value is None or value == found for value, found in requested)
        and (path is None or path in paths)
        and (since is None or at >= since)
        and (until is None or at < until)
        and (line is None or _wrote_line(document, path, line))
        and (content_hash is None or content_hash.removeprefix("sha256:") in _collect_hashes(document, files))
    )


def _collect_hashes(document: Document, files: Iterable[Document]) -> Iterator[str]:
    """Yield the hashes of written lines and of files before and after, without `sha256:`."""
    for side in (as_object(file.get(name)) for file in files for name in ("before", "after")):
        yield str(side.get("sha256")).removeprefix("sha256:")
    for file in map(as_object, as_array(document.get("files"))):
        for conversation in map(as_object, as_array(file.get("conversations"))):
            for written in map(as_object, as_array(conversation.get("ranges"))):
                yield str(written.get("content_hash")).removeprefix("sha256:")


def _wrote_line(document: Document, path: str | None, line: int) -> bool:
    """Return True if a record states to have written the line of a file."""
    files = [as_object(file) for file in as_array(document.get("files"))]
    talks = [as_object(c) for file in files if file.get("path") == path for c in as_array(file.get("conversations"))]
    ranges = [as_object(r) for conversation in talks for r in as_array(conversation.get("ranges"))]
    spans = [(r.get("start_line"), r.get("end_line")) for r in ranges]
    return any(isinstance(start, int) and isinstance(end, int) and start <= line <= end for start, end in spans)


def merge_documents(
    own: Sequence[Document], foreign: Iterable[Document], limit: int, *, ranked: bool = False
) -> list[Document]:
    """Merge own and foreign records, both newest first, by time; each id once.

    With `ranked` the two lists alternate instead: the scores of two collections are not comparable.
    """
    ids = {document["id"] for document in own}
    others = [document for document in foreign if document["id"] not in ids]
    if not others:
        return list(own[:limit])
    if ranked:
        turns = chain.from_iterable(zip_longest(own, others))
        return [document for document in turns if document is not None][:limit]
    return sorted([*own, *others], key=lambda d: str(d["timestamp"]), reverse=True)[:limit]
