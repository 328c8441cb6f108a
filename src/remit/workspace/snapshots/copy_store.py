"""Snapshots without git: lists of files, and a copy per content."""

from collections.abc import Iterable, Mapping

import msgspec

from remit.workspace.contents.blob_folder import BlobFolder
from remit.workspace.files.atomic import write_atomically
from remit.workspace.place.workspace import Workspace
from remit.workspace.snapshots.snapshot import (
    FilesByPath,
    Listing,
    Snapshot,
    SnapshotFile,
    decode_path,
    is_restorable_path,
    is_secret_path,
    mark_lost_files,
    read_content,
)
from remit.workspace.snapshots.snapshot import encode_path as spell


class CopySnapshotStore:
    """Snapshots of a workspace without git, in `.orchestration/.state/snapshots/`."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.folder = workspace.state / "snapshots"
        self.copies = BlobFolder(self.folder / "private")

    def take(self, snapshot: Snapshot, files: FilesByPath) -> Snapshot:
        """Store the files. The list is written last: without the list no snapshot exists."""
        kept = {
            spell(path): (seen.version.mode, self.copies.store(read_content(self.workspace, path, seen)))
            for path, seen in files.items()
            if seen is not None
        }
        made = msgspec.structs.replace(snapshot, private=kept)
        lists = self.folder / "lists"
        lists.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(lists / f"{made.id}.json", msgspec.json.encode(made), 0o600)
        return made

    def list_snapshots(self) -> list[Snapshot]:
        """Return the snapshots, newest first; unreadable lists are skipped."""
        found: list[Snapshot] = []
        for path in sorted((self.folder / "lists").glob("*.json"), reverse=True):
            try:
                found.append(mark_lost_files(msgspec.json.decode(path.read_bytes(), type=Snapshot), self.copies))
            except msgspec.DecodeError:
                continue
        return found

    def list_files(self, snapshot: Snapshot) -> Listing:
        named = (
            (decode_path(p), mode, key) for p, (mode, key) in snapshot.private.items() if self.copies.has_blob(key)
        )
        return {path: SnapshotFile(mode, key, private=True) for path, mode, key in named if is_restorable_path(path)}

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
