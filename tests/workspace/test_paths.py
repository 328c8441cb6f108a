"""What a path in a call really names."""

import os
from pathlib import Path

import pytest

from remit.core.scope.path_patterns import InvalidPath, fold_case
from remit.workspace.place.resolve_paths import (
    folds_case,
    inside_protection_reason,
    is_inside,
    resolve_real_paths,
    special_file_reason,
)

TOP = "root"
SETTINGS = (".claude/settings.json", ".mcp.json")


@pytest.mark.parametrize("raw", ["", " ", "a ", "\ta", "a\n", "a\0", "\ud800"])
def test_text_that_names_no_file_is_said_to(tmp_path: Path, raw: str) -> None:
    with pytest.raises(InvalidPath):
        resolve_real_paths(raw, tmp_path, tmp_path)


def test_a_tilde_is_home_and_only_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert resolve_real_paths("~/x", tmp_path, home) == (str(home / "x"),)
    assert resolve_real_paths("~", tmp_path, home) == (str(home),)
    assert resolve_real_paths("~x", tmp_path, home) == (str(tmp_path / "~x"),)


def test_both_readings_of_a_link_and_dots_are_told(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "link").symlink_to(tmp_path / "far")
    found = resolve_real_paths("link/../x", tmp_path / "w", tmp_path)
    assert set(found) == {str(tmp_path / "w" / "x"), str(tmp_path / "x")}


PROTECTED = [
    (".git", True),
    (".git/config", True),
    ("sub/.git/hooks/x", True),
    (".GIT/x", True),
    (".g\u200cit/config", True),
    ("a/.orches\ufefftration/x", True),
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
    assert (inside_protection_reason(path, SETTINGS) is not None) == expected


def test_a_folder_is_within_itself_and_not_within_its_namesake(tmp_path: Path) -> None:
    assert is_inside(str(tmp_path), tmp_path)
    assert is_inside(str(tmp_path / "x"), tmp_path)
    assert not is_inside(f"{tmp_path}x", tmp_path)
    assert is_inside("/x", Path("/"))
    assert inside_protection_reason("a/b/c", ("b",)) is not None
    assert inside_protection_reason("a/bc", ("b",)) is None


def test_the_root_of_the_file_system_can_be_asked_whether_it_folds() -> None:
    assert folds_case(Path("/")) is False


def test_this_file_system_tells_spellings_apart(tmp_path: Path) -> None:
    (tmp_path / "Name").mkdir()
    assert folds_case(tmp_path / "Name") == (tmp_path / "nAME").exists()


@pytest.mark.parametrize(
    "raw",
    [
        f"/proc/self/{TOP}/etc/x",
        "/proc/self/cwd/x",
        f"/proc/thread-self/{TOP}/x",
        f"/proc/1/{TOP}/x",
        "/proc/self/fd/3",
        "/proc/self/task/1/cwd/x",
        "//proc//self/cwd",
        "../../../../../../../../../proc/self/cwd/x",
        f"/proc/./self/{TOP}/x",
    ],
)
def test_what_another_process_would_find_elsewhere_names_no_file(tmp_path: Path, raw: str) -> None:
    with pytest.raises(InvalidPath, match="each process"):
        resolve_real_paths(raw, tmp_path, tmp_path)


@pytest.mark.parametrize("raw", ["/proc/cpuinfo", "/proc/self/status", f"proc/self/{TOP}/x", "/x/proc/self/cwd"])
def test_other_names_there_are_names(tmp_path: Path, raw: str) -> None:
    assert resolve_real_paths(raw, tmp_path, tmp_path)


def test_a_line_end_within_a_name_is_part_of_it(tmp_path: Path) -> None:
    assert resolve_real_paths("a\nb/c", tmp_path, tmp_path) == (f"{tmp_path}/a\nb/c",)


def test_what_is_no_plain_file_of_one_name_says_so(tmp_path: Path) -> None:
    plain, twin, pipe = tmp_path / "plain", tmp_path / "twin", tmp_path / "pipe"
    plain.touch()
    os.mkfifo(pipe)
    assert (special_file_reason(plain), special_file_reason(tmp_path), special_file_reason(tmp_path / "none")) == (
        None,
        None,
        None,
    )
    twin.hardlink_to(plain)
    assert "hard links" in (special_file_reason(plain) or "")
    assert special_file_reason(pipe) == "is a pipe or a socket"
    assert special_file_reason(Path("/dev/null")) == "is a device"


FOLDED = [
    ("SRC/A.py", "src/a.py"),
    ("stra\u00dfe", "STRASSE"),
    ("\u00e9", "e\u0301"),
    ("\u00c9", "e\u0301"),
    ("\u212b", "\u00e5"),
    ("\ufb01le", "FILE"),
    ("\u03c3", "\u03c2"),
    (".G\u0131t", ".g\u0131t"),
]


@pytest.mark.parametrize(("one", "other"), FOLDED)
def test_two_spellings_that_a_folding_file_system_takes_for_one_are_one(one: str, other: str) -> None:
    assert fold_case(one) == fold_case(other)


def test_what_looks_alike_and_is_another_letter_stays_another() -> None:
    assert fold_case("\u0430") != fold_case("a")
    assert fold_case("src\u200b") != fold_case("src")
