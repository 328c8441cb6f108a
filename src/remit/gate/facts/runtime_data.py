"""Runtime data of a workspace: which paths are data, which databases a contained command shares with others, and which
data nobody has named yet.

Data is untracked, a plain file without the right to run, covered by patterns that a person trusts. Databases are what
programs change in place, with others holding it open: bound into the jail, since a moved file would be another one to
them. Other data is staged and moved, so that nothing but data gets into its folders. Data without a pattern is found by
name and content, and in the settings of Django, Rails and Prisma, which name a database before it exists. Only texts
are read; a person decides.
"""

import os
import posixpath
import re
import shlex
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core import runtime_data
from remit.core.decision import Target
from remit.core.record import format_utc
from remit.gate.context import WorkspaceContext
from remit.gate.governing.settings import add_data
from remit.workspace.git.command import GitError
from remit.workspace.git.repository import find_tracked, list_tracked, prefix_in_repository
from remit.workspace.place.config import ConfigError, Trust, read_trust, write_trust
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import read_regular_file
from remit.workspace.snapshots.data_store import is_sqlite, read_start

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


def list_databases(context: WorkspaceContext, data: runtime_data.DataPatterns) -> list[str]:
    """Return the existing databases and server folders that are data, without those that git tracks. Raises OSError,
    GitError.
    """
    root = context.workspace.root
    found = dict.fromkeys(path for pattern in data.patterns for path in walk_pattern(root, pattern, data))
    return [path for path in found if path not in find_tracked(context.workspace, found)]


def walk_pattern(root: Path, pattern: str, data: runtime_data.DataPatterns) -> Iterator[str]:
    if pattern.startswith("!"):
        return
    if not runtime_data.WILDCARD.search(pattern):
        if data.covers(pattern) and is_plain_data(root, pattern) and is_database(root / pattern, is_named=True):
            yield pattern
        return
    folder = runtime_data.literal_folder(pattern)
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
    if runtime_data.find_database_of(path.name):
        return False
    return runtime_data.DATABASE_NAME.fullmatch(path.name) is not None or (is_named and is_sqlite(path))


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


UPLOAD_FOLDERS = ("storage", "media", "uploads", "var")
KEEPING_FILES = frozenset({".keep", ".gitkeep", ".gitignore"})
OTHER_FOLDERS = SKIPPED_FOLDERS | {"venv", "env", "target", "dist", "build", "vendor", "__pycache__", "site-packages"}
REDIS_DUMP, REDIS_MAGIC = "dump.rdb", b"REDIS"
SEARCHED_DEPTH = 3
SEARCHED_FILES = 20_000
SEARCHED_BYTES = 1 << 20

DJANGO_NAME = re.compile(
    r"""["']NAME["']\s*:\s*(?:str\()?(?:os\.path\.join\(\s*)?(?:BASE_DIR\s*[/,]\s*)?["']([^"'\n]+)["']"""
)
DJANGO_MEDIA = re.compile(
    r"""^MEDIA_ROOT\s*=\s*(?:str\()?(?:os\.path\.join\(\s*)?(?:BASE_DIR\s*[/,]\s*)?["']([^"'\n]+)["']""", re.MULTILINE
)
RAILS_NAME = re.compile(r"^\s*database:\s*([\w./-]+\.sqlite3?)\s*(?:#.*)?$", re.MULTILINE)
PRISMA_URL = re.compile(r"""(?:^\s*url\s*=|^\s*(?:export\s+)?DATABASE_URL\s*=)\s*["']?file:([^"'\s?]+)""", re.MULTILINE)


class DataProposal(Struct, frozen=True):
    """A pattern to propose, and what of it is there. `bytes` is None for what does not exist yet."""

    pattern: str
    bytes: int | None = None

    @property
    def text(self) -> str:
        about = "not there yet" if self.bytes is None else f"{runtime_data.format_bytes(self.bytes)}, untracked"
        return f"{self.pattern} ({about})" if not self.pattern.endswith("/**") else self.pattern.removesuffix("**")


def find_proposals(workspace: Workspace, named: tuple[str, ...] = ()) -> list[DataProposal]:
    """Return what looks like runtime data and is not `named`. What cannot be read proposes nothing."""
    root = workspace.root
    found = dict.fromkeys(islice(list_candidates(root), SEARCHED_FILES))
    known = runtime_data.DataPatterns(named)
    patterns: dict[str, DataProposal] = {}
    with suppress(GitError, OSError):
        tracked = find_tracked(workspace, [path for path in found if not path.endswith("/**")])
        for path in found:
            folder = runtime_data.literal_folder(path)
            if path in tracked or known.covers(path.replace("**", "zz")) or runtime_data.explain_refused_pattern(path):
                continue
            if path.endswith("/**"):
                if not has_tracked_work(workspace, folder.rstrip("/")):
                    patterns[path] = DataProposal(path, 0 if (root / folder).is_dir() else None)
            elif not any(path.startswith(f"{each.removesuffix('**')}") for each in patterns if each.endswith("/**")):
                size = (root / path).stat().st_size if is_plain_data(root, path) else None
                patterns[path] = DataProposal(path, size)
    return list(patterns.values())


