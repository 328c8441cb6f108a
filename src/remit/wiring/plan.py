"""What would change in which settings file: computed first, shown, and only then done.

Settings that are sound to us and not to the agent: it ignores the whole file then, and our hooks with it.
"""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.adapters import ROWS, AgentRow
from remit.wiring import json_merge, toml_merge
from remit.wiring.agents import (
    DetectedAgent,
    SettingsPlace,
    build_hook_settings,
    build_server_settings,
    build_trust_settings,
)
from remit.wiring.hook_client import is_own_handler
from remit.wiring.insertions import Insertions, JsonObject, SettingsConflict, as_object
from remit.wiring.json_text import NotJson, decode_node, find_unusual_forms, parse_root
from remit.wiring.manifest import Manifest, WiredFile, write_manifest
from remit.wiring.toml_merge import NotToml
from remit.workspace.agents.settings_files import read_settings, write_settings

SettingsPart: TypeAlias = Literal["hooks", "server", "trust"]
PART_NAMES: dict[SettingsPart, str] = {"hooks": "hooks", "server": "MCP server", "trust": "trust in these hooks"}


class WiringProblem(RuntimeError):
    """A settings file that cannot be wired as it stands."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{str(path)!r} cannot be wired: {why}")
        self.path = path


class WantedSettings(Struct, frozen=True):
    """What one agent needs in one file."""

    path: Path
    agent: str
    part: SettingsPart
    wanted: JsonObject


class FilePlan(Struct, frozen=True):
    """One file, before and after. `before` is None where there is no file yet."""

    path: Path
    agents: tuple[str, ...]
    parts: tuple[SettingsPart, ...]
    before: bytes | None
    after: bytes
    insertions: Insertions

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after

    @property
    def parts_text(self) -> str:
        """What comes in, in words."""
        return ", ".join(PART_NAMES[part] for part in self.parts)

    def diff(self, home: Path) -> str:
        """A unified diff."""
        name = display_path(self.path, home)
        old = (self.before or b"").decode().splitlines(keepends=True)
        new = self.after.decode().splitlines(keepends=True)
        lines = difflib.unified_diff(old, new, "/dev/null" if self.before is None else name, name, n=2)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in lines)


def display_path(path: Path, home: Path) -> str:
    """The path as people write it."""
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def plan_settings(
    agents: Iterable[DetectedAgent],
    place: SettingsPlace,
    client: str,
    server: tuple[str, ...],
    manifest: Manifest,
    trusting: set[str],
) -> list[FilePlan]:
    """One plan a file, those that need nothing included. Raises Problem, OSError."""
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
    """What tells the agent to trust our hooks, as they will stand."""
    hooks_file = place.hooks_file(row)
    return WantedSettings(
        place.servers_file(row),
        row.agent,
        "trust",
        build_trust_settings(row, hooks_file, read_planned_document(plans, hooks_file)),
    )


def has_trust(manifest: Manifest, place: SettingsPlace, row: AgentRow) -> bool:
    """Whether trust was written before: then it has to follow the hooks."""
    wired = manifest.find_file(place.servers_file(row))
    return wired is not None and any(entry.path[:2] == ("hooks", "state") for entry in wired.insertions.entries)


def plan_files(wishes: list[WantedSettings], manifest: Manifest) -> list[FilePlan]:
    """One plan a file. Raises Problem, OSError."""
    paths = dict.fromkeys(wish.path for wish in wishes)
    return [plan_file(path, [w for w in wishes if w.path == path], manifest.find_file(path)) for path in paths]


def plan_file(path: Path, wishes: list[WantedSettings], wired: WiredFile | None) -> FilePlan:
    """The plan of one file. Where it is not up to date, what is in it of ours goes before the new comes in."""
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
    """Both wishes in one object."""
    merged = dict(left)
    for key, value in right.items():
        have, more = as_object(merged.get(key)), as_object(value)
        merged[key] = unite_settings(have, more) if have is not None and more is not None else value
    return merged


def merge_settings(path: Path, text: str, wanted: JsonObject) -> tuple[str, Insertions]:
    """Merge by the kind of the file."""
    if path.suffix == ".toml":
        return toml_merge.merge_toml(text, split_tables(wanted))
    return json_merge.merge_json(text, wanted, is_own_handler)


def unmerge_settings(path: Path, text: str, insertions: Insertions) -> str:
    """Take out by the kind of the file."""
    if path.suffix == ".toml":
        return toml_merge.unmerge_toml(text, insertions)
    return json_merge.unmerge_json(text, insertions)


def split_tables(wanted: JsonObject, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], JsonObject]:
    """The tables of a document: every object that holds something else than objects."""
    found: dict[tuple[str, ...], JsonObject] = {}
    values = {key: value for key, value in wanted.items() if as_object(value) is None}
    if values:
        found[above] = values
    for key, value in wanted.items():
        found |= split_tables(as_object(value) or {}, (*above, key))
    return found


def read_planned_document(plans: list[FilePlan], path: Path) -> JsonObject:
    """The document that a plan leaves."""
    text = next((p.after for p in plans if p.path == path), b"")
    root = parse_root(text)
    return (as_object(decode_node(root)) or {}) if root else {}


def write_plans(plans: Iterable[FilePlan], home: Path, manifest: Manifest, at: str, version: str) -> Manifest:
    """Write the files. The manifest goes first: a file that was not reached is then one with nothing to take out.

    Raises SettingsChanged, OSError.
    """
    for each in plans:
        if not each.has_changes:
            continue
        known = manifest.find_file(each.path)
        wired = WiredFile(
            path=str(each.path),
            agents=each.agents,
            insertions=each.insertions,
            created=each.before is None or (known is not None and known.created),
            folders=known.folders if known else missing_folders(each.path),
            at=at,
            version=version,
        )
        manifest = manifest.with_file(wired)
        write_manifest(home, manifest)
        write_settings(each.path, each.before, each.after)
    return manifest


def missing_folders(path: Path) -> tuple[str, ...]:
    """Folders above the file that are not there, the outermost first."""
    return tuple(str(folder) for folder in reversed(path.parents) if not folder.exists())


FORM_NAMES = {"bom": "a byte order mark", "comment": "a comment", "comma": "a comma before a closing bracket"}


def find_unread_agents(file: FilePlan) -> list[tuple[str, str]]:
    """The agents that will not read this file of hooks as it would stand, each with what in it keeps them from it."""
    if "hooks" not in file.parts or file.path.suffix != ".json":
        return []
    there = find_unusual_forms(file.after)
    found = [(ROWS[agent], sorted(there - ROWS[agent].accepted_json_forms)) for agent in file.agents]
    return [(row.title, " and ".join(FORM_NAMES[form] for form in forms)) for row, forms in found if forms]


def describe_unread(file: FilePlan, home: Path) -> str:
    """The same in words; empty where all is well."""
    return "\n".join(
        f"  {title} does not read {display_path(file.path, home)} while there is {what} in it: "
        "none of its hooks run. Take it out by hand"
        for title, what in find_unread_agents(file)
    )
