"""`remit init`, as a process."""

import json
import os
import pty
import sqlite3
import subprocess
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from cli.wired_home import Person
from conftest import run_git
from forked_commands import start_process
from processes import daemons_of, kill_daemons


@pytest.fixture
def person(tmp_path: Path) -> Generator[Person]:
    """Somebody with two agents, for whose first call `init` starts a daemon."""
    someone = Person(tmp_path / "Zoë Q")
    yield someone
    kill_daemons(someone.home)


def test_without_a_terminal_and_a_yes_the_plan_is_shown_and_nothing_changes(person: Person, repository: Path) -> None:
    before = person.files()
    done = person.run(repository, "init")
    assert done.returncode == 2
    assert "~/.claude/settings.json" in done.stdout
    assert "add --yes" in done.stderr
    assert person.files() == before
    assert not (repository / ".orchestration").exists()
    assert not (person.home / ".local").exists()


def test_init_wires_what_is_on_the_path_and_governs(person: Person, repository: Path) -> None:
    said = person.remit(repository, "init", "--yes")
    assert said.startswith(f"{repository} is governed; mode: observe.")
    settings = json.loads((person.home / ".claude/settings.json").read_text())
    command = settings["hooks"]["PreToolUse"][0]["hooks"][0]["command"]
    assert f"'{person.home}/.local/share/remit/bin/hook' claude-code pre ||" in command
    assert (person.home / ".codex/hooks.json").is_file()
    assert not (person.home / ".gemini").exists()
    assert (repository / ".git/remit/governed").is_file()
    assert len(daemons_of(person.home)) == 1
    assert (repository / ".orchestration/intents/README.md").is_file()
    assert "active_intents.yaml" in (repository / ".orchestration/.gitignore").read_text().splitlines()


def test_a_second_run_has_nothing_to_do(person: Person, repository: Path) -> None:
    person.remit(repository, "init", "--yes", "--trust-codex", "--mode", "enforce")
    before = person.files()
    assert person.remit(repository, "init").startswith("nothing to do")
    assert person.files() == before
    assert person.remit(repository, "mode").startswith("enforce")


def test_the_diff_shows_every_line_that_comes_in(person: Person, repository: Path) -> None:
    done = person.run(repository, "init", "--diff")
    assert "+++ ~/.claude.json" in done.stdout
    assert '+    "remit": {' in done.stdout


def test_a_new_repository_has_a_file_an_intent(person: Person, repository: Path) -> None:
    person.remit(repository, "init", "--yes", "--no-agents")
    assert "INT-001" in person.remit(repository, "intent", "new", "Names", "--scope", "src/**")
    text = (repository / ".orchestration/intents/INT-001-names.yaml").read_text()
    assert text.startswith("id: INT-001\nname: Names\n\nowned_scope:\n  - src/**\n")
    assert person.remit(repository, "mode").startswith("observe")


def test_an_intents_file_that_is_there_stays(person: Person, repository: Path) -> None:
    folder = repository / ".orchestration"
    folder.mkdir()
    (folder / "active_intents.yaml").write_text("active_intents: []  # mine\n")
    person.remit(repository, "init", "--yes", "--no-agents")
    assert (folder / "active_intents.yaml").read_text() == "active_intents: []  # mine\n"


def test_only_the_agent_that_was_named_is_wired(person: Person, repository: Path) -> None:
    assert person.data(repository, "init", "--yes", "--agent", "codex")["agents"] == ["codex"]
    assert not (person.home / ".claude").exists()


def test_what_leaves_the_machine_is_asked_for(person: Person, repository: Path) -> None:
    person.remit(repository, "init", "--yes", "--no-agents", "--share-notes", "--share-log", "ref")
    text = (repository / ".orchestration/remit.toml").read_text()
    assert text == 'mode = "observe"\n\n[share]\nnotes = true\nlog = "ref"\n'


