"""Wiring agents' settings files, and unwiring them.

Changes are computed and shown first (`plan_settings`), and written afterwards (`write_plans`). `unwire` takes out what
the manifest lists; `remove_leftovers` what looks like Remit's where the manifest is lost.
"""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.adapters import settings as hook_settings
from remit.core.agents import ROWS
from remit.core.diff.contents import sha256
from remit.core.untrusted_input import as_object
from remit.wiring import json_merge
from remit.wiring.agents import DetectedAgent, SettingsPlace, build_server_settings, build_trust_settings
from remit.wiring.hook_client import is_own_handler
from remit.wiring.manifest import (
    Insertions,
    JsonObject,
    Manifest,
    SettingsConflict,
    SettingsError,
    WiredFile,
    object_or_none,
    write_manifest,
)
from remit.wiring.toml_merge import NotToml, find_value, merge_toml, parse_toml, remove_table, unmerge_toml
from remit.workspace.agents.read_write_settings import read_settings, write_settings

SettingsPart: TypeAlias = Literal["hooks", "server", "trust"]
PART_NAMES: dict[SettingsPart, str] = {"hooks": "hooks", "server": "MCP server", "trust": "trust in these hooks"}
FORM_NAMES = {"bom": "a byte order mark", "comment": "a comment", "comma": "a comma before a closing bracket"}
UNREADABLE = (SettingsConflict, json_merge.NotJson, NotToml, UnicodeDecodeError)


class WiringProblem(SettingsError):
    """A settings file in a state that prevents wiring."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{str(path)!r} cannot be wired: {why}", path)


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

    def diff(self, home: Path) -> str:
        name = display_path(self.path, home)
        old, new = ((text or b"").decode().splitlines(keepends=True) for text in (self.before, self.after))
        lines = difflib.unified_diff(old, new, "/dev/null" if self.before is None else name, name, n=2)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in lines)


class UnwiredFile(Struct, frozen=True):
    """Result for one file. `exact` is True if the file is byte for byte as before `init`."""

    path: Path
    removed: bool
    exact: bool
    changed: bool = True


def display_path(path: Path, home: Path) -> str:
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


# --- wiring ------------------------------------------------------------------------------------------------


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
    hooks = [WantedSettings(place.hooks_file(r), r.agent, "hooks", hook_settings(r.agent, client)) for r in rows]
    servers = [
        WantedSettings(place.servers_file(r), r.agent, "server", build_server_settings(r, place, server)) for r in rows
    ]
    plans = plan_files([*hooks, *servers], manifest)
    # Trust is in the hooks as planned; entries written before must follow the hooks.
    trusts: list[WantedSettings] = []
    for row in rows:
        wired = manifest.find_file(place.servers_file(row))
        has_trust = wired is not None and any(e.path[:2] == ("hooks", "state") for e in wired.insertions.entries)
        if has_trust or row.agent in trusting:
            planned = json_merge.decode_document(
                next((plan.after for plan in plans if plan.path == place.hooks_file(row)), b"")
            )
            wanted = build_trust_settings(row, place.hooks_file(row), planned)
            trusts += [WantedSettings(place.servers_file(row), row.agent, "trust", wanted)] if wanted else []
    return plan_files([*hooks, *servers, *trusts], manifest) if trusts else plans


def plan_files(wishes: list[WantedSettings], manifest: Manifest) -> list[FilePlan]:
    """Return a plan per file; Remit's old insertions are removed before the merge. Raises WiringProblem, OSError."""
    plans: list[FilePlan] = []
    for path in dict.fromkeys(wish.path for wish in wishes):
        own = [wish for wish in wishes if wish.path == path]
        before, wired, wanted = read_settings(path), manifest.find_file(path), JsonObject()
        for wish in own:
            wanted = unite_settings(wanted, wish.wanted)
        try:
            text = (before or b"").decode()
            merged, insertions = merge_settings(path, text, wanted)
            if merged == text and wired is not None:
                insertions = wired.insertions
            elif wired is not None:
                merged, insertions = merge_settings(path, unmerge_settings(path, text, wired.insertions), wanted)
        except UNREADABLE as error:
            raise WiringProblem(path, str(error)) from error
        agents = tuple(dict.fromkeys(wish.agent for wish in own))
        plans.append(FilePlan(path, agents, tuple(wish.part for wish in own), before, merged.encode(), insertions))
    return plans


def unite_settings(left: JsonObject, right: JsonObject) -> JsonObject:
    merged = dict(left)
    for key, value in right.items():
        present, more = object_or_none(merged.get(key)), object_or_none(value)
        merged[key] = unite_settings(present, more) if present is not None and more is not None else value
    return merged


def merge_settings(path: Path, text: str, wanted: JsonObject) -> tuple[str, Insertions]:
    if path.suffix == ".toml":
        return merge_toml(text, split_tables(wanted))
    return json_merge.merge_json(text, wanted, is_own_handler)


def unmerge_settings(path: Path, text: str, insertions: Insertions) -> str:
    return (unmerge_toml if path.suffix == ".toml" else json_merge.unmerge_json)(text, insertions)


def split_tables(wanted: JsonObject, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], JsonObject]:
    values = {key: value for key, value in wanted.items() if object_or_none(value) is None}
    found = {above: values} if values else {}
    for key, value in wanted.items():
        found |= split_tables(as_object(value), (*above, key))
    return found


