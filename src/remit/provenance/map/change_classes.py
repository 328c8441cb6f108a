"""Class of a recorded change, and the definitions touched, by syntax trees.

Some records hold both. For the rest they are computed from the kept contents; if a content is gone, the result is None.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct, ValidationError, convert

from remit.core.diff.contents import LineRange, hash_line_range
from remit.core.python_runtime import prepare_type
from remit.core.record import KEY
from remit.core.untrusted_input import as_object
from remit.ledger.log_files import RecordMetadata
from remit.provenance.map.map_text import ChangedPart, MapEntry
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.repository import OID

MAPPED_EVENTS = ("mutation", "intent_changed")
BATCH_RECORDS = 200  # records whose contents are requested from git together
MAX_ANSWER_BYTES = 64 * 1024  # size above which no class is computed for an answer that a person waits for

MAX_MAP_BYTES = 256 * 1024
"""Size above which the map shows each change: recognising a refactoring takes a second per megabyte, during which
the daemon would answer no hook.
"""

Contents = Mapping[str, bytes]


class _DefinitionNode(Struct):
    kind: str = ""
    name: str = ""
    hash: str = ""


class _RangeFields(Struct):
    start_line: int = 0
    end_line: int = 0
    content_hash: str = ""
    node: _DefinitionNode | None = None


class _FileSide(Struct):
    git_blob: str | None = None


class _FileEntry(Struct):
    path: str
    before: _FileSide | None = None
    after: _FileSide | None = None
    ranges: list[_RangeFields] = []


class _MutationClass(Struct):
    computed: str | None = None


class _MutationBody(Struct):
    event: str | None = None
    intent_id: str | None = None
    trace_id: str | None = None
    name: str | None = None
    mutation_class: _MutationClass | None = None
    files: list[_FileEntry] = []


class _FileConversation(Struct):
    ranges: list[_RangeFields] = []


class _FileTrace(Struct):
    path: str
    conversations: list[_FileConversation] = []


class _SyntaxRecord(Struct):
    id: str
    timestamp: str
    metadata: RecordMetadata[_MutationBody]
    files: list[_FileTrace] = []


def read_map_entries(documents: Iterable[dict[str, Any]], store: ContentStore) -> Iterator[MapEntry]:
    """Yield the map entry of each record, oldest first; records without an entry are skipped."""
    records = (record for document in documents if (record := parse_record(document)) is not None)
    while batch := list(islice(records, BATCH_RECORDS)):
        blobs = (name for record in batch for name in blob_names(record.metadata.body.files))
        contents = store.load_many(filter(OID.fullmatch, blobs))
        yield from (entry for record in batch if (entry := map_entry_of(record, contents)) is not None)


def add_computed_classes(documents: Sequence[dict[str, Any]], store: ContentStore) -> list[dict[str, Any]]:
    """Return the records, with computed classes where the record has none: the hook has no time for them. Of large
    contents only the size is requested.
    """
    records = [parse_record(document) for document in documents]
    bodies = {r.id: r.metadata.body for r in records if r and r.metadata.body.event == "mutation"}
    unclassed = {name: b for name, b in bodies.items() if not (b.mutation_class and b.mutation_class.computed)}
    names = (name for body in unclassed.values() for name in blob_names(body.files))
    sizes = store.content_sizes(filter(OID.fullmatch, names))
    contents = store.load_many(name for name, size in sizes.items() if size <= MAX_ANSWER_BYTES)
    classes = {name: compute_class(body, contents) for name, body in unclassed.items()}
    return [set_computed_class(document, classes.get(str(document.get("id")))) for document in documents]


def set_computed_class(document: dict[str, Any], computed: str | None) -> dict[str, Any]:
    """Return the record with that class, or unchanged for None."""
    if computed is None:
        return document
    body: dict[str, Any] = document["metadata"][KEY]
    recorded: dict[str, Any] = body.get("mutation_class") or {}
    classes = {**recorded, "computed": computed}
    return {**document, "metadata": {**document["metadata"], KEY: {**body, "mutation_class": classes}}}


def parse_record(document: dict[str, Any]) -> _SyntaxRecord | None:
    """Parse the needed parts of a record; None for other events and shapes."""
    try:
        record = convert(document, prepare_type(_SyntaxRecord))
    except ValidationError:
        return None
    return record if record.metadata.body.event in MAPPED_EVENTS else None


def may_have_map_entry(document: dict[str, Any]) -> bool:
    return as_object(as_object(document.get("metadata")).get(KEY)).get("event") in MAPPED_EVENTS


def blob_names(files: Iterable[_FileEntry]) -> Iterator[str]:
    sides = (side for file in files for side in (file.before, file.after))
    return (side.git_blob for side in sides if side is not None and side.git_blob)


def map_entry_of(record: _SyntaxRecord, contents: Contents) -> MapEntry | None:
    """Return the map entry of a record; None for a refactoring, which only moves code."""
    body = record.metadata.body
    if body.event == "intent_changed":
        return MapEntry(body.intent_id, body.name, at=record.timestamp) if body.intent_id else None
    if compute_class(body, contents) == "AST_REFACTOR":
        return None
    files = tuple((file.path, tuple(changed_parts(record, file, contents))) for file in body.files)
    lacking = tuple(name for name in blob_names(body.files) if name not in contents)
    return MapEntry(body.intent_id or "", files=files, lacking=lacking) if files else None


def compute_class(body: _MutationBody, contents: Contents) -> str | None:
    if body.mutation_class is not None and body.mutation_class.computed:
        return body.mutation_class.computed
    available = [
        file
        for file in body.files
        if all(name in contents for name in blob_names([file]))
        and all(side is None or side.git_blob for side in (file.before, file.after))
    ]
    if not available or any(len(contents[name]) > MAX_MAP_BYTES for name in blob_names(available)):
        return None
    # Imported here for start-up speed: loads the grammars.
    from remit.core.code.refactoring import FileChange, classify_change

    changes = [FileChange(f.path, side_content(f.before, contents), side_content(f.after, contents)) for f in available]
    computed = classify_change(changes)
    return None if computed == "AST_REFACTOR" and len(available) < len(body.files) else computed


def side_content(side: _FileSide | None, contents: Contents) -> bytes | None:
    return contents.get(side.git_blob) if side is not None and side.git_blob else None


def changed_parts(record: _SyntaxRecord, file: _FileEntry, contents: Contents) -> Iterator[ChangedPart]:
    created, trace = record.timestamp[:10], record.metadata.body.trace_id or record.id
    after = side_content(file.after, contents)
    # Remit's own ranges, else those of the published part.
    traced = [r for f in record.files if f.path == file.path for c in f.conversations for r in c.ranges]
    ranges = [r for r in file.ranges if r.start_line > 0] or [r for r in traced if r.start_line > 0]
    if not ranges:
        yield ChangedPart(0, 0, created=created, trace=trace, gone=file.after is None)
    for start, end, node in split_ranges(file.path, ranges, after):
        yield ChangedPart(start, end, node.hash, node.kind, node.name, created, trace)


def split_ranges(
    path: str, ranges: Sequence[_RangeFields], after: bytes | None
) -> Iterator[tuple[int, int, _DefinitionNode]]:
    known = [lines for lines in ranges if lines.node is not None or after is None]
    for lines in known:
        yield lines.start_line, lines.end_line, lines.node or _DefinitionNode(hash=lines.content_hash)
    if after is None or len(known) == len(ranges):
        return
    # Imported here for start-up speed: loads the grammars.
    from remit.core.code.definitions import split_by_definition

    others = [LineRange(lines.start_line, lines.end_line) for lines in ranges if lines.node is None]
    for span in split_by_definition(path, after, others):
        start, end = span.lines.start, span.lines.end
        node = span.node
        whole = _DefinitionNode(hash=hash_line_range(after, start, end))
        yield start, end, _DefinitionNode(node.kind, node.name, node.hash) if node is not None and node.name else whole
