"""Files of the workspace, and those of them that a scope owns."""

import os
from collections.abc import Sequence

from remit.core.scope.path_patterns import Scope, find_literal_prefix
from remit.workspace.git.command import Git
from remit.workspace.observe.observation import walk_paths
from remit.workspace.place.workspace import Workspace


def list_present_files(workspace: Workspace) -> list[str]:
    """Return the files of the workspace that git does not ignore; all files without git. Raises GitError."""
    if workspace.common_dir is None:
        return list(walk_paths(workspace.root))
    out = Git(workspace.root).run("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return list(dict.fromkeys(filter(None, os.fsdecode(out).split("\0"))))


def match_files(patterns: Sequence[str], files: Sequence[str]) -> list[str]:
    """Return the files that the patterns own. Files outside the patterns' literal folders are not compared."""
    prefixes = tuple(find_literal_prefix(pattern) for pattern in patterns if not pattern.startswith("!"))
    near = files if "" in prefixes else [path for path in files if f"{path}/".startswith(prefixes)]
    return list(filter(Scope(tuple(patterns)).matches, near))
