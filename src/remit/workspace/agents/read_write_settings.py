"""Agents' settings files and permission rules: links followed, permissions kept, atomic writes."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path

from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, is_folder, path_exists
from remit.workspace.safe_files import read_regular_file, remove_below, write_below

MAX_SETTINGS_BYTES = 64 * 1024 * 1024
"""Limit of a settings file. Claude Code keeps histories in its file, so the limit is large."""

MAX_RULE_FILE_BYTES = 4 * 1024 * 1024
MAX_RULE_FILES = 64
MAX_CACHED_FILES = 128
UNREADABLE_RULES = b"\xff"  # content in place of an unreadable file: rules of no known form, treated as unknown


class SettingsChanged(RuntimeError):
    """The file changed between reading and writing."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{str(path)!r} changed while we looked at it; nothing was written there: run it again")
        self.path = path


def read_settings(path: Path) -> bytes | None:
    """Return the bytes of a file, links followed: people keep dotfiles elsewhere. None if absent. Raises OSError."""
    try:
        return read_regular_file(resolve_settings_path(path), MAX_SETTINGS_BYTES)
    except FileNotFoundError:
        return None


def write_settings(path: Path, before: bytes | None, after: bytes | None) -> None:
    """Replace the content `before`, None for no file, by `after`. Missing folders are created.

    A new file is readable by its owner only. A link is followed, but not out of the repository that holds the link: a
    repository must not choose where on the machine Remit writes. Raises SettingsChanged, OSError.
    """
    if read_settings(path) != before:
        raise SettingsChanged(path)
    real = resolve_settings_path(path)
    repository = next((f for f in path.parents if path_exists(f / ".git") or is_folder(f / ORCHESTRATION_FOLDER)), None)
    if repository is not None and not real.is_relative_to(repository.resolve()):
        raise OSError(errno.EXDEV, f"its link leads out of {str(repository)!r}; put the file itself there", str(path))
    if after is None:
        remove_below(Path("/"), real, follow_links=False)
        return
    mode = 0o600 if before is None else stat.S_IMODE(real.stat().st_mode)
    if before is not None and not os.access(real, os.W_OK):
        raise PermissionError(errno.EACCES, "it is not writable", str(real))
    write_below(Path("/"), real, after, 0o600, permissions=mode, follow_links=False)


def resolve_settings_path(path: Path) -> Path:
    try:
        return path.resolve()
    except RuntimeError as error:
        raise OSError(errno.ELOOP, "its links go in a circle", str(path)) from error


def read_rule_files(patterns: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each existing file, by name. A `*` in the last name matches files of a folder."""
    for pattern in patterns:
        folder, _, last = pattern.rpartition("/")
        names = [last]
        if "*" in last:
            try:
                names = sorted(name for name in os.listdir(folder) if fnmatchcase(name, last))  # noqa: PTH208
            except OSError:
                names = []
        for path in (f"{folder}/{name}" for name in names[:MAX_RULE_FILES]):
            content = read_cached_rules(path)
            if content is not None:
                yield path, content


def read_cached_rules(path: str) -> bytes | None:
    """Return the content of a file, read again only after a change; None if absent."""
    try:
        status = os.stat(path)  # noqa: PTH116  asked for each contained command
    except OSError as error:
        return None if isinstance(error, FileNotFoundError | NotADirectoryError) else UNREADABLE_RULES
    return read_rules(path, status.st_size, (status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns))


@lru_cache(MAX_CACHED_FILES)
def read_rules(path: str, size: int, _state: tuple[int, ...]) -> bytes | None:
    try:
        return read_settings(Path(path)) if size <= MAX_RULE_FILE_BYTES else UNREADABLE_RULES
    except OSError:
        return UNREADABLE_RULES
