"""Highlighting: a window has the classes that the whole file would have, in every grammar, and loses no character."""

import re

import pytest

from remit.console.highlight import MAX_KEPT_BYTES, Highlighter, find_spans, render_line
from remit.console.render import highlight_line, show_code
from remit.core.code.grammars import parse_tree
from remit.core.code.languages import find_language

PYTHON = b'''"""A text
over two lines."""

import os  # a comment


@property
def area(side: int = 3) -> float:
    return os.path.join("a", f"b{side!r}c") if side is not None else 1.5


class Shape(Base):
    pass
'''

SOURCES = {
    "a.py": PYTHON,
    "a.ts": b"export class A { private n: number = 1; f(): string { return `x${this.n}y`; } } // end\n",
    "a.go": b'package main\n\nfunc Main(a int) string {\n\treturn fmt.Sprintf("x", a) // c\n}\n',
    "a.rs": b'fn main() -> u8 {\n    let x: Vec<u8> = vec![1];\n    println!("{}", x); // c\n    0\n}\n',
    "a.java": b"class A {\n  int f(String s) { return s.length() + 1; } // c\n}\n",
    "a.c": b'#include <stdio.h>\nint main(void) { /* c */ return printf("x", 1); }\n',
    "a.rb": b'class A\n  def f(x)\n    puts "a#{x}b" # c\n  end\nend\n',
    "a.php": b'<?php\nfunction f($x) { return "a$x"; } // c\n',
    "a.sh": b'for x in a b; do echo "$x"; done # c\n',
    "a.json": b'{"key": [1, true, "text"]}\n',
    "a.yaml": b"key: value # c\nlist:\n  - 1\n",
    "a.toml": b'[a]\nkey = "text" # c\n',
    "a.md": b"# Heading\n\nText with `code`.\n",
}


def classes_of(name: str, content: bytes, first: int = 0, last: int = 10_000) -> dict[int, list[tuple[str, str]]]:
    language = find_language(name)
    assert language is not None
    root = parse_tree(language.name, content, allow_errors=True)
    assert root is not None
    lines = content.split(b"\n")
    return {
        row: [(kind, lines[row][start:end].decode()) for start, end, kind in spans]
        for row, spans in find_spans(root, first, last).items()
    }


def test_python_has_the_six_classes() -> None:
    found = classes_of("a.py", PYTHON)
    assert found[0] == [("s", '"""A text')]
    assert found[1] == [("s", 'over two lines."""')]
    assert found[3] == [("k", "import"), ("c", "# a comment")]
    assert ("f", "area") in found[7]
    assert ("n", "3") in found[7]
    assert ("d", "property") in found[6]
    assert ("f", "join") in found[8]
    assert ("n", "1.5") in found[8]
    assert {("k", "is"), ("k", "not"), ("n", "None")} <= set(found[8])
    assert found[11][:2] == [("k", "class"), ("d", "Shape")]


@pytest.mark.parametrize("name", SOURCES)
def test_a_window_has_what_the_whole_has_and_every_character_stays(name: str) -> None:
    content = SOURCES[name]
    whole = classes_of(name, content)
    assert whole, name
    lines = content.split(b"\n")
    for row in range(len(lines)):
        assert classes_of(name, content, row, row).get(row, []) == whole.get(row, []), (name, row)
    language = find_language(name)
    assert language is not None
    root = parse_tree(language.name, content, allow_errors=True)
    assert root is not None
    spans = find_spans(root, 0, len(lines))
    for row, line in enumerate(lines):
        html = str(render_line(line, spans.get(row, []), show_code))
        assert re.sub(r"</?i[^>]*>", "", html) == str(show_code(line.decode())), (name, row)


def test_hostile_text_stays_text_inside_of_marks() -> None:
    line = b"x = '<img src=x onerror=alert(1)>\xe2\x80\xae'"
    html = str(highlight_line(line.decode(), classes_spans(line)))
    assert "<img" not in html
    assert "U+202E" in html


def classes_spans(line: bytes) -> list[tuple[int, int, str]]:
    root = parse_tree("python", line, allow_errors=True)
    assert root is not None
    return find_spans(root, 0, 0)[0]


def test_trees_are_kept_for_the_next_window_and_only_so_many() -> None:
    highlighter = Highlighter()
    first = highlighter.find_tree("a", "a.py", PYTHON)
    assert highlighter.find_tree("a", "a.py", b"other") is first
    assert highlighter.find_tree("none", "a.unknown", PYTHON) is None
    for number in range(4):
        highlighter.find_tree(number, "a.json", b" " * (MAX_KEPT_BYTES // 2))
    assert len(highlighter.trees) == 2
