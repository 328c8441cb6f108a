"""Changes of a command, read from the layer that took the writes.

Source: Documentation/filesystems/overlayfs.rst of Linux 6.18 (whiteouts, opaque folders), read 2026-11.
"""

import errno
import filecmp
import os
import stat
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

ChangeKind: TypeAlias = Literal["file", "link", "folder", "pipe", "socket", "device", "deep", "gone"]

SPECIAL_KINDS = frozenset[ChangeKind]({"pipe", "socket", "device", "deep"})
"""Kinds that are never transferred: no content, or nested too deep to examine."""

MAX_DEPTH = 200
"""Nesting of folders. Most programs, git among them, fail with deeper nesting."""

MAX_PATH_BYTES = 3500
"""Length of a path in the workspace: with the root, the path must stay below Linux's limit of 4,096."""

MAX_FILE_BYTES = 1 << 32
"""Size of a transferred file: a sparse file costs the command no space."""

UNMEASURABLE_BYTES = 1 << 62
"""Size of a folder with paths longer than Linux accepts."""

PRIVILEGE_BITS = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
"""Permissions that lend the owner's rights, or protect against removal."""

OVERLAY_ATTRIBUTES = ("user.overlay.", "trusted.overlay.")
"""Extended attributes of the overlay itself."""

EXCLUDED_ATTRIBUTES = (*OVERLAY_ATTRIBUTES, "security.capability")
"""Attributes that are not content, or lend a privilege."""


class StagedChange(Struct, frozen=True):
    """A changed path, relative to the folder; kind `gone` for a removed path."""

    path: str
    kind: ChangeKind
    same_content: bool = False
    """Only a further name (hard link); content and permissions are unchanged."""
    only_time: bool = False
    """Only a new modification time, as from `touch` or an identical rewrite."""


