"""How many tests, assertions and skips a file has, by the words of its language.

They are counted in code alone: comments and texts are blanked first, by the syntax tree. An assertion of nothing but
*true* is none. What a language's row below does not name is not counted.
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
    """What was counted; differences may be negative."""

    tests: int = 0
    checks: int = 0
    skips: int = 0

    def add(self, other: "CaseCounts", sign: int = 1) -> "CaseCounts":
        """The sum, or with `sign` -1 the difference."""
        return CaseCounts(
            self.tests + sign * other.tests, self.checks + sign * other.checks, self.skips + sign * other.skips
        )


NO_TESTS = CaseCounts()

MAX_TEST_CHARS = 400
"""Characters in which the beginning of a test is looked for."""


class CasePatterns(Struct, frozen=True):
    """What marks a test, an assertion and a skip in a language."""

    test: re.Pattern[str]
    check: re.Pattern[str]
    skip: re.Pattern[str]


def compile_patterns(test: str, check: str, skip: str) -> CasePatterns:
    """The patterns, each line by line."""
    return CasePatterns(*(re.compile(pattern, re.MULTILINE) for pattern in (test, check, skip)))


NOT_ALWAYS_TRUE = r"(?![ \t]*\(?[ \t]*(?:[Tt]rue|1)[ \t]*(?:[);]|$|,[ \t]*(?:\)|$)))"
"""Not followed by what is always true alone, or with a text beside it, which is blanked."""

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
    """What a version of a file has; None where it cannot be told. No file, no tests."""
    if content is None:
        return NO_TESTS
    source = parse_source(path, content)
    if source is None or source.row.name not in PATTERNS_BY_LANGUAGE:
        return None
    known, text = PATTERNS_BY_LANGUAGE[source.row.name], blank_non_code(source)
    return CaseCounts(*(len(pattern.findall(text)) for pattern in (known.test, known.check, known.skip)))


def find_test_beginnings(path: str, content: bytes | None) -> Counter[str]:
    """How each test of a version of a file begins, as written: so it is known again in another file."""
    source = parse_source(path, content) if content is not None else None
    if source is None or source.row.name not in PATTERNS_BY_LANGUAGE:
        return Counter()
    text = source.content.decode("latin-1")  # a character for each byte, so that places agree
    found = PATTERNS_BY_LANGUAGE[source.row.name].test.finditer(blank_non_code(source, "latin-1"))
    return Counter(shorten_beginning(text[match.start() :][:MAX_TEST_CHARS]) for match in found)


def shorten_beginning(text: str) -> str:
    """The line on which a test begins, with the next one where that is only a mark; without its body."""
    line, _, more = text.strip().partition("\n")
    whole = f"{line} {more.partition(chr(10))[0]}" if line.startswith(("#[", "@", "[")) else line
    return " ".join(whole.partition("{")[0].split())


def blank_non_code(source: SourceFile, encoding: str = "utf-8") -> str:
    """The text without comments and texts, blank where they were, so that lines stay."""
    text = bytearray(source.content)
    for node in comments_and_strings(source):
        part = bytes(text[node.start_byte : node.end_byte])
        text[node.start_byte : node.end_byte] = bytes(10 if byte == 10 else 32 for byte in part)
    return text.decode(encoding, "replace")


def comments_and_strings(source: SourceFile) -> "list[Node]":
    """The outermost comments and texts."""
    found: list[Node] = []
    waiting = [source.root]
    while waiting:
        node = waiting.pop()
        if node.is_named and (node.type in source.row.comments or is_string_node(node)):
            found.append(node)
        else:
            waiting += node.children
    return found


def is_string_node(node: "Node") -> bool:
    """Whether a node is a string, whatever a grammar calls it."""
    return "string" in node.type and not node.type.endswith(("type", "_start", "_end")) and node.type != "string_array"
