"""Where logs lie that are tracked files, `.orchestration/log/<machine>-<first>.jsonl`, and which of them is our own.

`first` is the beginning of the leaf hash of a log's first record: two clones on one machine have two logs, and two
files. What Remit itself wrote there is noted, so that nobody takes it for a change of an agent's.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG

from remit.workspace.beneath import write_below
from remit.workspace.place import LOGS, Workspace
from remit.workspace.versions import read_tail

ATTRIBUTES = ".gitattributes"
MOST_BYTES = 96 * 1024 * 1024
"""Of one such file: hosting sites take none above 100 MiB. A larger one is neither written nor read."""

TOGETHER_BYTES = 512 * 1024 * 1024
MOST_FILES = 500
NOTED = "tracked"
NOTED_MOST = 8
NOTED_BYTES = 1 << 16

_LOG = re.compile(r"[0-9a-f]{12}-[0-9a-f]{8}\.jsonl")


def is_log(name: str) -> bool:
    """Whether a file of that name in the folder of tracked logs is one."""
    return _LOG.fullmatch(name) is not None


def is_written_to_share(path: str) -> bool:
    """Whether a file, by its path from the root, is a tracked log or the attributes beside it."""
    folder, _, name = path.rpartition("/")
    return folder == LOGS and (is_log(name) or name == ATTRIBUTES)


def others(logs: Path, state: Path) -> list[Path]:
    """The logs of others that are tracked in this folder, as far as they are read."""
    own = "".join(noted(state)[:1])
    return [path for path in readable(logs) if not is_same_log(path.name, own)]


def is_same_log(one: str, other: str) -> bool:
    """Whether two names are of one log, which may have been written under two homes, as two machines."""
    return bool(other) and one.rpartition("-")[2] == other.rpartition("-")[2]


def readable(logs: Path) -> list[Path]:
    """The files that are read: regular ones, none too large, and not too many, nor too much together."""
    left = TOGETHER_BYTES
    found: list[Path] = []
    for name in names_in(logs)[:MOST_FILES]:
        why, size = inspected(logs / name)
        if why is None and (left := left - size) >= 0:
            found.append(logs / name)
    return found


def names_in(logs: Path) -> list[str]:
    """The names of tracked logs, sorted; none where the folder is a link, which may lead anywhere."""
    try:
        found = [] if logs.is_symlink() else os.listdir(logs)  # noqa: PTH208  blame asks each time: a Path each is dear
    except OSError:
        return []
    return sorted(filter(is_log, found))


def trouble(path: Path) -> str | None:
    """Why a file is not read as a log; None where it is."""
    return inspected(path)[0]


def inspected(path: Path) -> tuple[str | None, int]:
    """Why a file is not read as a log, None where it is; and its bytes."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return "it is missing", 0
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})", 0
    if not S_ISREG(status.st_mode):
        return "it is no regular file", 0
    why = f"it is larger than {MOST_BYTES >> 20} MiB" if status.st_size > MOST_BYTES else None
    return why, status.st_size


def folder_trouble(logs: Path) -> str | None:
    """Why nothing in the folder is read; None where it is, or where there is none."""
    try:
        status = logs.lstat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"it cannot be looked at ({error.strerror})"
    if not S_ISDIR(status.st_mode):
        return "it is a link" if S_ISLNK(status.st_mode) else "it is no folder"
    return None if os.access(logs, os.R_OK | os.X_OK) else "it cannot be read"


def noted(state: Path) -> list[str]:
    """The name of our own file, and the SHA-256 of what Remit wrote into that folder, the newest first."""
    return read_tail(state / NOTED, NOTED_BYTES).decode("ascii", "replace").split()


def note(state: Path, name: str, hashes: Iterator[str]) -> None:
    """Remember what is about to be written there. Raises OSError."""
    state.mkdir(parents=True, exist_ok=True)
    known = dict.fromkeys([*hashes, *noted(state)[1:]])
    write_below(state, state / NOTED, "\n".join([name, *list(known)[:NOTED_MOST], ""]).encode())


def is_own_write(workspace: Workspace, path: str, sha256: str) -> bool:
    """Whether the content of a file, by its path from the root, is what Remit put there."""
    return path.startswith(f"{LOGS}/") and sha256 in noted(workspace.state)[1:]
