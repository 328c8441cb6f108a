"""Rule RMT005: tests were weakened together with a change of code.

Changes by agents' calls are summed up per file, over one intent, or over one session without an intent; changes by
people do not count. A test with the same beginning in another file has moved.

Tests, assertions and skips are counted by patterns of each language, after the syntax tree blanked comments and
strings. An assertion of a constant *true* does not count, nor does a construct missing from the language's row.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import TypeAlias

from msgspec import Struct, field
from msgspec.structs import astuple

from remit.core.code.definitions import parse_source
from remit.core.code.items import SourceFile
from remit.core.code.languages import find_language
from remit.core.scope.path_patterns import Scope
from remit.ledger.index.index import Index
from remit.policy.constraint_kinds import DEFAULT_TEST_PATTERNS
from remit.provenance.blame.blamed_line import body_of
from remit.provenance.verify.rules import CommitRange, Document, RuleFinding, make_finding
from remit.provenance.verify.verdict_coverage import find_undone_paths
from remit.workspace.contents.content_store import ContentStore
from remit.workspace.git.repository import OID


class CaseCounts(Struct, frozen=True):
    """Numbers of tests, assertions and skips; differences may be negative."""

    tests: int = 0
    checks: int = 0
    skips: int = 0

    def add(self, other: "CaseCounts", sign: int = 1) -> "CaseCounts":
        pairs = zip(astuple(self), astuple(other), strict=True)
        return CaseCounts(*(own + sign * more for own, more in pairs))


NO_TESTS = CaseCounts()
MAX_TEST_CHARS = 400  # characters searched for the beginning of a test
KEPT_COUNTS = 256  # counts of file versions: one change's content before is the content after the change before


class CasePatterns(Struct, frozen=True):
    """Patterns of a test, an assertion and a skip in a language."""

    test: re.Pattern[str]
    check: re.Pattern[str]
    skip: re.Pattern[str]


def compile_patterns(test: str, check: str, skip: str) -> CasePatterns:
    return CasePatterns(*(re.compile(pattern, re.MULTILINE) for pattern in (test, check, skip)))


NOT_ALWAYS_TRUE = r"(?![ \t]*\(?[ \t]*(?:[Tt]rue|1)[ \t]*(?:[);]|$|,[ \t]*(?:\)|$)))"
"""Rejects a constant true, alone or beside a blanked message."""

PYTHON_PATTERNS = compile_patterns(
    r"^[ \t]*(?:async[ \t]+)?def[ \t]+test\w*[ \t]*\(",
    rf"^[ \t]*assert\b{NOT_ALWAYS_TRUE}|\bself\.(?:assert\w+|fail\w*)(?=\(){NOT_ALWAYS_TRUE}|\bpytest\.(?:raises|warns|fail)\("  # noqa: E501
    r"|(?<![\w.])(?:\w+\.)*assert_\w+\(",
    r"\bpytest\.(?:mark\.)?(?:skip\w*|xfail|importorskip)\b|\bunittest\.(?:skip\w*|expectedFailure)\b|\.skipTest\("
    r"|@(?:skip\w*|expectedFailure)\b",
)
SCRIPT_PATTERNS = compile_patterns(
    r"(?<![\w.$])(?:x?it|x?test|fit)(?:\.(?:skip|only|each|todo|failing|fails|concurrent|fixme|for))*[ \t]*[(`]",
    rf"(?<![\w.$])(?:expect|assert)(?:\.\w+)*[ \t]*(?=\(){NOT_ALWAYS_TRUE}|(?<![\w.$])t\.(?:is|not|deepEqual|true|false|truthy"  # noqa: E501
    r"|falsy|throws|equal|ok)[ \t]*\(|\.should\b",
    r"(?<![\w.$])(?:it|test|describe|suite|context)\.(?:skip|todo|failing|fails|fixme|only)\b"
    r"|(?<![\w.$])(?:xit|xtest|xdescribe|fit|fdescribe)[ \t]*\(",
)
C_PATTERNS = compile_patterns(
    r"^[ \t]*(?:static[ \t]+)?void[ \t]+test\w*[ \t]*\("
    r"|^[ \t]*(?:TYPED_)?(?:TEST(?:_[FP]|_CASE)?|SCENARIO|BOOST_AUTO_TEST_CASE|START_TEST)[ \t]*\(",
    r"\b(?:(?:EXPECT|ASSERT|REQUIRE|CHECK|BOOST_CHECK|BOOST_REQUIRE|TEST_ASSERT)(?:_\w+)?"
    rf"|assert|cr_assert\w*|ck_assert\w*)[ \t]*(?=\(){NOT_ALWAYS_TRUE}",
    r"\bGTEST_SKIP\b|\bDISABLED_\w+|\b(?:TEST_IGNORE\w*|SKIP)[ \t]*\(",
)

PATTERNS_BY_LANGUAGE = {
    "python": PYTHON_PATTERNS,
    "javascript": SCRIPT_PATTERNS,
    "typescript": SCRIPT_PATTERNS,
    "tsx": SCRIPT_PATTERNS,
    "go": compile_patterns(
        r"^func[ \t]+(?:\([^)]*\)[ \t]*)?(?:Test|Fuzz|Example)\w*[ \t]*\(",
        r"\b[tb]\.(?:Errorf?|Fatalf?|Fail|FailNow)\(|\b(?:assert|require|is)\.\w+\(",
        r"\b[tb]\.Skip(?:f|Now)?\(",
    ),
    "rust": compile_patterns(
        r"#\[(?:\w+::)*(?:test|rstest|test_case)\b[^\]]*\]",
        rf"\b(?:debug_)?assert(?:_\w+)?![ \t]*(?=[(\[{{]){NOT_ALWAYS_TRUE}|#\[should_panic",
        r"#\[ignore\b",
    ),
    "java": compile_patterns(
        r"@(?:\w+\.)*(?:Test|ParameterizedTest|RepeatedTest|TestFactory)\b",
        rf"\b(?:assert\w*|verify|fail)[ \t]*(?=\(){NOT_ALWAYS_TRUE}|^[ \t]*assert\b{NOT_ALWAYS_TRUE}",
        r"@(?:\w+\.)*(?:Disabled\w*|Ignore)\b|\bassumeTrue[ \t]*\(|\bassumeFalse[ \t]*\(",
    ),
    "csharp": compile_patterns(
        r"\[[ \t]*(?:\w+\.)*(?:Fact|Theory|Test|TestCase|TestMethod|DataTestMethod)\b",
        rf"\bAssert(?:\.\w+)+[ \t]*(?=\(){NOT_ALWAYS_TRUE}|\.Should\w*\(",
        r"\bSkip[ \t]*=|\[[ \t]*(?:\w+\.)*Ignore\b|\bAssert\.(?:Ignore|Inconclusive)\b",
    ),
    "ruby": compile_patterns(
        r"^[ \t]*(?:it|specify|x?test|xit|fit)\b[ \t({]|^[ \t]*def[ \t]+test_\w+",
        rf"(?<![\w.])(?:expect|assert\w*|refute\w*|must_\w+)\b{NOT_ALWAYS_TRUE}",
        r"(?<![\w.])(?:xit|xdescribe|xcontext|xtest|pending|skip|fit|fdescribe)\b",
    ),
    "php": compile_patterns(
        r"\bfunction[ \t]+test\w*[ \t]*\(|#\[(?:\w+\\)*Test\b|(?<![\w>:$])(?:it|test)[ \t]*\(",
        rf"\bassert\w*[ \t]*(?=\(){NOT_ALWAYS_TRUE}|\bexpectException\w*\(|(?<![\w>:$])expect[ \t]*(?=\(){NOT_ALWAYS_TRUE}",  # noqa: E501
        r"\bmarkTest(?:Skipped|Incomplete)\b|->skip[ \t]*\(|->todo[ \t]*\(",
    ),
    "c": C_PATTERNS,
    "cpp": C_PATTERNS,
    "bash": compile_patterns(
        r"^[ \t]*(?:@test\b|test_\w+[ \t]*\(\))", r"\bassert\w*\b|^[ \t]*\[\[?[ \t]", r"^[ \t]*skip\b"
    ),
}


class CountedTests(Struct, frozen=True):
    """Tests of a file version: the counts, and how often each beginning of a test occurs."""

    counts: CaseCounts = NO_TESTS
    beginnings: Counter[str] = field(default_factory=Counter[str])


@lru_cache(KEPT_COUNTS)
def count_tests(path: str, content: bytes | None) -> CountedTests | None:
    """Count the tests of a file version; None if the language is unknown. No file has no tests."""
    if content is None:
        return CountedTests()
    source = parse_source(path, content)
    if source is None or source.language.name not in PATTERNS_BY_LANGUAGE:
        return None
    patterns, blanked = PATTERNS_BY_LANGUAGE[source.language.name], blank_non_code(source)
    text = blanked.decode("utf-8", "replace")
    counts = CaseCounts(*(len(pattern.findall(text)) for pattern in (patterns.test, patterns.check, patterns.skip)))
    original = content.decode("latin-1")  # a character for each byte, so that positions agree
    matches = patterns.test.finditer(blanked.decode("latin-1"))
    beginnings = Counter(shorten_beginning(original[match.start() :][:MAX_TEST_CHARS]) for match in matches)
    return CountedTests(counts, beginnings)


def shorten_beginning(text: str) -> str:
    """Return the first line of a test without its body, joined with the second if the first is only an attribute."""
    line, _, more = text.strip().partition("\n")
    whole = f"{line} {more.partition(chr(10))[0]}" if line.startswith(("#[", "@", "[")) else line
    return " ".join(whole.partition("{")[0].split())


def blank_non_code(source: SourceFile) -> bytes:
    text = bytearray(source.content)
    pending = [source.root]
    while pending:
        node = pending.pop()
        # Strings, by the names that grammars use.
        is_other = node.type.endswith(("type", "_start", "_end")) or node.type == "string_array"
        if node.is_named and (node.type in source.language.comments or ("string" in node.type and not is_other)):
            part = text[node.start_byte : node.end_byte]
            text[node.start_byte : node.end_byte] = bytes(10 if byte == 10 else 32 for byte in part)
        else:
            pending += node.children
    return bytes(text)


BATCH_RECORDS = 200
TEST_PATHS = Scope(DEFAULT_TEST_PATTERNS)
IntentOrSession: TypeAlias = tuple[str, str]  # an intent, or an empty string and a session


class SuiteChanges(Struct):
    """Changes under one intent: test counts per file with the newest record, and the code files. `named` counts each
    test by its beginning: additions to a file less removals.
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
    for (intent, _), changes in collect_test_changes(index, store, within).items():
        for path, (_, record) in changes.tests.items() if changes.code else ():
            if description := describe_weakening(path, changes):
                position = next((s for s in (within.spots.get(record, ()) if within else ()) if s.path == path), None)
                where = {"line": position.line, "commit": position.commit} if position else {}
                message = f"{description} in tests, while code changed as well"
                yield make_finding("RMT005", message, path=path, record=record, intent_id=intent or None, **where)