def test_a_folder_without_git_can_be_governed(person: Person, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    folder.mkdir()
    person.remit(folder, "init", "--yes", "--no-agents")
    assert (folder / ".orchestration/.state/governed").is_file()


@pytest.mark.parametrize("where", ["home", "/"])
def test_home_and_the_root_are_no_projects(person: Person, where: str) -> None:
    folder = person.home if where == "home" else Path("/")
    done = person.run(folder, "init", "--yes")
    assert done.returncode == 2
    assert "is no project" in done.stderr
    assert "hint" in done.stderr
    assert not (person.home / ".orchestration").exists()


def test_settings_that_cannot_be_read_stop_it_before_anything_is_written(person: Person, repository: Path) -> None:
    (person.home / ".claude").mkdir()
    (person.home / ".claude/settings.json").write_text("{")
    done = person.run(repository, "init", "--yes")
    assert done.returncode == 2
    assert "settings.json" in done.stderr
    assert not (repository / ".orchestration").exists()
    assert not (person.home / ".codex").exists()


def answer_at_a_terminal(person: Person, repository: Path, typed: bytes, *words: str) -> tuple[int, str]:
    """Run `remit init` with a terminal as its standard input; the exit code, and all that it printed."""
    leader, follower = pty.openpty()
    process = start_process(
        ["init", *words],
        repository,
        {"PATH": f"{person.home / 'bin'}:/usr/bin:/bin", "HOME": str(person.home), "LANG": "C.UTF-8"},
        stdin=follower,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    os.write(leader, typed)
    said = process.communicate(timeout=200)[0].decode()
    os.close(leader)
    os.close(follower)
    return process.returncode, said


def test_at_a_terminal_one_question_is_asked_and_says_what_it_grants(person: Person, repository: Path) -> None:
    code, said = answer_at_a_terminal(person, repository, b"d\ny\n")
    assert code == 0, said
    assert said.count("?") == 2, "one question, asked again after the changes were shown"
    before_the_question = said.partition("Apply?")[0]
    assert "Claude Code    use Remit's own tools    (permissions.allow: mcp__remit)" in before_the_question
    assert 'default_tools_approval_mode = "approve"' in before_the_question
    assert "Codex CLI      run Remit's hooks        (hooks.state, by their hashes)" in before_the_question
    assert "+++ ~/.claude/settings.json" in said
    assert "hooks.state" in (person.home / ".codex/config.toml").read_text()
    assert (repository / ".orchestration/remit.toml").read_text() == 'mode = "observe"\n'


def test_at_a_terminal_codex_is_not_told_to_trust_where_the_option_says_no(person: Person, repository: Path) -> None:
    code, said = answer_at_a_terminal(person, repository, b"y\n", "--no-trust-codex")
    assert code == 0, said
    assert "run Remit's hooks" not in said
    assert "hooks.state" not in (person.home / ".codex/config.toml").read_text()


def test_a_yes_without_a_look_does_not_trust_hooks(person: Person, repository: Path) -> None:
    person.remit(repository, "init", "--yes")
    assert "hooks.state" not in (person.home / ".codex/config.toml").read_text()


def test_git_tracks_nothing_of_a_private_workspace(person: Person, repository: Path) -> None:
    code, said = answer_at_a_terminal(person, repository, b"p\n", "--no-agents")
    assert code == 0, said
    assert "stays out of git" in said
    assert run_git(repository, "status", "--porcelain", "-uall") == ""
    person.remit(repository, "intent", "new", "Names", "--scope", "src/**")
    run_git(repository, "add", "-A")
    assert ".orchestration" not in run_git(repository, "ls-files")
    assert person.remit(repository, "init", "--private", "--no-agents").startswith("nothing to do")
    person.remit(repository, "uninstall", "--purge", "--yes")
    assert "orchestration" not in (repository / ".git/info/exclude").read_text()


def test_a_governed_workspace_can_become_private_later(person: Person, repository: Path) -> None:
    said = person.remit(repository, "init", "--yes", "--no-agents")
    assert "commit it to share the rules, or keep it out of git: remit init --private" in said
    person.remit(repository, "init", "--private", "--yes", "--no-agents")
    assert run_git(repository, "status", "--porcelain", "-uall") == ""


def test_a_private_workspace_in_a_folder_hides_that_folder_alone(person: Person, repository: Path) -> None:
    inner = repository / "packages" / "api"
    (inner / ".orchestration").mkdir(parents=True)
    person.remit(inner, "init", "--yes", "--private", "--no-agents")
    assert "/packages/api/.orchestration/\n" in (repository / ".git/info/exclude").read_text()
    assert run_git(repository, "status", "--porcelain", "-uall") == ""


def test_what_git_tracks_already_cannot_become_private(person: Person, repository: Path) -> None:
    person.remit(repository, "init", "--yes", "--no-agents")
    run_git(repository, "add", "-A")
    done = person.run(repository, "init", "--private", "--yes", "--no-agents")
    assert done.returncode == 2
    assert "git rm -r --cached .orchestration" in done.stderr


def test_an_agents_folder_is_where_its_variable_says(person: Person, repository: Path, tmp_path: Path) -> None:
    """Written there, examined there later without the variable, protected, and taken out again."""
    folders = {"CLAUDE_CONFIG_DIR": tmp_path / "claude", "CODEX_HOME": repository / "codex-home"}
    person.variables = {name: str(folder) for name, folder in folders.items()}
    person.remit(repository, "init", "--yes", "--mode", "enforce")
    assert not (person.home / ".claude").exists()
    assert not (person.home / ".codex").exists()
    assert b"remit/bin/hook" in (folders["CLAUDE_CONFIG_DIR"] / "settings.json").read_bytes()
    assert b"remit" in (folders["CLAUDE_CONFIG_DIR"] / ".claude.json").read_bytes()
    assert b"remit/bin/hook" in (folders["CODEX_HOME"] / "hooks.json").read_bytes()
    person.variables = {}
    found = [c for c in person.data(repository, "doctor", "--runs", "1")["checks"] if c["name"] == "claude-code"]
    assert any(str(folders["CLAUDE_CONFIG_DIR"]) in check["message"] for check in found), found
    for path in (folders["CLAUDE_CONFIG_DIR"] / "settings.json", folders["CODEX_HOME"] / "config.toml"):
        call = {
            "session_id": "s",
            "cwd": str(repository),
            "hook_event_name": "PreToolUse",
            "tool_name": "Write",
            "tool_input": {"file_path": str(path), "content": "{}"},
        }
        said = person.run(repository, "hook", "claude-code", "pre", typed=json.dumps(call)).stdout
        assert "it steers an agent" in said
    person.remit(repository, "uninstall")
    assert not any(folder.exists() for folder in folders.values())


def test_a_relative_folder_of_an_agent_is_refused(person: Person, repository: Path) -> None:
    person.variables = {"CODEX_HOME": "somewhere"}
    done = person.run(repository, "init", "--yes")
    assert done.returncode == 2
    assert "CODEX_HOME is 'somewhere'" in done.stderr
    assert not (repository / ".orchestration").exists()


def test_in_a_second_repository_the_agents_that_are_wired_already_are_named(
    person: Person, repository: Path, tmp_path: Path
) -> None:
    alone = tmp_path / "alone"
    second = tmp_path / "second"
    for folder in (alone, second):
        run_git(repository, "clone", "-q", str(repository), str(folder))
    assert "nobody asks Remit before a call" in person.remit(alone, "init", "--yes", "--no-agents")
    person.remit(repository, "init", "--yes")
    said = person.remit(second, "init", "--yes", "--no-agents")
    assert "nobody asks Remit" not in said
    assert "wired for you already: Claude Code, Codex CLI." in said


def test_runtime_data_is_asked_about_once_at_a_terminal_and_only_told_elsewhere(
    person: Person, repository: Path
) -> None:
    with closing(sqlite3.connect(repository / "db.sqlite3")) as database:
        database.execute("CREATE TABLE t (n)")
    told = person.run(repository, "init", "--yes", "--no-agents")
    assert "until you say: remit data add db.sqlite3" in told.stdout
    assert "[containment]" not in (repository / ".orchestration" / "remit.toml").read_text()
    code, said = answer_at_a_terminal(person, repository, b"y\ny\n", "--no-agents", "--mode", "warn")
    assert code == 0, said
    assert "Runtime data: db.sqlite3 (" in said
    assert "Commands may change it under any intent; a copy is kept before." in said
    assert 'data = ["db.sqlite3"]' in (repository / ".orchestration" / "remit.toml").read_text()
    assert "not trusted" not in person.run(repository, "status").stdout


def test_init_mode_status_and_doctor_name_the_switch(repository: Path, home: Path) -> None:
    people = Person(home, ("claude",))
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text('{"disableAllHooks": true}')
    for words in (("init", "--yes"), ("init",), ("mode", "enforce"), ("status",)):
        done = people.run(repository, *words)
        assert "disableAllHooks = true in ~/.claude/settings.json" in done.stdout + done.stderr, words
    done = people.run(repository, "doctor", "--runs", "1")
    assert (done.returncode, "disableAllHooks = true in ~/.claude/settings.json" in done.stdout) == (1, True)
