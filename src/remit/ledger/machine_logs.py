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

from remit.ledger.bodies import Line
from remit.ledger.segments import UNREADABLE, is_segment, segments

if TYPE_CHECKING:
    from pathlib import Path

MACHINES = "machines"
"""The folder of the logs of machines that came later."""

OWNER = "owner"
"""The file that names the log which lies in the log folder itself."""

NAME_BYTES = 256


class LocalLog(Struct, frozen=True):
    """One log of this repository. `place` leads to `folder` from the log folder: empty for the log in that itself.

    `name` is what its owner calls it, empty where that cannot be told.
    """

    place: str
    folder: "Path"
    name: str


class _Chain(Struct):
    log: str


class _Body(Struct):
    chain: _Chain


_LINE = json.Decoder(Line[_Body])


def own_folder(root: "Path", name: str) -> "Path":
    """Where the log of that name lies below the log folder `root`, or will lie. Writes nothing."""
    owner = read_owner(root)
    return root if owner in ("", name) else root / MACHINES / name.rpartition("/")[2]


def claim_folder(root: "Path", name: str) -> "Path":
    """`own_folder`, for who is about to append: of several that begin at once, one gets `root`. Raises OSError."""
    if _named_owner(root) == "":
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        owner = read_owner(root) or name
        fresh = root / f"{OWNER}.{os.getpid()}.{os.urandom(4).hex()}"
        fresh.write_text(f"{owner}\n", "utf-8")
        try:
            with suppress(FileExistsError):
                os.link(fresh, root / OWNER)
        finally:
            fresh.unlink()
    return own_folder(root, name)


def read_owner(root: "Path") -> str:
    """The name of the log in `root` itself; empty where none has begun there."""
    return _named_owner(root) or _first_name(root)


def local_logs(root: "Path") -> list[LocalLog]:
    """Every log of this repository, that of the log folder itself first; not those where nothing stands yet."""
    owner = read_owner(root)
    found = [LocalLog("", root, owner)] if segments(root) else []
    for place in log_places(root)[1:]:
        folder = root / place
        repository = (_first_name(folder) or owner).rpartition("/")[0]
        found += [LocalLog(place, folder, f"{repository}/{folder.name}")] if segments(folder) else []
    return found


def local_names(root: "Path", own: str) -> frozenset[str]:
    """What the logs of this repository are called, and the one of the name `own`, which may have no record yet."""
    return frozenset((own, *(log.name for log in local_logs(root))))


def log_places(root: "Path") -> list[str]:
    """The folders that hold logs, from the log folder: its own first, which is empty."""
    try:
        machines = os.listdir(f"{root}/{MACHINES}")  # noqa: PTH208  at every query, and pathlib takes five times as long
    except OSError:
        return [""]
    return ["", *(f"{MACHINES}/{machine}" for machine in sorted(machines))]


def readable_places(root: "Path") -> list[str]:
    """Those of `log_places` whose log this user may read: `sudo` leaves logs that only root can."""
    return [place for place in log_places(root) if not place or is_readable(root / place)]


def is_readable(folder: "Path") -> bool:
    """Whether this user may read the segments of a log, all of them plain files."""
    try:
        paths = [f"{folder}/{name}" for name in os.listdir(folder) if is_segment(name)]  # noqa: PTH208
    except OSError:
        return False
    return all(os.path.isfile(path) and os.access(path, os.R_OK) for path in paths)  # noqa: PTH113


def _named_owner(root: "Path") -> str:
    """What the owner's file says; empty where there is none. A FIFO in its place is not waited for."""
    try:
        descriptor = os.open(f"{root}/{OWNER}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(descriptor, NAME_BYTES).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _first_name(folder: "Path") -> str:
    """The log that the first record which can be read says it belongs to; empty where no record stands there."""
    from remit.ledger.reader import lines  # asked once in a log's life, and where somebody only reads

    if not is_readable(folder):  # nor is a FIFO that somebody named like a segment waited for
        return ""
    for line in lines(folder):
        try:
            return _LINE.decode(line.raw).metadata.body.chain.log
        except UNREADABLE:
            continue
    return ""
