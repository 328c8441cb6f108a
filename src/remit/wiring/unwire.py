"""Removing Remit's settings from agents' settings files."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from remit.adapters import ROWS
from remit.core.json_guards import as_array
from remit.wiring import json_merge, toml_merge
from remit.wiring.agents import SettingsPlace
from remit.wiring.hook_client import is_own_handler
from remit.wiring.insertions import JsonObject, SettingsConflict, digest
from remit.wiring.json_merge import OWN_NAME, collapse_to_group, decode_lists, find_own_items, remove_paths
from remit.wiring.json_text import NotJson, find_pair, pair_value, parse_root
from remit.wiring.manifest import Manifest, WiredFile, write_manifest
from remit.wiring.plan import WiringProblem, unmerge_settings
from remit.wiring.toml_merge import NotToml
from remit.workspace.agents.settings_files import read_settings, write_settings


class UnwiredFile(Struct, frozen=True):
    """Result for one file. `exact` is True if the file is byte for byte as before `init`."""

    path: Path
    removed: bool
    exact: bool
    changed: bool = True


def unwire(
    home: Path, manifest: Manifest, agents: Iterable[str] = (), below: Path | None = None
) -> tuple[list[UnwiredFile], list[WiringProblem], Manifest]:
    """Remove all insertions in the manifest, for the given agents or all; with `below`, only in that folder.

    Unreadable files stay in the manifest and are returned as problems. Raises SettingsChanged, OSError.
    """
    named = set(agents)
    completed: list[UnwiredFile] = []
    problems: list[WiringProblem] = []
    folders: list[str] = []
    for wired in manifest.files:
        if (named and not named & set(wired.agents)) or (below and not Path(wired.path).is_relative_to(below)):
            continue
        try:
            completed.append(unwire_file(wired))
        except (SettingsConflict, NotJson, NotToml, UnicodeDecodeError) as error:
            problems.append(WiringProblem(Path(wired.path), str(error)))
            continue
        folders += wired.folders
        manifest = manifest.without_file(Path(wired.path))
        write_manifest(home, manifest)
    remove_empty_folders(folders)
    return completed, problems, manifest


def unwire_file(wired: WiredFile) -> UnwiredFile:
    """Remove the insertions from a file. A file created by Remit is deleted if empty afterwards."""
    path = Path(wired.path)
    before = read_settings(path)
    if before is None:
        return UnwiredFile(path, removed=False, exact=wired.created, changed=False)
    after = unmerge_settings(path, before.decode(), wired.insertions).encode()
    empty = wired.created and is_blank(path, after.decode())
    write_settings(path, before, None if empty else after)
    exact = empty or (not wired.created and digest(after) == wired.insertions.before)
    return UnwiredFile(path, removed=empty, exact=exact, changed=before != after)


def is_blank(path: Path, text: str) -> bool:
    return not text.strip() if path.suffix == ".toml" else json_merge.is_empty(text)


def remove_empty_folders(folders: Iterable[str]) -> None:
    """Remove empty folders created by Remit."""
    for folder in sorted(set(folders), key=len, reverse=True):
        if Path(folder).is_dir() and not any(Path(folder).iterdir()):
            Path(folder).rmdir()


# --- where the manifest is lost ----------------------------------------------------------------------------


def find_leftovers(user: SettingsPlace, root: Path | None) -> list[Path]:
    """Return settings files that contain recognisable settings of Remit. Raises OSError."""
    return [path for path, text in read_candidates(user, root) if strip_own_settings(path, text) != text]


def remove_leftovers(user: SettingsPlace, root: Path | None) -> list[UnwiredFile]:
    """Remove recognisable settings that no manifest lists: hooks with Remit's client, and the MCP server `remit`.

    Raises SettingsChanged, OSError.
    """
    completed: list[UnwiredFile] = []
    for path, text in read_candidates(user, root):
        after = strip_own_settings(path, text)
        if after != text:
            write_settings(path, text.encode(), after.encode())
            completed.append(UnwiredFile(path, removed=False, exact=False))
    return completed


def read_candidates(user: SettingsPlace, root: Path | None) -> list[tuple[Path, str]]:
    """Return the existing settings files of all agents, with their text."""
    places = [user, SettingsPlace(user.home), *([SettingsPlace(user.home, root)] if root else [])]
    paths = dict.fromkeys(
        p for row in ROWS.values() for place in places for p in (place.hooks_file(row), place.servers_file(row))
    )
    read = [(path, read_settings(path)) for path in paths]
    return [(path, content.decode("utf-8", "surrogateescape")) for path, content in read if content is not None]


def strip_own_settings(path: Path, text: str) -> str:
    """Return the text without recognisable settings of Remit; unchanged if unreadable."""
    try:
        return strip_own_toml(text) if path.suffix == ".toml" else strip_own_json(text.encode()).decode()
    except (NotJson, NotToml, SettingsConflict, UnicodeEncodeError):
        return text


def strip_own_toml(text: str) -> str:
    keys = {row.servers_key for row in ROWS.values()}
    document: JsonObject = toml_merge.parse_toml(text)
    names = [(key, OWN_NAME) for key in keys if toml_merge.find_value(document, (key, OWN_NAME)) is not None]
    for name in names:
        text = toml_merge.remove_table(text, name)
    return text


def strip_own_json(source: bytes) -> bytes:
    root = parse_root(source)
    if root is None:
        return source
    paths: list[tuple[str | int, ...]] = []
    hooks = find_pair(root, "hooks")
    for event, groups in decode_lists(pair_value(hooks)).items() if hooks else ():
        for number, group in enumerate(as_array(groups)):
            paths += collapse_to_group(group, find_own_items(group, is_own_handler), ("hooks", event, number))
    source = remove_paths(source, paths)
    for key in {row.servers_key for row in ROWS.values()}:
        source = remove_paths(source, [(key, OWN_NAME)])
    return source
