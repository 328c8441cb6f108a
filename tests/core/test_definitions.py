"""Which definition lines belong to, and what its hash does not mind."""

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.refactoring_corpus import PROGRAMS, Program
from remit.core.code.definitions import Definition, split_by_definition
from remit.core.code.languages import LANGUAGES
from remit.core.diff.contents import LineRange

PYTHON = b"""\
import os


class Weather:
    '''Doc.'''

    @property
    def get(self):
        def inner():
            return 1

        return inner()

    def set(self, value):
        self.value = value


def main():
    pass
"""

NAMED: list[tuple[str, str, int, str, str]] = [
    ("a.py", PYTHON.decode(), 9, "function", "Weather.get.inner"),
    ("a.js", "export class A {\n  m() {\n    return 1;\n  }\n}\n", 3, "method", "A.m"),
    ("a.js", "export default function f() {\n  g();\n}\n", 2, "function", "f"),
    ("a.ts", "namespace N {\n  interface I {\n    a: number\n  }\n}\n", 3, "interface", "N.I"),
    ("a.tsx", "function V() {\n  return <a/>;\n}\n", 2, "function", "V"),
    ("a.go", "package a\nfunc (t *T) M() {\n\tg()\n}\n", 3, "method", "T.M"),
    ("a.go", "package a\ntype T struct {\n\tA int\n}\n", 3, "type", "T"),
    ("a.rs", "mod m {\n impl<T> Tr for S<T> {\n  fn f() {\n  }\n }\n}\n", 3, "function", "m::S<T>::f"),
    ("A.java", "class A {\n void f() {\n  g();\n }\n}\n", 3, "method", "A.f"),
    ("a.c", "static int *f(int a)\n{\n return 0;\n}\n", 3, "function", "f"),
    ("a.cpp", "namespace n {\nclass A {\n void f() {\n }\n};\n}\n", 3, "function", "n::A::f"),
    ("a.cpp", "int A::g() {\n return 1;\n}\n", 2, "function", "A::g"),
    ("a.rb", "module M\n class A\n  def f\n   1\n  end\n end\nend\n", 4, "method", "M::A::f"),
    ("A.cs", "namespace N {\n class A {\n  int P {\n   get; }\n }\n}\n", 4, "property", "N.A.P"),
    ("a.php", "<?php\nclass A {\n function f() {\n  g();\n }\n}\n", 4, "method", "A::f"),
    ("a.sh", "f() {\n  g\n}\n", 2, "function", "f"),
    ("a.json", '{\n "a": {\n  "b": [\n   1\n  ]\n }\n}\n', 4, "key", "a.b"),
    ("a.yaml", "a:\n  b:\n    - c\n", 3, "key", "a.b"),
    ("a.toml", "[a.b]\nc = [\n 1,\n]\n", 3, "key", "a.b.c"),
    ("a.md", "# A\n\nx\n\n## B `c`\n\ny\n", 7, "heading", "A > B `c`"),
    ("a.md", "T\n===\n\nSub\n---\n\nmore\n\n### C#\n\nx\n", 11, "heading", "T > Sub > C#"),
    ("a.md", "# A #\n\n> # q\n\n```\n# no\n```\n\nx\n", 9, "heading", "A"),
    ("a.js", "export const f = (x) => {\n  return x;\n};\n", 2, "function", "f"),
    ("a.js", "const o = {\n  k: async () => {\n    c();\n  },\n};\n", 3, "function", "k"),
    ("a.js", "module.exports.r = function () {\n  s();\n};\n", 2, "function", "module.exports.r"),
    ("a.js", "export default class {\n  q = () => {\n    z();\n  };\n}\n", 3, "function", "default.q"),
    ("a.tsx", "export const V: FC = memo(forwardRef((p) => {\n  return <a/>;\n}));\n", 2, "function", "V"),
    ("a.ts", "declare module 'x' {\n  interface I {\n    a: 1;\n  }\n}\n", 3, "interface", "x.I"),
    ("a.go", "package a\n\nvar f = func() {\n\ty()\n}\n", 4, "function", "f"),
    ("a.go", "package a\n\ntype (\n\tA struct {\n\t\tx int\n\t}\n\tB int\n)\n", 5, "type", "A"),
    ("a.c", "typedef struct {\n  int b;\n} T;\n", 2, "struct", "T"),
    ("a.c", "int (*h(int a))(int)\n{\n  return 0;\n}\n", 3, "function", "h"),
    ("a.cpp", "struct C {\n  operator bool() {\n    return 1;\n  }\n};\n", 3, "function", "C::operator bool"),
    ("a.cpp", "bool operator==(A a) {\n  return 1;\n}\n", 2, "function", "operator=="),
    ("a.rb", "class A\n  def x=(v)\n    1\n  end\nend\n", 3, "method", "A::x="),
    ("A.cs", "class C {\n  public static C operator +(C a) {\n    return a;\n  }\n}\n", 3, "operator", "C.operator +"),
    ("A.cs", "class C {\n  int this[int i] {\n    get; }\n}\n", 3, "indexer", "C.this"),
    ("A.cs", "class C {\n  void F() {\n    void L() {\n      x(); }\n  }\n}\n", 4, "function", "C.F.L"),
]


