"""Lines that records of other machines and tools tell of, where the content is the one that they name.

A position alone says nothing: files change. A range counts where its hash is that of the lines that stand there
and they are not everybody's, or where the whole file is the one that the record left.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from remit.core.authorship import Author
from remit.core.contents import range_hash, sha256
from remit.core.loose import mapping, sequence, text
from remit.core.record import KEY
from remit.ledger.foreign import foreign_records
from remit.provenance.origins.attribution import Attribution
from remit.provenance.origins.evidence import is_telling
from remit.provenance.origins.porcelain import GitLine
from remit.workspace.tracked import others

NOWHERE = Path(os.devnull)


class Told(Struct, frozen=True):
    """Lines of a file by a foreign record. `content_hash` is of those lines; `after` are hashes of the whole file."""

    path: str
    start: int
    end: int
    content_hash: str | None
    after: frozenset[str]
    who: Author


class ForeignLines:
    """What was imported into one workspace."""

    def __init__(self, attribution: Attribution) -> None:
        self.attribution = attribution

    def authors(self, lines: Sequence[GitLine], keys: Sequence[bytes] | None = None) -> dict[int, Author]:
        """Who wrote those lines, by their number in the file asked about; the newest record wins.

        Where `keys` are given, only records count that a tree head signed by one of them covers.
        """
        workspace = self.attribution.workspace
        folder, tracked = workspace.log_folder, others(workspace.tracked_logs, workspace.state)
        if not lines:
            return {}
        paths = {line.place.path for line in lines}
        records = foreign_records(NOWHERE, folder, (), keys or (), tracked)
        if keys is not None:
            records = [document for document in records if not document["metadata"][KEY].get("unproved")]
        told = [one for d in records for one in told_by(d) if one.path in paths]
        places = dict.fromkeys(line.place for line in lines if told)
        self.attribution.fetch_names(place.name for place in places)
        self.attribution.load({blob for place in places if (blob := self.attribution.version(place))})
        found: dict[int, Author] = {}
        for place in places:
            version = self.attribution.names.get(place.name)
            content = self.attribution.contents.get(version or "")
            if version is None or content is None:
                continue
            named = frozenset({version, sha256(content)})
            for one in (one for one in told if one.path == place.path and is_there(one, content, named)):
                own = (line for line in lines if line.place == place and one.start <= line.number <= one.end)
                found |= {line.line: one.who for line in own}
        return found


def is_there(one: Told, content: bytes, named: frozenset[str]) -> bool:
    """Whether that content holds what the record tells of."""
    if named & one.after:
        return True
    if one.content_hash is None or range_hash(content, one.start, one.end) != one.content_hash:
        return False
    return is_telling(content.split(b"\n")[one.start - 1 : one.end])


def told_by(document: dict[str, Any]) -> Iterator[Told]:
    """The lines that a foreign record tells of."""
    body = mapping(document["metadata"].get(KEY))
    if body.get("event") != "mutation":
        return
    sides = {str(f.get("path")): mapping(f.get("after")) for f in map(mapping, sequence(body.get("files")))}
    for file in map(mapping, sequence(document.get("files"))):
        path = str(file.get("path"))
        after = frozenset(str(v) for k, v in sides.get(path, {}).items() if k in ("sha256", "git_blob"))
        for conversation in map(mapping, sequence(file.get("conversations"))):
            who = _author(document, body, mapping(conversation.get("contributor")))
            for one in map(mapping, sequence(conversation.get("ranges"))) if who else ():
                start, end, content_hash = one.get("start_line"), one.get("end_line"), one.get("content_hash")
                if who and isinstance(start, int) and isinstance(end, int) and 0 < start <= end:
                    hashed = content_hash if isinstance(content_hash, str) else None
                    yield Told(path, start, end, hashed, after, who)


def _author(document: dict[str, Any], body: dict[str, Any], contributor: dict[str, Any]) -> Author | None:
    """Who the record says wrote it; None for a word that is neither a person nor an agent."""
    kind = contributor.get("type", "ai")
    if kind == "human":
        return Author("human")
    if kind != "ai":
        return None
    classes = mapping(body.get("mutation_class"))
    known = {"remit.intent": body.get("intent_id"), "remit.class": classes.get("computed")}
    attributes = {name: value for name, value in known.items() if isinstance(value, str)}
    tool, model = mapping(document.get("tool")).get("name"), contributor.get("model_id")
    return Author("ai", None, text(body.get("session_id")), text(tool), text(model), attributes)
