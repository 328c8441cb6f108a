"""`remit uninstall`, as a process."""

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from cli.wired_home import Person
from conftest import run_git
from processes import kill_daemons

SETTINGS = b'{\n\t"model": "opus", // mine\n}\n'


@pytest.fixture
def person(tmp_path: Path) -> Generator[Person]:
    """Somebody with two agents and settings of their own, for whose first call `init` starts a daemon."""
    someone = Person(tmp_path / "Zoë Q")
    (someone.home / ".claude").mkdir()
    (someone.home / ".claude/settings.json").write_bytes(SETTINGS)
    yield someone
    kill_daemons(someone.home)


def test_everything_is_as_it_was(person: Person, repository: Path) -> None:
    before = person.files()
    person.remit(repository, "init", "--yes", "--trust-codex", "--mode", "enforce")
    assert person.files() != before
    said = person.remit(repository, "uninstall")
    assert person.files() == before
    assert "byte for byte" in said
    assert not (person.home / ".local/share/remit").exists()
    assert not (person.home / ".local/state/remit/wired.json").exists()
    assert not (repository / ".git/remit/governed").exists()
    assert not (repository / ".git/remit/enforce").exists()
    assert f"stays: {repository / '.orchestration'}" in said
    assert person.remit(repository, "uninstall").startswith("nothing to do")


def test_what_the_agent_wrote_meanwhile_stays(person: Person, repository: Path) -> None:
    path = person.home / ".claude.json"
    path.write_text('{"numStartups": 1}')
    person.remit(repository, "init", "--yes")
    now = json.loads(path.read_text()) | {"numStartups": 2}
    path.write_text(json.dumps(now, indent=2))
    person.remit(repository, "uninstall")
    assert path.read_text() == '{\n  "numStartups": 2\n}'


def test_one_agent_can_be_taken_out_alone(person: Person, repository: Path) -> None:
    person.remit(repository, "init", "--yes")
    person.remit(repository, "uninstall", "--agent", "codex")
    assert not (person.home / ".codex").exists()
    assert b"remit/bin/hook" in (person.home / ".claude/settings.json").read_bytes()
    assert (repository / ".git/remit/governed").exists()


def test_a_purge_needs_a_yes(person: Person, repository: Path) -> None:
    person.remit(repository, "init", "--yes")
    assert person.run(repository, "uninstall", "--purge").returncode == 2
    assert (repository / ".git/remit/governed").exists()
    person.remit(repository, "uninstall", "--purge", "--yes")
    assert not (repository / ".git/remit").exists()
    assert not (repository / ".orchestration").exists()


def test_other_repositories_that_are_still_marked_are_named(person: Person, repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for folder in (repository, other):
        person.remit(folder, "init", "--yes")
    assert person.data(repository, "uninstall", "--yes")["still_governed"] == [str(other)]


def test_who_else_would_lose_the_hooks_is_said_and_asked(person: Person, repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for folder in (repository, other):
        person.remit(folder, "init", "--yes", "--mode", "enforce")
    before = person.files()
    done = person.run(repository, "uninstall")
    assert done.returncode == 2
    assert str(other) in done.stderr
    assert "--this-repository" in done.stderr
    assert person.files() == before
    said = person.remit(repository, "uninstall", "--this-repository")
    assert person.files() == before
    assert "still wired: claude-code, codex" in said
    assert not (repository / ".git/remit/governed").exists()
    assert person.remit(other, "mode").startswith("enforce")


def test_a_repository_that_init_never_saw_is_named_too(person: Person, repository: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    person.remit(repository, "init", "--yes")
    person.remit(other, "init", "--yes", "--no-agents")
    call = {"session_id": "s", "cwd": str(other), "hook_event_name": "SessionStart", "source": "startup"}
    person.run(other, "hook", "claude-code", "note", typed=json.dumps(call))
    noted = person.home / ".local/state/remit/wired.json"
    noted.write_text(noted.read_text().replace(f'"{other}"', f'"{tmp_path}/gone"'))
    assert str(other) in person.run(repository, "uninstall").stderr


def test_nothing_of_ours_is_left_that_is_not_named(person: Person, repository: Path) -> None:
    person.remit(repository, "init", "--yes")
    person.remit(repository, "intent", "new", "Names", "--scope", "src/**")
    for name in ("daemon.lock", "daemon.log"):
        (person.home / ".local/state/remit" / name).touch()
    for name in ("trust", "sandbox"):  # made by a yes, a contained command
        (person.home / ".local/state/remit" / name).mkdir(exist_ok=True)
    stays = {entry["path"] for entry in person.data(repository, "uninstall")["stays"]}
    left = {str(path) for path in (person.home / ".local/state/remit").iterdir()}
    assert left <= stays
    assert not (person.home / ".local/share/remit").exists()


def test_an_agent_that_was_not_wired_is_said_to_be_so(person: Person, repository: Path) -> None:
    person.remit(repository, "init", "--yes")
    said = person.remit(repository, "uninstall", "--agent", "gemini")
    assert said.startswith("nothing to do: gemini was not wired")
    assert f"still governed: {repository}" in said
    assert "still wired: claude-code, codex" in said


def test_the_mode_that_comes_back_is_said(person: Person, repository: Path) -> None:
    person.remit(repository, "init", "--yes", "--mode", "enforce")
    person.remit(repository, "uninstall")
    assert "mode: enforce, as .orchestration/ says from before" in person.remit(repository, "init", "--yes")


def test_a_purge_of_tracked_files_is_said(person: Person, repository: Path) -> None:
    person.remit(repository, "init", "--yes")
    run_git(repository, "add", ".orchestration")
    assert "which will show as deleted" in person.run(repository, "uninstall", "--purge").stderr
    assert person.data(repository, "uninstall", "--purge", "--yes")["purged_tracked_files"] == 3


def test_a_file_that_cannot_be_read_is_named_and_stays_noted(person: Person, repository: Path) -> None:
    person.remit(repository, "init", "--yes")
    broken = person.home / ".claude/settings.json"
    broken.write_text("{")
    done = person.run(repository, "uninstall")
    assert done.returncode == 1
    assert "settings.json" in done.stdout
    assert broken.read_text() == "{"
    assert not (person.home / ".codex").exists()
