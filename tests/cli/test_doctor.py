"""`remit doctor`, as a process."""

import json
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from cli.wired_home import Person
from processes import kill_daemons
from remit.cli.agents.live_probe import judge_run
from remit.core.machine_paths import MANIFEST_PATH
from remit.core.untrusted_input import as_array, as_object
from remit.servers import daemon
from remit.wiring import doctor_checks


@pytest.fixture
def person(tmp_path: Path, repository: Path) -> Generator[Person]:
    """Somebody with one agent, wired, in an enforcing repository; the calls that are measured start a daemon."""
    someone = Person(tmp_path / "Zoë Q", ("claude",))
    someone.remit(repository, "init", "--yes", "--mode", "enforce")
    yield someone
    kill_daemons(someone.home)


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
    assert judge_run("claude-code", told, written).level == level


def test_another_program_in_the_clients_place_is_told_not_run_and_replaced(person: Person, repository: Path) -> None:
    client, ran = person.home / ".local/share/remit/bin/hook", person.home / "ran"
    client.write_text(f"#!/bin/sh\ntouch '{ran}'\n")
    code, found = examined(person, repository)
    assert code == 1
    assert "not the one that Remit installed" in found["client"][0]["message"]
    assert not ran.exists()
    assert examined(person, repository, "--fix")[0] == 0
    assert not client.read_bytes().startswith(b"#!/bin/sh\ntouch")


def test_init_replaces_a_client_that_is_not_ours(person: Person, repository: Path) -> None:
    (person.home / ".local/share/remit/bin/hook").write_text("#!/bin/sh\n")
    person.remit(repository, "init", "--yes")
    assert examined(person, repository)[0] == 0


def test_an_altered_end_of_the_log_has_a_line_of_its_own(person: Person, repository: Path) -> None:
    person.remit(repository, "intent", "new", "Names", "--scope", "src/**")
    assert examined(person, repository)[1]["log"][0]["level"] == "ok"
    segment = next((repository / ".git/remit/log").glob("0*.jsonl"))
    segment.write_bytes(segment.read_bytes() + b"no record\n")
    code, found = examined(person, repository)
    assert code == 1
    assert found["log"][0]["level"] == "fail"


def test_dropped_calls_are_told_from_the_daemons_log(person: Person, repository: Path) -> None:
    assert examined(person, repository)[1]["daemon"][0]["level"] == "ok"
    assert daemon.DROPPED_CALL.encode() == doctor_checks.DROPPED_CALL
    log = person.home / doctor_checks.DAEMON_LOG_PATH
    log.write_text("2026-11-22T10:00:00Z remit: a call was dropped: no frame of a Remit client\n" * 3)
    found = examined(person, repository)[1]["daemon"][0]
    assert found["level"] == "warn"
    assert found["message"].startswith("3 calls were dropped")


def test_the_persons_own_rules_are_told(person: Person, repository: Path) -> None:
    settings = person.home / ".claude/settings.json"
    held = json.loads(settings.read_text())
    held["permissions"]["deny"] = ["Bash(git push:*)"]
    held["permissions"]["allow"] += ["Bash(make:*)", "Bash(pytest *)"]
    settings.write_text(json.dumps(held))
    _, found = examined(person, repository)
    said = f"your permission rules: 2 allow, 1 deny about commands, in {settings}; they hold for commands in Remit's"
    assert found["claude-code rules"][0]["message"].startswith(said)
    assert f"Claude Code: {said}" in person.remit(repository, "mode", "enforce")


def test_hooks_that_were_taken_out_are_loud_in_status(person: Person, repository: Path) -> None:
    assert "HOOKS" not in person.remit(repository, "status")
    settings = person.home / ".claude/settings.json"
    held = json.loads(settings.read_text())
    del held["hooks"]["PreToolUse"]
    settings.write_text(json.dumps(held))
    first = person.remit(repository, "status").splitlines()[0]
    assert first.startswith("✗ HOOKS ARE GONE OR CHANGED: claude-code (~/.claude/settings.json)")
    assert person.data(repository, "status")["unhooked"] == [{"agent": "claude-code", "path": str(settings)}]
    assert examined(person, repository, "--fix")[0] == 0
    assert "HOOKS" not in person.remit(repository, "status")


def test_hooks_of_an_earlier_version_are_no_alarm(person: Person, repository: Path) -> None:
    """An upgrade asks for another hook: those that the earlier version wrote are all there, and judge."""

    def drop(value: Any) -> Any:
        if as_array(value):
            return list(map(drop, as_array(value)))
        return {k: drop(v) for k, v in as_object(value).items() if k != "SessionEnd"} if as_object(value) else value

    for path in (person.home / ".claude/settings.json", person.home / MANIFEST_PATH):
        document = drop(json.loads(path.read_text()))
        for file in document.get("files", ()):
            entries = file["insertions"]["entries"]
            file["insertions"]["entries"] = [entry for entry in entries if "SessionEnd" not in entry["path"]]
        path.write_text(json.dumps(document))
    said = person.remit(repository, "status")
    assert "HOOKS ARE GONE" not in said
    assert "the hooks of claude-code are an earlier version's; they still judge" in said
    assert examined(person, repository, "--fix")[0] == 0
    assert "earlier version" not in person.remit(repository, "status")


def test_status_says_where_no_agent_is_wired(person: Person, repository: Path) -> None:
    person.remit(repository, "uninstall", "--agent", "claude-code")
    assert "no agent is wired" in person.remit(repository, "status")
