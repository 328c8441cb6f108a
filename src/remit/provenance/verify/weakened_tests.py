"""Whether tests were weakened together with a change of code: RMT005.

What agents' calls added and took away is summed up, file by file, over all that was done under one intent, or in one
session without: what people did in between is not the agents'. A test that begins the same in another file has moved.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from msgspec import Struct

from remit.core.code.languages import find_language
from remit.core.scope.globs import Scope
from remit.ledger.index.index import Index
from remit.policy.checks.constraints.require_test_change import DEFAULT_TEST_PATTERNS
from remit.provenance.verify.counts_of_tests import (
    NO_TESTS,
    PATTERNS_BY_LANGUAGE,
    CaseCounts,
    count_tests,
    find_test_beginnings,
)
from remit.provenance.verify.coverage import find_undone_paths
from remit.provenance.verify.rules import CommitRange, Document, RuleFinding, body_of, make_finding
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.refs import OID

BATCH_RECORDS = 200
TEST_PATHS = Scope(DEFAULT_TEST_PATTERNS)

IntentOrSession: TypeAlias = tuple[str, str]
"""An intent, or nothing and a session."""


class SuiteChanges(Struct):
    """What was done under one intent: how the tests of each file changed, with the newest record; the code files.

    `named` has how often each test, by its beginning, was added to a file, less how often it was taken away.
    """

    tests: dict[str, tuple[CaseCounts, str]] = {}
    code: set[str] = set()
    named: dict[str, Counter[str]] = {}

    @property
    def total(self) -> CaseCounts:
        """Over all files."""
        total = NO_TESTS
        for found, _ in self.tests.values():
            total = total.add(found)
        return total


def find_weakened_tests(index: Index, store: ContentStore, within: CommitRange | None) -> Iterator[RuleFinding]:
    """The files whose tests were weakened, of those that the range is about."""
    for (intent, _), done in collect_test_changes(index, store, within).items():
        for path, (_, record) in done.tests.items() if done.code else ():
            if said := describe_weakening(path, done):
                spot = next((s for s in (within.spots.get(record, ()) if within else ()) if s.path == path), None)
                place = {"line": spot.line, "commit": spot.commit} if spot else {}
                yield make_finding(
                    "RMT005",
                    f"{said} in tests, while code changed as well",
                    path=path,
                    record=record,
                    intent_id=intent or None,
                    **place,
                )


def describe_weakening(path: str, done: SuiteChanges) -> str:
    """How a file's tests were weakened, but for what moved to other files; empty where not."""
    change, total = done.tests[path][0], done.total
    lost = {name: -n for name, n in done.named[path].items() if n < 0}
    moved = sum(min(n, count_moved_tests(name, path, done)) for name, n in lost.items())
    tests = min(-change.tests, sum(lost.values()) - moved)
    checks = -change.checks if not moved or total.checks < 0 else 0
    parts = [f"{n} {word}{'s' * (n != 1)} fewer" for n, word in ((tests, "test"), (checks, "assertion")) if n > 0]
    parts += [f"{change.skips} more skipped"] if change.skips > 0 and total.skips > 0 else []
    return ", ".join(parts)


def count_moved_tests(name: str, path: str, done: SuiteChanges) -> int:
    """How many tests that begin so came into other files."""
    return sum(max(0, named[name]) for other, named in done.named.items() if other != path)


def collect_test_changes(
    index: Index, store: ContentStore, within: CommitRange | None
) -> dict[IntentOrSession, SuiteChanges]:
    """What agents' calls did, by intent or session; contents that are not at hand are passed over."""
    found: dict[IntentOrSession, SuiteChanges] = {}
    undone = find_undone_paths(index.iterate_records(event="restore"))
    waiting = index.iterate_records(event="mutation")
    while batch := list(islice(waiting, BATCH_RECORDS)):
        every = [(d, f) for d in batch for f in body_of(d).get("files", []) if is_in_range(str(f["path"]), within)]
        touched = [(d, f) for d, f in every if (call_id_of(d), str(f["path"])) not in undone]
        contents = store.load_many(
            blob
            for _, f in touched
            if is_test_file(str(f["path"]))
            for s in side_blobs(f)
            if s and OID.fullmatch(blob := s)
        )
        for document, file in touched:
            add_file_change(found.setdefault(intent_or_session(document), SuiteChanges()), document, file, contents)
    return found


def is_in_range(path: str, within: CommitRange | None) -> bool:
    """Whether the range is about the file."""
    return within is None or path in within.paths


def call_id_of(document: Document) -> str:
    """The id of the call that made the change."""
    return str(body_of(document).get("call", {}).get("id", ""))


def intent_or_session(document: Document) -> IntentOrSession:
    """What a change belongs to."""
    body = body_of(document)
    intent = str(body.get("intent_id") or "")
    return intent, "" if intent else str(body.get("session_id"))


def add_file_change(done: SuiteChanges, document: Document, file: Document, contents: Mapping[str, bytes]) -> None:
    """Take in what one record says of one file."""
    path = str(file["path"])
    if not is_test_file(path):
        if is_code_file(path):
            done.code.add(path)
        return
    before, after = (
        count_tests(path, contents.get(blob) if blob else None) if blob is None or blob in contents else None
        for blob in side_blobs(file)
    )
    if before is not None and after is not None:
        known = done.tests[path][0] if path in done.tests else NO_TESTS
        done.tests[path] = known.add(after).add(before, -1), str(document["id"])
        named = done.named.setdefault(path, Counter())
        for blob, act in zip(side_blobs(file), (named.subtract, named.update), strict=True):
            act(find_test_beginnings(path, contents.get(blob) if blob else None))


def side_blobs(file: Document) -> tuple[str | None, str | None]:
    """The git names of what it held before and after; None for no file, empty where that was not recorded."""
    before, after = (file.get(side) for side in ("before", "after"))
    return (
        None if before is None else str(before.get("git_blob") or ""),
        None if after is None else str(after.get("git_blob") or ""),
    )


def is_test_file(path: str) -> bool:
    """Whether a file is one of tests, in a language whose tests are counted."""
    row = find_language(path)
    return row is not None and row.name in PATTERNS_BY_LANGUAGE and TEST_PATHS.matches(path)


def is_code_file(path: str) -> bool:
    """Whether a file is code, and no test."""
    row = find_language(path)
    return row is not None and row.name in PATTERNS_BY_LANGUAGE and not TEST_PATHS.matches(path)
