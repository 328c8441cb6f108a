"""A folder of contents, each in a file named by its hash: the store for contents that git must not hold."""

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from remit.core.diff.contents import sha256
from remit.workspace.files.atomic import write_atomically

BLOB_KEY = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class BlobFolder:
    """Contents below a folder, readable by the user only. `hash_content` gives the key of a content."""

    def __init__(self, folder: Path, hash_content: Callable[[bytes], str] = sha256) -> None:
        self.folder = folder
        self.hash_content = hash_content

    def store(self, content: bytes, *, durable: bool = True) -> str:
        """Store a content; return its key. Raises OSError."""
        key = self.hash_content(content)
        path = self.blob_path(key)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_atomically(path, content, 0o600, durable=durable)
        return key

    def load(self, key: str) -> bytes:
        """Return the content of a key. Raises OSError, also for damaged content."""
        if not BLOB_KEY.fullmatch(key):
            raise OSError(f"{key!r} is no name of a content")
        content = self.blob_path(key).read_bytes()
        if self.hash_content(content) != key:
            raise OSError(f"the copy {str(self.blob_path(key))!r} is not what was kept")
        return content

    def has_blob(self, key: str) -> bool:
        return BLOB_KEY.fullmatch(key) is not None and self.blob_path(key).is_file()

    def keep_only(self, keys: Iterable[str]) -> None:
        """Remove each content except these. Raises OSError."""
        wanted = set(keys)
        for path in self.folder.glob("[0-9a-f][0-9a-f]/*"):
            if path.parent.name + path.name not in wanted:
                path.unlink(missing_ok=True)

    def total_bytes(self, keys: Iterable[str]) -> int:
        return sum(self.blob_path(key).stat().st_size for key in set(keys) if self.blob_path(key).exists())

    def blob_path(self, key: str) -> Path:
        return self.folder / key[:2] / key[2:]
