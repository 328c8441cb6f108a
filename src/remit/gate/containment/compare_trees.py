"""The working tree before and after a contained command, compared with git's blobs."""

import hashlib
import os
import posixpath
from collections.abc import Sequence
from pathlib import Path

from remit.workspace.git.command import Git
from remit.workspace.place.workspace import Workspace
from remit.workspace.sandbox.layer_changes import StagedChange

SHA1_HEX_DIGITS = 40


class WorkingTrees:
    """Working tree before and after a command, by path from the repository's root."""

    def __init__(self, workspace: Workspace, upper: Path, changes: Sequence[StagedChange]) -> None:
        self.root = workspace.root
        self.upper = upper
        self.changed = {change.path: change for change in changes}
        top = next((p for p in (self.root, *self.root.parents) if (p / ".git").exists()), None)
        self.prefix = "." if top is None else str(self.root.relative_to(top))
        self.top = self.root if top is None else top
        self.names: dict[tuple[Path, int], str] = {}

    def to_workspace_path(self, path: str) -> str:
        """Return a commit's path relative to the workspace, a possible subfolder of the repository."""
        return path if self.prefix == "." else posixpath.relpath(path, self.prefix)

    def to_commit_path(self, path: str) -> str:
        return path if self.prefix == "." else f"{self.prefix}/{path}"

    def path_before(self, path: str) -> Path:
        return self.top / path

    def path_after(self, path: str) -> Path:
        change = self.changed.get(self.to_workspace_path(path))
        if change is None:
            return self.path_before(path)
        return self.upper / change.path if change.kind in ("file", "link") else Path("/dev/null/none")

    def holds_blob(self, place: Path, path: str, name: str) -> bool:
        """Return True if the file at `place` is the named blob, or missing for an empty name. Raises GitError."""
        if not os.path.lexists(place) or (place.is_dir() and not place.is_symlink()):
            return not name or (place / ".git").exists()  # a submodule is a folder, and a commit to git
        if not name:
            return False
        key = (place, len(name))
        if key not in self.names:
            self.names[key] = hash_blob(place, len(name))
        if self.names[key] == name:
            return True
        if place.is_symlink() or not place.is_file():
            return False
        # Line endings and the like: as git itself would store the file under that name.
        words = ("hash-object", f"--path={path}", "--stdin")
        return Git(self.top).run(*words, stdin=place.read_bytes()).decode().strip() == name


def hash_blob(place: Path, digits: int) -> str:
    """Return git's name for a file's bytes, or for a link's target. Raises OSError."""
    content = os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes() if place.is_file() else b""
    found = hashlib.sha1(usedforsecurity=False) if digits == SHA1_HEX_DIGITS else hashlib.sha256()
    found.update(b"blob %d\0" % len(content))
    found.update(content)
    return found.hexdigest()
