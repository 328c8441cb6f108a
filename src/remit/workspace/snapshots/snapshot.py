"""Snapshots: states of the working tree to go back to, untracked files included, each named for what it precedes.

With git a snapshot is a commit under a private ref, on top of HEAD; without, a list of copies. Neither HEAD nor the
index nor a branch is touched, and no filter or other program of the repository's runs: bytes are kept as they lie.

Snapshots that a person wants to keep, however old they get and however much room they take.
"""

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from remit.core.display_text import escape_surrogates
from remit.core.secrets.secret_files import is_secret_file
from remit.workspace.files.read_files import MAX_KEPT_BYTES, ObservedFile, read_bytes
from remit.workspace.observe.observation import LOG_VIEW, observe_workspace, try_observe_file
from remit.workspace.place.workspace import Workspace

SnapshotKind: TypeAlias = Literal["session", "call", "restore", "resume", "undone"]
FilesByPath: TypeAlias = Mapping[str, ObservedFile | None]
"""What differs from HEAD, by path; None where there is no file."""

MIB = 1 << 20
SECRET_LEFT_OUT = "it may hold secrets, and such files are not kept, or no longer ([snapshots] secret_days)"  # noqa: S105  no password


class Occasion(Struct, frozen=True, omit_defaults=True):
    """What a snapshot precedes, secrets taken out. `point` is the snapshot that a restore is going back to.

    `undone` precedes the undoing of what a call had no right to change: it holds the agent's version.
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
    """One file: git's mode (100644, 100755, 120000), the name of its content, and where that lies.

    `raw` contents are the file's bytes; others are HEAD's, which a checkout would write with its line endings.
    """

    mode: str
    key: str
    private: bool = False
    raw: bool = True

    def has_same_content(self, other: "SnapshotFile | None") -> bool:
        """Whether both have the same content and mode."""
        return other is not None and (self.mode, self.key) == (other.mode, other.key)


Listing: TypeAlias = dict[str, SnapshotFile]


class Snapshot(Struct, frozen=True):
    """One snapshot. Paths in it are spelled as `spelled` does; `at` is in seconds since the epoch.

    `files` counts what differed from HEAD. `private` are files whose names speak of secrets: their contents lie in
    Remit's own folder. `left` are files that it does not hold, each with the reason. `overlooked` are files that
    git is told to overlook, and that were there. `remarks` name what was not looked at: repositories inside.
    `permissions` are those that git's modes do not tell, such as 0600.
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
    """Where snapshots lie."""

    def take(self, snapshot: Snapshot, files: FilesByPath) -> Snapshot:
        """Keep these files. Raises GitError, OSError: then there is no such snapshot."""
        ...

    def list_snapshots(self) -> list[Snapshot]:
        """This workspace's snapshots, the newest first. Raises GitError, OSError."""
        ...

    def list_files(self, snapshot: Snapshot) -> Listing:
        """Every file of one. Raises GitError, OSError."""
        ...

    def read_contents(self, entries: Mapping[str, SnapshotFile]) -> dict[str, bytes]:
        """What is to be written at each path. Raises GitError, OSError."""
        ...

    def forget(self, snapshots: Iterable[Snapshot]) -> None:
        """Drop these. Raises GitError, OSError."""
        ...

    def drop_secrets(self, snapshots: Iterable[Snapshot]) -> None:
        """Drop from these what may hold secrets, where no other needs it. Raises GitError, OSError."""
        ...

    def disk_usage(self, snapshots: Iterable[Snapshot]) -> int:
        """How many bytes these take on disk. Raises GitError, OSError."""
        ...

    def tidy(self) -> None:
        """Do what can wait until nobody does. Raises GitError, OSError."""
        ...

    def close(self) -> None:
        """Let go of what runs."""
        ...


class SortedFiles(Struct, frozen=True):
    """What a snapshot keeps, and what it does not."""

    files: dict[str, ObservedFile | None]
    left_out: dict[str, str]


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
    """Keep the state of the working tree. Raises GitError, OSError: then there is no snapshot.

    `dirty` is all that differs from HEAD, as it was observed just now; `look_at` makes it from paths, or asks git.
    Without `secrets`, files whose names speak of secrets are left out.
    """
    found = sort_files(workspace, dirty, max_mib, secrets=secrets)
    snapshot = Snapshot(
        id=new_snapshot_id(at),
        at=at,
        root=encode_path(str(workspace.root)),
        occasion=occasion,
        files=len(found.files),
        left={encode_path(path): why for path, why in found.left_out.items()},
        overlooked=tuple(encode_path(path) for path in overlooked if found.files.get(path) is not None),
        remarks=tuple(map(escape_surrogates, remarks)),
        permissions={
            encode_path(path): bits
            for path in found.files
            if (bits := unusual_permissions(workspace.root / path)) is not None
        },
    )
    return store.take(snapshot, found.files)


