"""`.intentignore`: git's own rules, and nobody else's."""

from pathlib import Path

import pytest

from conftest import run_git
from remit.workspace.intents_file.storage import (
    IntentIgnore,
    find_barred_paths,
    is_pattern,
    parse_barred_intent,
    read_intent_ignore,
)
from remit.workspace.place.workspace import Workspace, locate_workspace

LINES: list[tuple[str, str | None, bool]] = [
    ("intent: INT-001", "INT-001", False),
    ("INT-001", "INT-001", False),
    ("  INT-001  # why", "INT-001", False),
    ("INT-1", None, True),
    ("int-001", None, True),
    ("# INT-001", None, False),
    ("", None, False),
    ("   ", None, False),
    ("*.lock", None, True),
    ("!keep", None, True),
    ("\\#x", None, True),
]


@pytest.mark.parametrize(("line", "intent", "pattern"), LINES)
def test_a_line_bars_an_intent_or_a_path_or_nothing(line: str, intent: str | None, pattern: bool) -> None:
    assert (parse_barred_intent(line), is_pattern(line)) == (intent, pattern)


def place(root: Path) -> Workspace:
    found = locate_workspace(root)
    assert found is not None
    return found


def test_patterns_bar_as_git_ignores_and_gits_own_ignores_do_not(repository: Path, home: Path) -> None:
    (repository / ".gitignore").write_text("ignored.txt\n")
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".config" / "git" / "ignore").write_text("*.mine\n")
    (repository / ".git" / "info" / "exclude").write_text("*.info\n")
    ignore = IntentIgnore(patterns=("*.lock", "!keep.lock", "/build/", "a/**/b"))
    asked = ["x.lock", "keep.lock", "build/x", "src/build/x", "a/1/2/b", "ignored.txt", "n.mine", "e.info", "é.lock"]
    found = find_barred_paths(place(repository), ignore, [*asked, "new\nline.lock", ":(top)x.lock", "-x.lock"])
    assert found == {
        "x.lock": "*.lock",
        "build/x": "/build/",
        "a/1/2/b": "a/**/b",
        "é.lock": "*.lock",
        "new\nline.lock": "*.lock",
        ":(top)x.lock": "*.lock",
        "-x.lock": "*.lock",
    }


def test_both_files_count_and_bytes_that_are_not_utf8_are_no_failure(repository: Path) -> None:
    (repository / ".orchestration").mkdir()
    (repository / ".intentignore").write_bytes(b"*.lock\ncaf\xe9\n")
    (repository / ".orchestration" / ".intentignore").write_text("!x.lock\nINT-002\n")
    ignore = read_intent_ignore(place(repository))
    assert ignore.intents == {"INT-002"}
    assert find_barred_paths(place(repository), ignore, ["x.lock", "y.lock"]) == {"y.lock": "*.lock"}


def test_a_probe_that_was_left_half_made_is_finished(repository: Path) -> None:
    ignore = IntentIgnore(patterns=("*.lock",))
    assert find_barred_paths(place(repository), ignore, ["x.lock"])
    [probe] = (repository / ".git" / "remit" / "ignore").iterdir()
    (probe / "git" / "info" / "exclude").unlink()
    run_git(repository, "status")
    assert find_barred_paths(place(repository), ignore, ["x.lock"]) == {"x.lock": "*.lock"}
