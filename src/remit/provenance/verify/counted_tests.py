"""How many tests, assertions and skips a file has, by the words of its language.

They are counted in code alone: comments and texts are blanked first, by the syntax tree. An assertion of nothing but
*true* is none. What a language's row below does not name is not counted.
"""

import re
from collections import Counter
from typing import TYPE_CHECKING

from msgspec import Struct

from remit.core.syntax.items import Source
from remit.core.syntax.nodes import source_of

if TYPE_CHECKING:
    from tree_sitter import Node


class Counts(Struct, frozen=True):
    """What was counted; differences may be negative."""

    tests: int = 0
    checks: int = 0
    skips: int = 0

    def plus(self, other: "Counts", sign: int = 1) -> "Counts":
        """The sum, or with `sign` -1 the difference."""
        return Counts(
            self.tests + sign * other.tests, self.checks + sign * other.checks, self.skips + sign * other.skips
        )


NOTHING = Counts()

LONGEST = 400
"""Characters in which the beginning of a test is looked for."""


class Words(Struct, frozen=True):
    """What marks a test, an assertion and a skip in a language."""

    test: re.Pattern[str]
    check: re.Pattern[str]
    skip: re.Pattern[str]


def words(test: str, check: str, skip: str) -> Words:
    """The patterns, each line by line."""
    return Words(*(re.compile(pattern, re.MULTILINE) for pattern in (test, check, skip)))


TRUE = r"(?![ \t]*\(?[ \t]*(?:[Tt]rue|1)[ \t]*(?:[);]|$|,[ \t]*(?:\)|$)))"
"""Not followed by what is always true alone, or with a text beside it, which is blanked."""

PYTHON = words(
    r"^[ \t]*(?:async[ \t]+)?def[ \t]+test\w*[ \t]*\(",
    rf"^[ \t]*assert\b{TRUE}|\bself\.(?:assert\w+|fail\w*)(?=\(){TRUE}|\bpytest\.(?:raises|warns|fail)\("
    r"|(?<![\w.])(?:\w+\.)*assert_\w+\(",
    r"\bpytest\.(?:mark\.)?(?:skip\w*|xfail|importorskip)\b|\bunittest\.(?:skip\w*|expectedFailure)\b|\.skipTest\("
    r"|@(?:skip\w*|expectedFailure)\b",
)
SCRIPT = words(
    r"(?<![\w.$])(?:x?it|x?test|fit)(?:\.(?:skip|only|each|todo|failing|fails|concurrent|fixme|for))*[ \t]*[(`]",
    rf"(?<![\w.$])(?:expect|assert)(?:\.\w+)*[ \t]*(?=\(){TRUE}|(?<![\w.$])t\.(?:is|not|deepEqual|true|false|truthy"
    r"|falsy|throws|equal|ok)[ \t]*\(|\.should\b",
    r"(?<![\w.$])(?:it|test|describe|suite|context)\.(?:skip|todo|failing|fails|fixme|only)\b"
    r"|(?<![\w.$])(?:xit|xtest|xdescribe|fit|fdescribe)[ \t]*\(",
)
C_WORDS = words(
    r"^[ \t]*(?:static[ \t]+)?void[ \t]+test\w*[ \t]*\("
    r"|^[ \t]*(?:TYPED_)?(?:TEST(?:_[FP]|_CASE)?|SCENARIO|BOOST_AUTO_TEST_CASE|START_TEST)[ \t]*\(",
    r"\b(?:(?:EXPECT|ASSERT|REQUIRE|CHECK|BOOST_CHECK|BOOST_REQUIRE|TEST_ASSERT)(?:_\w+)?"
    rf"|assert|cr_assert\w*|ck_assert\w*)[ \t]*(?=\(){TRUE}",
    r"\bGTEST_SKIP\b|\bDISABLED_\w+|\b(?:TEST_IGNORE\w*|SKIP)[ \t]*\(",
)

