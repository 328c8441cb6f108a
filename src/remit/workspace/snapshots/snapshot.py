"""Snapshots: states of the working tree to go back to, untracked files included.

With git, a snapshot is a commit under a private ref on top of HEAD; without git, a list of copies. HEAD, index and
branches stay untouched, and no filter or program of the repository runs: bytes are stored as they are on disk.
"""

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.python_runtime import prepare_type
from remit.core.redaction import is_secret_file
from remit.core.untrusted_input import escape_surrogates
from remit.workspace.contents.content_store import BlobFolder
from remit.workspace.observe.observation import LOG_VIEW, observe_workspace, try_observe_file
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import MAX_KEPT_BYTES, ObservedFile, read_bytes, write_atomically

SnapshotKind: TypeAlias = Literal["session", "call", "restore", "resume", "undone"]
FilesByPath: TypeAlias = Mapping[str, ObservedFile | None]  # differences from HEAD by path; None means no file

MIB = 1 << 20
SECRET_LEFT_OUT = "it may hold secrets, and such files are not kept, or no longer ([snapshots] secret_days)"  # noqa: S105  no password
USUAL_PERMISSIONS = frozenset({0o644, 0o755, 0o664, 0o775})
GIT_NAMES = re.compile(r"\.git[ .]*|git~\d+", re.IGNORECASE)


class Occasion(Struct, frozen=True, omit_defaults=True):
    """The event that a snapshot precedes, without secrets. `point` is the snapshot that a restore goes back to.

    `undone` precedes the removal of changes that a call was not entitled to: the snapshot holds the agent's version.
    """

    kind: SnapshotKind
    intent: str = ""
    session: str = ""
    agent: str = ""
    call: str = ""
    tool: str = ""
    command: str = ""
    point: str = ""


class SnapshotFile(Struct, frozen=True):
    """A file: git's mode (100644, 100755, 120000), the name of its content, and the storage.

    `raw` contents are the bytes on disk; others are HEAD's, which a checkout converts to its line endings.
    """

    mode: str
    key: str
    private: bool = False
    raw: bool = True

    def has_same_content(self, other: "SnapshotFile | None") -> bool:
        return other is not None and (self.mode, self.key) == (other.mode, other.key)


Listing: TypeAlias = dict[str, SnapshotFile]


class Snapshot(Struct, frozen=True):
    """A snapshot. Paths are encoded by `encode_path`; `at` is in seconds since the epoch.

    `files` counts differences from HEAD. `private` are files whose names suggest secrets, stored in Remit's own folder.
    `left` are files not stored, with reasons. `overlooked` are existing files that git is told to pass over. `remarks`
    name unobserved places: nested repositories. `permissions` are those that git's modes cannot express, such as 0600.
    """

    id: str
    at: float
    root: str
    occasion: Occasion
    files: int = 0
    head: str | None = None
    private: dict[str, tuple[str, str]] = {}
    left: dict[str, str] = {}
    overlooked: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    permissions: dict[str, int] = {}
    commit: str = ""
    ref: str = ""


class SnapshotStore(Protocol):
    """Storage of snapshots: `GitSnapshotStore` or `CopySnapshotStore`. Methods raise GitError, OSError.

    After an error in `take` no snapshot exists. `list_snapshots` returns the newest first. `drop_secrets` spares what
    other snapshots need. `tidy` does deferred work while idle.
    """

    def take(self, snapshot: Snapshot, files: FilesByPath) -> Snapshot: ...
    def list_snapshots(self) -> list[Snapshot]: ...
    def list_files(self, snapshot: Snapshot) -> Listing: ...
    def read_contents(self, entries: Mapping[str, SnapshotFile]) -> dict[str, bytes]: ...
    def forget(self, snapshots: Iterable[Snapshot]) -> None: ...
    def drop_secrets(self, snapshots: Iterable[Snapshot]) -> None: ...
    def disk_usage(self, snapshots: Iterable[Snapshot]) -> int: ...
    def tidy(self) -> None: ...
    def close(self) -> None: ...


