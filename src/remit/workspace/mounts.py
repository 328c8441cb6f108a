"""Mount points as the kernel lists them. Source: proc_pid_mountinfo(5), read 2026-11."""

import os
import re
from functools import lru_cache
from pathlib import Path

MOUNT_TABLE = Path("/proc/self/mountinfo")


def list_mounts() -> tuple[tuple[str, str], ...]:
    """Return (mount point, file system type) pairs, the latest mount last; empty if the system has no list."""
    try:
        return parse_mount_table(MOUNT_TABLE.read_bytes())
    except OSError:
        return ()


def find_mount_below(place: Path | str) -> str:
    start = f"{str(place).rstrip('/')}/"
    return next((where for where, _ in list_mounts() if where.startswith(start)), "")


def is_mount(place: Path) -> bool:
    """Return whether something is mounted there, also a folder of the same file system."""
    return any(where == str(place) for where, _ in list_mounts())


@lru_cache(4)
def parse_mount_table(table: bytes) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for line in table.splitlines():
        words, _, rest = line.partition(b" - ")
        found.append(
            (os.fsdecode(unescape_mount_point(words.split(b" ")[4])), rest.split(b" ")[0].decode("ascii", "replace"))
        )
    return tuple(found)


def unescape_mount_point(name: bytes) -> bytes:
    return re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), name)
