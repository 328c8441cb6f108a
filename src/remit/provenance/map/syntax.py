"""What the syntax trees say of a recorded change: its class, and the definitions that it touched.

Records that were made where there was time for it carry both. Of the others they are worked out from the contents that
were kept; where one is not at hand any more, nothing is said.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from msgspec import Struct, ValidationError, convert

from remit.core.contents import LineRange, range_hash
from remit.core.record import KEY
from remit.ledger.changes import Change
from remit.provenance.map.intent_map import Part, Told
from remit.workspace.contents import ContentStore
from remit.workspace.head import OID

BATCH = 200
"""Records whose contents are asked of git together."""

CLASSED_BYTES = 64 * 1024
"""Of larger files the class is not worked out for an answer that somebody waits for."""

MAP_CLASSED_BYTES = 256 * 1024
"""Of larger files the map shows each change: working out that one is a refactoring takes a second for a megabyte, for
which the background process would answer no hook.
"""

Contents = Mapping[str, bytes]


class _Node(Struct):
    kind: str = ""
    name: str = ""
    hash: str = ""


class _Range(Struct):
    start_line: int = 0
    end_line: int = 0
    content_hash: str = ""
    node: _Node | None = None


class _Side(Struct):
    git_blob: str | None = None


class _File(Struct):
    path: str
    before: _Side | None = None
    after: _Side | None = None
    ranges: list[_Range] = []


class _Class(Struct):
    computed: str | None = None


class _Body(Struct):
    event: str | None = None
    intent_id: str | None = None
    trace_id: str | None = None
    name: str | None = None
    mutation_class: _Class | None = None
    files: list[_File] = []


class _Conversation(Struct):
    ranges: list[_Range] = []


class _Traced(Struct):
    path: str
    conversations: list[_Conversation] = []


class _Metadata(Struct, rename={"body": KEY}):
    body: _Body


class _Record(Struct):
    id: str
    timestamp: str
    metadata: _Metadata
    files: list[_Traced] = []


def told(documents: Iterable[dict[str, Any]], store: ContentStore) -> Iterator[Told]:
    """What each record tells the intent map, oldest first; those that tell it nothing are passed over."""
    waiting = (record for document in documents if (record := record_of(document)) is not None)
    while batch := list(islice(waiting, BATCH)):
        named = (name for record in batch for name in blobs(record.metadata.body.files))
        contents = store.load_many(filter(OID.fullmatch, named))
        yield from (found for record in batch if (found := told_by(record, contents)) is not None)


def classed(documents: Sequence[dict[str, Any]], store: ContentStore) -> list[dict[str, Any]]:
    """The records, with the class that the syntax trees show where none was recorded: the hook has no time for it."""
    found = [record_of(document) for document in documents]
    open_ = {r.id: r for r in found if r and r.metadata.body.event == "mutation" and not recorded_class(r)}
    contents = small((name for r in open_.values() for name in blobs(r.metadata.body.files)), store)
    classes = {name: computed_class(r.metadata.body, contents) for name, r in open_.items()}
    return [with_class(document, classes.get(str(document.get("id")))) for document in documents]


def expect(changes: Iterable[Change], store: ContentStore) -> None:
    """Have the contents at hand that `classed` asks for, where the store holds what it was asked for once."""
    small((name for change in changes for name in (change.before_blob, change.after_blob) if name), store)


def small(names: Iterable[str], store: ContentStore) -> Contents:
    """Those contents that are at hand and not too large: of the others only the size is asked."""
    sizes = store.sizes(filter(OID.fullmatch, names))
    return store.load_many(name for name, size in sizes.items() if size <= CLASSED_BYTES)


def recorded_class(record: _Record) -> str | None:
    """The computed class that a record holds."""
    known = record.metadata.body.mutation_class
    return known.computed if known else None


def with_class(document: dict[str, Any], found: str | None) -> dict[str, Any]:
    """The record with that class; as it is where there is none."""
    if found is None:
        return document
    body: dict[str, Any] = document["metadata"][KEY]
    known: dict[str, Any] = body.get("mutation_class") or {}
    classes = {**known, "computed": found}
    return {**document, "metadata": {**document["metadata"], KEY: {**body, "mutation_class": classes}}}


def record_of(document: dict[str, Any]) -> _Record | None:
    """The parts of a record that matter here; None for one that tells the map nothing, or of another shape."""
    try:
        record = convert(document, _Record)
    except ValidationError:
        return None
    return record if record.metadata.body.event in ("mutation", "intent_changed") else None


def blobs(files: Iterable[_File]) -> Iterator[str]:
    """The git names of the contents on both sides."""
    sides = (side for file in files for side in (file.before, file.after))
    return (side.git_blob for side in sides if side is not None and side.git_blob)


def told_by(record: _Record, contents: Contents) -> Told | None:
    """A name, or a change, or nothing: a refactoring only moves what is there."""
    body = record.metadata.body
    if body.event == "intent_changed":
        return Told(body.intent_id, body.name, at=record.timestamp) if body.intent_id else None
    if computed_class(body, contents) == "AST_REFACTOR":
        return None
    files = tuple((file.path, tuple(parts(record, file, contents))) for file in body.files)
    lacking = tuple(name for name in blobs(body.files) if name not in contents)
    return Told(body.intent_id or "", files=files, lacking=lacking) if files else None


def computed_class(body: _Body, contents: Contents) -> str | None:
    """The class that the syntax trees show; as recorded, where it was."""
    if body.mutation_class is not None and body.mutation_class.computed:
        return body.mutation_class.computed
    known = [file for file in body.files if all(name in contents for name in blobs([file])) and is_named(file)]
    if not known or any(len(contents[name]) > MAP_CLASSED_BYTES for name in blobs(known)):
        return None
    from remit.core.syntax.change import FileChange, classify_change  # the grammars' tables take a while

    found = classify_change(
        [FileChange(f.path, content(f.before, contents), content(f.after, contents)) for f in known]
    )
    return None if found == "AST_REFACTOR" and len(known) < len(body.files) else found


def is_named(file: _File) -> bool:
    """Whether the record names the contents of the sides that there are."""
    return all(side is None or side.git_blob for side in (file.before, file.after))


def content(side: _Side | None, contents: Contents) -> bytes | None:
    """The content of one side, where it is there and at hand."""
    return contents.get(side.git_blob) if side is not None and side.git_blob else None


def parts(record: _Record, file: _File, contents: Contents) -> Iterator[Part]:
    """The parts of one file that a record changed."""
    created, trace = record.timestamp[:10], record.metadata.body.trace_id or record.id
    after = content(file.after, contents)
    found = ranges_of(record, file)
    if not found:
        yield Part(0, 0, created=created, trace=trace, gone=file.after is None)
    for lines in found:
        for start, end, node in cut(file.path, lines, after):
            yield Part(start, end, node.hash, node.kind, node.name, created, trace)


def ranges_of(record: _Record, file: _File) -> Sequence[_Range]:
    """The ranges of a file as a record has them: Remit's own, else those of the published part."""
    traced = [r for f in record.files if f.path == file.path for c in f.conversations for r in c.ranges]
    return [r for r in file.ranges if r.start_line > 0] or [r for r in traced if r.start_line > 0]


def cut(path: str, lines: _Range, after: bytes | None) -> Iterator[tuple[int, int, _Node]]:
    """A range by the definitions that it holds; without a name where none can be told."""
    if lines.node is not None or after is None:
        yield lines.start_line, lines.end_line, lines.node or _Node(hash=lines.content_hash)
        return
    from remit.core.syntax.nodes import spans  # the same

    for span in spans(path, after, [LineRange(lines.start_line, lines.end_line)]):
        start, end = span.lines.start, span.lines.end
        node = span.node
        whole = _Node(hash=range_hash(after, start, end))
        yield start, end, _Node(node.kind, node.name, node.hash) if node is not None and node.name else whole
