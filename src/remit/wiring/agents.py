"""Agents on the machine, and the settings required in their files."""

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from remit.adapters import compute_hook_trust, server_settings
from remit.core.agents import ROWS, AgentRow
from remit.core.untrusted_input import as_array, as_object, as_objects
from remit.wiring.hook_client import is_own_handler
from remit.wiring.manifest import JsonObject, Manifest, SettingsError

TRUSTING_AGENTS = [agent for agent, row in ROWS.items() if row.trusts_by_hash]
TRUST_OPTIONS = [f"--trust-{agent}/--no-trust-{agent}" for agent in TRUSTING_AGENTS]


class DetectedAgent(Struct, frozen=True):
    """An agent on this machine. `binary` is None if only the settings folder exists."""

    row: AgentRow
    binary: str | None


class SettingsPlace(Struct, frozen=True):
    """The place of agents' settings: the user's, or one project's. `moved_folders` is the result of
    `find_moved_folders`.
    """

    home: Path
    root: Path | None = None
    moved_folders: dict[str, str] = {}

    def user_file(self, row: AgentRow, name: str) -> Path:
        moved = self.moved_folders.get(row.agent)
        return Path(moved) / name.removeprefix(f"{row.config_folder}/") if moved else self.home / name

    def hooks_file(self, row: AgentRow) -> Path:
        if self.root is None:
            return self.user_file(row, row.hooks_file)
        return self.root / (row.project_hooks_file or row.hooks_file)

    def servers_file(self, row: AgentRow) -> Path:
        """Return the file of MCP servers; files outside the agent's folder serve all projects."""
        if self.root is not None and has_servers_in_folder(row):
            return self.root / row.mcp_file
        return self.user_file(row, row.mcp_file)


def has_servers_in_folder(row: AgentRow) -> bool:
    return row.mcp_file.startswith(f"{row.config_folder}/")


def find_moved_folders(variables: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the settings folder of each agent for which a variable moves the folder. Raises SettingsError."""
    found: dict[str, str] = {}
    for row in ROWS.values():
        name, below = row.folder_variable
        value = variables.get(name, "")
        folder = home / value[2:] if value.startswith("~/") else Path(value)
        if value and not folder.is_absolute():
            raise SettingsError(
                f"{name} is {value!r}; expected an absolute path. Set it so, or unset it, and try again"
            )
        if value and folder / below != home / row.config_folder:
            found[row.agent] = str(folder / below)
    return found


def find_user_place(home: Path, variables: Mapping[str, str], manifest: Manifest) -> SettingsPlace:
    return SettingsPlace(home, moved_folders={**manifest.moved, **find_moved_folders(variables, home)})


def find_agents(
    home: Path, search_path: str, only: Iterable[str] = (), moved: Mapping[str, str] | None = None
) -> list[DetectedAgent]:
    """Return the agents on the search path or with a settings folder; of the agents in `only`, all."""
    found: list[DetectedAgent] = []
    named = set(only)
    for row in ROWS.values():
        binary = shutil.which(row.binary, path=search_path)
        folder = Path((moved or {}).get(row.agent) or home / row.config_folder)
        if row.agent in named or (not named and (binary or folder.is_dir())):
            found.append(DetectedAgent(row, binary))
    return found


def find_wired_place(
    agent: DetectedAgent, user: SettingsPlace, root: Path | None, manifest: Manifest
) -> SettingsPlace | None:
    """Return where `init` wired the agent: in the workspace at `root`, or for the user."""
    places = [*([SettingsPlace(user.home, root)] if root else []), user]
    return next((place for place in places if manifest.find_file(place.hooks_file(agent.row))), None)


def build_server_settings(row: AgentRow, place: SettingsPlace, command: tuple[str, ...]) -> JsonObject:
    wanted = server_settings(row.agent, command)
    return wanted if place.root is None or has_servers_in_folder(row) else {"projects": {str(place.root): wanted}}


def list_granted_rights(row: AgentRow, trusting: bool) -> list[tuple[str, str]]:
    settings = [f"permissions.allow: {name}" for name in row.permissions]
    settings += [f"{name} = {json.dumps(value)}, for the server remit" for name, value in row.server_settings.items()]
    rights = [("use Remit's own tools", setting) for setting in settings]
    trusts = trusting and row.trusts_by_hash
    return [*rights, ("run Remit's hooks", "hooks.state, by their hashes")] if trusts else rights


def build_trust_settings(row: AgentRow, hooks_file: Path, document: JsonObject) -> JsonObject:
    """Return the settings that make the agent trust our hooks only, given the whole content of `hooks_file`."""
    if not row.trusts_by_hash:
        return {}
    # A hash says nothing of its owner: ours are those that stay with None in place of foreign handlers.
    own_hooks = {
        event: [
            {**group, "hooks": [item if is_own_handler(item) else None for item in as_array(group.get("hooks"))]}
            for group in as_objects(groups)
        ]
        for event, groups in as_object(document.get("hooks")).items()
    }
    every, without_others = (
        as_object(as_object(compute_hook_trust(str(hooks_file), hooks).get("hooks")).get("state"))
        for hooks in (document, {"hooks": own_hooks})
    )
    own = {key: value for key, value in every.items() if without_others[key] == value}
    return {"hooks": {"state": own}} if own else {}
