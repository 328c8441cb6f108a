"""git's own files that can make it run programs or overlook files: kept before each command, so that they come back.

They may hold credentials, so they go into no object of git's: the copies lie in Remit's folder, for this user's eyes.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from remit.workspace.contents.blob_folder import BlobFolder
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.git.settings import list_settings
from remit.workspace.observe.observation import Change
from remit.workspace.place.workspace import Workspace

GIT_PREFIX = ".git/"
"""How an observation names them."""

HIDING_FILES = frozenset({".git/info/exclude", ".git/info/attributes"})
CONFIG_PATH = re.compile(r"\.git/config(\.worktree)?")
BRANCH_SETTINGS = re.compile(
    r"branch\..+\.(remote|merge|rebase|pushremote)|remote\..+\.(url|fetch|pushurl|tagopt)", re.DOTALL
)
"""What `git push -u`, `git checkout --track` and `git remote add` write. It runs nothing and hides nothing."""


class GitFileCopies:
    """The copies of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self.copies = BlobFolder(workspace.state / "guarded")

    def keep_files(self, files: Mapping[str, ObservedFile | None]) -> None:
        """Keep those of these files that are git's own. Raises OSError."""
        for path, seen in files.items():
            if seen is not None and seen.content is not None and path.startswith(GIT_PREFIX):
                self.copies.store(seen.content)

    def content_before(self, change: Change) -> bytes | None:
        """What the file held before the change; None where no copy is there."""
        if change.before is None:
            return None
        try:
            return self.copies.load(change.before.version.sha256)
        except OSError:
            return None

    def copy_path(self, key: str) -> Path:
        """Where the copy of a content lies, by its SHA-256."""
        return self.copies.blob_path(key)

    def is_harmless(self, change: Change) -> bool:
        """Whether the change makes git run nothing and overlook nothing."""
        if not CONFIG_PATH.fullmatch(change.path):
            return change.path not in HIDING_FILES and not change.path.startswith(f"{GIT_PREFIX}hooks/")
        before, after = self.read_settings(change.before), self.read_settings(change.after)
        if before is None or after is None:
            return False
        turned = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        return all(BRANCH_SETTINGS.fullmatch(key) for key in turned)

    def read_settings(self, side: ObservedFile | None) -> dict[str, str] | None:
        """What a settings file said; None where that cannot be told."""
        if side is None:
            return {}
        try:
            key = self.copies.store(side.content) if side.content is not None else side.version.sha256
            return list_settings(self.copies.blob_path(key))
        except (OSError, subprocess.SubprocessError):
            return None
