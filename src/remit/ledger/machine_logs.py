"""The logs in one repository: one per machine, told apart by the machine's key.

The first machine's log lies in the log folder itself, where early versions of Remit put it. A machine with another key
(a container, `sudo`, a computer that received a copy, a lost state folder) has its own folder below `machines/`. No
machine writes into another's log, and readers take the union.

Every hook call imports this module, so its own imports stay cheap.
"""

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct

from remit.ledger.record_views import decode_header
from remit.ledger.segments import is_segment, list_segments

if TYPE_CHECKING:
    from pathlib import Path

MACHINES_FOLDER = "machines"
"""Subfolder for the logs of all machines but the first."""

OWNER_FILE = "owner"
"""File with the name of the log that lies in the log folder itself."""

MAX_NAME_BYTES = 256


class LocalLog(Struct, frozen=True):
    """A log of this repository. `place` is the relative path from the log folder, empty for the log folder itself.

    `name` is the log's name, empty if unknown.
    """

    place: str
    folder: "Path"
    name: str


def find_own_folder(root: "Path", name: str) -> "Path":
    """Return the folder of the named log below the log folder `root`. Writes nothing."""
    owner = read_owner(root)
    return root if owner in ("", name) else root / MACHINES_FOLDER / name.rpartition("/")[2]


def claim_folder(root: "Path", name: str) -> "Path":
    """Return the folder of the named log before an append, and settle who owns `root`. Raises OSError.

    Of machines that begin simultaneously the first gets `root`: link(2) fails if the owner file exists.
    """
    if _read_owner_file(root) == "":
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = read_owner(root) or name
        fresh = root / f"{OWNER_FILE}.{os.getpid()}.{os.urandom(4).hex()}"
        fresh.write_text(f"{owner}\n", "utf-8")
        try:
            with suppress(FileExistsError):
                os.link(fresh, root / OWNER_FILE)
        finally:
            fresh.unlink()
    return find_own_folder(root, name)


def read_owner(root: "Path") -> str:
    """Return the name of the log in `root` itself; empty if no log has begun there."""
    return _read_owner_file(root) or _read_first_log_name(root)


def list_local_logs(root: "Path") -> list[LocalLog]:
    """Return all logs with at least one segment; the log of the log folder itself comes first."""
    owner = read_owner(root)
    found = [LocalLog("", root, owner)] if list_segments(root) else []
    for place in list_log_places(root)[1:]:
        folder = root / place
        repository = (_read_first_log_name(folder) or owner).rpartition("/")[0]
        found += [LocalLog(place, folder, f"{repository}/{folder.name}")] if list_segments(folder) else []
    return found


def list_local_names(root: "Path", own: str) -> frozenset[str]:
    """Return the names of all logs of this repository, and `own`, whose log may still be empty."""
    return frozenset((own, *(log.name for log in list_local_logs(root))))


def list_log_places(root: "Path") -> list[str]:
    """Return the relative paths of the log folders; the first is empty, for `root` itself."""
    try:
        machines = os.listdir(f"{root}/{MACHINES_FOLDER}")  # noqa: PTH208  at every query, and pathlib takes five times as long
    except OSError:
        return [""]
    return ["", *(f"{MACHINES_FOLDER}/{machine}" for machine in sorted(machines))]


def list_readable_places(root: "Path") -> list[str]:
    """Return the log places readable for this user: `sudo` leaves logs that only root can read."""
    return [place for place in list_log_places(root) if not place or is_readable(root / place)]


def is_readable(folder: "Path") -> bool:
    """Return True if all segments of a log are regular files that this user may read."""
    try:
        paths = [f"{folder}/{name}" for name in os.listdir(folder) if is_segment(name)]  # noqa: PTH208
    except OSError:
        return False
    return all(os.path.isfile(path) and os.access(path, os.R_OK) for path in paths)  # noqa: PTH113


def _read_owner_file(root: "Path") -> str:
    """Return the content of the owner file; empty if there is none. O_NONBLOCK: a FIFO in its place must not block."""
    try:
        descriptor = os.open(f"{root}/{OWNER_FILE}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, MAX_NAME_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _read_first_log_name(folder: "Path") -> str:
    """Return the log name in the first readable record; empty if the folder has no record."""
    from remit.ledger.reader import read_lines  # a log with an owner file never gets here

    if not is_readable(folder):  # opening a FIFO with a segment's name would block
        return ""
    headers = (decode_header(line.raw) for line in read_lines(folder))
    return next((header.chain.log for header in headers if header is not None), "")
