"""Lines that records of other machines and tools tell of, where the content is the one that they name.

A position alone says nothing: files change. A range counts where its hash is that of the lines that stand there
and they are not everybody's, or where the whole file is the one that the record left.
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
    """Lines of a file by a foreign record. `content_hash` is of those lines; `after` are hashes of the whole file."""

    path: str
    start: int
    end: int
    content_hash: str | None
    after: frozenset[str]
    author: Author


class ImportedLines:
    """What was imported into one workspace."""

    def __init__(self, attributor: LineAttributor) -> None:
        self.attributor = attributor

    def find_authors(self, lines: Sequence[GitLine], keys: Sequence[bytes] | None = None) -> dict[int, Author]:
        """Who wrote those lines, by their number in the file asked about; the newest record wins.

        Where `keys` are given, only records count that a tree head signed by one of them covers.
        """
        workspace = self.attributor.workspace
        folder, tracked = workspace.log_folder, list_other_logs(workspace.tracked_logs, workspace.state)
        if not lines:
            return {}
        paths = {line.version.path for line in lines}
        records = read_foreign_records(NO_VIEW, folder, (), keys or (), tracked)
        if keys is not None:
            records = [document for document in records if not document["metadata"][KEY].get("unproved")]
        told = [one for d in records for one in ranges_of_record(d) if one.path in paths]
        places = dict.fromkeys(line.version for line in lines if told)
        self.attributor.load_named(place.name for place in places)
        self.attributor.load_contents({blob for place in places if (blob := self.attributor.version_blob(place))})
        found: dict[int, Author] = {}
        for place in places:
            version = self.attributor.blobs_by_name.get(place.name)
            content = self.attributor.contents_by_blob.get(version or "")
            if version is None or content is None:
                continue
            named = frozenset({version, sha256(content)})
            for one in (one for one in told if one.path == place.path and matches_content(one, content, named)):
                own = (line for line in lines if line.version == place and one.start <= line.number <= one.end)
                found |= {line.line: one.author for line in own}
        return found


def matches_content(one: ImportedRange, content: bytes, named: frozenset[str]) -> bool:
    """Whether that content holds what the record tells of."""
    if named & one.after:
        return True
    if one.content_hash is None or hash_line_range(content, one.start, one.end) != one.content_hash:
        return False
    return is_distinctive(content.split(b"\n")[one.start - 1 : one.end])


def ranges_of_record(document: dict[str, Any]) -> Iterator[ImportedRange]:
    """The lines that a foreign record tells of."""
    body = as_object(document["metadata"].get(KEY))
    if body.get("event") != "mutation":
        return
    sides = {str(f.get("path")): as_object(f.get("after")) for f in map(as_object, as_array(body.get("files")))}
    for file in map(as_object, as_array(document.get("files"))):
        path = str(file.get("path"))
        after = frozenset(str(v) for k, v in sides.get(path, {}).items() if k in ("sha256", "git_blob"))
        for conversation in map(as_object, as_array(file.get("conversations"))):
            who = _author_of_contributor(document, body, as_object(conversation.get("contributor")))
            for one in map(as_object, as_array(conversation.get("ranges"))) if who else ():
                start, end, content_hash = one.get("start_line"), one.get("end_line"), one.get("content_hash")
                if who and isinstance(start, int) and isinstance(end, int) and 0 < start <= end:
                    hashed = content_hash if isinstance(content_hash, str) else None
                    yield ImportedRange(path, start, end, hashed, after, who)


def _author_of_contributor(
    document: dict[str, Any], body: dict[str, Any], contributor: dict[str, Any]
) -> Author | None:
    """Who the record says wrote it; None for a word that is neither a person nor an agent."""
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
