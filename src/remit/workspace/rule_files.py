"""The files that hold a person's own permission rules for an agent, read anew only when one of them changed."""

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from remit.workspace.settings_file import read_settings

MAX_BYTES = 4 * 1024 * 1024
MAX_FILES = 64
MAX_CACHED = 128

UNREADABLE = b"\xff"
"""In place of the content of a file that is there and cannot be read: rules of no form, which count as unknown."""

CACHED_FILES: OrderedDict[str, tuple[tuple[int, ...], bytes]] = OrderedDict()
"""What was read last, with the state that the file had then. A cache: it may be emptied at any time."""


def read_rule_files(patterns: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Yield path and content of each file that is there. A last name with `*` stands for each such file of a folder."""
    for pattern in patterns:
        for path in named_files(pattern):
            content = read_cached(path)
            if content is not None:
                yield path, content


def named_files(pattern: str) -> list[str]:
    """Return the files of a pattern, by name."""
    folder, _, last = pattern.rpartition("/")
    if "*" not in last:
        return [pattern]
    try:
        names = sorted(name for name in os.listdir(folder) if fnmatchcase(name, last))  # noqa: PTH208
    except OSError:
        return []
    return [f"{folder}/{name}" for name in names[:MAX_FILES]]


def read_cached(path: str) -> bytes | None:
    """Return the content of a file, None where there is none."""
    try:
        status = os.stat(path)  # noqa: PTH116  asked for each contained command
    except OSError as error:
        return None if isinstance(error, FileNotFoundError | NotADirectoryError) else UNREADABLE
    state = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    known = CACHED_FILES.get(path)
    if known is not None and known[0] == state:
        return known[1]
    try:
        content = read_settings(Path(path)) if status.st_size <= MAX_BYTES else UNREADABLE
    except OSError:
        content = UNREADABLE
    if content is None:
        return None
    while len(CACHED_FILES) >= MAX_CACHED:
        CACHED_FILES.popitem(last=False)
    CACHED_FILES[path] = (state, content)
    return content
