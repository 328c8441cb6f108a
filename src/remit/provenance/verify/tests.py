"""Whether tests were weakened together with a change of code: RMT005.

What agents' calls added and took away is summed up, file by file, over all that was done under one intent, or in one
session without: what people did in between is not the agents'. A test that begins the same in another file has moved.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from msgspec import Struct

from remit.core.globs import Scope
from remit.core.syntax.rows import row_of
from remit.ledger.index import Index
from remit.policy.checks.constraints.require_test_change import TESTS
from remit.provenance.verify.counted_tests import NOTHING, WORDS, Counts, counts, tests_in
from remit.provenance.verify.coverage import undone_paths
from remit.provenance.verify.rules import Document, Finding, Range, body_of, finding
from remit.workspace.contents import ContentStore
from remit.workspace.head import OID

BATCH = 200
TEST_PATHS = Scope(TESTS)

Group: TypeAlias = tuple[str, str]
"""An intent, or nothing and a session."""


class Together(Struct):
    """What was done under one intent: how the tests of each file changed, with the newest record; the code files.

    `named` has how often each test, by its beginning, was added to a file, less how often it was taken away.
    """

    tests: dict[str, tuple[Counts, str]] = {}
    code: set[str] = set()
    named: dict[str, Counter[str]] = {}

    @property
    def sum(self) -> Counts:
        """Over all files."""
        total = NOTHING
        for found, _ in self.tests.values():
            total = total.plus(found)
        return total


def weakened(index: Index, store: ContentStore, within: Range | None) -> Iterator[Finding]:
    """The files whose tests were weakened, of those that the range is about."""
    for (intent, _), done in together(index, store, within).items():
        for path, (_, record) in done.tests.items() if done.code else ():
            if said := words_of(path, done):
                spot = next((s for s in (within.spots.get(record, ()) if within else ()) if s.path == path), None)
                place = {"line": spot.line, "commit": spot.commit} if spot else {}
                yield finding(
                    "RMT005",
                    f"{said} in tests, while code changed as well",
                    path=path,
                    record=record,
                    intent_id=intent or None,
                    **place,
                )


def words_of(path: str, done: Together) -> str:
    """How a file's tests were weakened, but for what moved to other files; empty where not."""
    change, total = done.tests[path][0], done.sum
    lost = {name: -n for name, n in done.named[path].items() if n < 0}
    moved = sum(min(n, elsewhere(name, path, done)) for name, n in lost.items())
    tests = min(-change.tests, sum(lost.values()) - moved)
    checks = -change.checks if not moved or total.checks < 0 else 0
    parts = [f"{n} {word}{'s' * (n != 1)} fewer" for n, word in ((tests, "test"), (checks, "assertion")) if n > 0]
    parts += [f"{change.skips} more skipped"] if change.skips > 0 and total.skips > 0 else []
    return ", ".join(parts)


def elsewhere(name: str, path: str, done: Together) -> int:
    """How many tests that begin so came into other files."""
    return sum(max(0, named[name]) for other, named in done.named.items() if other != path)


def together(index: Index, store: ContentStore, within: Range | None) -> dict[Group, Together]:
    """What agents' calls did, by intent or session; contents that are not at hand are passed over."""
    found: dict[Group, Together] = {}
    undone = undone_paths(index.each(event="restore"))
    waiting = index.each(event="mutation")
    while batch := list(islice(waiting, BATCH)):
        every = [(d, f) for d in batch for f in body_of(d).get("files", []) if is_asked(str(f["path"]), within)]
        touched = [(d, f) for d, f in every if (call_of(d), str(f["path"])) not in undone]
        contents = store.load_many(
            blob for _, f in touched if is_test(str(f["path"])) for s in sides(f) if s and OID.fullmatch(blob := s)
        )
        for document, file in touched:
            add(found.setdefault(group_of(document), Together()), document, file, contents)
    return found


def is_asked(path: str, within: Range | None) -> bool:
    """Whether the range is about the file."""
    return within is None or path in within.paths


def call_of(document: Document) -> str:
    """The id of the call that made the change."""
    return str(body_of(document).get("call", {}).get("id", ""))


def group_of(document: Document) -> Group:
    """What a change belongs to."""
    body = body_of(document)
    intent = str(body.get("intent_id") or "")
    return intent, "" if intent else str(body.get("session_id"))


def add(done: Together, document: Document, file: Document, contents: Mapping[str, bytes]) -> None:
    """Take in what one record says of one file."""
    path = str(file["path"])
    if not is_test(path):
        if is_code(path):
            done.code.add(path)
        return
    before, after = (
        counts(path, contents.get(blob) if blob else None) if blob is None or blob in contents else None
        for blob in sides(file)
    )
    if before is not None and after is not None:
        known = done.tests[path][0] if path in done.tests else NOTHING
        done.tests[path] = known.plus(after).plus(before, -1), str(document["id"])
        named = done.named.setdefault(path, Counter())
        for blob, act in zip(sides(file), (named.subtract, named.update), strict=True):
            act(tests_in(path, contents.get(blob) if blob else None))


def sides(file: Document) -> tuple[str | None, str | None]:
    """The git names of what it held before and after; None for no file, empty where that was not recorded."""
    before, after = (file.get(side) for side in ("before", "after"))
    return (
        None if before is None else str(before.get("git_blob") or ""),
        None if after is None else str(after.get("git_blob") or ""),
    )


def is_test(path: str) -> bool:
    """Whether a file is one of tests, in a language whose tests are counted."""
    row = row_of(path)
    return row is not None and row.name in WORDS and TEST_PATHS.matches(path)


def is_code(path: str) -> bool:
    """Whether a file is code, and no test."""
    row = row_of(path)
    return row is not None and row.name in WORDS and not TEST_PATHS.matches(path)
