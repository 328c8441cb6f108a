"""Numbers of tests, assertions and skips in a file, by patterns of each language.

Comments and strings are blanked by the syntax tree before counting. An assertion of a constant *true* does not count,
nor does a construct missing from the language's row.
"""

import re
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from remit.core.code.definitions import parse_source
from remit.core.code.items import SourceFile

if TYPE_CHECKING:
    from tree_sitter import Node


class CaseCounts(Struct, frozen=True):
    """Numbers of tests, assertions and skips; differences may be negative."""

    tests: int = 0
    checks: int = 0
    skips: int = 0

    def add(self, other: "CaseCounts", sign: int = 1) -> "CaseCounts":
        """Return the sum, or with `sign` -1 the difference."""
        return CaseCounts(
            self.tests + sign * other.tests, self.checks + sign * other.checks, self.skips + sign * other.skips
        )


NO_TESTS = CaseCounts()

MAX_TEST_CHARS = 400
"""Characters searched for the beginning of a test."""


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


def count_tests(path: str, content: bytes | None) -> CaseCounts | None:
    """Count the tests of a file version; None if the language is unknown. No file has no tests."""
    if content is None:
        return NO_TESTS
    source = parse_source(path, content)
    if source is None or source.language.name not in PATTERNS_BY_LANGUAGE:
        return None
    patterns, text = PATTERNS_BY_LANGUAGE[source.language.name], blank_non_code(source)
    return CaseCounts(*(len(pattern.findall(text)) for pattern in (patterns.test, patterns.check, patterns.skip)))


def find_test_beginnings(path: str, content: bytes | None) -> Counter[str]:
    """Return the beginning of each test in a file version, which identifies the test in another file."""
    source = parse_source(path, content) if content is not None else None
    if source is None or source.language.name not in PATTERNS_BY_LANGUAGE:
        return Counter()
    text = source.content.decode("latin-1")  # a character for each byte, so that positions agree
    matches = PATTERNS_BY_LANGUAGE[source.language.name].test.finditer(blank_non_code(source, "latin-1"))
    return Counter(shorten_beginning(text[match.start() :][:MAX_TEST_CHARS]) for match in matches)


def shorten_beginning(text: str) -> str:
    """Return the first line of a test without its body, joined with the second if the first is only an attribute."""
    line, _, more = text.strip().partition("\n")
    whole = f"{line} {more.partition(chr(10))[0]}" if line.startswith(("#[", "@", "[")) else line
    return " ".join(whole.partition("{")[0].split())


def blank_non_code(source: SourceFile, encoding: str = "utf-8") -> str:
    """Return the text with comments and strings blanked, keeping line breaks."""
    text = bytearray(source.content)
    for node in comments_and_strings(source):
        part = bytes(text[node.start_byte : node.end_byte])
        text[node.start_byte : node.end_byte] = bytes(10 if byte == 10 else 32 for byte in part)
    return text.decode(encoding, "replace")


def comments_and_strings(source: SourceFile) -> "list[Node]":
    nodes: list[Node] = []
    pending = [source.root]
    while pending:
        node = pending.pop()
        if node.is_named and (node.type in source.language.comments or is_string_node(node)):
            nodes.append(node)
        else:
            pending += node.children
    return nodes


def is_string_node(node: "Node") -> bool:
    """Return whether a node is a string, by the names that grammars use."""
    return "string" in node.type and not node.type.endswith(("type", "_start", "_end")) and node.type != "string_array"
