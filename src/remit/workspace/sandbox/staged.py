"""What a command changed, read from the folder that took its writes.

Source: Documentation/filesystems/overlayfs.rst of Linux 6.18 (whiteouts, opaque folders), read 2026-11.
"""

import filecmp
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

Kind: TypeAlias = Literal["file", "link", "folder", "pipe", "socket", "device", "gone"]

SPECIAL = frozenset[Kind]({"pipe", "socket", "device"})
"""What is no content: whoever opens one later talks to somebody, or waits for good."""

PRIVILEGES = stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX
"""The permissions that lend a file's owner to whoever runs it, or keep others from taking it away."""

MARKS = ("user.overlay.", "trusted.overlay.")
"""Extended attributes that are the overlay's own."""

NEVER = (*MARKS, "security.capability")
"""Attributes that are no part of a file's content, or lend it a privilege."""


class Touched(Struct, frozen=True):
    """One path, relative to the folder, that is different now; `gone` where nothing is there any more."""

    path: str
    kind: Kind
    same: bool = False
    """It only got another name (a hard link); content and permissions are as they were."""


def touched(upper: Path, lower: Path) -> list[Touched]:
    """All that differs, what holds before what is held. Times alone make no difference. Raises OSError."""
    return list(walk(upper, lower, "", opaque=False))


def walk(upper: Path, lower: Path, folder: str, *, opaque: bool) -> Iterator[Touched]:
    """What differs below `folder`. In an opaque one, nothing that is only below shows through."""
    with os.scandir(upper / folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    if opaque:
        yield from lost(lower, folder, {entry.name for entry in entries})
    for entry in entries:
        path = f"{folder}/{entry.name}" if folder else entry.name
        yield from one(upper, lower, path, entry.stat(follow_symlinks=False), opaque=opaque)


def one(upper: Path, lower: Path, path: str, now: os.stat_result, *, opaque: bool) -> Iterator[Touched]:
    """What differs at one path, and below it."""
    before = there(lower / path)
    was_folder = before is not None and stat.S_ISDIR(before.st_mode)
    if is_whiteout(now):
        yield from gone(lower, path)
        return
    if not stat.S_ISDIR(now.st_mode):
        if was_folder:
            yield from gone(lower, path)
        new = before is None or differs(upper / path, lower / path, now, before)
        if new or now.st_nlink > 1:
            yield Touched(path, kind_of(now), same=not new)
        return
    if before is not None and not was_folder:
        yield Touched(path, "gone")
    if before is None or not was_folder or stat.S_IMODE(now.st_mode) != stat.S_IMODE(before.st_mode):
        yield Touched(path, "folder")
    yield from walk(upper, lower, path, opaque=opaque or is_opaque(upper / path))


def lost(lower: Path, folder: str, kept: set[str]) -> Iterator[Touched]:
    """What was in a folder that was replaced, and is not in its successor."""
    found = there(lower / folder)
    if found is not None and stat.S_ISDIR(found.st_mode):
        for name in sorted(os.listdir(lower / folder)):  # noqa: PTH208
            if name not in kept:
                yield from gone(lower, f"{folder}/{name}")


def gone(lower: Path, path: str) -> Iterator[Touched]:
    """What stood there, and all that was in it."""
    found = there(lower / path)
    if found is None:
        return
    if stat.S_ISDIR(found.st_mode):
        for name in sorted(os.listdir(lower / path)):  # noqa: PTH208
            yield from gone(lower, f"{path}/{name}")
    yield Touched(path, "gone")


def there(path: Path) -> os.stat_result | None:
    """What stands there, no link followed; None for nothing."""
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def is_whiteout(found: os.stat_result) -> bool:
    """Whether it stands for something that was deleted."""
    return stat.S_ISCHR(found.st_mode) and found.st_rdev == 0


def is_opaque(folder: Path) -> bool:
    """Whether a folder replaces the one below instead of adding to it."""
    return any(attribute(folder, f"{mark}opaque") == b"y" for mark in MARKS)


def was_copied(path: Path) -> bool:
    """Whether a file stood below when the command first changed it."""
    return any(attribute(path, f"{mark}origin") is not None for mark in MARKS)


def attribute(path: Path, name: str) -> bytes | None:
    """One extended attribute."""
    try:
        return os.getxattr(path, name, follow_symlinks=False)
    except OSError:
        return None


def attributes(path: Path) -> dict[str, bytes]:
    """The extended attributes that may come over."""
    try:
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return {}
    found = {name: attribute(path, name) for name in names if not name.startswith(NEVER)}
    return {name: value for name, value in found.items() if value is not None}


def kind_of(found: os.stat_result) -> Kind:
    """What it is."""
    if stat.S_ISLNK(found.st_mode):
        return "link"
    if stat.S_ISREG(found.st_mode):
        return "file"
    if stat.S_ISFIFO(found.st_mode):
        return "pipe"
    return "socket" if stat.S_ISSOCK(found.st_mode) else "device"


def differs(new: Path, old: Path, now: os.stat_result, before: os.stat_result) -> bool:
    """Whether one is not as good as the other: kind, permissions, attributes, content."""
    if stat.S_IFMT(now.st_mode) != stat.S_IFMT(before.st_mode):
        return True
    if stat.S_ISLNK(now.st_mode):
        return new.readlink() != old.readlink()
    if stat.S_IMODE(now.st_mode) != stat.S_IMODE(before.st_mode) or attributes(new) != attributes(old):
        return True
    return stat.S_ISREG(now.st_mode) and not filecmp.cmp(new, old, shallow=False)


def changed_since(lower: Path, change: Touched, began_ns: int) -> bool:
    """Whether somebody else changed the real file while the command ran: its status is younger than the start."""
    found = there(lower / change.path)
    return found is not None and not stat.S_ISDIR(found.st_mode) and found.st_ctime_ns > began_ns


def may_be_lost(lower: Path, change: Touched, began_ns: int) -> bool:
    """Whether somebody else may have taken the real file away while the command ran.

    It is not there, and its folder, or what is left above that, lost or got a name meanwhile.
    """
    if change.kind in ("gone", "folder") or there(lower / change.path) is not None:
        return False
    above = (there(place) for place in (lower / change.path).parents)
    return next(status.st_ctime_ns for status in above if status is not None) > began_ns


def privileged(upper: Path, change: Touched) -> bool:
    """Whether it is a file with permissions that are not brought over."""
    found = there(upper / change.path) if change.kind == "file" else None
    return found is not None and bool(found.st_mode & PRIVILEGES)


def written(upper: Path) -> int:
    """The bytes below a folder, as they take up the disk. What vanishes meanwhile does not count."""
    total = 0
    for folder, _, names in os.walk(upper):
        for name in names:
            found = there(Path(folder) / name)
            total += found.st_blocks * 512 if found else 0
    return total
