"""Taking out what was put into agents' settings."""

from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from remit.adapters import ROWS
from remit.wiring import json_merge, toml_merge
from remit.wiring.agents import Place
from remit.wiring.client import is_ours
from remit.wiring.insertions import Object, SettingsConflict, as_list, digest
from remit.wiring.json_merge import OWN_NAME, decoded_lists, delete, own_items, whole_if_all
from remit.wiring.json_text import NotJson, pair_of, root_of, value_node
from remit.wiring.manifest import Manifest, WiredFile, write_manifest
from remit.wiring.plan import Problem, unmerge
from remit.wiring.toml_merge import NotToml
from remit.workspace.settings_file import read_settings, write_settings


class Unwired(Struct, frozen=True):
    """What became of one file. `exact`: it is byte for byte what it was before `init`."""

    path: Path
    removed: bool
    exact: bool
    changed: bool = True


def unwire(
    home: Path, manifest: Manifest, agents: Iterable[str] = (), below: Path | None = None
) -> tuple[list[Unwired], list[Problem], Manifest]:
    """Take out everything that the manifest lists, for these agents or for all; with `below`, only in that folder.

    A file that cannot be read stays listed, and is told as a problem. Raises SettingsChanged, OSError.
    """
    named = set(agents)
    done: list[Unwired] = []
    problems: list[Problem] = []
    folders: list[str] = []
    for wired in manifest.files:
        if (named and not named & set(wired.agents)) or (below and not Path(wired.path).is_relative_to(below)):
            continue
        try:
            done.append(unwire_file(wired))
        except (SettingsConflict, NotJson, NotToml, UnicodeDecodeError) as error:
            problems.append(Problem(Path(wired.path), str(error)))
            continue
        folders += wired.folders
        manifest = manifest.without_file(Path(wired.path))
        write_manifest(home, manifest)
    remove_folders(folders)
    return done, problems, manifest


def unwire_file(wired: WiredFile) -> Unwired:
    """Take our entries out of one file; a file that we made goes, where nothing else is in it."""
    path = Path(wired.path)
    before = read_settings(path)
    if before is None:
        return Unwired(path, removed=False, exact=wired.created, changed=False)
    after = unmerge(path, before.decode(), wired.insertions).encode()
    empty = wired.created and is_blank(path, after.decode())
    write_settings(path, before, None if empty else after)
    exact = empty or (not wired.created and digest(after) == wired.insertions.before)
    return Unwired(path, removed=empty, exact=exact, changed=before != after)


def is_blank(path: Path, text: str) -> bool:
    """Whether nothing is left in the file."""
    return not text.strip() if path.suffix == ".toml" else json_merge.is_empty(text)


def remove_folders(folders: Iterable[str]) -> None:
    """Remove the folders that we made, as far as they are empty."""
    for folder in sorted(set(folders), key=len, reverse=True):
        if Path(folder).is_dir() and not any(Path(folder).iterdir()):
            Path(folder).rmdir()


# --- where the manifest is lost ----------------------------------------------------------------------------


def leftovers(user: Place, root: Path | None) -> list[Path]:
    """Settings files in which something of ours stands by its looks. Raises OSError."""
    return [path for path, text in candidates(user, root) if swept(path, text) != text]


def sweep(user: Place, root: Path | None) -> list[Unwired]:
    """Take out, by its looks, what no manifest lists: our client's hooks, and the MCP server `remit`.

    Raises SettingsChanged, OSError.
    """
    done: list[Unwired] = []
    for path, text in candidates(user, root):
        after = swept(path, text)
        if after != text:
            write_settings(path, text.encode(), after.encode())
            done.append(Unwired(path, removed=False, exact=False))
    return done


def candidates(user: Place, root: Path | None) -> list[tuple[Path, str]]:
    """The settings files of all agents that are there and can be read as text."""
    places = [user, Place(user.home), *([Place(user.home, root)] if root else [])]
    paths = dict.fromkeys(
        p for row in ROWS.values() for place in places for p in (place.hooks(row), place.servers(row))
    )
    read = [(path, read_settings(path)) for path in paths]
    return [(path, content.decode("utf-8", "surrogateescape")) for path, content in read if content is not None]


def swept(path: Path, text: str) -> str:
    """The text without what is ours by its looks; unchanged where it cannot be read."""
    try:
        return swept_toml(text) if path.suffix == ".toml" else swept_json(text.encode()).decode()
    except (NotJson, NotToml, SettingsConflict, UnicodeEncodeError):
        return text


def swept_toml(text: str) -> str:
    """A TOML file without the server of our name."""
    keys = {row.servers_key for row in ROWS.values()}
    document: Object = toml_merge.read(text)
    names = [(key, OWN_NAME) for key in keys if toml_merge.found(document, (key, OWN_NAME)) is not None]
    for name in names:
        text = toml_merge.without_table(text, name)
    return text


def swept_json(source: bytes) -> bytes:
    """A JSON file without our hooks and the server of our name."""
    root = root_of(source)
    if root is None:
        return source
    paths: list[tuple[str | int, ...]] = []
    hooks = pair_of(root, "hooks")
    for event, groups in decoded_lists(value_node(hooks)).items() if hooks else ():
        for number, group in enumerate(as_list(groups) or []):
            paths += whole_if_all(group, own_items(group, is_ours), ("hooks", event, number))
    source = delete(source, paths)
    for key in {row.servers_key for row in ROWS.values()}:
        source = delete(source, [(key, OWN_NAME)])
    return source
