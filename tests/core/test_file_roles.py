"""Which file a test or a page is about."""

import pytest

from remit.core.code.languages import LANGUAGES, find_language
from remit.core.scope.file_roles import FILE_NAMES, SUFFIXES, find_mirror, has_known_language, select_mirrored_files

FILES = [
    "src/a/b.py",
    "src/c/b.py",
    "src/a/view.tsx",
    "src/a/index.ts",
    "lib/User.java",
    "pkg/server.go",
    "tests/a/test_b.py",
    "tests/helpers/tool.py",
    "docs/a/b.md",
]

TABLE: list[tuple[str, list[str]]] = [
    ("tests/a/test_b.py", ["src/a/b.py"]),
    ("tests/unit/a/test_b.py", ["src/a/b.py"]),
    ("tests/c/b_test.py", ["src/c/b.py"]),
    ("tests/test_b.py", ["src/a/b.py", "src/c/b.py"]),
    ("src/a/test_b.py", ["src/a/b.py"]),
    ("src/a/view.test.ts", ["src/a/view.tsx"]),
    ("src/a/view.spec.js", ["src/a/view.tsx"]),
    ("src/a/__tests__/view.tsx", ["src/a/view.tsx"]),
    ("src/a/view.test.py", []),
    ("pkg/server_test.go", ["pkg/server.go"]),
    ("test/UserTest.java", ["lib/User.java"]),
    ("docs/a/b.md", ["src/a/b.py"]),
    ("docs/c/b.rst", ["src/c/b.py"]),
    ("docs/index.md", []),
    ("docs/README.md", []),
    ("README.md", []),
    ("tests/conftest.py", []),
    ("tests/test_tool.py", ["tests/helpers/tool.py"]),
    ("tests/test_.py", []),
    ("tests/test_nothing.py", []),
    ("src/a/b.py", []),
    ("docs/a/b.py", []),
    ("tests/a/test_b", []),
    ("", []),
]


@pytest.mark.parametrize(("path", "expected"), TABLE)
def test_a_companion_mirrors_the_files_whose_folders_agree_most(path: str, expected: list[str]) -> None:
    mirror = find_mirror(path)
    assert list(select_mirrored_files(mirror, FILES) if mirror else ()) == expected


def test_the_light_list_is_the_tables() -> None:
    assert {suffix for row in LANGUAGES for suffix in row.suffixes} == SUFFIXES
    assert {name for row in LANGUAGES for name in row.file_names} == FILE_NAMES


def test_both_know_the_same_files() -> None:
    for path in ("a.py", "x/A.PY", "Rakefile", "x/Gemfile", ".py", "py", "a.txt", "a.py.orig", "a/.bash"):
        assert has_known_language(path) is (find_language(path) is not None), path
