"""Texts made to keep a search busy, or to end its process."""

import subprocess
import sys

import pytest

from remit.core.code.grammars import can_crash_parser
from remit.core.code.pattern_search import InvalidPattern, compile_regex, find_regex_lines, find_syntax_lines
from remit.core.code.source_text import UncheckableContent

SEARCH = (
    "import sys; from remit.core.code.pattern_search import find_syntax_lines; "
    "find_syntax_lines('f($$$A)', sys.stdin.read(), {!r})"
)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "x = " + "(" * 100_000 + "1" + ")" * 100_000),
        ("python", "x = a" + ".b" * 200_000 + "\n"),
        ("python", "x = 1 " + "\\" * 200_000),
        ("javascript", "x = " + "(" * 50_000 + "1" + ")" * 50_000),
    ],
)
def test_a_long_line_is_searched_at_once(language: str, text: str) -> None:
    subprocess.run([sys.executable, "-c", SEARCH.format(language)], input=text, text=True, check=True, timeout=240)


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("python", "\ufdfa" * 400_000),  # eighteen letters each, once they are read as Python reads them
        ("yaml", "- " * 300 + "x"),
        ("bash", "echo {\u0100..z}\n"),
        ("typescript", "a<b," * 10_000),
        ("tsx", 'a<b,{},"; {",' * 10_000),
    ],
)
def test_what_no_parser_gets_through_is_not_looked_into(language: str, text: str) -> None:
    with pytest.raises(UncheckableContent):
        find_syntax_lines("f($$$A)" if language != "yaml" else "a: 1", text, language)


def test_many_comparisons_are_no_trap() -> None:
    loops = b"for (let i = 0; i < n; i++) {\n  if (a < i) f(i);\n}\n"
    assert not can_crash_parser("typescript", loops * 2000)
    assert not can_crash_parser("typescript", b"const m = new Map<string, Array<number>>()\n" * 2000)


@pytest.mark.parametrize("first", ["\n", "a = 1\r\n", "# \\\n", "a = 1  # \\\n", "a = '#' \\\n + 2\n", ""])
@pytest.mark.parametrize("begun", ["", "y = '#'; "])
def test_what_a_backslash_joins_is_found_on_its_first_line(first: str, begun: str) -> None:
    text = first + begun + "x = f\\\n(1)\n"
    assert find_syntax_lines("f($$$A)", text, "python") == [1 + first.count("\n")]


def test_a_leading_mark_takes_letters_of_either_case() -> None:
    assert find_regex_lines("(?i)todo|fixme", "a\nToDo\nFIXME\n") == [2, 3]


@pytest.mark.parametrize("pattern", ["(?=a)b", "(?P<x>a)", "a(?i)b", "(?<!a)b"])
def test_a_group_of_another_kind_is_called_so(pattern: str) -> None:
    with pytest.raises(InvalidPattern, match="has an unsupported group"):
        compile_regex(pattern)
