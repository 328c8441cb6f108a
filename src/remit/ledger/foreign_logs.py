"""Logs of foreign machines and tools: read beside this machine's log, never part of it.

A foreign record is `unproved` unless a tree head signed by a trusted key covers it. Foreign records never fail
`remit ledger verify`.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, json

from remit.core.diff.contents import sha256
from remit.core.formats.foreign_records import convert_older_record
from remit.core.record import KEY, hash_leaf
from remit.ledger.log_files import FOREIGN_FOLDER, LINE_LIMIT, LedgerError, decode_detail, decode_header, replace_file
from remit.ledger.tree_heads import FoundHead, HeadsReport, check_heads

TRACKED_PREFIX = "tree-"  # prefix of the copies of tracked log files
LINES_PER_LOT = 500  # number of lines of a file that are processed together
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
    return len({raw for logs in found for of_log in logs for raw in of_log})


def _store_file(folder: Path, name: str, content: bytes) -> None:
    (folder / FOREIGN_FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(folder / FOREIGN_FOLDER / name, content)


def read_foreign_records(
    view: Path, folder: Path, own: Collection[str], keys: Sequence[bytes], tracked: Iterable[Path] = ()
) -> list[Document]:
    """Return the records in the live view and in imported files that belong to none of the logs `own`, oldest first.
    Remit's part of a record is marked `unproved` unless a head signed by one of `keys` covers the record by the line's
    position, never by the stated seq. Unreadable lines are skipped. `tracked` files may come from a second clone on
    this machine, with a log of the same name, and a merge may have repeated lines.
    """
    found: dict[str, Document] = {}
    kept = sorted((folder / FOREIGN_FOLDER).glob("*.jsonl"))
    of_tracked = {path for path in kept if path.name.startswith(TRACKED_PREFIX)} | set(tracked)
    for path in (*kept, *sorted(of_tracked.difference(kept)), view):
        lines = (piece[:-1] for piece in _read_file_pieces(path) if piece.endswith(b"\n"))
        logs, documents = _sort_lines(_drop_duplicates(lines), ()) if path in of_tracked else _sort_lines(lines, own)
        for name, of_log in logs.items():
            # The lines from the log's beginning that a trusted head covers are proved.
            notes = (decode_detail(raw).note for raw in of_log if b'"event":"tree_head"' in raw) if keys else ()
            heads = [FoundHead(note, name) for note in notes if note]
            proved = check_heads(map(hash_leaf, of_log), heads, name, keys).witnessed if heads else 0
            for number, raw in enumerate(of_log):
                document = json.decode(raw, type=dict[str, Any])
                if number >= proved:
                    document["metadata"][KEY]["unproved"] = True
                documents.append(document)
        for document in documents:
            known = found.get(str(document["id"]))
            if known is None or known["metadata"][KEY].get("unproved"):
                found[str(document["id"])] = document
    return sorted(found.values(), key=lambda document: str(document["timestamp"]))


class ForeignLog(Struct, frozen=True):
    """A log shared as a ref by a different machine, and the proof by its heads."""

    name: str
    records: int
    heads: HeadsReport


def check_foreign_logs(folder: Path, own: Collection[str], keys: Sequence[bytes]) -> Iterator[ForeignLog]:
    """Yield the logs that other machines shared as refs, compared with their heads. Raises OSError."""
    for path in sorted((folder / FOREIGN_FOLDER).glob("ref-*.jsonl")):
        lines = (piece[:-1] for piece in _read_file_pieces(path) if piece.endswith(b"\n"))
        for name, of_log in _sort_lines(lines, own)[0].items():
            notes = (decode_detail(raw).note for raw in of_log if b'"event":"tree_head"' in raw)
            heads = [FoundHead(note, name) for note in notes if note]
            yield ForeignLog(name, len(of_log), check_heads(map(hash_leaf, of_log), heads, name, keys))


def read_foreign_lots(path: Path, own: Collection[str], offset: int = 0) -> Iterator[tuple[list[Document], int]]:
    """Yield lots of foreign records of a file, each with the offset to continue from. Repeated lines are yielded
    repeatedly, and records are not marked `unproved`: for callers that only collect.
    """
    while lot := list(islice(_read_file_pieces(path, offset), LINES_PER_LOT)):
        offset += sum(map(len, lot))
        logs, older = _sort_lines((piece[:-1] for piece in lot if piece.endswith(b"\n")), own)
        yield [*(json.decode(raw, type=dict[str, Any]) for of_log in logs.values() for raw in of_log), *older], offset


def _drop_duplicates(lines: Iterable[bytes]) -> Iterable[bytes]:
    return dict.fromkeys(line.removesuffix(b"\r") for line in lines)


def _read_file_pieces(path: Path, offset: int = 0) -> Iterator[bytes]:
    if path.is_file():
        with path.open("rb") as file:
            file.seek(offset)
            while (piece := file.readline(LINE_LIMIT)).endswith(b"\n") or len(piece) == LINE_LIMIT:
                yield piece


def _sort_lines(lines: Iterable[bytes], own: Collection[str]) -> tuple[dict[str, list[bytes]], list[Document]]:
    logs: dict[str, list[bytes]] = {}
    older: list[Document] = []
    own_names = [b'"log":' + json.encode(name) for name in own]
    for raw in lines:
        if not raw or any(name in raw for name in own_names):
            continue
        if (header := decode_header(raw)) is not None:
            logs.setdefault(header.chain.log, []).append(raw)
        elif (document := convert_older_record(raw)) is not None:
            older.append(document)
    return logs, older


def merge_documents(
    own: Sequence[Document], foreign: Iterable[Document], limit: int, *, ranked: bool = False
) -> list[Document]:
    """Merge own and foreign records, both newest first, by time; each id once. With `ranked` the two lists alternate
    instead: the scores of two collections are not comparable.
    """
    ids = {document["id"] for document in own}
    others = [document for document in foreign if document["id"] not in ids]
    if not others:
        return list(own[:limit])
    if ranked:
        turns = chain.from_iterable(zip_longest(own, others))
        return [document for document in turns if document is not None][:limit]
    return sorted([*own, *others], key=lambda d: str(d["timestamp"]), reverse=True)[:limit]
