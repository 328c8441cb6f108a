"""Authors of lines by records of other machines and tools.

Files change, hence a position alone proves nothing. A range counts if its hash matches distinctive lines at that
position, or if the whole file is the recorded one.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from remit.core.diff.contents import hash_line_range, sha256
from remit.core.formats.authorship_notes import Author
from remit.core.json_guards import as_array, as_object, as_text
from remit.core.record import KEY
from remit.ledger.foreign_logs import read_foreign_records
from remit.provenance.origins.attributor import LineAttributor
from remit.provenance.origins.blame_porcelain import GitLine
from remit.provenance.origins.evidence import is_distinctive
from remit.workspace.sharing.tracked_logs import list_other_logs

NO_VIEW = Path(os.devnull)


class ImportedRange(Struct, frozen=True):
    """A range of a file by a foreign record. `content_hash` covers the range; `after` are hashes of the whole file."""

    path: str
    start: int
    end: int
    content_hash: str | None
    after: frozenset[str]
    author: Author


class ImportedLines:
    """Foreign records imported into one workspace."""

    def __init__(self, attributor: LineAttributor) -> None:
        self.attributor = attributor

    def find_authors(self, lines: Sequence[GitLine], keys: Sequence[bytes] | None = None) -> dict[int, Author]:
        """Return the authors by line number of the file asked about; the newest record wins.

        With `keys`, only records count that a tree head signed by one of the keys covers.
        """
        workspace = self.attributor.workspace
        folder, tracked = workspace.log_folder, list_other_logs(workspace.tracked_logs, workspace.state)
        if not lines:
            return {}
        paths = {line.version.path for line in lines}
        records = read_foreign_records(NO_VIEW, folder, (), keys or (), tracked)
        if keys is not None:
            records = [document for document in records if not document["metadata"][KEY].get("unproved")]
        ranges = [line_range for d in records for line_range in ranges_of_record(d) if line_range.path in paths]
        versions = dict.fromkeys(line.version for line in lines if ranges)
        self.attributor.load_named(version.name for version in versions)
        self.attributor.load_contents({blob for version in versions if (blob := self.attributor.version_blob(version))})
        authors: dict[int, Author] = {}
        for version in versions:
            blob = self.attributor.blobs_by_name.get(version.name)
            content = self.attributor.contents_by_blob.get(blob or "")
            if blob is None or content is None:
                continue
            hashes = frozenset({blob, sha256(content)})
            for line_range in (
                line_range
                for line_range in ranges
                if line_range.path == version.path and matches_content(line_range, content, hashes)
            ):
                lines_in_range = (
                    line
                    for line in lines
                    if line.version == version and line_range.start <= line.number <= line_range.end
                )
                authors |= {line.line: line_range.author for line in lines_in_range}
        return authors


def matches_content(line_range: ImportedRange, content: bytes, hashes: frozenset[str]) -> bool:
    if hashes & line_range.after:
        return True
    if (
        line_range.content_hash is None
        or hash_line_range(content, line_range.start, line_range.end) != line_range.content_hash
    ):
        return False
    return is_distinctive(content.split(b"\n")[line_range.start - 1 : line_range.end])


def ranges_of_record(document: dict[str, Any]) -> Iterator[ImportedRange]:
    body = as_object(document["metadata"].get(KEY))
    if body.get("event") != "mutation":
        return
    sides = {str(f.get("path")): as_object(f.get("after")) for f in map(as_object, as_array(body.get("files")))}
    for file in map(as_object, as_array(document.get("files"))):
        path = str(file.get("path"))
        after = frozenset(str(v) for k, v in sides.get(path, {}).items() if k in ("sha256", "git_blob"))
        for conversation in map(as_object, as_array(file.get("conversations"))):
            author = _author_of_contributor(document, body, as_object(conversation.get("contributor")))
            for line_range in map(as_object, as_array(conversation.get("ranges"))) if author else ():
                start, end, content_hash = (
                    line_range.get("start_line"),
                    line_range.get("end_line"),
                    line_range.get("content_hash"),
                )
                if author and isinstance(start, int) and isinstance(end, int) and 0 < start <= end:
                    range_hash = content_hash if isinstance(content_hash, str) else None
                    yield ImportedRange(path, start, end, range_hash, after, author)


def _author_of_contributor(
    document: dict[str, Any], body: dict[str, Any], contributor: dict[str, Any]
) -> Author | None:
    """Return the author named by a contributor entry; None for a type that is neither person nor agent."""
    kind = contributor.get("type", "ai")
    if kind == "human":
        return Author("human")
    if kind != "ai":
        return None
    classes = as_object(body.get("mutation_class"))
    known = {"remit.intent": body.get("intent_id"), "remit.class": classes.get("computed")}
    attributes = {name: value for name, value in known.items() if isinstance(value, str)}
    tool, model = as_object(document.get("tool")).get("name"), contributor.get("model_id")
    return Author("ai", None, as_text(body.get("session_id")), as_text(tool), as_text(model), attributes)
