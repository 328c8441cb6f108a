"""Which agents are here, and what each of them has to be told in which file."""

import json
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from remit.adapters import ROWS, AgentRow, codex_trust, servers, settings
from remit.wiring.client import is_ours
from remit.wiring.insertions import Object, as_list, as_object

Trust: TypeAlias = Callable[[str, Mapping[str, object]], Object]

TRUST: dict[str, Trust] = {"codex": codex_trust}
"""Agents that run a hook only once a hash of it stands in their `mcp_file`, and what computes those."""

PROJECT_HOOKS = {"claude-code": ".claude/settings.local.json"}
"""Where hooks of one project stand, if elsewhere than below HOME: Claude Code does not load those of a project's
`settings.json` from a sub-directory (2.1.233 and later, read 2026-11), and that file is shared with a team.
"""


MOVED_BY: dict[str, tuple[str, str]] = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ""),
    "codex": ("CODEX_HOME", ""),
    "gemini": ("GEMINI_CLI_HOME", ".gemini"),
    "qwen": ("QWEN_HOME", ""),
}
"""The variable that moves an agent's own folder, and where below its value that folder then is.

Sources: the clients themselves, at the versions that stand beside their rows. XDG_CONFIG_HOME moves none of them.
"""


class NotAbsolute(ValueError):
    """A variable that moves an agent's folder holds a relative path: in each folder it would mean another place."""

    def __init__(self, variable: str, value: str) -> None:
        super().__init__(f"{variable} is {value!r}; expected an absolute path. Set it so, or unset it, and try again")


def moved_folders(variables: Mapping[str, str], home: Path) -> dict[str, str]:
    """By agent, its own folder where a variable puts it elsewhere than below HOME. Raises NotAbsolute."""
    found: dict[str, str] = {}
    for agent, (name, below) in MOVED_BY.items():
        value = variables.get(name, "")
        folder = home / value[2:] if value.startswith("~/") else Path(value)
        if value and not folder.is_absolute():
            raise NotAbsolute(name, value)
        if value and folder / below != home / ROWS[agent].config_folder:
            found[agent] = str(folder / below)
    return found


class Found(Struct, frozen=True):
    """An agent on this machine. `binary` is None where only its settings folder is there."""

    row: AgentRow
    binary: str | None
    folder: bool


class Place(Struct, frozen=True):
    """Where the settings of an agent are: the user's, or one project's. `moved` is as `moved_folders` tells it."""

    home: Path
    root: Path | None = None
    moved: dict[str, str] = {}

    def folder(self, row: AgentRow) -> Path:
        """The user's folder of its settings."""
        return Path(self.moved.get(row.agent) or self.home / row.config_folder)

    def own(self, row: AgentRow, name: str) -> Path:
        """A file of the user's, by its name below HOME; the whole folder moves, and what lies beside it moves in."""
        moved = self.moved.get(row.agent)
        return Path(moved) / name.removeprefix(f"{row.config_folder}/") if moved else self.home / name

    def hooks(self, row: AgentRow) -> Path:
        """The file of its hooks."""
        if self.root is None:
            return self.own(row, row.hooks_file)
        return self.root / PROJECT_HOOKS.get(row.agent, row.hooks_file)

    def servers(self, row: AgentRow) -> Path:
        """The file of its MCP servers: one file for all projects where it is outside of the agent's folder."""
        return self.root / row.mcp_file if self.root and in_folder(row) else self.own(row, row.mcp_file)


def in_folder(row: AgentRow) -> bool:
    """Whether the file of MCP servers is within the agent's folder of settings."""
    return row.mcp_file.startswith(f"{row.config_folder}/")


def find_agents(
    home: Path, search_path: str, only: Iterable[str] = (), moved: Mapping[str, str] | None = None
) -> list[Found]:
    """The agents that are installed (on the search path) or have a folder of settings; of those named, all."""
    named = set(only)
    rows = [row for row in ROWS.values() if not named or row.agent in named]
    place = Place(home, moved=dict(moved or {}))
    found = [Found(row, shutil.which(row.binary, path=search_path), place.folder(row).is_dir()) for row in rows]
    return [agent for agent in found if named or agent.binary or agent.folder]


def wanted_servers(row: AgentRow, place: Place, command: tuple[str, ...]) -> Object:
    """What has to stand in the file of MCP servers, Remit's tools approved."""
    wanted = servers(row.agent, command)
    return wanted if place.root is None or in_folder(row) else {"projects": {str(place.root): wanted}}


def granted_rights(row: AgentRow, trusting: bool) -> list[tuple[str, str]]:
    """Return the rights that the wiring gives this agent: what it may then do unasked, and the setting that says so."""
    tools = "use Remit's own tools"
    rights = [(tools, f"permissions.allow: {name}") for name in row.permissions]
    rights += [
        (tools, f"{name} = {json.dumps(value)}, for the server remit") for name, value in row.server_approval.items()
    ]
    return rights + ([("run Remit's hooks", "hooks.state, by their hashes")] if trusting and row.agent in TRUST else [])


def wanted_hooks(row: AgentRow, client: str) -> Object:
    """What has to stand in the file of hooks."""
    return settings(row.agent, client)


def wanted_trust(row: AgentRow, hooks_file: Path, document: Object) -> Object:
    """What tells the agent to trust our hooks, and no others, in the whole settings of `hooks_file`."""
    trust = TRUST.get(row.agent)
    if trust is None:
        return {}
    all_of_them = state(trust(str(hooks_file), document))
    without_others = state(trust(str(hooks_file), {"hooks": only_ours(document.get("hooks"))}))
    ours = {key: value for key, value in all_of_them.items() if without_others[key] == value}
    return {"hooks": {"state": ours}} if ours else {}


def state(trusted: Object) -> Object:
    """The hashes by their keys."""
    return as_object((as_object(trusted.get("hooks")) or {}).get("state")) or {}


def only_ours(hooks: object) -> Object:
    """The hooks, each handler of others' made void in its place."""
    return {
        event: [voided(group) for group in as_list(groups) or []] for event, groups in (as_object(hooks) or {}).items()
    }


def voided(group: object) -> Object:
    """One group, each handler of others' made void in its place."""
    members = as_object(group) or {}
    return {**members, "hooks": [one if is_ours(one) else None for one in as_list(members.get("hooks")) or []]}
