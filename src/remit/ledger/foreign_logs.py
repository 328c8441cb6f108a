"""Lines of other machines and other tools: read beside the log, never part of it.

A foreign record is `unproved` unless a tree head signed by a trusted key covers it. None of this ever fails
`remit ledger verify`: what others wrote is their log's to answer for.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, TypeAlias, cast

from msgspec import Struct, json

from remit.core.diff.contents import sha256
from remit.core.formats.foreign_records import convert_older_record
from remit.core.formats.merkle import hash_leaf
from remit.core.record import KEY
from remit.ledger.index.index import Filters
from remit.ledger.integrity.tree_heads import FoundHead, check_heads
from remit.ledger.record_views import RecordLine
from remit.ledger.segments import DECODE_ERRORS, FOREIGN_FOLDER, LINE_LIMIT, LedgerError

FOLDER = FOREIGN_FOLDER
TRACKED_PREFIX = "tree-"
"""What was kept of logs that are tracked files begins so."""

LINES_PER_LOT = 500
"""Lines of a file that are looked at together."""

MAX_IMPORT_BYTES = 256 * 1024 * 1024

Document: TypeAlias = dict[str, Any]


class NothingToImport(LedgerError):
    """A file holds no record that Remit can read."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"{str(path)!r} cannot be imported: {why}\nhint: expected one JSON record a line, as in agent_trace.jsonl"
        )
        self.why = why


class ImportResult(Struct, frozen=True):
    """What an import brought. `logs` are the names of the logs whose records the file holds."""

    file: str
    records: int
    older: int
    logs: tuple[str, ...]


class _ForeignChain(Struct):
    log: str
    seq: int


class _ForeignView(Struct):
    chain: _ForeignChain
    event: str = ""
    note: str = ""


class _ForeignRecord(RecordLine[_ForeignView]):
    id: str
    timestamp: str


_FOREIGN_RECORD = json.Decoder(_ForeignRecord)


class _ForeignLine(Struct):
    """One line of another log."""

    raw: bytes
    body: _ForeignView


def import_file(source: Path, folder: Path, own: Collection[str]) -> ImportResult:
    """Copy a log file of another machine, or of an older tool, to where reading finds it. The same file twice is one.

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
    """Keep a log that another machine shared where reading finds it; how many records it has. Raises OSError."""
    logs, _ = _sort_lines(content.split(b"\n"), own)
    _store_file(folder, f"ref-{machine}.jsonl", content)
    return sum(map(len, logs.values()))


def store_tracked_log(folder: Path, name: str, contents: Sequence[bytes]) -> int:
    """Keep the versions of a log that was a tracked file; how many records they have together. Raises OSError."""
    stem = f"{TRACKED_PREFIX}{name.removesuffix('.jsonl')}"
    for number, content in enumerate(contents):
        _store_file(folder, f"{stem}-{number}.jsonl", content)
    for path in (folder / FOLDER).glob(f"{stem}-*.jsonl"):
        if int(path.stem.rpartition("-")[2]) >= len(contents):
            path.unlink()
    found = (_sort_lines(_drop_duplicates(content.split(b"\n")), ())[0].values() for content in contents)
    return len({line.raw for logs in found for of_log in logs for line in of_log})


def _store_file(folder: Path, name: str, content: bytes) -> None:
    path = folder / FOLDER / name
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.replace(path)


def read_foreign_records(
    view: Path, folder: Path, own: Collection[str], keys: Sequence[bytes], tracked: Iterable[Path] = ()
) -> list[Document]:
    """What the live view and imported files hold that is of none of the logs `own`, each record once, oldest first.

    Remit's part of each says `unproved` unless one of `keys` vouches for it. Unreadable lines are left out. What is
    `tracked` may be of another clone on this machine, whose log has our name, and a merge may have doubled lines.
    """
    found: dict[str, Document] = {}
    kept = sorted((folder / FOLDER).glob("*.jsonl"))
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
    """What a file holds from `offset` on that is of none of the logs `own`, and where reading goes on, a lot at a time.

    What a file says twice is told twice, and nothing is proved: for those who only collect.
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
    """Each line once, as it was written: a checkout may have changed the line endings."""
    return dict.fromkeys(line.removesuffix(b"\r") for line in lines)


def _read_file_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file that others may write: none where it is no regular file."""
    return (piece[:-1] for piece in _read_file_pieces(path) if piece.endswith(b"\n"))


def _read_file_pieces(path: Path, offset: int = 0) -> Iterator[bytes]:
    """The lines with their newlines; one that is too long in pieces, and none that is not finished yet."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        file.seek(offset)
        while (piece := file.readline(LINE_LIMIT)).endswith(b"\n") or len(piece) == LINE_LIMIT:
            yield piece