WORDS = {
    "python": PYTHON,
    "javascript": SCRIPT,
    "typescript": SCRIPT,
    "tsx": SCRIPT,
    "go": words(
        r"^func[ \t]+(?:\([^)]*\)[ \t]*)?(?:Test|Fuzz|Example)\w*[ \t]*\(",
        r"\b[tb]\.(?:Errorf?|Fatalf?|Fail|FailNow)\(|\b(?:assert|require|is)\.\w+\(",
        r"\b[tb]\.Skip(?:f|Now)?\(",
    ),
    "rust": words(
        r"#\[(?:\w+::)*(?:test|rstest|test_case)\b[^\]]*\]",
        rf"\b(?:debug_)?assert(?:_\w+)?![ \t]*(?=[(\[{{]){TRUE}|#\[should_panic",
        r"#\[ignore\b",
    ),
    "java": words(
        r"@(?:\w+\.)*(?:Test|ParameterizedTest|RepeatedTest|TestFactory)\b",
        rf"\b(?:assert\w*|verify|fail)[ \t]*(?=\(){TRUE}|^[ \t]*assert\b{TRUE}",
        r"@(?:\w+\.)*(?:Disabled\w*|Ignore)\b|\bassumeTrue[ \t]*\(|\bassumeFalse[ \t]*\(",
    ),
    "csharp": words(
        r"\[[ \t]*(?:\w+\.)*(?:Fact|Theory|Test|TestCase|TestMethod|DataTestMethod)\b",
        rf"\bAssert(?:\.\w+)+[ \t]*(?=\(){TRUE}|\.Should\w*\(",
        r"\bSkip[ \t]*=|\[[ \t]*(?:\w+\.)*Ignore\b|\bAssert\.(?:Ignore|Inconclusive)\b",
    ),
    "ruby": words(
        r"^[ \t]*(?:it|specify|x?test|xit|fit)\b[ \t({]|^[ \t]*def[ \t]+test_\w+",
        rf"(?<![\w.])(?:expect|assert\w*|refute\w*|must_\w+)\b{TRUE}",
        r"(?<![\w.])(?:xit|xdescribe|xcontext|xtest|pending|skip|fit|fdescribe)\b",
    ),
    "php": words(
        r"\bfunction[ \t]+test\w*[ \t]*\(|#\[(?:\w+\\)*Test\b|(?<![\w>:$])(?:it|test)[ \t]*\(",
        rf"\bassert\w*[ \t]*(?=\(){TRUE}|\bexpectException\w*\(|(?<![\w>:$])expect[ \t]*(?=\(){TRUE}",
        r"\bmarkTest(?:Skipped|Incomplete)\b|->skip[ \t]*\(|->todo[ \t]*\(",
    ),
    "c": C_WORDS,
    "cpp": C_WORDS,
    "bash": words(r"^[ \t]*(?:@test\b|test_\w+[ \t]*\(\))", r"\bassert\w*\b|^[ \t]*\[\[?[ \t]", r"^[ \t]*skip\b"),
}


def counts(path: str, content: bytes | None) -> Counts | None:
    """What a version of a file has; None where it cannot be told. No file, no tests."""
    if content is None:
        return NOTHING
    source = source_of(path, content)
    if source is None or source.row.name not in WORDS:
        return None
    known, text = WORDS[source.row.name], code_of(source)
    return Counts(*(len(pattern.findall(text)) for pattern in (known.test, known.check, known.skip)))


def tests_in(path: str, content: bytes | None) -> Counter[str]:
    """How each test of a version of a file begins, as written: so it is known again in another file."""
    source = source_of(path, content) if content is not None else None
    if source is None or source.row.name not in WORDS:
        return Counter()
    text = source.content.decode("latin-1")  # a character for each byte, so that places agree
    found = WORDS[source.row.name].test.finditer(code_of(source, "latin-1"))
    return Counter(beginning(text[match.start() :][:LONGEST]) for match in found)


def beginning(text: str) -> str:
    """The line on which a test begins, with the next one where that is only a mark; without its body."""
    line, _, more = text.strip().partition("\n")
    whole = f"{line} {more.partition(chr(10))[0]}" if line.startswith(("#[", "@", "[")) else line
    return " ".join(whole.partition("{")[0].split())


def code_of(source: Source, encoding: str = "utf-8") -> str:
    """The text without comments and texts, blank where they were, so that lines stay."""
    text = bytearray(source.content)
    for node in blanked(source):
        part = bytes(text[node.start_byte : node.end_byte])
        text[node.start_byte : node.end_byte] = bytes(10 if byte == 10 else 32 for byte in part)
    return text.decode(encoding, "replace")


def blanked(source: Source) -> "list[Node]":
    """The outermost comments and texts."""
    found: list[Node] = []
    waiting = [source.root]
    while waiting:
        node = waiting.pop()
        if node.is_named and (node.type in source.row.comments or is_text(node)):
            found.append(node)
        else:
            waiting += node.children
    return found


def is_text(node: "Node") -> bool:
    """Whether a node is a string, whatever a grammar calls it."""
    return "string" in node.type and not node.type.endswith(("type", "_start", "_end")) and node.type != "string_array"
