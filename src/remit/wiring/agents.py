"""Agents on the machine, and the settings required in their files."""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from remit.adapters import ROWS, AgentRow, compute_codex_trust, server_settings, settings
from remit.core.json_guards import as_array, as_object
from remit.wiring.hook_client import is_own_handler
from remit.wiring.insertions import JsonObject

TrustFunction: TypeAlias = Callable[[str, Mapping[str, object]], JsonObject]

TRUST_FUNCTIONS: dict[str, TrustFunction] = {"codex": compute_codex_trust}
"""For agents that run a hook only if its hash is in their `mcp_file`: the function that computes the hashes."""

PROJECT_HOOKS_FILES = {"claude-code": ".claude/settings.local.json"}
"""Files for the hooks of one project, if other than below HOME.

Claude Code does not load hooks in a project's `settings.json` from a subdirectory (2.1.233 and later, read 2026-11),
and a team shares that file.
"""


FOLDER_VARIABLES: dict[str, tuple[str, str]] = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ""),
    "codex": ("CODEX_HOME", ""),
    "gemini": ("GEMINI_CLI_HOME", ".gemini"),
    "qwen": ("QWEN_HOME", ""),
}
"""The variable that moves an agent's settings folder, and the folder's path below the variable's value.

Sources: the clients themselves, at the versions beside their rows. XDG_CONFIG_HOME moves none of them.
"""


class NotAbsolutePath(ValueError):
    """A variable with a relative path for an agent's settings folder: the path would depend on the current folder."""

    def __init__(self, variable: str, value: str) -> None:
        super().__init__(f"{variable} is {value!r}; expected an absolute path. Set it so, or unset it, and try again")


def find_moved_folders(variables: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the settings folder of each agent for which a variable moves the folder. Raises NotAbsolutePath."""
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
    """An agent on this machine. `binary` is None if only the settings folder exists."""

    row: AgentRow
    binary: str | None
    has_folder: bool


class SettingsPlace(Struct, frozen=True):
    """The place of agents' settings: the user's, or one project's. `moved_folders` is the result of
    `find_moved_folders`.
    """

    home: Path
    root: Path | None = None
    moved_folders: dict[str, str] = {}

    def settings_folder(self, row: AgentRow) -> Path:
        return Path(self.moved_folders.get(row.agent) or self.home / row.config_folder)

    def user_file(self, row: AgentRow, name: str) -> Path:
        """Return a user's file, given by the name below HOME. Files beside a moved folder move into the folder."""
        moved = self.moved_folders.get(row.agent)
        return Path(moved) / name.removeprefix(f"{row.config_folder}/") if moved else self.home / name

    def hooks_file(self, row: AgentRow) -> Path:
        if self.root is None:
            return self.user_file(row, row.hooks_file)
        return self.root / PROJECT_HOOKS_FILES.get(row.agent, row.hooks_file)

    def servers_file(self, row: AgentRow) -> Path:
        """Return the file of MCP servers; files outside the agent's folder serve all projects."""
        return (
            self.root / row.mcp_file if self.root and has_servers_in_folder(row) else self.user_file(row, row.mcp_file)
        )


def has_servers_in_folder(row: AgentRow) -> bool:
    """Return True if the file of MCP servers lies in the agent's settings folder."""
    return row.mcp_file.startswith(f"{row.config_folder}/")


def find_agents(
    home: Path, search_path: str, only: Iterable[str] = (), moved: Mapping[str, str] | None = None
) -> list[DetectedAgent]:
    """Return the agents on the search path or with a settings folder; of the agents in `only`, all."""
    named = set(only)
    rows = [row for row in ROWS.values() if not named or row.agent in named]
    place = SettingsPlace(home, moved_folders=dict(moved or {}))
    found = [
        DetectedAgent(row, shutil.which(row.binary, path=search_path), place.settings_folder(row).is_dir())
        for row in rows
    ]
    return [agent for agent in found if named or agent.binary or agent.has_folder]


def build_server_settings(row: AgentRow, place: SettingsPlace, command: tuple[str, ...]) -> JsonObject:
    """Return the required content of the file of MCP servers, with Remit's tools approved."""
    wanted = server_settings(row.agent, command)
    return wanted if place.root is None or has_servers_in_folder(row) else {"projects": {str(place.root): wanted}}


def list_granted_rights(row: AgentRow, trusting: bool) -> list[tuple[str, str]]:
    """Return the rights granted to the agent by wiring, each with the granting setting."""
    tools = "use Remit's own tools"
    rights = [(tools, f"permissions.allow: {name}") for name in row.permissions]
    rights += [
        (tools, f"{name} = {json.dumps(value)}, for the server remit") for name, value in row.server_approval.items()
    ]
    return rights + (
        [("run Remit's hooks", "hooks.state, by their hashes")] if trusting and row.agent in TRUST_FUNCTIONS else []
    )


def build_hook_settings(row: AgentRow, client: str) -> JsonObject:
    return settings(row.agent, client)


def build_trust_settings(row: AgentRow, hooks_file: Path, document: JsonObject) -> JsonObject:
    """Return the settings that make the agent trust our hooks only, given the whole content of `hooks_file`."""
    trust = TRUST_FUNCTIONS.get(row.agent)
    if trust is None:
        return {}
    all_of_them = read_trust_state(trust(str(hooks_file), document))
    without_others = read_trust_state(trust(str(hooks_file), {"hooks": keep_own_hooks(document.get("hooks"))}))
    own = {key: value for key, value in all_of_them.items() if without_others[key] == value}
    return {"hooks": {"state": own}} if own else {}


def read_trust_state(trusted: JsonObject) -> JsonObject:
    return as_object(as_object(trusted.get("hooks")).get("state"))


def keep_own_hooks(hooks: object) -> JsonObject:
    """Return the hooks with None in place of foreign handlers, at unchanged positions."""
    return {
        event: [blank_foreign_handlers(group) for group in as_array(groups)]
        for event, groups in as_object(hooks).items()
    }


def blank_foreign_handlers(group: object) -> JsonObject:
    members = as_object(group)
    return {**members, "hooks": [item if is_own_handler(item) else None for item in as_array(members.get("hooks"))]}
