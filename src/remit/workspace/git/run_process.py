"""A git process, started and waited for; FIFOs that would block git are released meanwhile.

git opens a FIFO with the name of a file that git reads, and waits for a writer forever. A FIFO cannot be committed, and
no setting comes from a FIFO. If git takes long, each such FIFO below its folder is opened for writing and closed again:
git reads an empty file and continues. Source: fifo(7) of man-pages 6.9, dir.c and attr.c of git 2.39 to 2.51, read
2026-11.
"""

import os
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from remit.workspace.place.workspace import resolve_common_folder, resolve_git_folder_name

GIT_READ_NAMES = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap"})
"""Files of a working tree that git reads on its own. In git's own folder, git may read any file."""

PATIENCE_S = 1.0
"""Time for git before the first search for FIFOs, and between two searches."""

PAUSE_S = 0.01
"""Wait after FIFOs were found."""

MAX_ENTRIES = 500_000
"""Bound of directory entries per search."""

KNOWN_PIPES: dict[str, tuple[str, ...]] = {}
"""FIFOs of the last search by worktree: the next git meets them, too."""


class DeviceFound(TimeoutError):
    """A device has the name of a file that git reads, and may never end."""


def run_git_process(command: Sequence[str], question: bytes, limit_s: float, folder: str) -> tuple[int, bytes, bytes]:
    """Return exit code, output and errors of a command. Raises OSError; TimeoutError after `limit_s`."""
    import subprocess  # not needed by a cold blame whose commands were all started early

    until = time.monotonic() + limit_s
    pipe, unsent, wait_s = subprocess.PIPE, question or None, min(first_wait_s(folder), limit_s)
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            while True:
                try:
                    out, errors = process.communicate(unsent, wait_s)
                except subprocess.TimeoutExpired as error:
                    if time.monotonic() >= until:
                        shown = " ".join(command)[:300]
                        raise TimeoutError(f"`{shown}` took longer than {limit_s:g} seconds") from error
                    # Without a FIFO, git is only slow: each search takes long in a large tree, so the waits grow.
                    next_wait_s = release_pipes(folder)
                    wait_s = next_wait_s if next_wait_s < PATIENCE_S else max(next_wait_s, 2 * wait_s)
                    unsent, wait_s = None, min(wait_s, max(until - time.monotonic(), 0.001))
                else:
                    return process.returncode, out, errors
        except BaseException:
            process.kill()
            raise


def first_wait_s(folder: str) -> float:
    """Return the wait in seconds before the first call of `release_pipes`."""
    return PAUSE_S if KNOWN_PIPES.get(find_worktree_top(folder)) else PATIENCE_S


def release_pipes(folder: str) -> float:
    """Unblock a git that waits at a FIFO; return the wait in seconds before the next call. Raises DeviceFound."""
    top = find_worktree_top(folder)
    known = KNOWN_PIPES.get(top, ())
    if any([release_pipe(path) for path in known]):  # a list: each FIFO is to be opened
        return PAUSE_S
    pipes = tuple(find_pipes(top))
    if not pipes:
        KNOWN_PIPES.pop(top, None)
        return PATIENCE_S
    KNOWN_PIPES[top] = pipes
    for path in pipes:
        release_pipe(path)
    return PAUSE_S


def find_worktree_top(folder: str) -> str:
    """Return the top of the working tree around the folder; the folder if none."""
    start = Path(folder).absolute()
    return str(next((at for at in (start, *start.parents) if os.path.lexists(at / ".git")), start))


def find_pipes(top: str) -> Iterator[str]:
    """Yield FIFOs with such names, and each FIFO in git's folders; no other link is followed. Raises DeviceFound."""
    git_folder = resolve_git_folder_name(top)
    common = resolve_common_folder(git_folder) if git_folder else None
    waiting = [(top, False), *((folder, True) for folder in {git_folder, common} if folder)]
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
    """Return the entries of a folder; empty if unreadable."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def is_pipe(path: str) -> bool:
    """Return whether the path is a FIFO. Raises DeviceFound for a device, which git may read without end."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise DeviceFound(f"{path!r} is a device, which git may read without end: remove it")
    return stat.S_ISFIFO(mode)


def release_pipe(path: str) -> bool:
    """Open and close a FIFO if a reader waits; return whether a reader did."""
    if not is_pipe(path):
        return False
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    os.close(descriptor)
    return True
