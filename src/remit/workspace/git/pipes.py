"""Pipes that are called like files that git reads: git opens one and waits for a writer without end.

A pipe cannot be in a commit, and what comes out of it is no setting. So where git takes long, each such pipe below its
folder is opened for writing and closed again: git finds it empty and goes on. Source: fifo(7) of man-pages 6.9, dir.c
and attr.c of git 2.39 to 2.51, read 2026-11.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from remit.workspace.place.workspace import resolve_common_folder, resolve_git_folder_name

GIT_READ_NAMES = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap"})
"""Files of a working tree that git reads by itself. Of its own folders it may read any: a ref, an object, a setting."""

PATIENCE_S = 1.0
"""How long git may take before it is looked for pipes; the same again between two looks."""

PAUSE_S = 0.01
"""How long git may take once pipes were found."""

MAX_ENTRIES = 500_000
"""Files that are passed on the way."""

KNOWN_PIPES: dict[str, tuple[str, ...]] = {}
"""The pipes that were found last, by the top folder: they stand in the way of the next git, too."""


class DeviceFound(TimeoutError):
    """A device has the name of a file that git reads: it may never come to the end of it."""


def first_wait_s(folder: str) -> float:
    """How long to wait for git in this folder before `release` is called."""
    return PAUSE_S if KNOWN_PIPES.get(find_worktree_top(folder)) else PATIENCE_S


def release_pipes(folder: str) -> float:
    """Let go a git in this folder that waits at a pipe; how long to wait before the next call. Raises DeviceFound."""
    top = find_worktree_top(folder)
    known = KNOWN_PIPES.get(top, ())
    if any([release_pipe(path) for path in known]):
        return PAUSE_S
    KNOWN_PIPES[top] = found = tuple(find_pipes(top))
    if not found:
        del KNOWN_PIPES[top]
        return PATIENCE_S
    for path in found:
        release_pipe(path)
    return PAUSE_S


def find_worktree_top(folder: str) -> str:
    """The folder of the working tree that this one is in; itself where it is in none."""
    start = Path(folder).absolute()
    return str(next((at for at in (start, *start.parents) if os.path.lexists(at / ".git")), start))


def find_pipes(top: str) -> Iterator[str]:
    """The pipes with such names, and all in the folders of git's; no other link is followed. Raises DeviceFound."""
    own = resolve_git_folder_name(top)
    common = resolve_common_folder(own) if own else None
    waiting = [(top, False), *((str(folder), True) for folder in {own, common} if folder)]
    passed = 0
    while waiting and passed < MAX_ENTRIES:
        folder, is_gits = waiting.pop()
        for entry in list_entries(folder):
            passed += 1
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, is_gits or entry.name == ".git"))
            elif is_gits or entry.name in GIT_READ_NAMES:
                path = os.path.realpath(entry.path) if is_gits else entry.path
                if is_pipe(path):
                    yield path


def list_entries(folder: str) -> "list[os.DirEntry[str]]":
    """What is in a folder; nothing where it cannot be read."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def is_pipe(path: str) -> bool:
    """Whether a pipe stands here. Raises DeviceFound for a device, which git may read without end."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise DeviceFound(f"{path!r} is a device, which git may read without end: remove it")
    return stat.S_ISFIFO(mode)


def release_pipe(path: str) -> bool:
    """Open and close the pipe, if somebody waits to read from it; whether that was so."""
    if not is_pipe(path):
        return False
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(descriptor)
    return True
