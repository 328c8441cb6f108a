"""Rule RMT005: tests were weakened together with a change of code.

Changes by agents' calls are summed up per file, over one intent, or over one session without an intent; changes by
people do not count. A test with the same beginning in another file has moved.
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
from remit.provenance.verify.rules import CommitRange, Document, RuleFinding, body_of, make_finding
from remit.provenance.verify.verdict_coverage import find_undone_paths
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.refs import OID

BATCH_RECORDS = 200
TEST_PATHS = Scope(DEFAULT_TEST_PATTERNS)

IntentOrSession: TypeAlias = tuple[str, str]
"""An intent, or an empty string and a session."""


class SuiteChanges(Struct):
    """Changes under one intent: test counts per file with the newest record, and the code files.

    `named` counts each test by its beginning: additions to a file less removals.
    """

    tests: dict[str, tuple[CaseCounts, str]] = {}
    code: set[str] = set()
    named: dict[str, Counter[str]] = {}

    @property
    def total(self) -> CaseCounts:
        total = NO_TESTS
        for found, _ in self.tests.values():
            total = total.add(found)
        return total


def find_weakened_tests(index: Index, store: ContentStore, within: CommitRange | None) -> Iterator[RuleFinding]:
    """Yield the files with weakened tests, among those of the range."""
    for (intent, _), changes in collect_test_changes(index, store, within).items():
        for path, (_, record) in changes.tests.items() if changes.code else ():
            if description := describe_weakening(path, changes):
                position = next((s for s in (within.spots.get(record, ()) if within else ()) if s.path == path), None)
                where = {"line": position.line, "commit": position.commit} if position else {}
                yield make_finding(
                    "RMT005",
                    f"{description} in tests, while code changed as well",
                    path=path,
                    record=record,
                    intent_id=intent or None,
                    **where,
                )


def describe_weakening(path: str, changes: SuiteChanges) -> str:
    """Describe how a file's tests were weakened, without moved tests; empty if not weakened."""
    change, total = changes.tests[path][0], changes.total
    lost = {name: -n for name, n in changes.named[path].items() if n < 0}
    moved = sum(min(n, count_moved_tests(name, path, changes)) for name, n in lost.items())
    tests = min(-change.tests, sum(lost.values()) - moved)
    checks = -change.checks if not moved or total.checks < 0 else 0
    parts = [f"{n} {word}{'s' * (n != 1)} fewer" for n, word in ((tests, "test"), (checks, "assertion")) if n > 0]
    parts += [f"{change.skips} more skipped"] if change.skips > 0 and total.skips > 0 else []
    return ", ".join(parts)


def count_moved_tests(name: str, path: str, changes: SuiteChanges) -> int:
    return sum(max(0, named[name]) for other, named in changes.named.items() if other != path)


def collect_test_changes(
    index: Index, store: ContentStore, within: CommitRange | None
) -> dict[IntentOrSession, SuiteChanges]:
    """Return the test changes by agents' calls, by intent or session; unavailable contents are skipped."""
    changes: dict[IntentOrSession, SuiteChanges] = {}
    undone = find_undone_paths(index.iterate_records(event="restore"))
    documents = index.iterate_records(event="mutation")
    while batch := list(islice(documents, BATCH_RECORDS)):
        every = [
            (d, f)
            for d in batch
            for f in body_of(d).get("files", [])
            if within is None or str(f["path"]) in within.paths
        ]
        touched = [
            (d, f) for d, f in every if (str(body_of(d).get("call", {}).get("id", "")), str(f["path"])) not in undone
        ]
        contents = store.load_many(
            blob
            for _, f in touched
            if is_test_file(str(f["path"]))
            for s in side_blobs(f)
            if s and OID.fullmatch(blob := s)
        )
        for document, file in touched:
            add_file_change(changes.setdefault(intent_or_session(document), SuiteChanges()), document, file, contents)
    return changes


def intent_or_session(document: Document) -> IntentOrSession:
    body = body_of(document)
    intent = str(body.get("intent_id") or "")
    return intent, "" if intent else str(body.get("session_id"))


def add_file_change(changes: SuiteChanges, document: Document, file: Document, contents: Mapping[str, bytes]) -> None:
    path = str(file["path"])
    if not is_test_file(path):
        if is_code_file(path):
            changes.code.add(path)
        return
    before, after = (
        count_tests(path, contents.get(blob) if blob else None) if blob is None or blob in contents else None
        for blob in side_blobs(file)
    )
    if before is not None and after is not None:
        counts = changes.tests[path][0] if path in changes.tests else NO_TESTS
        changes.tests[path] = counts.add(after).add(before, -1), str(document["id"])
        named = changes.named.setdefault(path, Counter())
        for blob, apply in zip(side_blobs(file), (named.subtract, named.update), strict=True):
            apply(find_test_beginnings(path, contents.get(blob) if blob else None))


def side_blobs(file: Document) -> tuple[str | None, str | None]:
    """Return the blobs before and after; None for no file, empty if not recorded."""
    before, after = (file.get(side) for side in ("before", "after"))
    return (
        None if before is None else str(before.get("git_blob") or ""),
        None if after is None else str(after.get("git_blob") or ""),
    )


def is_test_file(path: str) -> bool:
    row = find_language(path)
    return row is not None and row.name in PATTERNS_BY_LANGUAGE and TEST_PATHS.matches(path)


def is_code_file(path: str) -> bool:
    row = find_language(path)
    return row is not None and row.name in PATTERNS_BY_LANGUAGE and not TEST_PATHS.matches(path)
