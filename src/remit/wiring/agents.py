"""Which agents are here, and what each of them has to be told in which file."""

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


class Found(Struct, frozen=True):
    """An agent on this machine. `binary` is None where only its settings folder is there."""

    row: AgentRow
    binary: str | None
    folder: bool


def find(row: AgentRow, home: Path, search_path: str) -> Found:
    """What of one agent is here."""
    return Found(row, shutil.which(row.binary, path=search_path), (home / row.config_folder).is_dir())


class Place(Struct, frozen=True):
    """Where the settings of an agent are: the user's, or one project's."""

    home: Path
    root: Path | None = None

    def hooks(self, row: AgentRow) -> Path:
        """The file of its hooks."""
        if self.root is None:
            return self.home / row.hooks_file
        return self.root / PROJECT_HOOKS.get(row.agent, row.hooks_file)

    def servers(self, row: AgentRow) -> Path:
        """The file of its MCP servers: one file for all projects where it is outside of the agent's folder."""
        return (self.root if self.root and in_folder(row) else self.home) / row.mcp_file


def in_folder(row: AgentRow) -> bool:
    """Whether the file of MCP servers is within the agent's folder of settings."""
    return row.mcp_file.startswith(f"{row.config_folder}/")


def find_agents(home: Path, search_path: str, only: Iterable[str] = ()) -> list[Found]:
    """The agents that are installed (on the search path) or have a folder in `home`; of those named, all."""
    named = set(only)
    rows = [row for row in ROWS.values() if not named or row.agent in named]
    found = [
        Found(row, shutil.which(row.binary, path=search_path), (home / row.config_folder).is_dir()) for row in rows
    ]
    return [agent for agent in found if named or agent.binary or agent.folder]


def wanted_servers(row: AgentRow, place: Place, command: tuple[str, ...]) -> Object:
    """What has to stand in the file of MCP servers, Remit's tools approved."""
    wanted = servers(row.agent, command)
    return wanted if place.root is None or in_folder(row) else {"projects": {str(place.root): wanted}}


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
