"""What a path says of a contained command's change to it."""

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

from remit.workspace.place.workspace import ORCHESTRATION_FOLDER
from remit.workspace.sandbox.staged_changes import StagedChange

CACHE_FOLDERS = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
"""What interpreters and checkers keep beside the sources."""

PLAIN_CALL_ID = re.compile(r"\w[\w-]{0,99}", re.ASCII)
"""A call's id that may stand as the name of a folder."""


def is_cache_path(path: str) -> bool:
    """Whether a file is what interpreters and checkers keep beside the sources: made anew whenever it is missing."""
    return not CACHE_FOLDERS.isdisjoint(PurePosixPath(path).parts)


def is_git_path(path: str, root: Path, common: Path | None) -> bool:
    """Whether a path lies in the repository's own git folder."""
    if common is None or not common.is_relative_to(root):
        return False
    name = str(common.relative_to(root))
    return is_inside(path, name)


def find_new_worktrees(changes: Sequence[StagedChange], upper: Path) -> list[str]:
    """The folders that `git worktree add` made. Raises OSError."""
    links = [c.path for c in changes if c.kind == "file" and not c.only_time and c.path.endswith("/.git")]
    return [path.removesuffix("/.git") for path in links if (upper / path).read_bytes()[:8] == b"gitdir: "]


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is that folder, or lies in it."""
    return path == folder or path.startswith(f"{folder}/")


def is_escaping_link(upper: Path, root: Path, change: StagedChange) -> bool:
    """Whether it is a link that leads out of the workspace, or to what governs there. Raises OSError."""
    if change.kind != "link":
        return False
    beside = (root / change.path).parent
    real, above = os.path.realpath(beside / (upper / change.path).readlink()), os.path.realpath(root)
    inside = Path(os.path.relpath(real, above)).parts
    return not {os.pardir, ".git", ORCHESTRATION_FOLDER}.isdisjoint(inside)


def is_on_awaited_path(place: Path, awaited: Collection[str]) -> bool:
    """Whether a place is one of these absolute paths, or a folder on the way to one."""
    return any(is_inside(path, os.fspath(place)) for path in awaited)


def find_silent_changes(changes: Sequence[StagedChange]) -> set[str]:
    """The changes whose loss is worth no word: a folder for the sake of what is in it, another name for a file, another
    time.
    """
    above = {str(place) for c in changes for place in PurePosixPath(c.path).parents}
    return {c.path for c in changes if c.same_content or c.only_time or (c.kind == "folder" and c.path in above)}


def literal_prefix(glob: str) -> str:
    """The folder that a glob surely stays in."""
    parts = glob.split("/")
    fixed = next((n for n, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    return "/".join(parts[:fixed]) or "."


def nearest_existing(place: Path, root: Path) -> Path:
    """The nearest folder, or file, at or above a place that is there."""
    while not place.exists() and place != root:
        place = place.parent
    return place