def definition_of_line(path: str, text: str, line: int) -> Definition:
    (span,) = split_by_definition(path, text.encode(), [LineRange(line, line)])
    assert span.node is not None
    return span.node


@pytest.mark.parametrize(("path", "text", "line", "kind", "name"), NAMED)
def test_a_line_has_its_definition(path: str, text: str, line: int, kind: str, name: str) -> None:
    found = definition_of_line(path, text, line)
    assert (found.kind, found.name) == (kind, name)
    assert found.start_line <= line <= found.end_line


def test_every_language_has_a_named_line() -> None:
    assert {row.suffixes for row in LANGUAGES} == {
        r.suffixes for r in LANGUAGES for path, *_ in NAMED if path.endswith(r.suffixes)
    }


def test_a_whole_file_is_cut_at_its_definitions() -> None:
    found = split_by_definition("a.py", PYTHON, [LineRange(1, 19)])
    assert [(s.lines.start, s.lines.end, s.node and s.node.name) for s in found] == [
        (1, 1, None),
        (4, 15, "Weather"),
        (18, 19, "main"),
    ]


def test_a_part_of_a_class_is_cut_at_its_methods() -> None:
    found = split_by_definition("a.py", PYTHON, [LineRange(5, 15)])
    assert [(s.lines.start, s.lines.end, s.node and s.node.name) for s in found] == [
        (5, 5, "Weather"),
        (7, 12, "Weather.get"),
        (14, 15, "Weather.set"),
    ]


def hash_of(text: str, path: str = "a.py") -> str:
    return definition_of_line(path, text, 1).hash


F = "def f(xs):\n    # sum\n    total = 0\n    for x in xs:\n        total += g(x)\n    return total\n"


@pytest.mark.parametrize(
    "same",
    [F.replace("    # sum\n", ""), F.replace("    ", "  "), F.replace("total", "acc"), F.replace("def f", "def h")],
)
def test_the_hash_does_not_mind_comments_layout_and_names(same: str) -> None:
    assert hash_of(same) == hash_of(F)


@pytest.mark.parametrize(
    "other", [F.replace("+=", "-="), F.replace("= 0", "= 1"), F.replace("g(x)", "h(x)"), F.replace("xs:", "total:")]
)
def test_the_hash_minds_operators_literals_calls_and_which_name_stands_where(other: str) -> None:
    assert hash_of(other) != hash_of(F)


def test_what_cannot_be_told_has_no_node() -> None:
    ranges = [LineRange(1, 1), LineRange(2, 3)]
    for path, content in (("a.txt", b"x"), ("a.py", b"def f(:"), ("a.py", b"x" * 2_000_000)):
        assert [(s.lines, s.node) for s in split_by_definition(path, content, ranges)] == [(r, None) for r in ranges]


@given(st.sampled_from(PROGRAMS), st.integers(1, 60), st.integers(0, 60))
@settings(max_examples=200)
def test_spans_hold_every_written_line_of_a_range_once(program: Program, start: int, length: int) -> None:
    path, text = program.path, program.text
    lines = text.split("\n")
    wanted = LineRange(min(start, len(lines)), min(start + length, len(lines)))
    found = split_by_definition(path, text.encode(), [wanted])
    covered = [n for span in found for n in range(span.lines.start, span.lines.end + 1)]
    assert covered == sorted(set(covered))
    written = {n for n in range(wanted.start, wanted.end + 1) if lines[n - 1].strip()}
    assert written <= set(covered) <= set(range(wanted.start, wanted.end + 1))


PROGRAM = """
from remit.core.diff.contents import LineRange
from remit.core.code.definitions import split_by_definition
print(split_by_definition('deploy.sh', {text!r}.encode(), (LineRange(1, 1),)))
"""


@pytest.mark.parametrize("text", ["{\U0007da04..3}", "\U0007da04", "echo {\u0100..z}\n"])
def test_rare_characters_do_not_crash_the_bash_grammar(text: str) -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(text=text)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