def describe_weakening(path: str, changes: SuiteChanges) -> str:
    change, total = changes.tests[path][0], changes.total
    lost = {name: -n for name, n in changes.named[path].items() if n < 0}
    others = [named for other, named in changes.named.items() if other != path]
    moved = sum(min(n, sum(max(0, named[name]) for named in others)) for name, n in lost.items())
    tests = min(-change.tests, sum(lost.values()) - moved)
    checks = -change.checks if not moved or total.checks < 0 else 0
    parts = [f"{n} {word}{'s' * (n != 1)} fewer" for n, word in ((tests, "test"), (checks, "assertion")) if n > 0]
    parts += [f"{change.skips} more skipped"] if change.skips > 0 and total.skips > 0 else []
    return ", ".join(parts)


def collect_test_changes(
    index: Index, store: ContentStore, within: CommitRange | None
) -> dict[IntentOrSession, SuiteChanges]:
    changes: dict[IntentOrSession, SuiteChanges] = {}
    undone = find_undone_paths(index.iterate_records(event="restore"))
    documents = index.iterate_records(event="mutation")
    while batch := list(islice(documents, BATCH_RECORDS)):
        touched: list[tuple[Document, Document]] = []
        for document in batch:
            body = body_of(document)
            call = str(body.get("call", {}).get("id", ""))
            files = (f for f in body.get("files", []) if within is None or str(f["path"]) in within.paths)
            touched += ((document, file) for file in files if (call, str(file["path"])) not in undone)
        blobs = (blob for _, file in touched if is_counted(str(file["path"])) for blob in side_blobs(file) if blob)
        contents = store.load_many(filter(OID.fullmatch, blobs))
        for document, file in touched:
            body = body_of(document)
            intent = str(body.get("intent_id") or "")
            key = (intent, "" if intent else str(body.get("session_id")))
            add_file_change(changes.setdefault(key, SuiteChanges()), document, file, contents)
    return changes


def add_file_change(changes: SuiteChanges, document: Document, file: Document, contents: Mapping[str, bytes]) -> None:
    path = str(file["path"])
    if not is_counted(path):
        if is_counted(path, is_test=False):
            changes.code.add(path)
        return
    before, after = (
        count_tests(path, contents.get(blob) if blob else None) if blob is None or blob in contents else None
        for blob in side_blobs(file)
    )
    if before is not None and after is not None:
        counts = changes.tests[path][0] if path in changes.tests else NO_TESTS
        changes.tests[path] = counts.add(after.counts).add(before.counts, -1), str(document["id"])
        named = changes.named.setdefault(path, Counter())
        named.subtract(before.beginnings)
        named.update(after.beginnings)


def side_blobs(file: Document) -> tuple[str | None, str | None]:
    """Return the blobs before and after; None for no file, empty if not recorded."""
    before, after = (file.get(side) for side in ("before", "after"))
    return (
        None if before is None else str(before.get("git_blob") or ""),
        None if after is None else str(after.get("git_blob") or ""),
    )


def is_counted(path: str, *, is_test: bool = True) -> bool:
    row = find_language(path)
    return row is not None and row.name in PATTERNS_BY_LANGUAGE and TEST_PATHS.matches(path) == is_test
