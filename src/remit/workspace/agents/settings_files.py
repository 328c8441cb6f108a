"""Reading and writing agents' settings files: links followed, permissions kept, whole or not at all.

The files that hold a person's own permission rules for an agent, read anew only when one of them changed.
"""

import errno
import os
import stat
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from remit.workspace.files.atomic import read_regular_file
from remit.workspace.files.safe_paths import remove_below, write_below
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, is_folder, path_exists

MAX_SETTINGS_BYTES = 64 * 1024 * 1024
"""Bytes of a settings file. Claude Code keeps histories in one, so they can be large."""


class SettingsChanged(RuntimeError):
    """Somebody wrote the file between reading and writing it."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{str(path)!r} changed while we looked at it; nothing was written there: run it again")
        self.path = path


def read_settings(path: Path) -> bytes | None:
    """The bytes of the file; None where there is none. A link is followed: people keep their dotfiles elsewhere.

    Raises OSError, also where it is no regular file or larger than 64 MiB.
    """
    try:
        return read_regular_file(resolve_settings_path(path), MAX_SETTINGS_BYTES)
    except FileNotFoundError:
        return None


def write_settings(path: Path, before: bytes | None, after: bytes | None) -> None:
    """Replace the content that was read as `before`; None is no file. Folders on the way are made.

    A new file is its owner's alone. A link is followed, but not out of the repository that holds it: what a repository
    brings does not say where else on this machine is written. Raises SettingsChanged, OSError.
    """
    if read_settings(path) != before:
        raise SettingsChanged(path)
    real = resolve_settings_path(path)
    repository = next((f for f in path.parents if path_exists(f / ".git") or is_folder(f / ORCHESTRATION_FOLDER)), None)
    if repository is not None and not real.is_relative_to(repository.resolve()):
        raise OSError(errno.EXDEV, f"its link leads out of {str(repository)!r}; put the file itself there", str(path))
    if after is None:
        remove_below(Path("/"), real, links=False)
        return
    mode = 0o600 if before is None else stat.S_IMODE(real.stat().st_mode)
    if before is not None and not os.access(real, os.W_OK):
        raise PermissionError(errno.EACCES, "it is not writable", str(real))
    write_below(Path("/"), real, after, 0o600, permissions=mode, links=False)


def resolve_settings_path(path: Path) -> Path:
    """The file itself, behind links. Raises OSError for links that go in a circle."""
    try:
        return path.resolve()
    except RuntimeError as error:
        raise OSError(errno.ELOOP, "its links go in a circle", str(path)) from error


MAX_RULE_FILE_BYTES = 4 * 1024 * 1024
MAX_RULE_FILES = 64
MAX_CACHED_FILES = 128

UNREADABLE_RULES = b"\xff"
"""In place of the content of a file that is there and cannot be read: rules of no form, which count as unknown."""

CACHED_FILES: OrderedDict[str, tuple[tuple[int, ...], bytes]] = OrderedDict()
"""What was read last, with the state that the file had then. A cache: it may be emptied at any time."""


def read_rule_files(patterns: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each file that is there. A last name with `*` stands for each such file of a folder."""
    for pattern in patterns:
        for path in expand_pattern(pattern):
            content = read_cached_rules(path)
            if content is not None:
                yield path, content


def expand_pattern(pattern: str) -> list[str]:
    """Return the files of a pattern, by name."""
    folder, _, last = pattern.rpartition("/")
    if "*" not in last:
        return [pattern]
    try:
        names = sorted(name for name in os.listdir(folder) if fnmatchcase(name, last))  # noqa: PTH208
    except OSError:
        return []
    return [f"{folder}/{name}" for name in names[:MAX_RULE_FILES]]


def read_cached_rules(path: str) -> bytes | None:
    """Return the content of a file, None where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116  asked for each contained command
    except OSError as error:
        return None if isinstance(error, FileNotFoundError | NotADirectoryError) else UNREADABLE_RULES
    state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    known = CACHED_FILES.get(path)
    if known is not None and known[0] == state:
        return known[1]
    try:
        content = read_settings(Path(path)) if status.st_size <= MAX_RULE_FILE_BYTES else UNREADABLE_RULES
    except OSError:
        content = UNREADABLE_RULES
    if content is None:
        return None
    while len(CACHED_FILES) >= MAX_CACHED_FILES:
        CACHED_FILES.popitem(last=False)
    CACHED_FILES[path] = (state, content)
    return content
