"""Properties of a changed path in a contained command's layer."""

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

from remit.workspace.place.workspace import ORCHESTRATION_FOLDER
from remit.workspace.sandbox.staged_changes import StagedChange

CACHE_FOLDERS = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
"""Folders that interpreters and checkers keep beside the sources."""

PLAIN_CALL_ID = re.compile(r"\w[\w-]{0,99}", re.ASCII)
"""Call ids usable as a folder name."""


def is_cache_path(path: str) -> bool:
    """Return True for a path in an interpreter's or checker's cache, rebuilt whenever missing."""
    return not CACHE_FOLDERS.isdisjoint(PurePosixPath(path).parts)


def is_git_path(path: str, root: Path, common: Path | None) -> bool:
    if common is None or not common.is_relative_to(root):
        return False
    name = str(common.relative_to(root))
    return is_inside(path, name)


def find_new_worktrees(changes: Sequence[StagedChange], upper: Path) -> list[str]:
    """Return the folders made by `git worktree add`. Raises OSError."""
    links = [c.path for c in changes if c.kind == "file" and not c.only_time and c.path.endswith("/.git")]
    return [path.removesuffix("/.git") for path in links if (upper / path).read_bytes()[:8] == b"gitdir: "]


def is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def is_escaping_link(upper: Path, root: Path, change: StagedChange) -> bool:
    """Return True for a link that leads out of the workspace or to governing files. Raises OSError."""
    if change.kind != "link":
        return False
    beside = (root / change.path).parent
    real, above = os.path.realpath(beside / (upper / change.path).readlink()), os.path.realpath(root)
    inside = Path(os.path.relpath(real, above)).parts
    return not {os.pardir, ".git", ORCHESTRATION_FOLDER}.isdisjoint(inside)


def is_on_awaited_path(place: Path, awaited: Collection[str]) -> bool:
    """Return True if a place is one of these absolute paths, or one of their parent folders."""
    return any(is_inside(path, os.fspath(place)) for path in awaited)


def find_silent_changes(changes: Sequence[StagedChange]) -> set[str]:
    """Return the changes whose loss needs no message: folders with content, another name for a file, times."""
    above = {str(place) for c in changes for place in PurePosixPath(c.path).parents}
    return {c.path for c in changes if c.same_content or c.only_time or (c.kind == "folder" and c.path in above)}


def literal_prefix(glob: str) -> str:
    parts = glob.split("/")
    fixed = next((n for n, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    return "/".join(parts[:fixed]) or "."


def nearest_existing(place: Path, root: Path) -> Path:
    """Return the nearest existing file or folder at or above a place."""
    while not place.exists() and place != root:
        place = place.parent
    return place
