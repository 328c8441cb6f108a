"""Whether what was changed under an intent holds to its constraints: all recorded changes together, as they ended."""

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from msgspec import Struct

from remit.core.edits import Proposed
from remit.core.intent import Intent
from remit.core.record import KEY
from remit.ledger.index import Index
from remit.policy.checks.constraints.breach import Situation
from remit.policy.checks.constraints.judging import breaches, sentence
from remit.provenance.verify.coverage import undone_paths
from remit.workspace.contents import ContentStore


class Ended(Struct):
    """One file: the git name of what it held at first, and in the end; None for no file. `records` changed it."""

    first: str | None
    last: str | None
    records: tuple[str, ...]


class NotHeld(Struct, frozen=True):
    """One constraint that is broken. `path` is empty where it is about all files; `records` changed them."""

    message: str
    path: str
    records: tuple[str, ...]


def not_held(intent: Intent, index: Index, store: ContentStore) -> Iterator[NotHeld]:
    """Every constraint of the intent that does not hold. A content that is not at hand is not looked into."""
    undone = undone_paths(index.each(event="restore", intent_id=intent.id))
    ended = trail(index.each(event="mutation", intent_id=intent.id), undone)
    changed = {path: one for path, one in ended.items() if one.first != one.last}
    contents = store.load_many(dict.fromkeys(b for one in changed.values() for b in (one.first, one.last) if b))
    at: Callable[[str | None], bytes | None] = lambda blob: contents.get(blob) if blob else None  # noqa: E731
    files = tuple(
        Proposed(path, at(one.first), at(one.last), not one.last or one.last in contents)
        for path, one in changed.items()
    )
    every = tuple(record for one in changed.values() for record in one.records)
    for constraint, breach in breaches(intent, Situation(files, tuple(changed), tuple(changed), final=True)):
        records = changed[breach.path].records if breach.path in changed else every
        yield NotHeld(sentence(intent.id, constraint, breach), breach.path or "", records)


def trail(documents: Iterable[dict[str, Any]], undone: Container[tuple[str, str]]) -> dict[str, Ended]:
    """What these records, the oldest first, made of each file; what was `undone` after its call made nothing of it."""
    found: dict[str, Ended] = {}
    for document in documents:
        body: dict[str, Any] = document["metadata"][KEY]
        call = str(body.get("call", {}).get("id", ""))
        for file in body.get("files", []):
            if (call, str(file["path"])) in undone:
                continue
            before, after = (file.get(side, {}).get("git_blob") for side in ("before", "after"))
            known = found.get(str(file["path"]))
            records = (*(known.records if known else ()), str(document["id"]))
            found[str(file["path"])] = Ended(known.first if known else before, after, records)
    return found