def format_patterns(patterns: Iterable[str]) -> str:
    """Return patterns as words of a shell."""
    return " ".join(shlex.quote(pattern) for pattern in patterns)


def name_data(context: WorkspaceContext, patterns: Iterable[str]) -> tuple[str, ...]:
    """Add patterns to `remit.toml` and trust the list, after a person's yes. Raises ConfigError, OSError, GitError."""
    home, repository, rules = context.environment.home, context.recorder.repository, context.rules
    if rules.config_error:
        raise ConfigError(rules.config_error)
    known = read_trust(home, repository)
    trusted = known.digests if known else frozenset[str]()
    if not {item.digest for item in rules.config.containment.data_items} <= trusted:
        # What came with the repository was never said yes to: `remit trust` shows the whole list.
        raise ConfigError("the patterns that are named already are not trusted: see `remit trust` first")
    add_data(context.workspace, patterns)
    named = context.rules.config.containment
    others = tuple(item for item in known.commands if item.kind != "data") if known else ()
    at = format_utc(datetime.fromtimestamp(context.environment.clock.now(), UTC), "seconds")
    write_trust(home, Trust(repository, str(context.workspace.root), at, (*others, *named.data_items)))
    return named.data


def has_tracked_work(workspace: Workspace, folder: str) -> bool:
    if workspace.common_dir is None:
        return False
    listed = list_tracked(workspace, [prefix_in_repository(workspace) + folder]) - {""}
    return any(path.rpartition("/")[2] not in KEEPING_FILES for path in listed)


def list_candidates(root: Path) -> Iterator[str]:
    """Yield patterns, folders first: what lies below one needs no pattern of its own."""
    yield from (f"{name}/**" for name in UPLOAD_FOLDERS if (root / name).is_dir() and not (root / name).is_symlink())
    settings = [*find_files(root)]
    for path in settings:
        if path.rpartition("/")[2] == CLUSTER_FILE:
            yield f"{posixpath.dirname(path)}/**"
    yield from (pattern for path in settings for pattern in read_settings(root, path))
    for path in settings:
        name = path.rpartition("/")[2]
        if looks_like_data(root / path, name):
            yield path


def looks_like_data(path: Path, name: str) -> bool:
    """Return whether a file is a database by its name and content."""
    if runtime_data.find_database_of(name):
        return False
    if name == REDIS_DUMP:
        return read_start(path, len(REDIS_MAGIC)) == REDIS_MAGIC
    if runtime_data.DATABASE_NAME.fullmatch(name) is None:
        return False
    return is_sqlite(path) or name.lower().endswith((".sqlite", ".sqlite3", ".duckdb")) or name == "data.mdb"


def find_files(root: Path) -> Iterator[str]:
    for here, names, files in os.walk(root):
        inside = "" if here == str(root) else f"{os.path.relpath(here, root)}/"
        if inside.count("/") >= SEARCHED_DEPTH:
            names.clear()
        names[:] = sorted(name for name in names if name not in OTHER_FOLDERS and not name.startswith("."))
        yield from (f"{inside}{name}" for name in sorted(files))


def read_settings(root: Path, path: str) -> Iterator[str]:
    """Yield what a settings file names, relative to the workspace."""
    folder, _, name = path.rpartition("/")
    if name == "manage.py":
        for settings in sorted((root / folder).glob("*/settings*.py")) + sorted(
            (root / folder).glob("*/settings/*.py")
        ):
            text = read_text(settings)
            if "sqlite3" in text:
                yield from (place for found in DJANGO_NAME.findall(text) if (place := place_below(folder, found)))
            yield from (f"{place}/**" for found in DJANGO_MEDIA.findall(text) if (place := place_below(folder, found)))
    elif path.endswith("config/database.yml"):
        top = posixpath.dirname(folder)
        yield from (place for found in RAILS_NAME.findall(read_text(root / path)) if (place := place_below(top, found)))
    elif name == "schema.prisma":
        texts = (read_text(root / path), *(read_text(root / place / ".env") for place in {"", folder, folder + "/.."}))
        for text in texts:
            yield from (place for found in PRISMA_URL.findall(text) if (place := place_below(folder, found)))


def read_text(path: Path) -> str:
    try:
        return read_regular_file(path, SEARCHED_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def place_below(folder: str, name: str) -> str:
    path = posixpath.normpath(posixpath.join(folder, name))
    is_inside = not path.startswith(("..", "/")) and path != "." and ":" not in path
    return path if is_inside and not re.search(r"[*?\[{!\s]", path) else ""
