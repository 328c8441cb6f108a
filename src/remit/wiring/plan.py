"""Plans for settings files: changes are computed and shown first, and written afterwards."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.adapters import ROWS, AgentRow
from remit.core.json_guards import as_object
from remit.wiring import json_merge, toml_merge
from remit.wiring.agents import (
    DetectedAgent,
    SettingsPlace,
    build_hook_settings,
    build_server_settings,
    build_trust_settings,
)
from remit.wiring.hook_client import is_own_handler
from remit.wiring.insertions import Insertions, JsonObject, SettingsConflict, object_or_none
from remit.wiring.json_text import NotJson, decode_node, find_unusual_forms, parse_root
from remit.wiring.manifest import Manifest, WiredFile, write_manifest
from remit.wiring.toml_merge import NotToml
from remit.workspace.agents.settings_files import read_settings, write_settings

SettingsPart: TypeAlias = Literal["hooks", "server", "trust"]
PART_NAMES: dict[SettingsPart, str] = {"hooks": "hooks", "server": "MCP server", "trust": "trust in these hooks"}


class WiringProblem(RuntimeError):
    """A settings file in a state that prevents wiring."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{str(path)!r} cannot be wired: {why}")
        self.path = path


class WantedSettings(Struct, frozen=True):
    """The settings of an agent in a file."""

    path: Path
    agent: str
    part: SettingsPart
    wanted: JsonObject


class FilePlan(Struct, frozen=True):
    """The plan for one file. `before` is None if there is no file yet."""

    path: Path
    agents: tuple[str, ...]
    parts: tuple[SettingsPart, ...]
    before: bytes | None
    after: bytes
    insertions: Insertions

    @property
    def has_changes(self) -> bool:
        return self.before != self.after

    @property
    def parts_text(self) -> str:
        """The added parts, as text for people."""
        return ", ".join(PART_NAMES[part] for part in self.parts)

    def diff(self, home: Path) -> str:
        name = display_path(self.path, home)
        old = (self.before or b"").decode().splitlines(keepends=True)
        new = self.after.decode().splitlines(keepends=True)
        lines = difflib.unified_diff(old, new, "/dev/null" if self.before is None else name, name, n=2)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in lines)


def display_path(path: Path, home: Path) -> str:
    """Return the path with `~` for HOME."""
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def plan_settings(
    agents: Iterable[DetectedAgent],
    place: SettingsPlace,
    client: str,
    server: tuple[str, ...],
    manifest: Manifest,
    trusting: set[str],
) -> list[FilePlan]:
    """Return a plan per file, including files without changes. Raises WiringProblem, OSError."""
    rows = [agent.row for agent in agents]
    wishes = [
        WantedSettings(place.hooks_file(row), row.agent, "hooks", build_hook_settings(row, client)) for row in rows
    ]
    wishes += [
        WantedSettings(place.servers_file(row), row.agent, "server", build_server_settings(row, place, server))
        for row in rows
    ]
    plans = plan_files(wishes, manifest)
    trusted = [
        build_trust_wish(row, place, plans) for row in rows if row.agent in trusting or has_trust(manifest, place, row)
    ]
    return plan_files([*wishes, *(wish for wish in trusted if wish.wanted)], manifest) if trusted else plans


def build_trust_wish(row: AgentRow, place: SettingsPlace, plans: list[FilePlan]) -> WantedSettings:
    """Return the settings that make the agent trust our hooks as planned."""
    hooks_file = place.hooks_file(row)
    return WantedSettings(
        place.servers_file(row),
        row.agent,
        "trust",
        build_trust_settings(row, hooks_file, read_planned_document(plans, hooks_file)),
    )


def has_trust(manifest: Manifest, place: SettingsPlace, row: AgentRow) -> bool:
    """Return True if trust entries were written before: they must follow the hooks."""
    wired = manifest.find_file(place.servers_file(row))
    return wired is not None and any(entry.path[:2] == ("hooks", "state") for entry in wired.insertions.entries)


def plan_files(wishes: list[WantedSettings], manifest: Manifest) -> list[FilePlan]:
    """Return a plan per file. Raises WiringProblem, OSError."""
    paths = dict.fromkeys(wish.path for wish in wishes)
    return [plan_file(path, [w for w in wishes if w.path == path], manifest.find_file(path)) for path in paths]


