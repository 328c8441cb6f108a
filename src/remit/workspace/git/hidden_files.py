"""Files that `git status` passes over although they lie in the workspace; an agent may have told git to do so."""

import os
import re
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from remit.workspace.git.command import Git, GitError
from remit.workspace.git.programs_in_settings import file_state, read_repository_settings
from remit.workspace.place.workspace import Workspace

SUSPICIOUS_ENTRY = re.compile(rb"(?<![^\0])(?:[a-zS] \d{6}|[A-Z?] 1[26]0000) [0-9a-f]+ \d\t[^\0]+")
"""An index entry that needs a look: flagged to be passed over (lower case, `S`), a link, or a repository.

Source: git-ls-files(1) on `-v` and `-s`, read 2026-11.
"""

PRIVATE_EXCLUDES = "info/exclude"
MAX_HIDDEN_FILES = 2000
"""Bound of files hidden by private patterns that are observed; more are only reported."""


IGNORE_FILE = ".gitignore"


class IndexFlags(Struct, frozen=True):
    """Flags in the index; paths are relative to the workspace root."""

    overlooked: tuple[str, ...] = ()
    """Marked assume-unchanged or skip-worktree: git does not look at these files."""
    repositories: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


def read_index_flags(workspace: Workspace) -> IndexFlags:
    """Return the flags of the current index. Raises GitError."""
    if workspace.git_dir is None:
        return IndexFlags()
    return list_index_flags(workspace.root, file_state(workspace.git_dir / "index"))


@lru_cache(64)
def list_index_flags(root: Path, _state: tuple[int, ...]) -> IndexFlags:
    """Ask git for the flags. `_state` is part of the cache key only."""
    overlooked: list[str] = []
    repositories: list[str] = []
    links: list[str] = []
    for entry in SUSPICIOUS_ENTRY.findall(Git(root).run("ls-files", "-v", "-s", "-z")):
        path = os.fsdecode(entry.partition(b"\t")[2])
        if entry[2:8] == b"160000":
            repositories.append(path)
        elif entry[2:8] == b"120000":
            links.append(path)
        if entry[:1].islower() or entry[:1] == b"S":
            overlooked.append(path)
    return IndexFlags(tuple(overlooked), tuple(repositories), tuple(links))


def find_hidden_files(workspace: Workspace) -> tuple[str, ...] | None:
    """Return the untracked files hidden by patterns outside the work tree; None for too many.

    A `.gitignore` is visible like any file and names build output; patterns elsewhere are not visible. Raises GitError.
    """
    sources = [f"--exclude-from={path}" for path in private_pattern_files(workspace)]
    if not sources:
        return ()
    out = Git(workspace.root).run("ls-files", "--others", "--ignored", "-z", *sources)
    found = [path for path in os.fsdecode(out).split("\0") if path and not path.endswith("/")]
    return tuple(found) if len(found) <= MAX_HIDDEN_FILES else None


def private_pattern_files(workspace: Workspace) -> list[Path]:
    """Return the non-empty pattern files that lie in the repository, outside its tree."""
    if workspace.common_dir is None or workspace.git_dir is None:
        return []
    named = read_repository_settings(workspace.git_dir).get("core.excludesfile")
    paths = [workspace.common_dir / PRIVATE_EXCLUDES, *([workspace.root / Path(named)] if named else [])]
    return [path for path in paths if has_patterns(path)]


def has_patterns(path: Path) -> bool:
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return False
    return any(line.strip() and not line.startswith(b"#") for line in lines)


def refuse_other_worktree(workspace: Workspace) -> None:
    """Raise GitError if the settings make git look at a folder other than the workspace."""
    if workspace.git_dir is None:
        return
    named = read_repository_settings(workspace.git_dir).get("core.worktree")
    if named is None:
        return
    seen = (workspace.git_dir / named).resolve()
    if seen != workspace.root and seen not in workspace.root.parents:
        raise GitError(
            ("status",), None, f"core.worktree is {named!r}: git looks at another folder than {str(workspace.root)!r}"
        )


def find_outside_links(root: Path, links: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(link for link in links if is_outside_link(root, root / link))


def is_outside_link(root: Path, link: Path) -> bool:
    real = Path(os.path.realpath(link))
    return link.is_symlink() and real.is_dir() and real != root and root not in real.parents
