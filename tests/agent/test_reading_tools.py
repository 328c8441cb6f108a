"""The tools that read, list, search and find."""

import os
from pathlib import Path
from typing import Any

import pytest

from agent.tool_driving import ToolDriver
from conftest import run_git
from remit.core.diff.contents import sha256
from remit_agent.tools.finding import FINDING_TOOLS, SearchFiles, find_ripgrep, search_text
from remit_agent.tools.reading import READ_FILE
from remit_agent.tools.tool import ToolFailure

TOOLS = {tool.name: tool for tool in FINDING_TOOLS}
CODE = """\
import os


# Loads.
def load(path):
    if path:
        text = open(path).read()
        return text
    return None


def save(path):
    pass
"""
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20


@pytest.fixture
def driver(repository: Path, home: Path) -> ToolDriver:
    (repository / "src" / "code.py").write_text(CODE)
    return ToolDriver(repository, home)


def test_a_file_is_shown_with_numbers_and_the_hash_of_the_whole(driver: ToolDriver) -> None:
    text = driver.run(READ_FILE, path="src/code.py", offset=5, limit=2)
    assert "Showing lines 5-6 of 13" in text
    assert "5 | def load(path):\n6 |     if path:" in text
    assert f"[content_hash: sha256:{sha256(CODE.encode())}]" in text


BLOCKS: dict[str, tuple[dict[str, Any], str]] = {
    "everything outwards": ({"anchor_line": 7}, "4-9"),
    "one level": ({"anchor_line": 7, "max_levels": 1}, "6-8"),
    "without header": ({"anchor_line": 7, "include_header": False}, "5-9"),
    "with siblings": ({"anchor_line": 7, "include_siblings": True}, "1-13"),
    "few lines": ({"anchor_line": 7, "max_lines": 2}, "6-7"),
}


@pytest.mark.parametrize("case", BLOCKS)
def test_the_block_around_a_line_is_shown(driver: ToolDriver, case: str) -> None:
    choice, lines = BLOCKS[case]
    assert f"Showing lines {lines} of 13" in driver.run(
        READ_FILE, path="src/code.py", mode="indentation", indentation=choice
    )


def test_several_files_are_read_at_once_and_one_may_be_missing(driver: ToolDriver) -> None:
    files = [{"path": "src/code.py", "line_ranges": [[1, 1], [12, 13]]}, {"path": "src/coda.py"}]
    text = driver.run(READ_FILE, files=files)
    assert "Showing lines 12-13 of 13" in text
    assert "FILE_NOT_FOUND: 'src/coda.py' does not exist. Near it: code.py" in text


UNREADABLE: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"path": "src/coed.py"}, "FILE_NOT_FOUND"),
    "folder": ({"path": "src"}, "FILE_NOT_FOUND"),
    "binary": ({"path": "binary"}, "NOT_TEXT"),
    "nothing": ({}, "INVALID_ARGUMENTS"),
    "no anchor": ({"path": "src/code.py", "mode": "indentation"}, "INVALID_ARGUMENTS"),
    "anchor behind the end": (
        {"path": "src/code.py", "mode": "indentation", "indentation": {"anchor_line": 99}},
        "INVALID_ARGUMENTS",
    ),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_what_cannot_be_read_is_a_failure_of_its_own_kind(driver: ToolDriver, case: str) -> None:
    (driver.root / "binary").write_bytes(b"a\0b")
    arguments, kind = UNREADABLE[case]
    assert driver.fail(READ_FILE, **arguments).error_type == kind


def test_an_image_is_shown_to_a_model_that_sees_and_named_to_one_that_does_not(driver: ToolDriver) -> None:
    (driver.root / "a.png").write_bytes(PNG)
    done = driver.perform(READ_FILE, path="a.png")
    assert done.output is not None
    (image,) = done.output.data["images"]
    assert (image["sha256"], image["media_type"]) == (sha256(PNG), "image/png")
    driver.has_vision = False
    assert "cannot see" in driver.run(READ_FILE, path="a.png")


def test_the_rules_of_a_nearer_folder_are_named(driver: ToolDriver) -> None:
    for folder in (".", "src"):
        (driver.root / folder / "AGENTS.md").write_text("Be short.")
    assert "[rules for this folder: src/AGENTS.md]" in driver.run(READ_FILE, path="src/code.py")
    assert "rules for this folder" not in driver.run(READ_FILE, path="README.md")


def test_long_lines_are_cut_and_say_so(driver: ToolDriver) -> None:
    (driver.root / "long.txt").write_text("x" * 5000)
    assert "… [5000 characters]" in driver.run(READ_FILE, path="long.txt")


def test_a_folder_is_listed_without_what_git_ignores(driver: ToolDriver) -> None:
    (driver.root / ".gitignore").write_text("*.log\n")
    (driver.root / "src" / "a.log").write_text("x")
    assert driver.run(TOOLS["list_files"], path=".").split("\n") == [
        ".gitignore",
        ".orchestration/",
        "README.md",
        "src/",
    ]
    assert driver.run(TOOLS["list_files"], path="src", recursive=True).split("\n") == ["app.py", "code.py"]


@pytest.fixture(params=["ripgrep", "re"])
def program(request: pytest.FixtureRequest) -> str | None:
    """The program that searches."""
    found = find_ripgrep(os.environ["PATH"])
    if request.param == "ripgrep" and found is None:
        pytest.skip("ripgrep is not installed")
    return found if request.param == "ripgrep" else None


def test_lines_are_found_by_an_expression_with_the_lines_around(driver: ToolDriver, program: str | None) -> None:
    text = search_text(program, driver.root / "src", SearchFiles("src", r"def \w+\(path\)", "*.py"), {})
    assert "code.py" in text
    assert "> 5 | def load(path):" in text
    assert "  6 |     if path:" in text
    assert "> 12 | def save(path):" in text
    assert "app.py" not in text
    assert ("Python's re" in text) == (program is None)


def test_a_wrong_expression_is_refused_with_its_position(driver: ToolDriver, program: str | None) -> None:
    with pytest.raises(ToolFailure, match="regex parse error"):
        search_text(program, driver.root, SearchFiles(".", "a(b"), {})


def test_an_expression_that_begins_with_a_dash_is_no_option(driver: ToolDriver, program: str | None) -> None:
    assert "No line matches" in search_text(program, driver.root, SearchFiles(".", "--files"), {})


def test_no_link_leads_a_search_out(driver: ToolDriver, program: str | None, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("zebra\n")
    (driver.root / "link.txt").symlink_to(tmp_path / "outside.txt")
    assert "No line matches" in search_text(program, driver.root, SearchFiles(".", "zebra"), {})


def test_a_search_goes_through_the_gate(driver: ToolDriver) -> None:
    assert "code.py" in driver.run(TOOLS["search_files"], path="src", regex="save")
    assert driver.fail(TOOLS["search_files"], path="nowhere", regex="x").error_type == "FILE_NOT_FOUND"


def test_code_is_found_by_words_in_any_spelling(driver: ToolDriver) -> None:
    (driver.root / "src" / "net.py").write_text("x = 1\n" * 50 + "def retryAfterLimit():\n    rate_limit = 3\n")
    run_git(driver.root, "add", "-A")
    text = driver.run(TOOLS["codebase_search"], query="retry after a rate limit")
    assert text.startswith("Found by words, not by meaning")
    assert "src/net.py:41-52" in text
    assert "51 | def retryAfterLimit():" in text
    assert "Nothing speaks" in driver.run(TOOLS["codebase_search"], query="zebra")
