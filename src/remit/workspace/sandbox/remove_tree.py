"""Removing a folder that a command filled: however deep, however long its paths, whatever its permissions.

A command can make folders that no path reaches: it enters one after the other. So each folder is opened relative to
the one above, and left by `..`: no recursion, and two open descriptors at any depth.
"""

import os
import stat
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Level(Struct):
    """A folder on the way down. `inner` are the names of the folders in it that are still there."""

    name: str
    device: int
    inode: int
    inner: list[str]


def remove_tree(folder: Path) -> bool:
    """Remove a folder with all that is in it, and return whether nothing is left. Never raises OSError.

    No link is followed. No other process may still move folders in it.
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
    """Remove all that is in the open folder, and close it. What cannot be removed stays, and the rest goes on."""
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
                    return  # somebody moved it: what lies around here is not ours to remove
                with suppress(OSError):
                    os.rmdir(done.name, dir_fd=here)
    except OSError:
        return
    finally:
        os.close(here)


def clear_files(name: str, folder: int) -> Level:
    """Remove the files of an open folder, which is called `name`, and return the folders that are left in it."""
    device, inode = folder_identity(folder)
    try:
        if os.fstat(folder).st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.fchmod(folder, stat.S_IRWXU)
        found = os.listdir(folder)
    except OSError:
        found = []
    return Level(name, device, inode, [each for each in found if not remove_file(each, folder)])


def open_folder(name: str, above: int) -> int:
    """Open a folder, also where its permissions let nobody list it. Raises OSError."""
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=above)
    except PermissionError:
        os.chmod(name, 0o700, dir_fd=above)
        return os.open(name, FOLDER_FLAGS, dir_fd=above)


def folder_identity(folder: int) -> tuple[int, int]:
    """Tell an open folder from any other."""
    found = os.fstat(folder)
    return found.st_dev, found.st_ino


def remove_file(name: str, folder: int) -> bool:
    """Remove what is no folder; return False where a folder stands under that name."""
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
