"""Reading and writing agents' settings files: links followed, permissions kept, whole or not at all."""

import errno
import os
import stat
from pathlib import Path

from remit.workspace.beneath import remove_below, write_below
from remit.workspace.place import FOLDER, is_folder, is_there
from remit.workspace.whole_files import read_regular

LIMIT = 64 * 1024 * 1024
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
        return read_regular(target(path), LIMIT)
    except FileNotFoundError:
        return None


def write_settings(path: Path, before: bytes | None, after: bytes | None) -> None:
    """Replace the content that was read as `before`; None is no file. Folders on the way are made.

    A new file is its owner's alone. A link is followed, but not out of the repository that holds it: what a repository
    brings does not say where else on this machine is written. Raises SettingsChanged, OSError.
    """
    if read_settings(path) != before:
        raise SettingsChanged(path)
    real = target(path)
    repository = next((f for f in path.parents if is_there(f / ".git") or is_folder(f / FOLDER)), None)
    if repository is not None and not real.is_relative_to(repository.resolve()):
        raise OSError(errno.EXDEV, f"its link leads out of {str(repository)!r}; put the file itself there", str(path))
    if after is None:
        remove_below(Path("/"), real, links=False)
        return
    mode = 0o600 if before is None else stat.S_IMODE(real.stat().st_mode)
    if before is not None and not os.access(real, os.W_OK):
        raise PermissionError(errno.EACCES, "it is not writable", str(real))
    write_below(Path("/"), real, after, 0o600, permissions=mode, links=False)


def target(path: Path) -> Path:
    """The file itself, behind links. Raises OSError for links that go in a circle."""
    try:
        return path.resolve()
    except RuntimeError as error:
        raise OSError(errno.ELOOP, "its links go in a circle", str(path)) from error