def read_files(workspace: Workspace, dirty: Iterable[str] | None = None) -> FilesByPath:
    """The files behind these paths; where none are given, git is asked. Raises GitError."""
    if dirty is None:
        return observe_workspace(workspace).files
    return {
        path: None if is_beyond_link(workspace.root, path) else try_observe_file(workspace.root / path)
        for path in dirty
    }


def is_beyond_link(root: Path, path: str) -> bool:
    """Whether a folder above the path is a link: then what is seen there is another file, or lies outside."""
    return any((root / above).is_symlink() for above in parent_folders(path))


def parent_folders(path: str) -> Iterator[str]:
    """The folders above a path."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


def sort_files(workspace: Workspace, files: FilesByPath, max_mib: int, *, secrets: bool = True) -> SortedFiles:
    """What of these is kept, and why the rest is not. What is hidden from git, and no `.gitignore` says so, has none
    of its content in the observation, and is not kept either.
    """
    kept: dict[str, ObservedFile | None] = {}
    left: dict[str, str] = {}
    for path, seen in files.items():
        if not is_restorable_path(path):
            continue
        if seen is None:
            why = missing_content_reason(workspace, path)
        elif not secrets and is_secret_path(path):
            why = SECRET_LEFT_OUT
        elif seen.content is not None:
            why = ""
        elif seen.version.size <= MAX_KEPT_BYTES:
            continue
        else:
            why = f"larger than {max_mib} MiB" if seen.version.size > max_mib * MIB else ""
        if why:
            left[path] = why
        else:
            kept[path] = seen
    return SortedFiles(kept, left)


def missing_content_reason(workspace: Workspace, path: str) -> str:
    """Why a path has no content though something is there; empty where nothing, or a folder, is."""
    found = workspace.root / path
    if (
        is_beyond_link(workspace.root, path)
        or not os.path.lexists(found)
        or (found.is_dir() and not found.is_symlink())
    ):
        return ""
    return "it cannot be read" if found.is_file() else "it is neither a file nor a link"


def unusual_permissions(path: Path) -> int | None:
    """The permissions of a file, where they are not what a checkout gives; None also where there is no file."""
    try:
        found = path.lstat().st_mode
    except OSError:
        return None
    return None if not stat.S_ISREG(found) or stat.S_IMODE(found) in USUAL_PERMISSIONS else stat.S_IMODE(found) & 0o777


USUAL_PERMISSIONS = frozenset({0o644, 0o755, 0o664, 0o775})


def read_content(workspace: Workspace, path: str, seen: ObservedFile) -> bytes:
    """The bytes of a file that was observed. Raises OSError where a large one is gone since."""
    return seen.content if seen.content is not None else read_bytes(workspace.root / path)


def is_secret_path(path: str) -> bool:
    """Whether a file's name speaks of secrets: its content goes into no object of git's, which may be pushed."""
    return is_secret_file(path)


def is_restorable_path(path: str) -> bool:
    """Whether a path may be written below the root: no `..`, nothing of git's own, under whatever spelling.

    Nor Remit's view of its log, which only grows. A snapshot can have been forged: git's trees hold any name.
    """
    parts = path.split("/")
    return (
        path not in ("", LOG_VIEW)
        and not any(p in ("", ".", "..") or GIT_NAMES.fullmatch(p) for p in parts)
        and "\0" not in path
    )


GIT_NAMES = re.compile(r"\.git[ .]*|git~\d+", re.IGNORECASE)


def new_snapshot_id(at: float) -> str:
    """A name that sorts by time: UTC, to the second, and four random bytes."""
    return f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(at))}-{os.urandom(4).hex()}"


def encode_path(path: str) -> str:
    """Any path as text that JSON holds: a character for each byte."""
    return os.fsencode(path).decode("latin-1")


def decode_path(text: str) -> str:
    """The path that `spelled` wrote."""
    return os.fsdecode(text.encode("latin-1"))


class PinnedSnapshots:
    """The pinned snapshots of one repository: an empty file for each, named as the snapshot is."""

    def __init__(self, workspace: Workspace) -> None:
        self.folder = workspace.state / "snapshots" / "pinned"

    def pinned_ids(self) -> frozenset[str]:
        """Their names."""
        try:
            return frozenset(path.name for path in self.folder.iterdir())
        except FileNotFoundError:
            return frozenset()

    def pin(self, name: str) -> None:
        """Keep this one. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.folder / name).touch(mode=0o600)

    def unpin(self, name: str) -> bool:
        """Let it go when its time comes; whether it was pinned. Raises OSError."""
        try:
            (self.folder / name).unlink()
        except FileNotFoundError:
            return False
        return True
