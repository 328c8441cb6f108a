"""What a call put into a new file that stood in another one: `mv`, `cp`, `cat a b > c`, a patch that moves a file.

Whose lines those are, the other file tells; the call that carried them wrote none of them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from remit.core.identifiers import part_ids
from remit.core.own_words import is_strong
from remit.core.record import KEY
from remit.core.spans import Span, spans_of
from remit.core.text import quoted_path
from remit.ledger.changes import Change
from remit.ledger.index import Index
from remit.provenance.origins.alike import equal_blocks
from remit.provenance.origins.versions import Versions

BETWEEN_WORDS = re.compile(r"[\s'\"`;|&<>()$={}]+")
VERSION = re.compile(r"[\w./-]+(?:[~^]\d*)*:(?!\.{1,2}(?:/|$))")
"""`<commit>:<path>` from the root, as far as git only looks it up: at a relative path that leads out, an upstream or a
reflog's entry that is not there, it gives up whatever else it is asked. Source: gitrevisions(7), read 2026-11.
"""

MOST_COMMAND = 8192
"""Characters of a command in which names of files are looked for."""

MOST_NAMES = 400

MAX_PARTS = 200
"""Parts of one record that are read for the files that its call took away."""

MOST_LINES = 5_000
"""Lines of a file that are compared in order."""

LeftBefore = Callable[[str, int], str | None]
"""The content, by git's name, that the last recorded change of a path before a record left it with."""


class Copied(Struct, frozen=True):
    """`origin` is the path of the file that the new one was; `spans` are the lines that stood in others."""

    origin: str | None = None
    spans: tuple[Span, ...] = ()


def copied(versions: Versions, index: Index, changes: Sequence[Change], left_before: LeftBefore) -> dict[str, Copied]:
    """By record, what these changes of one file have from files that their commands name, or took away."""
    words = {change.id: names_in(change) for change in changes}
    named = [(change, name) for change in changes for name in words[change.id]]
    asked = {place for change, name in named for place in objects(change, name, versions.prefix)}
    held = {place: blob for place, blob in versions.resolved(sorted(asked)).items() if blob}
    return {change.id: one(versions, index, change, words[change.id], held, left_before) for change in changes}


def one(
    versions: Versions,
    index: Index,
    change: Change,
    words: Iterable[str],
    held: Mapping[str, str],
    left_before: LeftBefore,
) -> Copied:
    """What one change has from others. A file that was there before stays itself, whatever is copied over it."""
    earlier = [c for c in index.changes_leaving(change.after_sha or "") if c.seq < change.seq and c.path != change.path]
    origin = next((c.path for c in earlier), None) if change.command else None
    if origin and not change.before_blob:
        return Copied(origin)
    if origin and all(c.session_id == change.session_id and not c.before_blob for c in earlier):
        return Copied()
    files = files_of(index, change) if change.took_away or not change.before_blob else []
    made = {str(file["path"]) for file in files if not file.get("before")} | {change.path}
    known = {name: [held[place] for place in objects(change, name, versions.prefix) if place in held] for name in words}
    found = {name: left_before(quoted_path(name), change.seq) or next(iter(known[name]), None) for name in words}
    sources = {name: blob for name, blob in found.items() if blob and name not in made} | taken_away(files)
    if not change.command:
        versions.load({*sources.values(), change.after_blob or ""} - {""})  # one git for all
        sources = {path: blob for path, blob in sources.items() if went_on(versions, blob, change.after_blob)}
    whole = next((path for path, blob in sources.items() if blob == change.after_blob), None)
    if whole and not change.before_blob:
        return Copied(whole)
    return Copied(spans=lines_of_others(versions, change, set(sources.values()))) if sources else Copied()


def went_on(versions: Versions, before: str, after: str | None) -> bool:
    """Whether a file goes on as another, as a patch says that moves it: half of what it said is there. Who tells a file
    tool what to put into several, wrote that. Both contents are at hand.
    """
    old, new = list(filter(is_strong, versions.lines(before) or ())), set(versions.lines(after) or ())
    return 2 * sum(line in new for line in old) >= len(old)


def names_in(change: Change) -> list[str]:
    """The words of a command that may be files, or versions of files."""
    words = BETWEEN_WORDS.split((change.command or "")[:MOST_COMMAND])
    return sorted({word.removeprefix("./") for word in words} - {"", change.path})[:MOST_NAMES]


def objects(change: Change, name: str, prefix: str) -> list[str]:
    """Where git may know that file: in the commit that was checked out, else in HEAD, where it came to be meanwhile."""
    asked = [name] if ":" in name else [f"{at}:{prefix}{name}" for at in (change.revision, "HEAD") if at]
    return [version for version in asked if VERSION.match(version)]


def taken_away(files: Iterable[dict[str, Any]]) -> dict[str, str]:
    """The files that the same call took away, and what they held."""
    gone = [file for file in files if file.get("after") is None and file.get("before")]
    return {str(f["path"]): str(f["before"]["git_blob"]) for f in gone if f["before"].get("git_blob")}


def files_of(index: Index, change: Change) -> list[dict[str, Any]]:
    """What the record of a change says of files, with all its other parts."""
    documents = index.by_id(change.id)
    if not documents:
        return []
    body: dict[str, Any] = documents[0]["metadata"][KEY]
    ids = part_ids(body.get("part"), MAX_PARTS) or [change.id]
    return [file for one in ids for document in index.by_id(one) for file in document["metadata"][KEY].get("files", [])]


def lines_of_others(versions: Versions, change: Change, sources: set[str]) -> tuple[Span, ...]:
    """The lines of the new file that stand in those contents and not in the command: where both go on alike, and those
    that nobody else would have written.
    """
    versions.load({*sources, change.after_blob or ""} - {""})
    said = (change.command or "").encode("utf-8", "surrogateescape")
    new = versions.lines(change.after_blob) or ()
    found: set[int] = set()
    for lines in (versions.lines(blob) or () for blob in sources):
        there = {line for line in lines if is_strong(line)}
        found |= {n for n, line in enumerate(new, 1) if line in there}
        if len(lines) <= MOST_LINES and len(new) <= MOST_LINES:
            found |= {to + n for _, to, size in equal_blocks(lines, new) for n in range(1, size + 1)}
    return spans_of(n for n in found if not new[n - 1].strip() or new[n - 1].strip() not in said)
