"""Copies of git's own files that can make git run programs or overlook files, kept before each command.

They may hold credentials, so they never become git objects: the copies lie in Remit's folder, readable by this user.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from remit.workspace.contents.blob_folder import BlobFolder
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.git.programs_in_settings import list_settings
from remit.workspace.observe.observation import Change
from remit.workspace.place.workspace import Workspace

GIT_PREFIX = ".git/"
"""Prefix of git's own files in the paths of an observation."""

HIDING_FILES = frozenset({".git/info/exclude", ".git/info/attributes"})
CONFIG_PATH = re.compile(r"\.git/config(\.worktree)?")
BRANCH_SETTINGS = re.compile(
    r"branch\..+\.(remote|merge|rebase|pushremote)|remote\..+\.(url|fetch|pushurl|tagopt)", re.DOTALL
)
"""Settings that `git push -u`, `git checkout --track` and `git remote add` write: harmless ones."""


class GitFileCopies:
    """The copies of a workspace, by the SHA-256 of their content."""

    def __init__(self, workspace: Workspace) -> None:
        self.copies = BlobFolder(workspace.state / "guarded")

    def keep_files(self, files: Mapping[str, ObservedFile | None]) -> None:
        """Copy the files that are git's own. Raises OSError."""
        for path, seen in files.items():
            if seen is not None and seen.content is not None and is_git_path(path):
                self.copies.store(seen.content)

    def content_before(self, change: Change) -> bytes | None:
        """Return the content of the file before the change; None if there is no copy."""
        if change.before is None:
            return None
        try:
            return self.copies.load(change.before.version.sha256)
        except OSError:
            return None

    def copy_path(self, sha256: str) -> Path:
        return self.copies.blob_path(sha256)

    def is_harmless(self, change: Change) -> bool:
        """Return True if git runs and overlooks no more files after the change."""
        if not CONFIG_PATH.fullmatch(change.path):
            return change.path not in HIDING_FILES and not change.path.startswith(f"{GIT_PREFIX}hooks/")
        before, after = self.read_settings(change.before), self.read_settings(change.after)
        if before is None or after is None:
            return False
        changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        return all(BRANCH_SETTINGS.fullmatch(key) for key in changed)

    def read_settings(self, side: ObservedFile | None) -> dict[str, str] | None:
        """Return the settings of one side of a change; None if git cannot read them."""
        if side is None:
            return {}
        try:
            key = self.copies.store(side.content) if side.content is not None else side.version.sha256
            return list_settings(self.copies.blob_path(key))
        except (OSError, subprocess.SubprocessError):
            return None


def is_git_path(path: str) -> bool:
    return path.startswith(GIT_PREFIX)
