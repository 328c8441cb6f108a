"""What would change in which settings file: computed first, shown, and only then done."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from remit.adapters import AgentRow
from remit.wiring import json_merge, toml_merge
from remit.wiring.agents import Found, Place, wanted_hooks, wanted_servers, wanted_trust
from remit.wiring.client import is_ours
from remit.wiring.insertions import Insertions, Object, SettingsConflict, as_object
from remit.wiring.json_text import NotJson, decoded, root_of
from remit.wiring.manifest import Manifest, WiredFile, write_manifest
from remit.wiring.toml_merge import NotToml
from remit.workspace.settings_file import read_settings, write_settings

Part: TypeAlias = Literal["hooks", "server", "trust"]
NAMES: dict[Part, str] = {"hooks": "hooks", "server": "MCP server", "trust": "trust in these hooks"}


class Problem(RuntimeError):
    """A settings file that cannot be wired as it stands."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(f"{str(path)!r} cannot be wired: {why}")
        self.path = path


class Wish(Struct, frozen=True):
    """What one agent needs in one file."""

    path: Path
    agent: str
    part: Part
    wanted: Object


class FilePlan(Struct, frozen=True):
    """One file, before and after. `before` is None where there is no file yet."""

    path: Path
    agents: tuple[str, ...]
    parts: tuple[Part, ...]
    before: bytes | None
    after: bytes
    insertions: Insertions

    @property
    def changes(self) -> bool:
        """Whether there is anything to write."""
        return self.before != self.after

    @property
    def about(self) -> str:
        """What comes in, in words."""
        return ", ".join(NAMES[part] for part in self.parts)

    def diff(self, home: Path) -> str:
        """A unified diff."""
        name = shown_path(self.path, home)
        old = (self.before or b"").decode().splitlines(keepends=True)
        new = self.after.decode().splitlines(keepends=True)
        lines = difflib.unified_diff(old, new, "/dev/null" if self.before is None else name, name, n=2)
        return "".join(line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in lines)


def shown_path(path: Path, home: Path) -> str:
    """The path as people write it."""
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def plan(
    agents: Iterable[Found], place: Place, client: str, server: tuple[str, ...], manifest: Manifest, trusting: set[str]
) -> list[FilePlan]:
    """One plan a file, those that need nothing included. Raises Problem, OSError."""
    rows = [agent.row for agent in agents]
    wishes = [Wish(place.hooks(row), row.agent, "hooks", wanted_hooks(row, client)) for row in rows]
    wishes += [Wish(place.servers(row), row.agent, "server", wanted_servers(row, place, server)) for row in rows]
    plans = planned(wishes, manifest)
    trusted = [
        trust_wish(row, place, plans) for row in rows if row.agent in trusting or has_trust(manifest, place, row)
    ]
    return planned([*wishes, *(wish for wish in trusted if wish.wanted)], manifest) if trusted else plans


def trust_wish(row: AgentRow, place: Place, plans: list[FilePlan]) -> Wish:
    """What tells the agent to trust our hooks, as they will stand."""
    hooks_file = place.hooks(row)
    return Wish(place.servers(row), row.agent, "trust", wanted_trust(row, hooks_file, after(plans, hooks_file)))


def has_trust(manifest: Manifest, place: Place, row: AgentRow) -> bool:
    """Whether trust was written before: then it has to follow the hooks."""
    wired = manifest.file(place.servers(row))
    return wired is not None and any(entry.path[:2] == ("hooks", "state") for entry in wired.insertions.entries)


def planned(wishes: list[Wish], manifest: Manifest) -> list[FilePlan]:
    """One plan a file. Raises Problem, OSError."""
    paths = dict.fromkeys(wish.path for wish in wishes)
    return [file_plan(path, [w for w in wishes if w.path == path], manifest.file(path)) for path in paths]


def file_plan(path: Path, wishes: list[Wish], wired: WiredFile | None) -> FilePlan:
    """The plan of one file. Where it is not up to date, what is in it of ours goes before the new comes in."""
    before = read_settings(path)
    wanted: Object = {}
    for wish in wishes:
        wanted = united(wanted, wish.wanted)
    agents = tuple(dict.fromkeys(wish.agent for wish in wishes))
    parts: tuple[Part, ...] = tuple(wish.part for wish in wishes)
    try:
        text = (before or b"").decode()
        merged, insertions = merge(path, text, wanted)
        if merged == text and wired is not None:
            insertions = wired.insertions
        elif wired is not None:
            merged, insertions = merge(path, unmerge(path, text, wired.insertions), wanted)
    except (SettingsConflict, NotJson, NotToml, UnicodeDecodeError) as error:
        raise Problem(path, str(error)) from error
    return FilePlan(path, agents, parts, before, merged.encode(), insertions)


def united(left: Object, right: Object) -> Object:
    """Both wishes in one object."""
    merged = dict(left)
    for key, value in right.items():
        have, more = as_object(merged.get(key)), as_object(value)
        merged[key] = united(have, more) if have is not None and more is not None else value
    return merged


def merge(path: Path, text: str, wanted: Object) -> tuple[str, Insertions]:
    """Merge by the kind of the file."""
    if path.suffix == ".toml":
        return toml_merge.merge_toml(text, tables(wanted))
    return json_merge.merge_json(text, wanted, is_ours)


def unmerge(path: Path, text: str, insertions: Insertions) -> str:
    """Take out by the kind of the file."""
    if path.suffix == ".toml":
        return toml_merge.unmerge_toml(text, insertions)
    return json_merge.unmerge_json(text, insertions)


def tables(wanted: Object, above: tuple[str, ...] = ()) -> dict[tuple[str, ...], Object]:
    """The tables of a document: every object that holds something else than objects."""
    found: dict[tuple[str, ...], Object] = {}
    values = {key: value for key, value in wanted.items() if as_object(value) is None}
    if values:
        found[above] = values
    for key, value in wanted.items():
        found |= tables(as_object(value) or {}, (*above, key))
    return found


def after(plans: list[FilePlan], path: Path) -> Object:
    """The document that a plan leaves."""
    text = next((p.after for p in plans if p.path == path), b"")
    root = root_of(text)
    return (as_object(decoded(root)) or {}) if root else {}


def perform(plans: Iterable[FilePlan], home: Path, manifest: Manifest, at: str, version: str) -> Manifest:
    """Write the files. The manifest goes first: a file that was not reached is then one with nothing to take out.

    Raises SettingsChanged, OSError.
    """
    for each in plans:
        if not each.changes:
            continue
        known = manifest.file(each.path)
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
