"""Nothing that decides rests on a regular expression that some interpreters read otherwise.

Python 3.11.0 to 3.11.4 match too much where a regular expression keeps the engine from going back: possessive repeats
(`a++`) and atomic groups (`(?>a)`). Source: CPython issues 100061 and 106052, read 2026-11.
"""

import ast
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import remit
from remit.core.scope.path_patterns import Scope

SOURCE = Path(remit.__file__).parent
MODULES = sorted(p for room in ("policy", "core") for p in (SOURCE / room).rglob("*.py"))
PARSER: Any = import_module("re._parser")
KEEPING = {"POSSESSIVE_REPEAT", "ATOMIC_GROUP"}
CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]")
KEEPING_TEXT = re.compile(r"\(\?>|(?<!\\)[*+?}]\+")


def operations(tree: Any) -> Iterator[str]:
    """The names of all operations in a parsed regular expression."""
    for part in tree:
        if isinstance(part, PARSER.SubPattern | list | tuple):
            yield from operations(part)
        else:
            yield str(part)


def is_keeping(pattern: str | bytes) -> bool:
    return bool(KEEPING & set(operations(PARSER.parse(pattern))))


def regex_arguments(tree: ast.AST) -> Iterator[ast.expr]:
    """The first argument of each call of `re.compile`, `re.sub` and so on."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=[first, *_]):
                yield first
            case ast.ImportFrom(module="re"):
                raise AssertionError("write `re.compile`, so that this test finds it")
            case _:
                pass


def fragments(tree: ast.Module) -> Iterator[str]:
    """The texts of which regular expressions are put together (f-strings, constants), without character classes."""
    formatted = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    makers = [*formatted, *(node for node in tree.body if isinstance(node, ast.Assign | ast.AnnAssign))]
    for node in (inner for maker in makers for inner in ast.walk(maker)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield CLASS.sub("x", node.value)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_regular_expression_keeps_the_engine_from_going_back(path: Path) -> None:
    tree = ast.parse(path.read_text())
    arguments = list(regex_arguments(tree))
    if not arguments:
        return
    module = import_module(".".join(("remit", *path.relative_to(SOURCE).with_suffix("").parts)))
    for argument in arguments:
        try:
            value = eval(compile(ast.Expression(argument), path.name, "eval"), vars(module).copy())
        except NameError:
            assert [text for text in fragments(tree) if KEEPING_TEXT.search(text)] == []
            continue
        for pattern in [value] if isinstance(value, str | bytes) else list(value):
            assert not is_keeping(pattern), ast.unparse(argument)


def test_such_regular_expressions_are_noticed() -> None:
    assert is_keeping("(?:ab?c)*+")
    assert is_keeping("x(?:y|(?>a))")
    assert not is_keeping("c[+]+(?:a|b)*?")
    assert KEEPING_TEXT.search("(?:ab?c)*+")
    assert not KEEPING_TEXT.search(r"\++")


@pytest.mark.parametrize("pattern", ["*a*b*", "**/a*b*c/**/d/*", "[!a]*[b-c]*?x", "src/**/{a,b}*c*/**"])
def test_nor_does_what_is_made_of_a_glob(pattern: str) -> None:
    """Of each glob the regular expression is made at run time: those with several stars try a match only once."""
    made = import_module("remit.core.scope.path_patterns")
    runs = getattr(made, "_compile_runs")((pattern,))  # noqa: B009
    assert not any(is_keeping(run.exact.pattern) for run in runs)
    assert Scope((pattern,)).matches("x/y") is False
    assert Scope(("*a*b*c",)).matches("xaybzc")