class CopySnapshotStore:
    """Snapshots of a workspace without git: lists and a copy per content, in `.orchestration/.state/snapshots/`."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.folder = workspace.state / "snapshots"
        self.copies = BlobFolder(self.folder / "private")

    def take(self, snapshot: Snapshot, files: FilesByPath) -> Snapshot:
        kept = {
            encode_path(path): (seen.version.mode, self.copies.store(read_content(self.workspace, path, seen)))
            for path, seen in files.items()
            if seen is not None
        }
        made = replace(snapshot, private=kept)
        lists = self.folder / "lists"
        lists.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Written last: without the list no snapshot exists.
        write_atomically(lists / f"{made.id}.json", msgspec.json.encode(made), 0o600)
        return made

    def list_snapshots(self) -> list[Snapshot]:
        found: list[Snapshot] = []
        for path in sorted((self.folder / "lists").glob("*.json"), reverse=True):
            try:
                found.append(
                    mark_lost_files(msgspec.json.decode(path.read_bytes(), type=prepare_type(Snapshot)), self.copies)
                )
            except msgspec.DecodeError:
                continue
        return found

    def list_files(self, snapshot: Snapshot) -> Listing:
        named = {
            decode_path(p): (mode, key) for p, (mode, key) in snapshot.private.items() if self.copies.has_blob(key)
        }
        return {path: SnapshotFile(*of, private=True) for path, of in named.items() if is_restorable_path(path)}

    def read_contents(self, entries: Mapping[str, SnapshotFile]) -> dict[str, bytes]:
        return {path: self.copies.load(entry.key) for path, entry in entries.items()}

    def forget(self, snapshots: Iterable[Snapshot]) -> None:
        for snapshot in snapshots:
            (self.folder / "lists" / f"{snapshot.id}.json").unlink(missing_ok=True)
        self.copies.keep_only(key for s in self.list_snapshots() for _, key in s.private.values())

    def drop_secrets(self, snapshots: Iterable[Snapshot]) -> None:
        """Drop copies of secret files that no remaining list needs. Equal content under a harmless name stays."""
        gone = {s.id for s in snapshots}
        self.copies.keep_only(
            key
            for s in self.list_snapshots()
            for path, (_, key) in s.private.items()
            if s.id not in gone or not is_secret_path(decode_path(path))
        )

    def disk_usage(self, snapshots: Iterable[Snapshot]) -> int:
        return self.copies.total_bytes(key for s in snapshots for _, key in s.private.values())

    def tidy(self) -> None:
        """Do nothing: no work is deferred."""

    def close(self) -> None:
        """Do nothing: no process runs."""


def take_snapshot(
    store: SnapshotStore,
    workspace: Workspace,
    occasion: Occasion,
    dirty: FilesByPath,
    *,
    at: float,
    max_mib: int = 50,
    secrets: bool = True,
    overlooked: Iterable[str] = (),
    remarks: tuple[str, ...] = (),
) -> Snapshot:
    """Store the state of the working tree. Raises GitError, OSError; after an error no snapshot exists.

    `dirty` holds each difference from HEAD, observed just now by `read_files`. Without `secrets`, files whose names
    suggest secrets are left out.
    """
    kept: dict[str, ObservedFile | None] = {}
    left: dict[str, str] = {}
    for path, seen in dirty.items():
        if not is_restorable_path(path):
            continue
        reason = ""
        if seen is None:
            reason = missing_content_reason(workspace, path)
        elif not secrets and is_secret_path(path):
            reason = SECRET_LEFT_OUT
        elif seen.content is None and seen.version.size <= MAX_KEPT_BYTES:
            continue  # hidden from git without a `.gitignore`: observed without content
        elif seen.content is None and seen.version.size > max_mib * MIB:
            reason = f"larger than {max_mib} MiB"
        if reason:
            left[encode_path(path)] = reason
        else:
            kept[path] = seen
    bits_by_path = {path: unusual_permissions(workspace.root / path) for path in kept}
    snapshot = Snapshot(
        # Names sort by time.
        id=f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(at))}-{os.urandom(4).hex()}",
        at=at,
        root=encode_path(str(workspace.root)),
        occasion=occasion,
        files=len(kept),
        left=left,
        overlooked=tuple(encode_path(path) for path in overlooked if kept.get(path) is not None),
        remarks=tuple(map(escape_surrogates, remarks)),
        permissions={encode_path(path): bits for path, bits in bits_by_path.items() if bits is not None},
    )
    return store.take(snapshot, kept)


def read_files(workspace: Workspace, dirty: Iterable[str] | None = None) -> FilesByPath:
    """Return the files at these paths; without paths, ask git for the differences. Raises GitError."""
    if dirty is None:
        return observe_workspace(workspace).files
    root = workspace.root
    return {path: None if is_beyond_link(root, path) else try_observe_file(root / path) for path in dirty}


def is_beyond_link(root: Path, path: str) -> bool:
    return any((root / above).is_symlink() for above in parent_folders(path))


def parent_folders(path: str) -> Iterator[str]:
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def missing_content_reason(workspace: Workspace, path: str) -> str:
    full = workspace.root / path
    is_plain_folder = full.is_dir() and not full.is_symlink()
    if is_beyond_link(workspace.root, path) or not os.path.lexists(full) or is_plain_folder:
        return ""
    return "it cannot be read" if full.is_file() else "it is neither a file nor a link"


def unusual_permissions(path: Path) -> int | None:
    """Return the permissions of a file if a checkout would not restore them; None also without a file."""
    try:
        found = path.lstat().st_mode
    except OSError:
        return None
    return None if not stat.S_ISREG(found) or stat.S_IMODE(found) in USUAL_PERMISSIONS else stat.S_IMODE(found) & 0o777


def read_content(workspace: Workspace, path: str, seen: ObservedFile) -> bytes:
    return seen.content if seen.content is not None else read_bytes(workspace.root / path)


def is_secret_path(path: str) -> bool:
    """Return whether the name suggests secrets: such contents never become git objects, which may be pushed."""
    return is_secret_file(path)


def is_restorable_path(path: str) -> bool:
    """Return whether a path may be written below the root. Snapshots may be forged: git trees can hold any name."""
    is_bad = any(part in ("", ".", "..") or GIT_NAMES.fullmatch(part) for part in path.split("/"))
    return path != LOG_VIEW and not is_bad and "\0" not in path


def mark_lost_files(snapshot: Snapshot, blobs: BlobFolder) -> Snapshot:
    lost = {path: SECRET_LEFT_OUT for path, (mode, key) in snapshot.private.items() if mode and not blobs.has_blob(key)}
    return replace(snapshot, left={**snapshot.left, **lost}) if lost else snapshot


def encode_path(path: str) -> str:
    """Return any path as JSON-safe text: a character per byte."""
    return os.fsencode(path).decode("latin-1")


def decode_path(text: str) -> str:
    return os.fsdecode(text.encode("latin-1"))


class PinnedSnapshots:
    """Pinned snapshots of a repository, exempt from expiry: an empty file each, named after the snapshot."""

    def __init__(self, workspace: Workspace) -> None:
        self.folder = workspace.state / "snapshots" / "pinned"

    def pinned_ids(self) -> frozenset[str]:
        try:
            return frozenset(path.name for path in self.folder.iterdir())
        except FileNotFoundError:
            return frozenset()

    def pin(self, name: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / name).touch(mode=0o600)

    def unpin(self, name: str) -> bool:
        try:
            (self.folder / name).unlink()
        except FileNotFoundError:
            return False
        return True
