"""Removal of a folder filled by a command, of any depth, path length and permissions.

A command can create folders that no path reaches, by entering them in turn. Each folder is therefore opened relative to
its parent and left by `..`: no recursion, and two open descriptors at any depth.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Level(Struct):
    """A folder on the way down. `inner` are the names of its remaining sub-folders."""

    name: str
    device: int
    inode: int
    inner: list[str]


def remove_tree(folder: Path) -> bool:
    """Remove a folder with its content; return whether the removal is complete. Never raises OSError.

    No link is followed. No other process may still move folders inside.
    """
    try:
        if not folder.is_symlink():
            folder.chmod(0o700)
        here = os.open(folder, FOLDER_FLAGS)
    except OSError:
        return not os.path.lexists(folder)
    empty_folder(here)
    with suppress(OSError):
        folder.rmdir()
    return not os.path.lexists(folder)


def empty_folder(here: int) -> None:
    """Empty the open folder and close it. Entries that cannot be removed stay."""
    levels = [clear_files("", here)]
    try:
        while levels:
            if levels[-1].inner:
                name = levels[-1].inner.pop()
                with suppress(OSError):
                    below = open_folder(name, here)
                    os.close(here)
                    here = below
                    levels.append(clear_files(name, here))
                continue
            done = levels.pop()
            if levels:
                above = os.open("..", FOLDER_FLAGS, dir_fd=here)
                os.close(here)
                here = above
                if folder_identity(here) != (levels[-1].device, levels[-1].inode):
                    return  # the folder was moved, and its new neighbours are not ours to remove
                with suppress(OSError):
                    os.rmdir(done.name, dir_fd=here)
    except OSError:
        return
    finally:
        os.close(here)


def clear_files(name: str, folder: int) -> Level:
    """Remove the files of an open folder named `name`; return its remaining sub-folders."""
    device, inode = folder_identity(folder)
    try:
        if os.fstat(folder).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(folder, stat.S_IRWXU)
        found = os.listdir(folder)
    except OSError:
        found = []
    return Level(name, device, inode, [item for item in found if not remove_file(item, folder)])


def open_folder(name: str, above: int) -> int:
    """Open a folder, changing its permissions if needed. Raises OSError."""
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=above)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=above)
        return os.open(name, FOLDER_FLAGS, dir_fd=above)


def folder_identity(folder: int) -> tuple[int, int]:
    status = os.fstat(folder)
    return status.st_dev, status.st_ino


def remove_file(name: str, folder: int) -> bool:
    """Remove a non-folder; return False for a folder."""
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        try:
            return not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
        except OSError:
            return True
    return True
