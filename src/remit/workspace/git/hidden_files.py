"""What `git status` does not look at although it lies in the workspace: what an agent may have told git to overlook."""

import os
import re
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from remit.workspace.git.command import Git, GitError
from remit.workspace.git.settings import file_state, read_repository_settings
from remit.workspace.place.workspace import Workspace

SUSPICIOUS_ENTRY = re.compile(rb"(?<![^\0])(?:[a-zS] \d{6}|[A-Z?] 1[26]0000) [0-9a-f]+ \d\t[^\0]+")
"""An index entry that needs a look: its flag says not to (a small letter, `S`), or it is a link or a repository.

Source: git-ls-files(1) on `-v` and `-s`, read 2026-11.
"""

PRIVATE_EXCLUDES = "info/exclude"
MAX_HIDDEN_FILES = 2000
"""Files that private patterns hide are looked at up to this number; more are named, not looked at."""


IGNORE_FILE = ".gitignore"

MAX_NAMED_PATHS = 200
"""More paths than this are looked up in the whole tree: a command line has an end."""


class IndexFlags(Struct, frozen=True):
    """What the index says of paths, relative to the workspace's root."""

    overlooked: tuple[str, ...] = ()
    """Marked assume-unchanged or skip-worktree: git believes them unchanged without looking."""
    repositories: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


def read_index_flags(workspace: Workspace) -> IndexFlags:
    """The flags in the index as it is now. Raises GitError."""
    if workspace.git_dir is None:
        return IndexFlags()
    return list_index_flags(workspace.root, file_state(workspace.git_dir / "index"))


@lru_cache(64)
def list_index_flags(root: Path, _state: tuple[int, ...]) -> IndexFlags:
    """The same, asked of git. `_state` only keeps an old answer from being used."""
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
    """The untracked files that patterns outside the work tree hide from git; None where there are too many.

    `.gitignore` is seen like any file, and what it names is build output; these patterns are seen by nobody.
    Raises GitError.
    """
    sources = [f"--exclude-from={path}" for path in private_pattern_files(workspace)]
    if not sources:
        return ()
    out = Git(workspace.root).run("ls-files", "--others", "--ignored", "-z", *sources)
    found = [path for path in os.fsdecode(out).split("\0") if path and not path.endswith("/")]
    return tuple(found) if len(found) <= MAX_HIDDEN_FILES else None


def private_pattern_files(workspace: Workspace) -> list[Path]:
    """The files of patterns that lie in the repository and not in its tree, as far as they hold any."""
    if workspace.common_dir is None or workspace.git_dir is None:
        return []
    named = read_repository_settings(workspace.git_dir).get("core.excludesfile")
    paths = [workspace.common_dir / PRIVATE_EXCLUDES, *([workspace.root / Path(named)] if named else [])]
    return [path for path in paths if has_patterns(path)]


def has_patterns(path: Path) -> bool:
    """Whether a file of ignore patterns holds one."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError:
        return False
    return any(line.strip() and not line.startswith(b"#") for line in lines)


def refuse_other_worktree(workspace: Workspace) -> None:
    """Raise GitError where the repository's settings make git look at another folder than this workspace."""
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
    """Those links that lead to a folder outside the workspace."""
    return tuple(link for link in links if is_outside_link(root, root / link))


def is_outside_link(root: Path, link: Path) -> bool:
    """Whether the path is a link to a folder that is not in `root`."""
    real = Path(os.path.realpath(link))
    return link.is_symlink() and real.is_dir() and real != root and root not in real.parents


def prefix_in_repository(workspace: Workspace) -> str:
    """The workspace's place in its repository, with a final `/`; empty where it is the repository's root."""
    if (workspace.root / ".git").exists():
        return ""
    return Git(workspace.root).text("rev-parse", "--show-prefix")
