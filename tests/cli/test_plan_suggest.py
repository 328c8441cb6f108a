"""`remit plan suggest`, as a person runs it."""

from pathlib import Path

import pytest

from cli.running import data, remit, run
from conftest import run_git


@pytest.fixture
def governed_repository(repository: Path, home: Path) -> Path:
    for room in ("auth", "api", "ui"):
        for number in range(3):
            write(repository, f"src/{room}/m{number}.py", "x = 1\n")
    commit(repository)
    for room in ("auth", "api", "ui", "auth", "api", "ui"):
        for number in range(3):
            write(repository, f"src/{room}/m{number}.py", f"x = '{len(list(repository.iterdir()))}{room}'\n" * 2)
        run_git(repository, "commit", "-qam", room, "--allow-empty")
    remit(repository, "init", "--yes", "--no-agents", "--mode", "enforce")
    return repository


def write(folder: Path, path: str, text: str) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    (folder / path).write_text(text)


def commit(folder: Path) -> None:
    run_git(folder, "add", "-A")
    run_git(folder, "commit", "-qm", "files")


def test_a_repository_is_cut_into_parts_that_are_apart(governed_repository: Path) -> None:
    made = data(governed_repository, "plan", "suggest", "--parts", "3")
    assert made["is_apart"]
    assert {"src/api/**", "src/auth/**", "src/ui/**"} <= {path for part in made["parts"] for path in part["paths"]}
    assert data(governed_repository, "plan", "suggest", "--parts", "3") == made
    assert "3 parts of" in remit(governed_repository, "plan", "suggest", "--parts", "3")
    assert data(governed_repository, "intent", "list") == []


def test_written_parts_are_drafts_below_the_intent_and_pass_the_check(governed_repository: Path) -> None:
    remit(governed_repository, "intent", "new", "All", "--scope", "src/**")
    remit(governed_repository, "plan", "suggest", "INT-001", "--parts", "3", "--write")
    made = data(governed_repository, "intent", "list")
    assert [(i["id"], i["status"], i["parent_intent"]) for i in made[1:]] == [
        (f"INT-00{n}", "DRAFT", "INT-001") for n in (2, 3, 4)
    ]
    checked = data(governed_repository, "plan", "check", "INT-001")
    assert [task["intent_id"] for task in checked["tasks"]][-1] == "INT-001"
    assert "OVERLAP" not in [finding["code"] for finding in checked["findings"]]


def test_several_intents_that_overlap_share_out_their_files(governed_repository: Path) -> None:
    remit(governed_repository, "intent", "new", "Auth", "--scope", "src/auth/**", "--scope", "src/ui/**")
    remit(governed_repository, "intent", "new", "Api", "--scope", "src/api/**", "--scope", "src/ui/**")
    assert run(governed_repository, "plan", "check").returncode == 1
    remit(governed_repository, "plan", "suggest", "INT-001", "INT-002", "--write")
    assert run(governed_repository, "plan", "check").returncode == 0
    remit(governed_repository, "intent", "set-status", "INT-001", "IN_PROGRESS")
    done = run(governed_repository, "plan", "suggest", "INT-001", "INT-002", "--write")
    assert (done.returncode, "INT-001 are no longer DRAFT" in done.stderr) == (3, True)


def test_a_brief_says_which_files(governed_repository: Path) -> None:
    (governed_repository / "brief.md").write_text("Rework src/auth/ and m1.py in src/api/m1.py\n")
    made = data(governed_repository, "plan", "suggest", "--brief", "brief.md", "--parts", "2")
    assert sum(part["files"] for part in made["parts"]) >= 4
    (governed_repository / "brief.md").write_text("Nothing of the kind\n")
    done = run(governed_repository, "plan", "suggest", "--brief", "brief.md")
    assert (done.returncode, "names no tracked file" in done.stderr) == (2, True)


def test_a_repository_without_commits_is_cut_without_a_history(tmp_path: Path, home: Path) -> None:
    run_git(tmp_path, "init", "-q")
    remit(tmp_path, "init", "--yes", "--no-agents")
    write(tmp_path, "src/a.py", "x = 1\n")
    write(tmp_path, "lib/b.py", "x = 1\n")
    run_git(tmp_path, "add", "src", "lib")
    assert "too few commits" in remit(tmp_path, "plan", "suggest", "--parts", "2")


def test_a_detached_head_has_a_history_too(governed_repository: Path) -> None:
    run_git(governed_repository, "checkout", "-q", "--detach")
    assert data(governed_repository, "plan", "suggest")["commits"] > 1


def test_names_with_line_ends_and_other_oddities_are_cut_too(governed_repository: Path) -> None:
    write(governed_repository, "src/odd\n\x01na[m]e\x1b*.py", "x = 1\n")
    commit(governed_repository)
    done = run(governed_repository, "plan", "suggest", "--parts", "4")
    assert done.returncode == 0
    assert "\x1b" not in done.stdout


def test_several_intents_take_neither_a_brief_nor_a_number(governed_repository: Path) -> None:
    for name in ("One", "Two"):
        remit(governed_repository, "intent", "new", name, "--scope", "src/**")
    assert run(governed_repository, "plan", "suggest", "INT-001", "INT-002", "--parts", "2").returncode == 2


def test_an_agent_may_not_cut(governed_repository: Path) -> None:
    done = run(governed_repository, "plan", "suggest", CLAUDECODE="1")
    assert (done.returncode, "is for a person" in done.stderr) == (3, True)