def plan_file(path: Path, wishes: list[WantedSettings], wired: WiredFile | None) -> FilePlan:
    """Return the plan of one file. In an outdated file Remit's old insertions are removed before the merge."""
    before = read_settings(path)
    wanted: JsonObject = {}
    for wish in wishes:
        wanted = unite_settings(wanted, wish.wanted)
    agents = tuple(dict.fromkeys(wish.agent for wish in wishes))
    parts: tuple[SettingsPart, ...] = tuple(wish.part for wish in wishes)
    try:
        text = (before or b"").decode()
        merged, insertions = merge_settings(path, text, wanted)
        if merged == text and wired is not None:
            insertions = wired.insertions
        elif wired is not None:
            merged, insertions = merge_settings(path, unmerge_settings(path, text, wired.insertions), wanted)
    except (SettingsConflict, NotJson, NotToml, UnicodeDecodeError) as error:
        raise WiringProblem(path, str(error)) from error
    return FilePlan(path, agents, parts, before, merged.encode(), insertions)


def unite_settings(left: JsonObject, right: JsonObject) -> JsonObject:
    merged = dict(left)
    for key, value in right.items():
        present, more = object_or_none(merged.get(key)), object_or_none(value)
        merged[key] = unite_settings(present, more) if present is not None and more is not None else value
    return merged


def merge_settings(path: Path, text: str, wanted: JsonObject) -> tuple[str, Insertions]:
    if path.suffix == ".toml":
        return toml_merge.merge_toml(text, split_tables(wanted))
    return json_merge.merge_json(text, wanted, is_own_handler)


def unmerge_settings(path: Path, text: str, insertions: Insertions) -> str:
    if path.suffix == ".toml":
        return toml_merge.unmerge_toml(text, insertions)
    return json_merge.unmerge_json(text, insertions)


def split_tables(wanted: JsonObject, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], JsonObject]:
    """Return the tables of a document: each object with members that are not objects."""
    found: dict[tuple[str, ...], JsonObject] = {}
    values = {key: value for key, value in wanted.items() if object_or_none(value) is None}
    if values:
        found[above] = values
    for key, value in wanted.items():
        found |= split_tables(as_object(value), (*above, key))
    return found


def read_planned_document(plans: list[FilePlan], path: Path) -> JsonObject:
    text = next((p.after for p in plans if p.path == path), b"")
    root = parse_root(text)
    return as_object(decode_node(root)) if root else {}


def write_plans(plans: Iterable[FilePlan], home: Path, manifest: Manifest, at: str, version: str) -> Manifest:
    """Write the files, the manifest first: after an interruption the manifest lists missing insertions, never too few.

    Raises SettingsChanged, OSError.
    """
    for item in plans:
        if not item.has_changes:
            continue
        known = manifest.find_file(item.path)
        wired = WiredFile(
            path=str(item.path),
            agents=item.agents,
            insertions=item.insertions,
            created=item.before is None or (known is not None and known.created),
            folders=known.folders if known else missing_folders(item.path),
            at=at,
            version=version,
        )
        manifest = manifest.with_file(wired)
        write_manifest(home, manifest)
        write_settings(item.path, item.before, item.after)
    return manifest


def missing_folders(path: Path) -> tuple[str, ...]:
    """Return the missing folders above the file, outermost first."""
    return tuple(str(folder) for folder in reversed(path.parents) if not folder.exists())


FORM_NAMES = {"bom": "a byte order mark", "comment": "a comment", "comma": "a comma before a closing bracket"}


def find_unread_agents(file: FilePlan) -> list[tuple[str, str]]:
    """Return the agents that would ignore the hook file as planned, each with the reason."""
    if "hooks" not in file.parts or file.path.suffix != ".json":
        return []
    present = find_unusual_forms(file.after)
    found = [(ROWS[agent], sorted(present - ROWS[agent].accepted_json_forms)) for agent in file.agents]
    return [(row.title, " and ".join(FORM_NAMES[form] for form in forms)) for row, forms in found if forms]


def describe_unread(file: FilePlan, home: Path) -> str:
    """Return a warning for people about such agents; empty if all is well."""
    return "\n".join(
        f"  {title} does not read {display_path(file.path, home)} while there is {what} in it: "
        "none of its hooks run. Take it out by hand"
        for title, what in find_unread_agents(file)
    )
