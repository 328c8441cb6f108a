"""What a path in a call really names."""

from pathlib import Path

import pytest

from remit.core.repopath import InvalidPath
from remit.workspace.paths import below, folds_case, protected_inside, real_paths, within

SETTINGS = (".claude/settings.json", ".mcp.json")


@pytest.mark.parametrize("raw", ["", " ", "a ", "\ta", "a\n", "a\0", "\ud800"])
def test_text_that_names_no_file_is_said_to(tmp_path: Path, raw: str) -> None:
    with pytest.raises(InvalidPath):
        real_paths(raw, tmp_path, tmp_path)


def test_a_tilde_is_home_and_only_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert real_paths("~/x", tmp_path, home) == (str(home / "x"),)
    assert real_paths("~", tmp_path, home) == (str(home),)
    assert real_paths("~x", tmp_path, home) == (str(tmp_path / "~x"),)


def test_both_readings_of_a_link_and_dots_are_told(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "link").symlink_to(tmp_path / "far")
    found = real_paths("link/../x", tmp_path / "w", tmp_path)
    assert set(found) == {str(tmp_path / "w" / "x"), str(tmp_path / "x")}


PROTECTED = [
    (".git", True),
    (".git/config", True),
    ("sub/.git/hooks/x", True),
    (".GIT/x", True),
    (".orchestration", True),
    ("a/.Orchestration/x", True),
    (".intentignore", True),
    ("a/.IntentIgnore", True),
    (".claude/settings.json", True),
    ("pkg/.claude/settings.json", True),
    (".claude/settings.json/x", True),
    (".claude/settings.jsonx", False),
    (".claude/other", False),
    (".gitignore", False),
    (".github/x", False),
    ("git/config", False),
    ("orchestration", False),
]


@pytest.mark.parametrize(("path", "expected"), PROTECTED)
def test_what_governs_is_protected_in_any_spelling(path: str, expected: bool) -> None:
    assert (protected_inside(path, SETTINGS) is not None) == expected


def test_a_folder_is_within_itself_and_not_within_its_namesake(tmp_path: Path) -> None:
    assert within(str(tmp_path), tmp_path)
    assert within(str(tmp_path / "x"), tmp_path)
    assert not within(f"{tmp_path}x", tmp_path)
    assert within("/x", Path("/"))
    assert below("a/b/c", "b") is True
    assert below("a/bc", "b") is False


def test_the_root_of_the_file_system_can_be_asked_whether_it_folds() -> None:
    assert folds_case(Path("/")) is False


def test_this_file_system_tells_spellings_apart(tmp_path: Path) -> None:
    (tmp_path / "Name").mkdir()
    assert folds_case(tmp_path / "Name") == (tmp_path / "nAME").exists()
