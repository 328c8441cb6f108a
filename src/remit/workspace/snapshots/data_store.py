"""Copies of runtime data from before commands: contents by their hash, and points that name them.

A database of SQLite is copied by SQLite itself, which reads a consistent state while programs write, and first rolls
back what a killed one left half-written. Source: sqlite.org/backup.html, read 2026-11.
"""

import os
import sqlite3
import stat
import time
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from remit.core.python_runtime import prepare_type
from remit.core.runtime_data import SQLITE_MAGIC, WAL_VERSION, DataVersion
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import hash_file, write_atomically
from remit.workspace.sandbox.staged_changes import copy_data
from remit.workspace.snapshots.snapshot import Occasion, decode_path, encode_path

DATA_PREFIX = "data@"
"""Begins the name of a point, so that it is no snapshot's."""

LOCK_WAIT_S = 5.0
KEPT_POINTS = 25
"""Newest points that are never pruned."""


class DataPoint(Struct, frozen=True):
    """A restore point of runtime data. `files` holds by encoded path the copy, and its bytes."""

    id: str
    at: float
    root: str
    occasion: Occasion
    files: dict[str, tuple[str, int]] = {}

    @property
    def name(self) -> str:
        return f"{DATA_PREFIX}{self.id}"


def is_sqlite(path: Path) -> bool:
    return read_start(path, len(SQLITE_MAGIC)) == SQLITE_MAGIC


def has_wal_mode(path: Path) -> bool:
    start = read_start(path, 20)
    return start.startswith(SQLITE_MAGIC) and start[18:19] == bytes([WAL_VERSION])


def read_start(path: Path, count: int) -> bytes:
    """Return the first bytes of a regular file; none of anything else."""
    try:
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb", 0) as file:
            return file.read(count) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else b""
    except OSError:
        return b""


def stat_version(path: Path) -> DataVersion | None:
    """Return the present version by its size and times, with that of a log beside it; None for no regular file."""
    parts: list[str] = []
    total = 0
    for place in (path, path.with_name(f"{path.name}-wal")):
        try:
            found = place.lstat()
        except OSError:
            if place == path:
                return None
            continue
        if not stat.S_ISREG(found.st_mode):
            return None
        if place == path or found.st_size:
            parts.append(f"{found.st_ino} {found.st_size} {found.st_mtime_ns}")
        total += found.st_size
    return DataVersion(total, stamp="; ".join(parts))


def open_sqlite(path: Path, mode: str = "rw") -> sqlite3.Connection:
    return sqlite3.connect(f"file:{quote(os.fspath(path))}?mode={mode}", uri=True, timeout=LOCK_WAIT_S)


class DataStore:
    """Copies and points of a workspace, in Remit's own folder. Methods raise OSError."""

    def __init__(self, workspace: Workspace) -> None:
        self.root = workspace.root
        self.folder = workspace.state / "data"

    def copy_file(self, path: str) -> DataVersion | None:
        """Keep a copy of a data file; None if there is no regular file."""
        source = self.root / path
        version = stat_version(source)
        if version is None:
            return None
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self.folder / f"new-{os.getpid()}-{os.urandom(4).hex()}"
        try:
            if not (is_sqlite(source) and self.copy_sqlite(source, fresh)):
                with (
                    source.open("rb", 0) as old,
                    os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT, 0o600), "wb", 0) as new,
                ):
                    copy_data(old.fileno(), new.fileno())
            fresh.chmod(0o600)
            found = hash_file(fresh)
            if found is None:
                return None
            place = self.copy_path(found[0])
            place.parent.mkdir(exist_ok=True, mode=0o700)
            fresh.rename(place)
        finally:
            fresh.unlink(missing_ok=True)
        return DataVersion(version.bytes, found[0], version.stamp)

    def copy_sqlite(self, source: Path, fresh: Path) -> bool:
        try:
            with closing(open_sqlite(source)) as old, closing(sqlite3.connect(fresh)) as new:
                old.backup(new)
        except sqlite3.Error:
            fresh.unlink(missing_ok=True)
            return False
        return True

    def copy_path(self, sha256: str) -> Path:
        return self.folder / sha256[:2] / sha256[2:]

    def find_copy(self, version: DataVersion) -> str | None:
        """Return the copy of a version that was kept before, as a point of now would hold it."""
        return version.sha256 if version.sha256 and self.copy_path(version.sha256).is_file() else None

    def write_point(
        self, occasion: Occasion, versions: Mapping[str, DataVersion], at: float, name: str = ""
    ) -> DataPoint | None:
        """Write a point of the copied versions, or add them to the named one; None if nothing was copied."""
        files = {encode_path(p): (v.sha256, v.bytes) for p, v in versions.items() if v.sha256 is not None}
        known = self.find_point(name) if name else None
        if known is None and not files:
            return None
        if known is not None:
            point = msgspec.structs.replace(known, files={**files, **known.files})
        else:
            made = f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(at))}-{os.urandom(4).hex()}"
            point = DataPoint(made, at, encode_path(str(self.root)), occasion, files)
        (self.folder / "points").mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(self.folder / "points" / f"{point.id}.json", msgspec.json.encode(point), 0o600)
        return point

    def find_point(self, name: str) -> DataPoint | None:
        return next((point for point in self.list_points() if name in (point.id, point.name)), None)

    def drop_point(self, name: str) -> None:
        """Remove a point that nothing needs; its copies stay until the next pruning."""
        (self.folder / "points" / f"{name.removeprefix(DATA_PREFIX)}.json").unlink(missing_ok=True)

    def list_points(self) -> list[DataPoint]:
        """Return the points of this workspace, newest first."""
        found: list[DataPoint] = []
        for path in sorted((self.folder / "points").glob("*.json"), reverse=True):
            with suppress(OSError, msgspec.DecodeError):
                found.append(msgspec.json.decode(path.read_bytes(), type=prepare_type(DataPoint)))
        return [point for point in found if point.root == encode_path(str(self.root))]

    def load(self, sha256: str) -> bytes:
        return self.copy_path(sha256).read_bytes()

    def prune(self, oldest: float, max_bytes: int) -> None:
        """Drop points before `oldest`, and the oldest while their copies take more than `max_bytes`."""
        total, seen = 0, set[str]()
        kept: list[DataPoint] = []
        for number, point in enumerate(self.list_points()):
            total += sum(size for key, size in point.files.values() if key not in seen)
            seen |= {key for key, _ in point.files.values()}
            if number < 1 or (total <= max_bytes and (number < KEPT_POINTS or point.at >= oldest)):
                kept.append(point)
            else:
                (self.folder / "points" / f"{point.id}.json").unlink(missing_ok=True)
        self.drop_copies(kept)

    def drop_copies(self, kept: Iterable[DataPoint]) -> None:
        wanted = {key for point in kept for key, _ in point.files.values()}
        for path in (self.folder / "points").glob("*.json"):
            with suppress(OSError, msgspec.DecodeError):
                point = msgspec.json.decode(path.read_bytes(), type=prepare_type(DataPoint))
                wanted |= {key for key, _ in point.files.values()}
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            if path.parent.name + path.name not in wanted:
                path.unlink(missing_ok=True)


def list_point_paths(point: DataPoint) -> dict[str, str]:
    """Return the copy of each path."""
    return {decode_path(path): key for path, (key, _) in point.files.items()}
