"""Settings under which an agent runs no hooks are named wherever a person looks at what is wired."""

from pathlib import Path

import pytest

from remit.wiring.agents import SettingsPlace
from remit.wiring.hook_switches import find_hook_switches

ALL_OFF, CLIENT = '{"disableAllHooks": true}', "~/.local/share/remit/bin/hook claude-code pre"
SWITCHED_OFF = [
    ("claude-code", "home/.claude/settings.json", ALL_OFF),
    ("claude-code", "home/.claude/settings.json", '{"env": {"CLAUDE_CODE_SIMPLE": "1"}}'),
    ("claude-code", "root/.claude/settings.json", ALL_OFF),
    ("claude-code", "root/.claude/settings.local.json", f"\ufeff{ALL_OFF}"),
    ("claude-code", "machine/etc/claude-code/managed-settings.json", ALL_OFF),
    ("claude-code", "machine/etc/claude-code/managed-settings.json", '{"allowManagedHooksOnly": true}'),
    ("claude-code", "machine/etc/claude-code/managed-settings.d/10-team.json", '{"allowManagedHooksOnly": true}'),
    ("claude-code", "machine/etc/claude-code/managed-settings.json", '{"strictPluginOnlyCustomization": ["hooks"]}'),
    ("codex", "home/.codex/config.toml", "[features]\nhooks = false\n"),
    ("codex", "home/.codex/config.toml", "features = {codex_hooks = false}\n"),
    ("codex", "root/.codex/config.toml", "features.hooks = false\n"),
    ("codex", "machine/etc/codex/requirements.toml", "allow_managed_hooks_only = true\n"),
    ("codex", "machine/etc/codex/requirements.toml", "[features]\nhooks = false\n"),
    ("gemini", "home/.gemini/settings.json", '{"hooksConfig": {"enabled": false}}'),
    ("gemini", "root/.gemini/settings.json", '{// mine\n"tools": {"enableHooks": false,}}'),
    ("gemini", "home/.gemini/settings.json", f'{{"hooksConfig": {{"disabled": ["{CLIENT}"]}}}}'),
    ("gemini", "machine/etc/gemini-cli/settings.json", '{"hooksConfig": {"enabled": false}}'),
    ("qwen", "home/.qwen/settings.json", ALL_OFF),
    ("qwen", "root/.qwen/settings.json", ALL_OFF),
    ("qwen", "machine/etc/qwen-code/settings.json", ALL_OFF),
]
RUNNING = [
    ("claude-code", "home/.claude/settings.json", '{"disableAllHooks": false, "allowManagedHooksOnly": true}'),
    (
        "claude-code",
        "home/.claude/settings.json",
        '{"env": {"CLAUDE_CODE_SIMPLE": "0"}, "a": {"disableAllHooks": true}}',
    ),
    ("claude-code", "home/.claude/settings.json", "["),
    ("codex", "home/.codex/config.toml", "[features]\nhooks = true\n"),
    ("codex", "home/.codex/config.toml", "allow_managed_hooks_only = true\n"),
    ("gemini", "home/.gemini/settings.json", '{"hooksConfig": {"enabled": true, "disabled": ["lint"]}}'),
    ("qwen", "home/.qwen/settings.json", '{"disableAllHooks": null}'),
]


def find(base: Path, agent: str, file: str, content: str) -> list[str]:
    (base / file).parent.mkdir(parents=True)
    (base / file).write_text(content)
    found = find_hook_switches([agent], SettingsPlace(base / "home"), base / "root", {}, base / "machine")
    return [str(switch) for switch in found]


@pytest.mark.parametrize(("agent", "file", "content"), SWITCHED_OFF)
def test_a_switch_is_found_wherever_the_agent_reads_it(tmp_path: Path, agent: str, file: str, content: str) -> None:
    [said] = find(tmp_path, agent, file, content)
    assert said.startswith("hooks are switched off: ")
    assert said.endswith(file.removeprefix("home/"))


@pytest.mark.parametrize(("agent", "file", "content"), RUNNING)
def test_what_switches_nothing_off_is_not_named(tmp_path: Path, agent: str, file: str, content: str) -> None:
    assert find(tmp_path, agent, file, content) == []


def test_the_environment_and_moved_files_count_too(tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    (tmp_path / "moved/settings.json").write_text(ALL_OFF)
    place = SettingsPlace(tmp_path, moved_folders={"claude-code": str(tmp_path / "moved")})
    variables = {"CLAUDE_CODE_SAFE_MODE": "1", "QWEN_CODE_SYSTEM_SETTINGS_PATH": str(tmp_path / "moved/settings.json")}
    found = find_hook_switches(["claude-code", "qwen"], place, None, variables, tmp_path)
    assert [switch.agent for switch in found] == ["claude-code", "claude-code", "qwen"]
