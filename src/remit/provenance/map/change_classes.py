"""What the syntax trees say of a recorded change: its class, and the definitions that it touched.

Records that were made where there was time for it carry both. Of the others they are worked out from the contents that
were kept; where one is not at hand any more, nothing is said.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct, ValidationError, convert

from remit.core.diff.contents import LineRange, hash_line_range
from remit.core.record import KEY
from remit.ledger.file_changes import RecordedChange
from remit.provenance.map.map_text import ChangedPart, MapEntry
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.refs import OID

BATCH_RECORDS = 200
"""Records whose contents are asked of git together."""

MAX_ANSWER_BYTES = 64 * 1024
"""Of larger files the class is not worked out for an answer that somebody waits for."""

MAX_MAP_BYTES = 256 * 1024
"""Of larger files the map shows each change: working out that one is a refactoring takes a second for a megabyte, for
which the background process would answer no hook.
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


class _RecordMetadata(Struct, rename={"body": KEY}):
    body: _MutationBody


class _SyntaxRecord(Struct):
    id: str
    timestamp: str
    metadata: _RecordMetadata
    files: list[_FileTrace] = []


def read_map_entries(documents: Iterable[dict[str, Any]], store: ContentStore) -> Iterator[MapEntry]:
    """What each record tells the intent map, oldest first; those that tell it nothing are passed over."""
    waiting = (record for document in documents if (record := parse_record(document)) is not None)
    while batch := list(islice(waiting, BATCH_RECORDS)):
        named = (name for record in batch for name in blob_names(record.metadata.body.files))
        contents = store.load_many(filter(OID.fullmatch, named))
        yield from (found for record in batch if (found := map_entry_of(record, contents)) is not None)


def add_computed_classes(documents: Sequence[dict[str, Any]], store: ContentStore) -> list[dict[str, Any]]:
    """The records, with the class that the syntax trees show where none was recorded: the hook has no time for it."""
    found = [parse_record(document) for document in documents]
    open_ = {r.id: r for r in found if r and r.metadata.body.event == "mutation" and not recorded_class(r)}
    contents = load_small_contents((name for r in open_.values() for name in blob_names(r.metadata.body.files)), store)
    classes = {name: compute_class(r.metadata.body, contents) for name, r in open_.items()}
    return [set_computed_class(document, classes.get(str(document.get("id")))) for document in documents]


def prefetch_contents(changes: Iterable[RecordedChange], store: ContentStore) -> None:
    """Have the contents at hand that `classed` asks for, where the store holds what it was asked for once."""
    load_small_contents((name for change in changes for name in (change.before_blob, change.after_blob) if name), store)


def load_small_contents(names: Iterable[str], store: ContentStore) -> Contents:
    """Those contents that are at hand and not too large: of the others only the size is asked."""
    sizes = store.content_sizes(filter(OID.fullmatch, names))
    return store.load_many(name for name, size in sizes.items() if size <= MAX_ANSWER_BYTES)


def recorded_class(record: _SyntaxRecord) -> str | None:
    """The computed class that a record holds."""
    known = record.metadata.body.mutation_class
    return known.computed if known else None


def set_computed_class(document: dict[str, Any], found: str | None) -> dict[str, Any]:
    """The record with that class; as it is where there is none."""
    if found is None:
        return document
    body: dict[str, Any] = document["metadata"][KEY]
    known: dict[str, Any] = body.get("mutation_class") or {}
    classes = {**known, "computed": found}
    return {**document, "metadata": {**document["metadata"], KEY: {**body, "mutation_class": classes}}}


def parse_record(document: dict[str, Any]) -> _SyntaxRecord | None:
    """The parts of a record that matter here; None for one that tells the map nothing, or of another shape."""
    try:
        record = convert(document, _SyntaxRecord)
    except ValidationError:
        return None
    return record if record.metadata.body.event in ("mutation", "intent_changed") else None


def blob_names(files: Iterable[_FileEntry]) -> Iterator[str]:
    """The git names of the contents on both sides."""
    sides = (side for file in files for side in (file.before, file.after))
    return (side.git_blob for side in sides if side is not None and side.git_blob)


def map_entry_of(record: _SyntaxRecord, contents: Contents) -> MapEntry | None:
    """A name, or a change, or nothing: a refactoring only moves what is there."""
    body = record.metadata.body
    if body.event == "intent_changed":
        return MapEntry(body.intent_id, body.name, at=record.timestamp) if body.intent_id else None
    if compute_class(body, contents) == "AST_REFACTOR":
        return None
    files = tuple((file.path, tuple(changed_parts(record, file, contents))) for file in body.files)
    lacking = tuple(name for name in blob_names(body.files) if name not in contents)
    return MapEntry(body.intent_id or "", files=files, lacking=lacking) if files else None


def compute_class(body: _MutationBody, contents: Contents) -> str | None:
    """The class that the syntax trees show; as recorded, where it was."""
    if body.mutation_class is not None and body.mutation_class.computed:
        return body.mutation_class.computed
    known = [
        file for file in body.files if all(name in contents for name in blob_names([file])) and has_all_blob_names(file)
    ]
    if not known or any(len(contents[name]) > MAX_MAP_BYTES for name in blob_names(known)):
        return None
    from remit.core.code.refactoring import FileChange, classify_change  # the grammars' tables take a while

    found = classify_change(
        [FileChange(f.path, side_content(f.before, contents), side_content(f.after, contents)) for f in known]
    )
    return None if found == "AST_REFACTOR" and len(known) < len(body.files) else found


def has_all_blob_names(file: _FileEntry) -> bool:
    """Whether the record names the contents of the sides that there are."""
    return all(side is None or side.git_blob for side in (file.before, file.after))


def side_content(side: _FileSide | None, contents: Contents) -> bytes | None:
    """The content of one side, where it is there and at hand."""
    return contents.get(side.git_blob) if side is not None and side.git_blob else None


def changed_parts(record: _SyntaxRecord, file: _FileEntry, contents: Contents) -> Iterator[ChangedPart]:
    """The parts of one file that a record changed."""
    created, trace = record.timestamp[:10], record.metadata.body.trace_id or record.id
    after = side_content(file.after, contents)
    found = recorded_ranges(record, file)
    if not found:
        yield ChangedPart(0, 0, created=created, trace=trace, gone=file.after is None)
    for lines in found:
        for start, end, node in split_range(file.path, lines, after):
            yield ChangedPart(start, end, node.hash, node.kind, node.name, created, trace)


def recorded_ranges(record: _SyntaxRecord, file: _FileEntry) -> Sequence[_RangeFields]:
    """The ranges of a file as a record has them: Remit's own, else those of the published part."""
    traced = [r for f in record.files if f.path == file.path for c in f.conversations for r in c.ranges]
    return [r for r in file.ranges if r.start_line > 0] or [r for r in traced if r.start_line > 0]


def split_range(path: str, lines: _RangeFields, after: bytes | None) -> Iterator[tuple[int, int, _DefinitionNode]]:
    """A range by the definitions that it holds; without a name where none can be told."""
    if lines.node is not None or after is None:
        yield lines.start_line, lines.end_line, lines.node or _DefinitionNode(hash=lines.content_hash)
        return
    from remit.core.code.definitions import split_by_definition  # the same

    for span in split_by_definition(path, after, [LineRange(lines.start_line, lines.end_line)]):
        start, end = span.lines.start, span.lines.end
        node = span.node
        whole = _DefinitionNode(hash=hash_line_range(after, start, end))
        yield start, end, _DefinitionNode(node.kind, node.name, node.hash) if node is not None and node.name else whole
