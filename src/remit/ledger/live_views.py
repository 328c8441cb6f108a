"""Live views: files that receive a copy of each appended line, for people and tools."""

import errno
import os
from stat import S_ISREG
from typing import TYPE_CHECKING

from remit.ledger.segments import write_all

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def append_to_views(views: "Sequence[Path]", blob: bytes) -> list[tuple[str, OSError]]:
    """Append lines to each view and return the failures, as path and error."""
    failed: list[tuple[str, OSError]] = []
    for view in views:
        try:
            _append_view(view, blob)
        except OSError as error:
            failed.append((str(view), error))
    return failed


def _append_view(view: "Path", blob: bytes) -> None:
    # Another user may own the view: O_NOFOLLOW refuses a link, O_NONBLOCK never waits for a pipe's reader.
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    folder = _open_folder(view)
    try:
        descriptor = os.open(view.name, flags, 0o644, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        status = os.fstat(descriptor)
        if not S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(view))
        if status.st_size and os.pread(descriptor, 1, status.st_size - 1) != b"\n":
            blob = b"\n" + blob
        write_all(descriptor, blob)
    finally:
        os.close(descriptor)


def _open_folder(view: "Path") -> int:
    """Open the view's folder: a real folder, or a link to a folder below the workspace root. Raises OSError."""
    at, flags = os.path.dirname(view), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC  # noqa: PTH120  at every append
    try:
        return os.open(at, flags | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ELOOP, errno.ENOTDIR):
            raise
    folder = os.open(at, flags)
    try:
        _check_below_root(folder, view.parent.parent)
    except OSError:
        os.close(folder)
        raise
    return folder


def _check_below_root(folder: int, root: "Path") -> None:
    """Raise OSError unless the open folder lies below `root`: a link could lead elsewhere."""
    wanted, up, found = root.stat(), ".", os.fstat(folder)
    while not os.path.samestat(found, wanted):
        up, last = f"{up}/..", found
        found = os.stat(up, dir_fd=folder)
        if os.path.samestat(found, last):
            raise OSError(
                errno.EXDEV, "its folder is a link out of the workspace; replace the link by a folder", str(root)
            )
