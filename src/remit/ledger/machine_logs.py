"""The logs that lie in one repository: one for each machine that wrote here, told apart by its key.

The machine that came first has its log in the log folder itself, where earlier versions of Remit put it. A machine
with another key (a container, `sudo`, another computer that got a copy, a lost state folder) has a folder of its own
below `machines/`. Neither ever writes into the other's log, and readers take the union.

Every hook call imports this module, so it imports only what is cheap.
"""

import os
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec import Struct, json

from remit.ledger.record_views import RecordLine
from remit.ledger.segments import DECODE_ERRORS, is_segment, list_segments

if TYPE_CHECKING:
    from pathlib import Path

MACHINES_FOLDER = "machines"
"""The folder of the logs of machines that came later."""

OWNER_FILE = "owner"
"""The file that names the log which lies in the log folder itself."""

MAX_NAME_BYTES = 256


class LocalLog(Struct, frozen=True):
    """One log of this repository. `place` leads to `folder` from the log folder: empty for the log in that itself.

    `name` is what its owner calls it, empty where that cannot be told.
    """

    place: str
    folder: "Path"
    name: str


class _NamedChain(Struct):
    log: str


class _LogNameView(Struct):
    chain: _NamedChain


_LOG_NAME_RECORD = json.Decoder(RecordLine[_LogNameView])


def find_own_folder(root: "Path", name: str) -> "Path":
    """Where the log of that name lies below the log folder `root`, or will lie. Writes nothing."""
    owner = read_owner(root)
    return root if owner in ("", name) else root / MACHINES_FOLDER / name.rpartition("/")[2]


def claim_folder(root: "Path", name: str) -> "Path":
    """`find_own_folder`, for who is about to append: of several that begin at once, one gets `root`. Raises OSError."""
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
    """The name of the log in `root` itself; empty where none has begun there."""
    return _read_owner_file(root) or _read_first_log_name(root)


def list_local_logs(root: "Path") -> list[LocalLog]:
    """Every log of this repository, that of the log folder itself first; not those where nothing stands yet."""
    owner = read_owner(root)
    found = [LocalLog("", root, owner)] if list_segments(root) else []
    for place in list_log_places(root)[1:]:
        folder = root / place
        repository = (_read_first_log_name(folder) or owner).rpartition("/")[0]
        found += [LocalLog(place, folder, f"{repository}/{folder.name}")] if list_segments(folder) else []
    return found


def list_local_names(root: "Path", own: str) -> frozenset[str]:
    """What the logs of this repository are called, and the one of the name `own`, which may have no record yet."""
    return frozenset((own, *(log.name for log in list_local_logs(root))))


def list_log_places(root: "Path") -> list[str]:
    """The folders that hold logs, from the log folder: its own first, which is empty."""
    try:
        machines = os.listdir(f"{root}/{MACHINES_FOLDER}")  # noqa: PTH208  at every query, and pathlib takes five times as long
    except OSError:
        return [""]
    return ["", *(f"{MACHINES_FOLDER}/{machine}" for machine in sorted(machines))]


def list_readable_places(root: "Path") -> list[str]:
    """Those of `list_log_places` whose log this user may read: `sudo` leaves logs that only root can."""
    return [place for place in list_log_places(root) if not place or is_readable(root / place)]


def is_readable(folder: "Path") -> bool:
    """Whether this user may read the segments of a log, all of them plain files."""
    try:
        paths = [f"{folder}/{name}" for name in os.listdir(folder) if is_segment(name)]  # noqa: PTH208
    except OSError:
        return False
    return all(os.path.isfile(path) and os.access(path, os.R_OK) for path in paths)  # noqa: PTH113


def _read_owner_file(root: "Path") -> str:
    """What the owner's file says; empty where there is none. A FIFO in its place is not waited for."""
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
    """The log that the first record which can be read says it belongs to; empty where no record stands there."""
    from remit.ledger.reader import read_lines  # asked once in a log's life, and where somebody only reads

    if not is_readable(folder):  # nor is a FIFO that somebody named like a segment waited for
        return ""
    for line in read_lines(folder):
        try:
            return _LOG_NAME_RECORD.decode(line.raw).metadata.body.chain.log
        except DECODE_ERRORS:
            continue
    return ""
