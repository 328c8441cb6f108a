"""Snapshots where there is no git: lists of files, and one copy of each content."""

from collections.abc import Iterable, Mapping

import msgspec

from remit.workspace.place import Workspace
from remit.workspace.snapshots import Dirty, Entry, Listing, Snapshot, content_of, is_plain, is_private, unspelled
from remit.workspace.snapshots import spelled as spell
from remit.workspace.snapshots_private import Copies
from remit.workspace.whole_files import write_atomically


class CopyStore:
    """The snapshots of a workspace without git, in `.orchestration/.state/snapshots/`."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.folder = workspace.state / "snapshots"
        self.copies = Copies(self.folder / "private")

    def take(self, snapshot: Snapshot, files: Dirty) -> Snapshot:
        """Keep these files, which are all there are. The list is written last: without it there is no snapshot."""
        kept = {
            spell(path): (seen.version.mode, self.copies.put(content_of(self.workspace, path, seen)))
            for path, seen in files.items()
            if seen is not None
        }
        made = msgspec.structs.replace(snapshot, private=kept)
        lists = self.folder / "lists"
        lists.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(lists / f"{made.id}.json", msgspec.json.encode(made), 0o600)
        return made

    def listed(self) -> list[Snapshot]:
        """All of them, the newest first; a list that cannot be read is none."""
        found: list[Snapshot] = []
        for path in sorted((self.folder / "lists").glob("*.json"), reverse=True):
            try:
                found.append(self.copies.without_lost(msgspec.json.decode(path.read_bytes(), type=Snapshot)))
            except msgspec.DecodeError:
                continue
        return found

    def listing(self, snapshot: Snapshot) -> Listing:
        """Every file of one."""
        named = ((unspelled(p), mode, key) for p, (mode, key) in snapshot.private.items() if self.copies.has(key))
        return {path: Entry(mode, key, private=True) for path, mode, key in named if is_plain(path)}

    def contents(self, entries: Mapping[str, Entry]) -> dict[str, bytes]:
        """What is to be written."""
        return {path: self.copies.get(entry.key) for path, entry in entries.items()}

    def forget(self, snapshots: Iterable[Snapshot]) -> None:
        """Drop the lists, then the contents that nobody needs."""
        for snapshot in snapshots:
            (self.folder / "lists" / f"{snapshot.id}.json").unlink(missing_ok=True)
        self.copies.keep_only(key for s in self.listed() for _, key in s.private.values())

    def drop_secrets(self, snapshots: Iterable[Snapshot]) -> None:
        """Drop the copies of such files that no other list needs. The same content under another name stays."""
        gone = {s.id for s in snapshots}
        self.copies.keep_only(
            key
            for s in self.listed()
            for path, (_, key) in s.private.items()
            if s.id not in gone or not is_private(unspelled(path))
        )

    def size(self, snapshots: Iterable[Snapshot]) -> int:
        """The bytes of the copies."""
        return self.copies.size(key for s in snapshots for _, key in s.private.values())

    def tidy(self) -> None:
        """Nothing waits here."""

    def close(self) -> None:
        """Nothing runs here."""
