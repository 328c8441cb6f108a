"""What a path says of a contained command's change to it."""

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath

from remit.workspace.place import FOLDER
from remit.workspace.sandbox.staged import Touched

CACHED = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})
"""What interpreters and checkers keep beside the sources."""

PLAIN_NAME = re.compile(r"\w[\w-]{0,99}", re.ASCII)
"""A call's id that may stand as the name of a folder."""


def is_cache(path: str) -> bool:
    """Whether a file is what interpreters and checkers keep beside the sources: made anew whenever it is missing."""
    return not CACHED.isdisjoint(PurePosixPath(path).parts)


def is_git(path: str, root: Path, common: Path | None) -> bool:
    """Whether a path lies in the repository's own git folder."""
    if common is None or not common.is_relative_to(root):
        return False
    name = str(common.relative_to(root))
    return is_below(path, name)


def new_trees(changes: Sequence[Touched], upper: Path) -> list[str]:
    """The folders that `git worktree add` made. Raises OSError."""
    links = [c.path for c in changes if c.kind == "file" and not c.times and c.path.endswith("/.git")]
    return [path.removesuffix("/.git") for path in links if (upper / path).read_bytes()[:8] == b"gitdir: "]


def is_below(path: str, folder: str) -> bool:
    """Whether a path is that folder, or lies in it."""
    return path == folder or path.startswith(f"{folder}/")


def leads_away(upper: Path, root: Path, change: Touched) -> bool:
    """Whether it is a link that leads out of the workspace, or to what governs there. Raises OSError."""
    if change.kind != "link":
        return False
    beside = (root / change.path).parent
    real, above = os.path.realpath(beside / (upper / change.path).readlink()), os.path.realpath(root)
    inside = Path(os.path.relpath(real, above)).parts
    return not {os.pardir, ".git", FOLDER}.isdisjoint(inside)


def lies_on_the_way(place: Path, awaited: Collection[str]) -> bool:
    """Whether a place is one of these absolute paths, or a folder on the way to one."""
    return any(is_below(path, os.fspath(place)) for path in awaited)


def silent(changes: Sequence[Touched]) -> set[str]:
    """The changes whose loss is worth no word: a folder for the sake of what is in it, another name for a file, another
    time.
    """
    above = {str(place) for c in changes for place in PurePosixPath(c.path).parents}
    return {c.path for c in changes if c.same or c.times or (c.kind == "folder" and c.path in above)}


def literal(glob: str) -> str:
    """The folder that a glob surely stays in."""
    parts = glob.split("/")
    fixed = next((n for n, part in enumerate(parts) if any(sign in part for sign in "*?[")), len(parts))
    return "/".join(parts[:fixed]) or "."


def existing(place: Path, root: Path) -> Path:
    """The nearest folder, or file, at or above a place that is there."""
    while not place.exists() and place != root:
        place = place.parent
    return place
