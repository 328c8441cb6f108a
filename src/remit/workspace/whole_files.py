"""One file, taken in or put down whole: never through a link, never without end."""

import errno
import os
import stat
from pathlib import Path

from remit.workspace.beneath import put_whole


def read_regular(path: Path, limit: int) -> bytes:
    """The bytes of a regular file. Raises OSError for anything else: a link, a folder, a FIFO, too large.

    A link is refused because its target may lie where an agent can write.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        handle = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(errno.ELOOP, "it is a symbolic link; put the file itself there", str(path)) from error
        raise
    state = os.fstat(handle)
    if not stat.S_ISREG(state.st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    with open(handle, "rb") as file:  # noqa: PTH123 - there is no Path for an open descriptor
        content = b"" if state.st_size > limit else file.read(limit + 1)
    if state.st_size > limit or len(content) > limit:
        raise OSError(errno.EFBIG, f"it is larger than {limit} bytes ({limit >> 20} MiB), which is the limit")
    return content


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Put `content` at `path` whole or not at all, durably. `mode` is for a new file, less the umask.

    For Remit's own folders. What lies in a workspace is written by `write_below`: an agent may put links there.
    """
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        put_whole(folder, path.name, content, mode)
    finally:
        os.close(folder)
