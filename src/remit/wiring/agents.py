"""Which agents are here, and what each of them has to be told in which file."""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from remit.adapters import ROWS, AgentRow, compute_codex_trust, server_settings, settings
from remit.wiring.hook_client import is_own_handler
from remit.wiring.insertions import JsonObject, as_list, as_object

TrustFunction: TypeAlias = Callable[[str, Mapping[str, object]], JsonObject]

TRUST_FUNCTIONS: dict[str, TrustFunction] = {"codex": compute_codex_trust}
"""Agents that run a hook only once a hash of it stands in their `mcp_file`, and what computes those."""

PROJECT_HOOKS_FILES = {"claude-code": ".claude/settings.local.json"}
"""Where hooks of one project stand, if elsewhere than below HOME: Claude Code does not load those of a project's
`settings.json` from a sub-directory (2.1.233 and later, read 2026-11), and that file is shared with a team.
"""


FOLDER_VARIABLES: dict[str, tuple[str, str]] = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ""),
    "codex": ("CODEX_HOME", ""),
    "gemini": ("GEMINI_CLI_HOME", ".gemini"),
    "qwen": ("QWEN_HOME", ""),
}
"""The variable that moves an agent's own folder, and where below its value that folder then is.

Sources: the clients themselves, at the versions that stand beside their rows. XDG_CONFIG_HOME moves none of them.
"""


class NotAbsolutePath(ValueError):
    """A variable that moves an agent's folder holds a relative path: in each folder it would mean another place."""

    def __init__(self, variable: str, value: str) -> None:
        super().__init__(f"{variable} is {value!r}; expected an absolute path. Set it so, or unset it, and try again")


def find_moved_folders(variables: Mapping[str, str], home: Path) -> dict[str, str]:
    """By agent, its own folder where a variable puts it elsewhere than below HOME. Raises NotAbsolute."""
    found: dict[str, str] = {}
    for agent, (name, below) in FOLDER_VARIABLES.items():
        value = variables.get(name, "")
        folder = home / value[2:] if value.startswith("~/") else Path(value)
        if value and not folder.is_absolute():
            raise NotAbsolutePath(name, value)
        if value and folder / below != home / ROWS[agent].config_folder:
            found[agent] = str(folder / below)
    return found


class DetectedAgent(Struct, frozen=True):
    """An agent on this machine. `binary` is None where only its settings folder is there."""

    row: AgentRow
    binary: str | None
    has_folder: bool


class SettingsPlace(Struct, frozen=True):
    """Where the settings of an agent are: the user's, or one project's. `moved` is as `moved_folders` tells it."""

    home: Path
    root: Path | None = None
    moved_folders: dict[str, str] = {}

    def settings_folder(self, row: AgentRow) -> Path:
        """The user's folder of its settings."""
        return Path(self.moved_folders.get(row.agent) or self.home / row.config_folder)

    def user_file(self, row: AgentRow, name: str) -> Path:
        """A file of the user's, by its name below HOME; the whole folder moves, and what lies beside it moves in."""
        moved = self.moved_folders.get(row.agent)
        return Path(moved) / name.removeprefix(f"{row.config_folder}/") if moved else self.home / name

    def hooks_file(self, row: AgentRow) -> Path:
        """The file of its hooks."""
        if self.root is None:
            return self.user_file(row, row.hooks_file)
        return self.root / PROJECT_HOOKS_FILES.get(row.agent, row.hooks_file)

    def servers_file(self, row: AgentRow) -> Path:
        """The file of its MCP servers: one file for all projects where it is outside of the agent's folder."""
        return (
            self.root / row.mcp_file if self.root and has_servers_in_folder(row) else self.user_file(row, row.mcp_file)
        )


def has_servers_in_folder(row: AgentRow) -> bool:
    """Whether the file of MCP servers is within the agent's folder of settings."""
    return row.mcp_file.startswith(f"{row.config_folder}/")


def find_agents(
    home: Path, search_path: str, only: Iterable[str] = (), moved: Mapping[str, str] | None = None
) -> list[DetectedAgent]:
    """The agents that are installed (on the search path) or have a folder of settings; of those named, all."""
    named = set(only)
    rows = [row for row in ROWS.values() if not named or row.agent in named]
    place = SettingsPlace(home, moved_folders=dict(moved or {}))
    found = [
        DetectedAgent(row, shutil.which(row.binary, path=search_path), place.settings_folder(row).is_dir())
        for row in rows
    ]
    return [agent for agent in found if named or agent.binary or agent.has_folder]


def build_server_settings(row: AgentRow, place: SettingsPlace, command: tuple[str, ...]) -> JsonObject:
    """What has to stand in the file of MCP servers, Remit's tools approved."""
    wanted = server_settings(row.agent, command)
    return wanted if place.root is None or has_servers_in_folder(row) else {"projects": {str(place.root): wanted}}


def list_granted_rights(row: AgentRow, trusting: bool) -> list[tuple[str, str]]:
    """Return the rights that the wiring gives this agent: what it may then do unasked, and the setting that says so."""
    tools = "use Remit's own tools"
    rights = [(tools, f"permissions.allow: {name}") for name in row.permissions]
    rights += [
        (tools, f"{name} = {json.dumps(value)}, for the server remit") for name, value in row.server_approval.items()
    ]
    return rights + (
        [("run Remit's hooks", "hooks.state, by their hashes")] if trusting and row.agent in TRUST_FUNCTIONS else []
    )


def build_hook_settings(row: AgentRow, client: str) -> JsonObject:
    """What has to stand in the file of hooks."""
    return settings(row.agent, client)


def build_trust_settings(row: AgentRow, hooks_file: Path, document: JsonObject) -> JsonObject:
    """What tells the agent to trust our hooks, and no others, in the whole settings of `hooks_file`."""
    trust = TRUST_FUNCTIONS.get(row.agent)
    if trust is None:
        return {}
    all_of_them = read_trust_state(trust(str(hooks_file), document))
    without_others = read_trust_state(trust(str(hooks_file), {"hooks": keep_own_hooks(document.get("hooks"))}))
    ours = {key: value for key, value in all_of_them.items() if without_others[key] == value}
    return {"hooks": {"state": ours}} if ours else {}


def read_trust_state(trusted: JsonObject) -> JsonObject:
    """The hashes by their keys."""
    return as_object((as_object(trusted.get("hooks")) or {}).get("state")) or {}


def keep_own_hooks(hooks: object) -> JsonObject:
    """The hooks, each handler of others' made void in its place."""
    return {
        event: [blank_foreign_handlers(group) for group in as_list(groups) or []]
        for event, groups in (as_object(hooks) or {}).items()
    }


def blank_foreign_handlers(group: object) -> JsonObject:
    """One group, each handler of others' made void in its place."""
    members = as_object(group) or {}
    return {**members, "hooks": [one if is_own_handler(one) else None for one in as_list(members.get("hooks")) or []]}