def find_staged_changes(upper: Path, lower: Path, *, with_times: bool = False) -> list[StagedChange]:
    """Return the changes, each folder before its content; `with_times` adds files with only a new time.

    Folders deeper than MAX_DEPTH are not entered: the folder is a single change of kind `deep`. Raises OSError.
    """
    found: list[StagedChange] = []
    waiting = [("", False)]
    while waiting:
        folder, opaque = waiting.pop()
        with os.scandir(upper / folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
        if opaque:
            found += list_replaced(lower, folder, {entry.name for entry in entries})
        inner: list[tuple[str, bool]] = []
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            now = entry.stat(follow_symlinks=False)
            changes, enters = compare_path(upper, lower, path, now)
            found += (change for change in changes if with_times or not change.only_time)
            if enters:
                inner.append((path, opaque or is_opaque(upper / path)))
        waiting += reversed(inner)
    return found


def compare_path(upper: Path, lower: Path, path: str, now: os.stat_result) -> tuple[list[StagedChange], bool]:
    """Return the changes at a path, and whether to enter the path as a folder. Raises OSError."""
    before = try_lstat(lower / path)
    was_folder = before is not None and stat.S_ISDIR(before.st_mode)
    if is_whiteout(now):
        return list_removed(lower, path), False
    if not stat.S_ISDIR(now.st_mode):
        found = list_removed(lower, path) if was_folder else []
        new = before is None or file_differs(upper / path, lower / path, now, before)
        if new or now.st_nlink > 1:
            found.append(StagedChange(path, file_kind(now), same_content=not new))
        elif stat.S_ISREG(now.st_mode) and before is not None and now.st_mtime_ns != before.st_mtime_ns:
            found.append(StagedChange(path, "file", only_time=True))
        return found, False
    if is_deep(path):
        return [StagedChange(path, "deep")], False
    found = [StagedChange(path, "gone")] if before is not None and not was_folder else []
    if before is None or not was_folder or stat.S_IMODE(now.st_mode) != stat.S_IMODE(before.st_mode):
        found.append(StagedChange(path, "folder"))
    return found, True


def is_deep(path: str) -> bool:
    return path.count("/") >= MAX_DEPTH or len(os.fsencode(path)) > MAX_PATH_BYTES


def list_replaced(lower: Path, folder: str, kept: set[str]) -> list[StagedChange]:
    """Return the removed content of a replaced folder. Raises OSError."""
    found = try_lstat(lower / folder)
    if found is None or not stat.S_ISDIR(found.st_mode):
        return []
    names = sorted(set(os.listdir(lower / folder)) - kept)  # noqa: PTH208
    return [change for name in names for change in list_removed(lower, f"{folder}/{name}")]


def list_removed(lower: Path, path: str) -> list[StagedChange]:
    """Return the path and its former content, each folder after its content. Raises OSError.

    A folder too deep to examine stays, and so do its parents.
    """
    found: list[StagedChange] = []
    waiting = [path]
    while waiting:  # folders before their content; reversed at the end
        here = waiting.pop()
        status = try_lstat(lower / here)
        if status is None:
            continue
        found.append(StagedChange(here, "gone"))
        if stat.S_ISDIR(status.st_mode):
            if is_deep(here):
                found[-1] = StagedChange(here, "deep")
                continue
            waiting += (f"{here}/{name}" for name in sorted(os.listdir(lower / here)))  # noqa: PTH208
    staying = {os.fspath(above) for change in found if change.kind == "deep" for above in Path(change.path).parents}
    return [change for change in reversed(found) if change.path not in staying]


def try_lstat(path: Path) -> os.stat_result | None:
    """Return the status without following links; None if absent."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_whiteout(found: os.stat_result) -> bool:
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def is_opaque(folder: Path) -> bool:
    return any(read_attribute(folder, f"{mark}opaque") == b"y" for mark in OVERLAY_ATTRIBUTES)


def has_origin_mark(path: Path) -> bool:
    return any(read_attribute(path, f"{mark}origin") is not None for mark in OVERLAY_ATTRIBUTES)


def read_attribute(path: Path, name: str) -> bytes | None:
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except OSError:
        return None


def read_attributes(path: Path) -> dict[str, bytes]:
    """Return the extended attributes that may be transferred."""
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return {}
    found = {name: read_attribute(path, name) for name in names if not name.startswith(EXCLUDED_ATTRIBUTES)}
    return {name: value for name, value in found.items() if value is not None}


def file_kind(found: os.stat_result) -> ChangeKind:
    if stat.S_ISLNK(found.st_mode):
        return "link"
    if stat.S_ISREG(found.st_mode):
        return "file"
    if stat.S_ISFIFO(found.st_mode):
        return "pipe"
    return "socket" if stat.S_ISSOCK(found.st_mode) else "device"


def file_differs(new: Path, old: Path, now: os.stat_result, before: os.stat_result) -> bool:
    """Return whether kind, permissions, attributes or content differ."""
    if stat.S_IFMT(now.st_mode) != stat.S_IFMT(before.st_mode):
        return True
    if stat.S_ISLNK(now.st_mode):
        return new.readlink() != old.readlink()
    if stat.S_IMODE(now.st_mode) != stat.S_IMODE(before.st_mode) or read_attributes(new) != read_attributes(old):
        return True
    return stat.S_ISREG(now.st_mode) and not filecmp.cmp(new, old, shallow=False)


def is_changed_since(lower: Path, change: StagedChange, began_ns: int) -> bool:
    """Return whether the real file was changed after the start: its change time is later."""
    found = try_lstat(lower / change.path)
    return found is not None and not stat.S_ISDIR(found.st_mode) and found.st_ctime_ns > began_ns


def could_be_removed_meanwhile(lower: Path, change: StagedChange, began_ns: int) -> bool:
    """Return whether the real file may have been removed during the command.

    The file is absent, and its nearest existing folder gained or lost a name meanwhile.
    """
    if change.kind in ("gone", "folder") or try_lstat(lower / change.path) is not None:
        return False
    above = (try_lstat(path) for path in (lower / change.path).parents)
    return next(status.st_ctime_ns for status in above if status is not None) > began_ns


def has_privilege_bits(upper: Path, change: StagedChange) -> bool:
    found = try_lstat(upper / change.path) if change.kind == "file" else None
    return found is not None and bool(found.st_mode & PRIVILEGE_BITS)


def measure_bytes(upper: Path) -> int:
    """Return the bytes below a folder, holes of transferable files included; UNMEASURABLE_BYTES for paths that are too
    long.

    Entries that vanish meanwhile do not count.
    """
    total = 0
    waiting = [os.fspath(upper)]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    else:
                        status = entry.stat(follow_symlinks=False)
                        on_disk = status.st_blocks * 512
                        total += on_disk if status.st_size > MAX_FILE_BYTES else max(status.st_size, on_disk)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return UNMEASURABLE_BYTES
    return total
