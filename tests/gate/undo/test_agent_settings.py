"""Remit's hooks in a person's HOME: a command that takes them out while it runs uncontained does not keep them out."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gate.driving import Agent, body, governed, records
from remit.core.machine_paths import CLIENT_PATH, CONFIG_PATH, MANIFEST_PATH
from remit.wiring import manifest

COMMAND = "true; python3 -c 'import this'"


@pytest.fixture
def settings(home: Path) -> Path:
    file = home / ".claude" / "settings.json"
    file.parent.mkdir()
    hooks = {
        event: [{"hooks": [{"command": f"{home}/{CLIENT_PATH} claude-code {kind}"}]}] for event, kind in HOOKS.items()
    }
    file.write_text(json.dumps({"theme": "dark", "hooks": hooks}, indent=1))
    file.chmod(0o600)
    (home / MANIFEST_PATH).parent.mkdir(parents=True, exist_ok=True)
    (home / MANIFEST_PATH).write_text(json.dumps({"files": [{"path": str(file)}]}))
    return file


HOOKS = {"PreToolUse": "pre", "PostToolUse": "post"}


@pytest.fixture
def agent(repository: Path, home: Path) -> Agent:
    governed(repository)
    found = Agent(repository, home)
    found.select()
    return found


def emptied(file: Path) -> None:
    file.write_text("{}")


def gone(file: Path) -> None:
    file.unlink()


def fewer(file: Path) -> None:
    document = json.loads(file.read_bytes())
    del document["hooks"]["PreToolUse"]
    file.write_text(json.dumps(document))


def switched_off(file: Path) -> None:
    file.write_text(json.dumps({**json.loads(file.read_bytes()), "disableAllHooks": True}))


def other_theme(file: Path) -> None:
    file.write_text(file.read_text().replace("dark", "light"))


def during(agent: Agent, change: Callable[[Path], None], file: Path) -> str:
    """What the model is told of a command that changed the file."""
    before = agent.ask("Bash", command=COMMAND)
    change(file)
    return str(agent.tell("Bash", before["call_id"], {"stdout": ""}, command=COMMAND).get("additionalContext", ""))


@pytest.mark.parametrize("change", [emptied, gone, fewer, switched_off])
def test_hooks_that_a_command_took_out_are_back_told_and_recorded(
    change: Callable[[Path], None], agent: Agent, settings: Path, repository: Path
) -> None:
    held, mode = settings.read_bytes(), settings.stat().st_mode
    told = during(agent, change, settings)
    assert (settings.read_bytes(), settings.stat().st_mode) == (held, mode)
    assert "PROTECTED_PATH" in told
    assert "~/.claude/settings.json" in told
    [record] = records(repository, "restore")
    assert body(record)["paths"] == ["~/.claude/settings.json"]
    assert body(record)["call"]["command"] == COMMAND


def test_the_version_of_the_agent_is_kept_for_this_users_eyes(agent: Agent, settings: Path, repository: Path) -> None:
    during(agent, emptied, settings)
    [record] = records(repository, "restore")
    [kept] = body(record)["copies"]
    assert Path(kept).read_text() == "{}"
    assert Path(kept).stat().st_mode & 0o077 == 0


def test_a_link_to_the_settings_stays_a_link(agent: Agent, settings: Path, home: Path) -> None:
    held, real = settings.read_bytes(), home / "dotfiles.json"
    settings.rename(real)
    settings.symlink_to(real)
    during(agent, lambda file: emptied(real), settings)
    assert settings.is_symlink()
    assert real.read_bytes() == held


def test_a_link_that_was_put_in_their_place_leads_no_write_astray(agent: Agent, settings: Path, home: Path) -> None:
    held, other = settings.read_bytes(), home / "diary.txt"
    other.write_text("dear diary\n")

    def linked(file: Path) -> None:
        file.unlink()
        file.symlink_to(other)

    during(agent, linked, settings)
    assert other.read_text() == "dear diary\n"
    assert (settings.is_symlink(), settings.read_bytes()) == (False, held)


def test_a_folder_that_is_gone_is_made_again(agent: Agent, settings: Path) -> None:
    held = settings.read_bytes()
    during(agent, lambda file: shutil.rmtree(file.parent), settings)
    assert settings.read_bytes() == held


def test_what_a_command_changes_beside_the_hooks_stays(agent: Agent, settings: Path, repository: Path) -> None:
    assert "PROTECTED_PATH" not in during(agent, other_theme, settings)
    assert "light" in settings.read_text()
    assert records(repository, "restore") == []


def test_what_a_person_took_out_between_the_calls_stays_out(agent: Agent, settings: Path) -> None:
    during(agent, other_theme, settings)
    emptied(settings)
    assert "PROTECTED_PATH" not in during(agent, lambda file: None, settings)
    assert settings.read_text() == "{}"


def test_what_was_unwired_while_the_command_ran_stays_out(agent: Agent, settings: Path, home: Path) -> None:
    def unwired(file: Path) -> None:
        emptied(file)
        (home / MANIFEST_PATH).write_text('{"files": []}')

    assert "PROTECTED_PATH" not in during(agent, unwired, settings)
    assert settings.read_text() == "{}"


@pytest.mark.parametrize("mode", ["observe", "warn"])
def test_nothing_is_put_back_where_nothing_is_enforced(mode: str, repository: Path, home: Path, settings: Path) -> None:
    governed(repository, mode)
    agent = Agent(repository, home)
    agent.select()
    during(agent, emptied, settings)
    assert settings.read_text() == "{}"


def test_the_manifest_is_where_the_wiring_puts_it() -> None:
    assert MANIFEST_PATH == manifest.MANIFEST_PATH


@pytest.mark.parametrize("before", [None, "[tools]\nread = []\n"])
def test_what_the_person_says_of_tools_is_back_after_a_call_that_hid_its_path(
    before: str | None, agent: Agent, home: Path
) -> None:
    own = home / CONFIG_PATH
    own.parent.mkdir(parents=True)
    if before is not None:
        own.write_text(before)
    asked = agent.ask("mcp__notes__tidy")
    own.write_text('[tools]\nharmless = ["*"]\n')
    told = str(agent.tell("mcp__notes__tidy", asked["call_id"]).get("additionalContext", ""))
    assert "PROTECTED_PATH" in told
    assert (own.read_text() if own.exists() else None) == before


def test_what_the_person_writes_between_two_calls_stays(agent: Agent, home: Path) -> None:
    own = home / CONFIG_PATH
    own.parent.mkdir(parents=True)
    agent.tell("mcp__notes__tidy", agent.ask("mcp__notes__tidy")["call_id"])
    own.write_text('[tools]\nharmless = ["mcp__notes__*"]\n')
    assert agent.tell("mcp__notes__tidy", agent.ask("mcp__notes__tidy")["call_id"]) == {}
    assert "harmless" in own.read_text()
