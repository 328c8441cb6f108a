"""Contents of snapshots that lie in Remit's own folder: secrets, and all of them where there is no git."""

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec.structs import replace

from remit.core.diff.contents import sha256
from remit.workspace.files.atomic import write_atomically
from remit.workspace.snapshots.snapshot import SECRET_LEFT_OUT, Snapshot

BLOB_KEY = re.compile(r"[0-9a-f]{64}")


class BlobFolder:
    """A folder of contents, each named by its SHA-256, for this user's eyes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def store(self, content: bytes) -> str:
        """Keep it; its name. Raises OSError."""
        key = sha256(content)
        path = self.blob_path(key)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, content, 0o600)
        return key

    def load(self, key: str) -> bytes:
        """What lies under that name. Raises OSError, also where it is torn or was changed."""
        if not BLOB_KEY.fullmatch(key):
            raise OSError(f"{key!r} is no name of a content")
        content = self.blob_path(key).read_bytes()
        if sha256(content) != key:
            raise OSError(f"the copy {str(self.blob_path(key))!r} is not what was kept")
        return content

    def has_blob(self, key: str) -> bool:
        """Whether something lies under that name."""
        return BLOB_KEY.fullmatch(key) is not None and self.blob_path(key).is_file()

    def mark_lost_files(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot; what it no longer holds is said to be left out."""
        lost = {
            path: SECRET_LEFT_OUT for path, (mode, key) in snapshot.private.items() if mode and not self.has_blob(key)
        }
        return replace(snapshot, left={**snapshot.left, **lost}) if lost else snapshot

    def keep_only(self, keys: Iterable[str]) -> None:
        """Remove all others. Raises OSError."""
        wanted = set(keys)
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            if path.parent.name + path.name not in wanted:
                path.unlink(missing_ok=True)

    def total_bytes(self, keys: Iterable[str]) -> int:
        """How many bytes these take."""
        return sum(self.blob_path(key).stat().st_size for key in set(keys) if self.blob_path(key).exists())

    def blob_path(self, key: str) -> Path:
        """Where a content lies."""
        return self.folder / key[:2] / key[2:]
