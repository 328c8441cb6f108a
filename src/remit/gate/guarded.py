"""git's own files that can make it run programs or overlook files: kept before each command, so that they come back.

They may hold credentials, so they go into no object of git's: the copies lie in Remit's folder, for this user's eyes.
"""

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from remit.workspace.git_settings import listed
from remit.workspace.observe import Change
from remit.workspace.place import Workspace
from remit.workspace.snapshots_private import Copies
from remit.workspace.versions import Seen

PREFIX = ".git/"
"""How an observation names them."""

HIDING = frozenset({".git/info/exclude", ".git/info/attributes"})
CONFIG = re.compile(r"\.git/config(\.worktree)?")
BRANCHES = re.compile(r"branch\..+\.(remote|merge|rebase|pushremote)|remote\..+\.(url|fetch|pushurl|tagopt)", re.DOTALL)
"""What `git push -u`, `git checkout --track` and `git remote add` write. It runs nothing and hides nothing."""


class Guarded:
    """The copies of one workspace."""

    def __init__(self, workspace: Workspace) -> None:
        self.copies = Copies(workspace.state / "guarded")

    def keep(self, files: Mapping[str, Seen | None]) -> None:
        """Keep those of these files that are git's own. Raises OSError."""
        for path, seen in files.items():
            if seen is not None and seen.content is not None and path.startswith(PREFIX):
                self.copies.put(seen.content)

    def content(self, change: Change) -> bytes | None:
        """What the file held before the change; None where no copy is there."""
        if change.before is None:
            return None
        try:
            return self.copies.get(change.before.version.sha256)
        except OSError:
            return None

    def place(self, key: str) -> Path:
        """Where the copy of a content lies, by its SHA-256."""
        return self.copies.path(key)

    def harmless(self, change: Change) -> bool:
        """Whether the change makes git run nothing and overlook nothing."""
        if not CONFIG.fullmatch(change.path):
            return change.path not in HIDING and not change.path.startswith(f"{PREFIX}hooks/")
        before, after = self.settings(change.before), self.settings(change.after)
        if before is None or after is None:
            return False
        turned = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
        return all(BRANCHES.fullmatch(key) for key in turned)

    def settings(self, side: Seen | None) -> dict[str, str] | None:
        """What a settings file said; None where that cannot be told."""
        if side is None:
            return {}
        try:
            key = self.copies.put(side.content) if side.content is not None else side.version.sha256
            return listed(self.copies.path(key))
        except (OSError, subprocess.SubprocessError):
            return None
