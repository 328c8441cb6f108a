"""A scope whose files moved is named with the place where they are now."""

import subprocess
from pathlib import Path

import pytest

from cli.running import run
from gate.driving import Agent, governed
from remit.core.intent import Intent, IntentsDocument
from remit.gate.intents.owned_files import DeadPattern, find_dead_patterns, lint_dead_scopes
from remit.workspace.place.workspace import locate_workspace


def git(cwd: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=cwd, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit_files(root: Path, *paths: str) -> None:
    for number, path in enumerate(paths):
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text("".join(f"line {number}.{n}\n" for n in range(20)))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "files")


def find(root: Path, *scope: str, status: str = "DRAFT") -> list[DeadPattern]:
    workspace = locate_workspace(root)
    assert workspace is not None
    return find_dead_patterns(workspace, [Intent("INT-001", scope, status=status)]).get("INT-001", [])  # pyright: ignore[reportArgumentType]


def test_one_that_went_elsewhere_widens_nothing(repository: Path) -> None:
    commit_files(repository, *(f"src/auth/{n}.py" for n in range(6)))
    git(repository, "mv", "src/auth", "src/login")
    (repository / "src/x").mkdir()
    git(repository, "mv", "src/login/0.py", "src/x/other.py")
    git(repository, "commit", "-qm", "move")
    assert [dead.target for dead in find(repository, "src/auth/**")] == ["src/login/**"]


def test_files_that_moved_together_name_their_new_folder(repository: Path) -> None:
    commit_files(repository, *(f"src/auth/part/{n}.py" for n in range(6)), "src/auth/a.py", "src/other.py")
    git(repository, "mv", "src/auth", "src/login")
    git(repository, "commit", "-qm", "move")
    [dead] = find(repository, "src/auth/**", "src/**")
    assert (dead.files, dead.moved, dead.target, dead.commit) == (
        7,
        7,
        "src/login/**",
        git(repository, "rev-parse", "HEAD"),
    )
    workspace = locate_workspace(repository)
    assert workspace is not None
    [finding] = lint_dead_scopes(workspace, IntentsDocument((Intent("INT-001", ("src/auth/**",)),)))
    assert "7 of its 7 files moved to src/login/" in finding.message
    assert "remit intent edit INT-001 --replace-scope 'src/auth/**' 'src/login/**'" in finding.message
    assert finding.severity == "warning"


@pytest.mark.parametrize(
    ("kept", "target"), [(6, "new/**"), (5, "")], ids=["60 % moved together", "less than 60 % moved together"]
)
def test_a_place_is_proposed_where_most_files_went(repository: Path, kept: int, target: str) -> None:
    commit_files(repository, *(f"old/{n}.py" for n in range(10)))
    (repository / "new").mkdir()
    for n in range(10):
        git(repository, *(("mv", f"old/{n}.py", f"new/{n}.py") if n < kept else ("rm", "-q", f"old/{n}.py")))
    git(repository, "commit", "-qm", "move some")
    [dead] = find(repository, "old/**")
    assert (dead.files, dead.target) == (10, target)


@pytest.mark.parametrize(
    ("scope", "status"),
    [
        pytest.param("never/**", "DRAFT", id="new by declaration"),
        pytest.param("README.md", "DRAFT", id="there"),
        pytest.param("!gone/**", "DRAFT", id="an exclusion"),
        pytest.param("gone/**", "DONE", id="of a closed intent"),
    ],
)
def test_what_is_not_dead(repository: Path, scope: str, status: str) -> None:
    commit_files(repository, "gone/a.py", "README.md")
    git(repository, "rm", "-qr", "gone")
    git(repository, "commit", "-qm", "gone")
    assert find(repository, scope, status=status) == []


def test_files_that_went_for_good_are_said_to_be_gone(repository: Path) -> None:
    commit_files(repository, "gone/a.py")
    git(repository, "rm", "-qr", "gone")
    git(repository, "commit", "-qm", "gone")
    [dead] = find(repository, "gone/*.py")
    assert dead.describe().endswith("its 1 files are gone")


def test_who_selects_it_and_who_asks_for_the_status_are_told(repository: Path, home: Path) -> None:
    commit_files(repository, *(f"docs/{n}.md" for n in range(4)))
    git(repository, "mv", "docs", "pages")
    git(repository, "commit", "-qm", "move")
    governed(repository)
    told = "4 of its 4 files moved to pages/. A person can replace the pattern of INT-002."
    assert told in str(Agent(repository, home).select("INT-002"))
    assert told in " ".join(run(repository, "status").stdout.split())
