"""Whether the contents that records name are those that were recorded: RMT016."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from remit.core.contents import range_hash, sha256
from remit.provenance.verify.rules import Document, Finding, body_of, finding
from remit.workspace.contents import ContentStore


class Compared(Struct, frozen=True):
    """How many contents were at hand, how many were not, and what was found in the former."""

    contents: int
    lost: int
    findings: tuple[Finding, ...]


def compare(documents: Sequence[Document], store: ContentStore) -> Compared:
    """Hold the recorded hashes of files and of lines against the contents that are at hand."""
    sides = [(d, f, s) for d in documents for f in body_of(d).get("files", []) for s in ("before", "after") if f.get(s)]
    named = [(d, f, s, str(f[s]["git_blob"])) for d, f, s in sides if f[s].get("git_blob")]
    at_hand = store.load_many(dict.fromkeys(blob for *_, blob in named))
    found: list[Finding] = []
    for document, file, side, blob in named:
        content = at_hand.get(blob)
        if content is not None:
            found += mismatches(document, file, side, content)
    present = sum(blob in at_hand for *_, blob in named)
    return Compared(present, len(named) - present, tuple(found))


def mismatches(document: Document, file: Document, side: str, content: bytes) -> Iterator[Finding]:
    """What of the record is not so of this content."""
    path, about = str(file["path"]), {"record": str(document["id"]), "path": str(file["path"])}
    told = file[side].get("sha256")
    if told and told != sha256(content):
        yield finding(
            "RMT016", f"the content {side} the change hashes to {sha256(content)[:12]}…, not {told[:12]}…", **about
        )
        return
    if side != "after":
        return
    for start, end, hashed in ranges_of(document, path):
        if hashed != range_hash(content, start, end):
            yield finding("RMT016", f"lines {start}-{end} are not those that were recorded", line=start, **about)


def ranges_of(document: Document, path: str) -> Iterator[tuple[int, int, str]]:
    """The lines that a record says were written to that file, with their hash."""
    for file in document.get("files", []):
        for conversation in file.get("conversations", []) if file.get("path") == path else ():
            for one in conversation.get("ranges", []):
                if one.get("content_hash"):
                    yield int(one["start_line"]), int(one["end_line"]), str(one["content_hash"])
