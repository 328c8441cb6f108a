"""`remit plan check`, as a person runs it, and as an agent may not."""

import os
import sys
from pathlib import Path

import pytest

from cli.running import data, remit, run
from conftest import run_git


@pytest.fixture
def governed_repository(repository: Path, home: Path) -> Path:
    for path in ("src/auth/tokens.py", "src/api/views.py", "tests/auth/test_tokens.py", "docs/tokens.md"):
        (repository / path).parent.mkdir(parents=True, exist_ok=True)
        (repository / path).write_text("from auth import tokens\n" if path.endswith("views.py") else "x = 1\n")
    run_git(repository, "add", "-A")
    run_git(repository, "commit", "-qm", "files")
    remit(repository, "init", "--yes", "--no-agents", "--mode", "enforce")
    return repository


def make(folder: Path, name: str, *scope: str) -> None:
    remit(folder, "intent", "new", name, *(word for line in scope for word in ("--scope", line)))


def codes(folder: Path, *words: str, code: int = 0) -> list[str]:
    return [finding["code"] for finding in data(folder, "plan", "check", *words, code=code)["findings"]]


def test_intents_that_are_apart_can_start(governed_repository: Path) -> None:
    make(governed_repository, "Tokens", "src/auth/**")
    make(governed_repository, "Views", "src/api/**")
    text = remit(governed_repository, "plan", "check")
    assert "2 tasks, 1 pair proved apart, 0 not" in text
    assert "warning: IMPORTS_ACROSS: 'src/api/views.py' of INT-002 imports 'src/auth/tokens.py' of INT-001" in text


def test_a_plan_that_can_start_has_a_forecast(governed_repository: Path) -> None:
    make(governed_repository, "Tokens", "src/auth/**")
    forecast = data(governed_repository, "plan", "check")["forecast"]
    assert forecast["totals"]["rests_on"] == 0
    assert [*forecast["lands_s"], *forecast["waits"]] == ["INT-001"]
    assert "forecast: " in remit(governed_repository, "plan", "check")


def test_a_shared_path_is_an_error_that_says_what_to_do(governed_repository: Path) -> None:
    make(governed_repository, "Tokens", "src/auth/**")
    make(governed_repository, "All", "src/**")
    done = run(governed_repository, "plan", "check")
    assert done.returncode == 1
    assert "error: OVERLAP: INT-001 and INT-002 may both write 'src/auth/x'" in done.stdout
    assert "remit intent edit INT-002 --add-scope '!src/auth/**'" in done.stdout
    assert "one after the other" in done.stdout
    assert "before this can start" not in done.stdout
    remit(governed_repository, "intent", "edit", "INT-002", "--add-scope", "!src/auth/**")
    assert "OVERLAP" not in codes(governed_repository)


def test_companions_become_patterns(governed_repository: Path) -> None:
    make(governed_repository, "Tokens", "src/auth/**")
    path = governed_repository / ".orchestration/intents/INT-001-tokens.yaml"
    path.write_text(path.read_text() + "companions: true\n")
    assert "COMPANIONS_IN_PLAN" in codes(governed_repository, code=1)
    assert "COMPANIONS_IN_PLAN" not in codes(governed_repository, "--fix")
    (task,) = data(governed_repository, "plan", "check")["tasks"]
    assert task["write_set"]["scope"] == ["src/auth/**", "docs/tokens.md", "tests/auth/test_tokens.py"]


def test_an_invalid_intents_file_is_told_with_the_rest(governed_repository: Path) -> None:
    make(governed_repository, "Tokens", "src/auth/**")
    path = governed_repository / ".orchestration/intents/INT-002.yaml"
    path.write_text("id: INT-002\nstatus: SOON\nowned_scope: [src/**]\n")
    assert "INTENTS_FILE_INVALID" in codes(governed_repository), "it stands in the way of INT-002 only"
    path.unlink()
    path = governed_repository / ".orchestration/active_intents.yaml"
    path.write_text("active_intents:\n  - id: INT-002\n    status: SOON\n    owned_scope: [src/**]\n")
    assert "INTENTS_FILE_INVALID" in codes(governed_repository, code=1)


def test_a_repository_without_commits_is_told_so(tmp_path: Path, home: Path) -> None:
    run_git(tmp_path, "init", "-q")
    remit(tmp_path, "init", "--yes", "--no-agents", "--mode", "enforce")
    make(tmp_path, "Tokens", "src/**")
    assert "NO_COMMIT" in codes(tmp_path, code=1)


def test_a_detached_head_is_no_obstacle(governed_repository: Path) -> None:
    make(governed_repository, "Tokens", "src/auth/**")
    run_git(governed_repository, "checkout", "-q", "--detach")
    assert "NO_COMMIT" not in codes(governed_repository)


def test_a_target_that_a_person_has_checked_out_and_changed_is_told(governed_repository: Path) -> None:
    make(governed_repository, "Tokens", "src/auth/**")
    branch = run_git(governed_repository, "branch", "--show-current").strip()
    config = governed_repository / ".orchestration" / "remit.toml"
    config.write_text(config.read_text() + f'\n[orchestrator]\ntarget = "{branch}"\n')
    assert "DIRTY_TARGET" not in codes(governed_repository)
    (governed_repository / "src/auth/tokens.py").write_text("x = 2\n")
    assert "DIRTY_TARGET" in codes(governed_repository, code=1)


def test_an_intent_that_nobody_knows_is_an_error(governed_repository: Path) -> None:
    done = run(governed_repository, "plan", "check", "INT-099")
    assert (done.returncode, "there is no intent 'INT-099'" in done.stderr) == (2, True)


def test_an_agent_may_not_check_a_plan_and_the_attempt_is_recorded(governed_repository: Path) -> None:
    make(governed_repository, "Tokens", "src/auth/**")
    done = run(governed_repository, "plan", "check", CLAUDECODE="1")
    assert (done.returncode, "checking a plan is for a person" in done.stderr) == (3, True)
    assert "checking a plan is for a person" in remit(governed_repository, "log", "--json")


def test_installed_agents_are_found_on_the_search_path(governed_repository: Path, tmp_path: Path) -> None:
    make(governed_repository, "Tokens", "src/auth/**")
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "codex").write_text(f"#!{sys.executable}\n")
    (folder / "codex").chmod(0o755)
    without = data(governed_repository, "plan", "check", PATH=os.defpath)
    assert "NO_AGENT" in [finding["code"] for finding in without["findings"]]
    assert [row["agent"] for row in without["forecast"]["rows"]] == ["any agent"]
    found = data(governed_repository, "plan", "check", PATH=f"{folder}:{os.environ['PATH']}")["findings"]
    assert "NO_AGENT" not in [finding["code"] for finding in found]