def _sort_lines(lines: Iterable[bytes], own: Collection[str]) -> tuple[dict[str, list[_ForeignLine]], list[Document]]:
    """Lines of other logs by the log's name, and the records of older tools."""
    logs: dict[str, list[_ForeignLine]] = {}
    older: list[Document] = []
    ours = [b'"log":' + json.encode(name) for name in own]
    for raw in lines:
        if not raw or any(name in raw for name in ours):
            continue
        line = _parse_foreign_line(raw)
        if line is not None:
            logs.setdefault(line.body.chain.log, []).append(line)
        elif (document := convert_older_record(raw)) is not None:
            older.append(document)
    return logs, older


def _parse_foreign_line(raw: bytes) -> _ForeignLine | None:
    try:
        raw.decode()
        return _ForeignLine(raw, _FOREIGN_RECORD.decode(raw).metadata.body)
    except DECODE_ERRORS:
        return None


def _count_proved_lines(name: str, of_log: list[_ForeignLine], keys: Sequence[bytes]) -> int:
    """How many lines from the log's beginning a trusted head covers."""
    if not keys:
        return 0
    notes = [FoundHead(line.body.note, name) for line in of_log if line.body.event == "tree_head" and line.body.note]
    return check_heads((hash_leaf(line.raw) for line in of_log), notes, name, keys).witnessed if notes else 0


def _mark_unproved(line: _ForeignLine, proved: bool) -> Document:
    """The record; its place among the lines of its log counts, never the seq that it claims."""
    document = json.decode(line.raw, type=dict[str, Any])
    if not proved:
        document["metadata"][KEY]["unproved"] = True
    return document


def matches_filters(document: Document, by: Filters) -> bool:
    """Whether a record that is in no index is asked for, by the rules of `Index.find`."""
    body = _as_mapping(document["metadata"][KEY])
    call = _as_mapping(body.get("call"))
    files = [_as_mapping(file) for file in _as_list(body.get("files"))]
    paths = [*map(str, _as_list(call.get("paths"))), *(str(file.get("path")) for file in files)]
    at = str(document["timestamp"])
    path, line, since, until = by.get("path"), by.get("line"), by.get("since"), by.get("until")
    content_hash = by.get("content_hash")
    asked: tuple[tuple[str | None, object], ...] = (
        (by.get("event"), body.get("event")),
        (by.get("session_id"), body.get("session_id")),
        (by.get("intent_id"), body.get("intent_id")),
        (by.get("agent"), _as_mapping(document.get("tool")).get("name")),
    )
    return (
        all(value is None or value == found for value, found in asked)
        and (path is None or path in paths)
        and (since is None or at >= since)
        and (until is None or at < until)
        and (line is None or _wrote_line(document, path, line))
        and (content_hash is None or content_hash.removeprefix("sha256:") in _collect_hashes(document, files))
    )


def _collect_hashes(document: Document, files: Iterable[Document]) -> Iterator[str]:
    """The hashes of the lines that a record wrote, and of its files before and after, without `sha256:`."""
    for side in (_as_mapping(file.get(name)) for file in files for name in ("before", "after")):
        yield str(side.get("sha256")).removeprefix("sha256:")
    for file in map(_as_mapping, _as_list(document.get("files"))):
        for conversation in map(_as_mapping, _as_list(file.get("conversations"))):
            for written in map(_as_mapping, _as_list(conversation.get("ranges"))):
                yield str(written.get("content_hash")).removeprefix("sha256:")


def _as_mapping(value: object) -> Document:
    return cast("Document", value) if isinstance(value, dict) else {}


def _as_list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _wrote_line(document: Document, path: str | None, line: int) -> bool:
    """Whether a record says that it wrote that line of a file."""
    files = [_as_mapping(file) for file in _as_list(document.get("files"))]
    spoken = [_as_mapping(c) for file in files if file.get("path") == path for c in _as_list(file.get("conversations"))]
    ranges = [_as_mapping(r) for conversation in spoken for r in _as_list(conversation.get("ranges"))]
    spans = [(r.get("start_line"), r.get("end_line")) for r in ranges]
    return any(isinstance(start, int) and isinstance(end, int) and start <= line <= end for start, end in spans)


def merge_documents(
    own: Sequence[Document], foreign: Iterable[Document], limit: int, *, ranked: bool = False
) -> list[Document]:
    """Own records and foreign ones, both newest first, in the order of their times; each id once.

    Where both are `ranked` instead they take turns: the scores of two collections do not compare.
    """
    ids = {document["id"] for document in own}
    others = [document for document in foreign if document["id"] not in ids]
    if not others:
        return list(own[:limit])
    if ranked:
        turns = chain.from_iterable(zip_longest(own, others))
        return [document for document in turns if document is not None][:limit]
    return sorted([*own, *others], key=lambda d: str(d["timestamp"]), reverse=True)[:limit]
