"""Runtime data of a workspace: which paths are data, and which databases a contained command shares with others.

Data is untracked, a plain file without the right to run, covered by patterns that a person trusts. Databases are what
programs change in place, with others holding it open: bound into the jail, since a moved file would be another one to
them. Other data is staged and moved, so that nothing but data gets into its folders.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec.structs import replace

from remit.core.decision import Target
from remit.core.runtime_data import (
    DATABASE_NAME,
    WILDCARD,
    DataPatterns,
    find_database_of,
    literal_folder,
)
from remit.gate.context import WorkspaceContext
from remit.workspace.git.repository import find_tracked
from remit.workspace.snapshots.data_store import is_sqlite

SKIPPED_FOLDERS = frozenset({".git", ".orchestration", "node_modules", ".venv"})
CLUSTER_FILE = "PG_VERSION"
"""File that marks the folder of a PostgreSQL server."""
EXECUTABLE = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH


def find_data(context: WorkspaceContext, paths: Iterable[str]) -> frozenset[str]:
    """Return the paths that are runtime data by their names. Raises OSError, GitError."""
    data = context.find_data_patterns()
    covered = frozenset(path for path in paths if data.covers(path)) if data else frozenset[str]()
    return covered - find_tracked(context.workspace, covered)


def mark_data(context: WorkspaceContext, targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """Mark the runtime data among a command's targets: any intent may change it. Raises OSError, GitError."""
    found = find_data(context, (str(t.path) for t in targets if t.path is not None))
    return tuple(replace(t, generated=True) if t.path is not None and str(t.path) in found else t for t in targets)


def list_databases(context: WorkspaceContext, data: DataPatterns) -> list[str]:
    """Return the existing databases and server folders that are data, without those that git tracks. Raises OSError,
    GitError.
    """
    root = context.workspace.root
    found = dict.fromkeys(path for pattern in data.patterns for path in walk_pattern(root, pattern, data))
    return [path for path in found if path not in find_tracked(context.workspace, found)]


def walk_pattern(root: Path, pattern: str, data: DataPatterns) -> Iterator[str]:
    """Yield the databases that a pattern covers."""
    if pattern.startswith("!"):
        return
    if not WILDCARD.search(pattern):
        if data.covers(pattern) and is_plain_data(root, pattern) and is_database(root / pattern, is_named=True):
            yield pattern
        return
    folder = literal_folder(pattern)
    depth = None if "**" in pattern else pattern[len(folder) :].count("/")
    is_named = pattern.rpartition("/")[2].strip("*") != ""
    for here, names, files in os.walk(root / folder):
        place = os.path.relpath(here, root)
        inside = "" if place == "." else f"{place}/"
        if CLUSTER_FILE in files and data.covers(f"{inside}{CLUSTER_FILE}") and is_no_link(root, place):
            names.clear()
            yield place
            continue
        for name in files:
            path = f"{inside}{name}"
            if data.covers(path) and is_plain_data(root, path) and is_database(root / path, is_named=is_named):
                yield path
        if depth is not None and inside[len(folder) :].count("/") >= depth:
            names.clear()
        names[:] = [name for name in names if name not in SKIPPED_FOLDERS]


def is_database(path: Path, *, is_named: bool) -> bool:
    """Return whether a file is a database that programs change in place. `is_named`: a pattern names such files, so
    that any of them may be one by its content.
    """
    if find_database_of(path.name):
        return False
    return DATABASE_NAME.fullmatch(path.name) is not None or (is_named and is_sqlite(path))


def is_plain_data(root: Path, path: str) -> bool:
    """Return whether a path is a regular file by one name, without the right to run, with no link on the way."""
    try:
        found = (root / path).lstat()
    except OSError:
        return False
    return (
        stat.S_ISREG(found.st_mode)
        and found.st_nlink == 1
        and not found.st_mode & EXECUTABLE
        and is_no_link(root, path)
    )


def is_no_link(root: Path, path: str) -> bool:
    return os.path.realpath(root / path) == os.path.join(os.path.realpath(root), path)  # noqa: PTH118