def write_plans(plans: Iterable[FilePlan], home: Path, manifest: Manifest, at: str, version: str) -> Manifest:
    """Write the files, the manifest first: after an interruption the manifest lists missing insertions, never too few.
    Raises SettingsChanged, OSError.
    """
    for plan in plans:
        if not plan.has_changes:
            continue
        known = manifest.find_file(plan.path)
        wired = WiredFile(
            path=str(plan.path),
            agents=plan.agents,
            insertions=plan.insertions,
            created=plan.before is None or (known is not None and known.created),
            folders=known.folders if known else tuple(str(f) for f in reversed(plan.path.parents) if not f.exists()),
            at=at,
            version=version,
        )
        manifest = manifest.with_file(wired)
        write_manifest(home, manifest)
        write_settings(plan.path, plan.before, plan.after)
    return manifest


def find_unread_agents(file: FilePlan) -> list[tuple[str, str]]:
    if "hooks" not in file.parts or file.path.suffix != ".json":
        return []
    present = json_merge.find_unusual_forms(file.after)
    found = [(ROWS[agent], sorted(present - ROWS[agent].accepted_json_forms)) for agent in file.agents]
    return [(row.title, " and ".join(FORM_NAMES[form] for form in forms)) for row, forms in found if forms]


def describe_unread(file: FilePlan, home: Path) -> str:
    return "\n".join(
        f"  {title} does not read {display_path(file.path, home)} while there is {what} in it: "
        "none of its hooks run. Take it out by hand"
        for title, what in find_unread_agents(file)
    )


# --- unwiring ----------------------------------------------------------------------------------------------


def unwire(
    home: Path, manifest: Manifest, agents: Iterable[str] = (), below: Path | None = None
) -> tuple[list[UnwiredFile], list[WiringProblem], Manifest]:
    """Remove all insertions in the manifest, for the given agents or all; with `below`, only in that folder. Unreadable
    files stay in the manifest and are returned as problems. Raises SettingsChanged, OSError.
    """
    named, folders = set(agents), set[Path]()
    completed: list[UnwiredFile] = []
    problems: list[WiringProblem] = []
    for wired in manifest.files:
        path = Path(wired.path)
        if (named and not named & set(wired.agents)) or (below and not path.is_relative_to(below)):
            continue
        try:
            completed.append(unwire_file(path, wired))
        except UNREADABLE as error:
            problems.append(WiringProblem(path, str(error)))
            continue
        folders |= set(map(Path, wired.folders))
        manifest = manifest.without_file(path)
        write_manifest(home, manifest)
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return completed, problems, manifest


def unwire_file(path: Path, wired: WiredFile) -> UnwiredFile:
    before = read_settings(path)
    if before is None:
        return UnwiredFile(path, removed=False, exact=wired.created, changed=False)
    text = unmerge_settings(path, before.decode(), wired.insertions)
    after = text.encode()
    removed = wired.created and (not text.strip() if path.suffix == ".toml" else json_merge.is_empty(text))
    write_settings(path, before, None if removed else after)
    exact = removed or (not wired.created and sha256(after) == wired.insertions.before)
    return UnwiredFile(path, removed=removed, exact=exact, changed=before != after)


def find_leftovers(user: SettingsPlace, root: Path | None) -> list[tuple[Path, str, str]]:
    """Return each settings file with recognisable settings of Remit: path, text, and text without them. They are hooks
    with Remit's client, and the MCP server `remit`. Raises OSError.
    """
    places = [user, SettingsPlace(user.home), *([SettingsPlace(user.home, root)] if root else [])]
    paths = dict.fromkeys(
        p for row in ROWS.values() for place in places for p in (place.hooks_file(row), place.servers_file(row))
    )
    found: list[tuple[Path, str, str]] = []
    for path in paths:
        text = (read_settings(path) or b"").decode("utf-8", "surrogateescape")
        try:
            after = (strip_own_toml if path.suffix == ".toml" else strip_own_json)(text)
        except (json_merge.NotJson, NotToml, SettingsConflict, UnicodeEncodeError):
            continue  # unreadable
        found += [(path, text, after)] if after != text else []
    return found


def remove_leftovers(user: SettingsPlace, root: Path | None) -> list[UnwiredFile]:
    """Remove recognisable settings that no manifest lists. Raises SettingsChanged, OSError."""
    found = find_leftovers(user, root)
    for path, text, after in found:
        write_settings(path, text.encode(), after.encode())
    return [UnwiredFile(path, removed=False, exact=False) for path, _, _ in found]


def strip_own_toml(text: str) -> str:
    document = parse_toml(text)
    for key in {row.servers_key for row in ROWS.values()}:
        if find_value(document, (key, json_merge.OWN_NAME)) is not None:
            text = remove_table(text, (key, json_merge.OWN_NAME))
    return text


def strip_own_json(text: str) -> str:
    source = text.encode()
    paths: list[json_merge.JsonPath] = []
    hooks = json_merge.find_at_path(json_merge.parse_root(source), ("hooks",))
    for event, groups in json_merge.decode_lists(hooks).items() if hooks is not None and hooks.type == "object" else ():
        for number, group in enumerate(groups):
            own = json_merge.find_own_items(group, is_own_handler)
            paths += json_merge.collapse_to_group(group, own, ("hooks", event, number))
    servers: list[json_merge.JsonPath] = [(key, json_merge.OWN_NAME) for key in {r.servers_key for r in ROWS.values()}]
    return json_merge.remove_paths(json_merge.remove_paths(source, paths), servers).decode()
