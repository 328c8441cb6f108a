"""`remit doctor`, as a process."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.wired_home import Person
from remit.cli.live import verdict


@pytest.fixture
def person(tmp_path: Path, repository: Path) -> Person:
    """Somebody with one agent, wired, in an enforcing repository."""
    someone = Person(tmp_path / "Zoë Q", ("claude",))
    someone.remit(repository, "init", "--yes", "--mode", "enforce")
    return someone


def examined(person: Person, repository: Path, *words: str) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit code, and the findings by name."""
    done = person.run(repository, "doctor", "--json", "--runs", "2", *words)
    found: dict[str, list[dict[str, Any]]] = {}
    for check in json.loads(done.stdout)["data"]["checks"]:
        found.setdefault(check["name"], []).append(check)
    return done.returncode, found


def test_a_fresh_wiring_is_healthy_and_its_latency_measured(person: Person, repository: Path) -> None:
    code, found = examined(person, repository)
    assert code == 0, found
    assert "p99" in found["hook"][0]["message"]
    assert [check["level"] for check in found["claude-code"]] == ["ok", "ok", "warn"]
    assert "2.1.330" in found["claude-code"][0]["message"]


def test_what_is_broken_is_found_and_repaired(person: Person, repository: Path) -> None:
    (person.home / ".local/share/remit/bin/hook").unlink()
    (repository / ".git/remit/enforce").unlink()
    settings = person.home / ".claude/settings.json"
    settings.write_text(settings.read_text().replace("remit/bin/hook", "remit/bin/hook.old"))
    code, found = examined(person, repository)
    assert code == 1
    levels = {name: [check["level"] for check in checks] for name, checks in found.items()}
    assert levels["client"] == levels["mode"] == ["fail"]
    assert "fail" in levels["claude-code"]
    assert examined(person, repository, "--fix")[0] == 0
    assert "hook.old" not in settings.read_text()
    assert (repository / ".git/remit/enforce").exists()


def test_a_call_of_the_agent_shows_as_its_last_one(person: Person, repository: Path) -> None:
    payload = {
        "session_id": "s",
        "cwd": str(repository),
        "hook_event_name": "PreToolUse",
        "tool_name": "Read",
        "tool_input": {"file_path": str(repository / "README.md")},
        "tool_use_id": "t",
    }
    assert person.run(repository, "hook", "claude-code", "pre", typed=json.dumps(payload)).returncode == 0
    assert "last call" in examined(person, repository)[1]["claude-code"][2]["message"]


def test_an_ungoverned_folder_is_a_warning(tmp_path: Path) -> None:
    someone = Person(tmp_path / "home", ())
    code, found = examined(someone, tmp_path)
    assert code == 0
    assert found["repository"][0]["fix"] == "remit init"


@pytest.mark.parametrize(
    ("told", "written", "level"),
    [
        (["MISSING_OR_INVALID_INTENT: …"], False, "ok"),
        ([], False, "fail"),
        (["File created"], True, "fail"),
    ],
)
def test_a_live_run_is_ok_only_where_the_write_was_refused_by_us(told: list[str], written: bool, level: str) -> None:
    assert verdict("claude-code", told, written).level == level
