"""The names that tell a language stand in two places: the light list is the table's."""

from remit.core.code.file_names import FILE_NAMES, SUFFIXES, has_known_language
from remit.core.code.languages import LANGUAGES, find_language


def test_the_light_list_is_the_tables() -> None:
    assert {suffix for row in LANGUAGES for suffix in row.suffixes} == SUFFIXES
    assert {name for row in LANGUAGES for name in row.file_names} == FILE_NAMES


def test_both_know_the_same_files() -> None:
    for path in ("a.py", "x/A.PY", "Rakefile", "x/Gemfile", ".py", "py", "a.txt", "a.py.orig", "a/.bash"):
        assert has_known_language(path) is (find_language(path) is not None), path
