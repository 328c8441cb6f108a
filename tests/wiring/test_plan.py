"""Wiring realistic settings of the four agents, in a HOME with a space and a letter beyond ASCII."""

import json
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from remit.core.agents import ROWS
from remit.core.machine_paths import MANIFEST_PATH
from remit.wiring.agents import TRUSTING_AGENTS, SettingsPlace, find_agents
from remit.wiring.hook_client import CLIENT_FOLDER, client_words, install_client, is_own_handler
from remit.wiring.json_merge import merge_json, unmerge_json
from remit.wiring.manifest import Manifest, ManifestError, read_manifest
from remit.wiring.wire import (
    FilePlan,
    WiringProblem,
    find_leftovers,
    plan_settings,
    remove_leftovers,
    unwire,
    write_plans,
)
from remit.workspace.agents.read_write_settings import SettingsChanged, write_settings

pytestmark = pytest.mark.system

SERVER = ("/opt/remit/bin/remit", "mcp")
REALISTIC = {
    ".claude/settings.json": """{
  "env": { "ANTHROPIC_API_KEY": "sk-secret" },
  "permissions": { "allow": ["Bash(ls:*)"], "deny": [] },
  "hooks": {
    "PreToolUse": [
      { "matcher": "Bash", "hooks": [{ "type": "command", "command": "~/guard.sh" }] }
    ]
  }
}
""",
    ".claude.json": json.dumps({"numStartups": 7, "projects": {"/a": {"history": ["ü"]}}, "mcpServers": {}}, indent=2),
    ".codex/config.toml": 'model = "gpt-5"  # mine\r\n\r\n[mcp_servers.notes]\r\ncommand = "notes"\r\n',
    ".codex/hooks.json": '{"hooks":{"PreToolUse":[{"hooks":[{"type":"command","command":"mine"}]}]}}',
    ".gemini/settings.json": '{\n\t// dark\n\t"theme": "Dark",\n\t"mcpServers": {"x": {"command": "x"},},\n}',
    ".qwen/settings.json": '\ufeff{\r\n    "model": "qwen3"\r\n}\r\n',
}


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A HOME with settings of all four agents."""
    home = tmp_path / "Zoë Q"
    for name, content in REALISTIC.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_bytes(content.encode())
    return home


def planned(home: Path, *agents: str, trusting: bool = True) -> list[FilePlan]:
    """What would be done now."""
    found = find_agents(home, "", agents)
    trusted = set(TRUSTING_AGENTS) if trusting else set[str]()
    return plan_settings(found, SettingsPlace(home), install_client(home), SERVER, read_manifest(home), trusted)


def wire(home: Path, *agents: str) -> list[FilePlan]:
    """Do it."""
    plans = planned(home, *agents)
    write_plans(plans, home, read_manifest(home), "2026-11-21T00:00:00Z", "0")
    return plans


def contents(home: Path) -> dict[str, bytes]:
    """The settings files as they are."""
    return {name: (home / name).read_bytes() for name in REALISTIC}


def test_agents_are_found_by_their_folder_and_their_settings_come_back_byte_for_byte(people: Path) -> None:
    before = contents(people)
    assert {file.agents for file in wire(people)} == {(agent,) for agent in ROWS}
    assert all(before[name] != now for name, now in contents(people).items())
    done, problems, manifest = unwire(people, read_manifest(people))
    assert contents(people) == before
    assert all(each.exact for each in done)
    assert (problems, manifest.files) == ([], ())


def test_a_second_run_changes_nothing(people: Path) -> None:
    wire(people)
    assert not any(file.has_changes for file in planned(people, trusting=False))


def test_every_agent_gets_its_hooks_a_server_and_leave_to_call_it(people: Path) -> None:
    wire(people)
    claude = json.loads((people / ".claude/settings.json").read_text())
    assert claude["permissions"]["allow"] == ["Bash(ls:*)", "mcp__remit"]
    assert len(claude["hooks"]["PreToolUse"]) == 2
    assert json.loads((people / ".claude.json").read_text())["mcpServers"]["remit"]["args"] == ["mcp"]
    codex = tomllib.loads((people / ".codex/config.toml").read_bytes().decode())
    server = codex["mcp_servers"]["remit"]
    assert (server["default_tools_approval_mode"], server["startup_timeout_sec"]) == ("approve", 60)
    assert json.loads((people / ".qwen/settings.json").read_text("utf-8-sig"))["mcpServers"]["remit"]["trust"] is True
    assert '"trust": true' in (people / ".gemini/settings.json").read_text()


def test_only_our_own_hooks_are_trusted_and_at_their_place(people: Path) -> None:
    wire(people)
    state = tomllib.loads((people / ".codex/config.toml").read_bytes().decode())["hooks"]["state"]
    file = str(people / ".codex/hooks.json")
    assert f"{file}:pre_tool_use:1:0" in state
    assert f"{file}:pre_tool_use:0:0" not in state


def test_without_a_yes_no_hook_is_trusted(people: Path) -> None:
    assert not any("trust" in file.parts for file in planned(people, trusting=False))


def test_a_client_that_moved_is_replaced_and_still_comes_out_byte_for_byte(people: Path, tmp_path: Path) -> None:
    before = contents(people)
    found, place = find_agents(people, ""), SettingsPlace(people)
    old = f"{sys.executable} -I -S '{people / CLIENT_FOLDER}/hook.py'"
    write_plans(plan_settings(found, place, old, SERVER, Manifest(), set(TRUSTING_AGENTS)), people, Manifest(), "", "0")
    wire(people)
    assert b"-I -S '" not in b"".join(contents(people).values())
    unwire(people, read_manifest(people))
    assert contents(people) == before


def test_an_entry_of_an_old_client_that_nobody_noted_is_replaced() -> None:
    old = {"type": "command", "command": "'/x/remit_hook/__main__.py' claude-code pre || true"}
    mine = {"type": "command", "command": "mine"}
    new = {"type": "command", "command": "/h/.local/share/remit/bin/hook.py claude-code pre || true"}
    text = json.dumps({"hooks": {"PreToolUse": [{"hooks": [mine, old]}]}})
    wired, _ = merge_json(text, {"hooks": {"PreToolUse": [{"hooks": [new]}]}}, is_own_handler)
    assert json.loads(wired) == {"hooks": {"PreToolUse": [{"hooks": [mine]}, {"hooks": [new]}]}}


def test_a_handler_that_somebody_put_into_our_entry_stays() -> None:
    wanted: dict[str, object] = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "ours"}]}]}}
    wired, insertions = merge_json("{}", wanted)
    theirs = json.loads(wired)
    theirs["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "theirs"})
    left = json.loads(unmerge_json(json.dumps(theirs, indent=2), insertions))
    assert left == {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "theirs"}]}]}}


def test_files_and_folders_that_we_made_go_and_others_stay(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    wire(home, "codex")
    assert (home / ".codex/hooks.json").is_file()
    unwire(home, read_manifest(home))
    assert not (home / ".codex").exists()


def test_the_manifest_is_private_and_holds_no_secret(people: Path) -> None:
    wire(people)
    manifest = people / MANIFEST_PATH
    assert stat.S_IMODE(manifest.stat().st_mode) == 0o600
    assert "sk-secret" not in manifest.read_text()


def test_permissions_and_links_of_a_settings_file_stay(people: Path) -> None:
    real = people / "dotfiles.json"
    (people / ".claude.json").rename(real)
    (people / ".claude.json").symlink_to(real)
    real.chmod(0o640)
    wire(people)
    assert (people / ".claude.json").is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert b'"remit"' in real.read_bytes()


def test_a_file_that_changed_meanwhile_is_not_overwritten(people: Path) -> None:
    path = people / ".claude.json"
    with pytest.raises(SettingsChanged, match="changed while"):
        write_settings(path, b"{}", b'{"a": 1}')
    assert path.read_bytes() == REALISTIC[".claude.json"].encode()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"hooks": 1', "it is no JSON: something is wrong at line 1"),
        (b"[]", "something else than one JSON object"),
        (b'{"hooks": []}', "'hooks' is array, expected an object"),
        (b"\xff", "utf-8"),
    ],
)
def test_settings_that_cannot_be_wired_are_named_and_left_alone(people: Path, content: bytes, why: str) -> None:
    path = people / ".claude/settings.json"
    path.write_bytes(content)
    with pytest.raises(WiringProblem, match=r"settings\.json") as caught:
        planned(people, "claude-code")
    assert why in str(caught.value)
    assert path.read_bytes() == content


def test_a_lost_manifest_is_no_end_what_is_ours_is_known_by_its_looks(people: Path) -> None:
    wire(people)
    (people / MANIFEST_PATH).unlink()
    assert len(find_leftovers(SettingsPlace(people), None)) == len(REALISTIC)
    remove_leftovers(SettingsPlace(people), None)
    assert not find_leftovers(SettingsPlace(people), None)
    assert b"remit/bin/hook" not in b"".join(contents(people).values())
    assert b"guard.sh" in (people / ".claude/settings.json").read_bytes()


def test_a_broken_manifest_says_what_to_do(people: Path) -> None:
    (people / MANIFEST_PATH).parent.mkdir(parents=True)
    (people / MANIFEST_PATH).write_text("{")
    with pytest.raises(ManifestError, match="--all-agents"):
        read_manifest(people)


def test_a_project_is_wired_without_touching_shared_files(people: Path, repository: Path) -> None:
    place = SettingsPlace(people, repository)
    plans = plan_settings(
        find_agents(people, "", ["claude-code"]), place, client_words(people), SERVER, Manifest(), set()
    )
    assert [file.path for file in plans] == [repository / ".claude/settings.local.json", people / ".claude.json"]
    servers = json.loads(plans[1].after)["projects"][str(repository)]["mcpServers"]
    assert servers["remit"]["command"] == SERVER[0]


def test_the_hook_command_survives_the_shell_where_home_has_a_space(people: Path) -> None:
    words = install_client(people)
    done = subprocess.run(["/bin/sh", "-c", f"{words} claude-code"], capture_output=True, text=True, check=False)
    assert "usage" in done.stderr, done
