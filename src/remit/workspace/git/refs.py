"""HEAD, read from git's files where that is certain: a process of git costs more than a decision.

Whether a ref may be there: a look at files, and no git.
"""

import re
from pathlib import Path

from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import Workspace, read_pointer

OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
BRANCH_PREFIX = "refs/heads/"


def read_head_reference(workspace: Workspace) -> str | None:
    """What HEAD says: a ref's name, or a commit. None without git, or where another ref store hides it.

    Source: gitrepository-layout(5), read 2026-11; with reftable, HEAD names `refs/heads/.invalid`.
    """
    if workspace.git_dir is None:
        return None
    name = read_pointer(f"{workspace.git_dir}/HEAD").removeprefix("ref: ")
    return None if name in ("", f"{BRANCH_PREFIX}.invalid") else name


def current_branch(workspace: Workspace) -> str | None:
    """The branch that HEAD is on; None when detached."""
    said = read_head_reference(workspace)
    return said.removeprefix(BRANCH_PREFIX) if said and said.startswith(BRANCH_PREFIX) else None


def head_commit(workspace: Workspace) -> str | None:
    """The commit that HEAD names; None before the first, and without git."""
    said = read_head_reference(workspace)
    if said is not None and OID.fullmatch(said):
        return said
    if workspace.common_dir is None:
        return None
    loose = read_loose_ref(workspace.common_dir, said) if said else None
    return loose or ask_git_for_head(workspace)


def read_loose_ref(common_dir: Path, name: str) -> str | None:
    """What the ref's own file holds; None where it has none."""
    found = read_pointer(f"{common_dir}/{name}")
    return found if OID.fullmatch(found) else None


def ask_git_for_head(workspace: Workspace) -> str | None:
    """What git says."""
    try:
        return Git(workspace.root).read_head()
    except GitError:
        return None


NOTES_REF = "refs/notes/ai"
"""Where authorship notes lie."""


def may_have_ref(common_dir: Path | None, ref: str) -> bool:
    """Whether a repository may have that ref; None has none. Raises OSError."""
    if common_dir is None:
        return False
    if (common_dir / ref).exists() or (common_dir / "reftable").exists():
        return True
    try:
        return f" {ref}\n".encode() in (common_dir / "packed-refs").read_bytes()
    except FileNotFoundError:
        return False


def may_have_refs_below(workspace: Workspace, below: str) -> bool:
    """Whether the user's repository may have refs below that name. Raises OSError."""
    common = workspace.common_dir
    if common is None:
        return False
    # An empty folder stays where git packed the refs below it, or where the last one went.
    loose = any(path.is_file() for path in (common / below).rglob("*"))
    if loose or (common / "reftable").exists():
        return True
    try:
        return f" {below}/".encode() in (common / "packed-refs").read_bytes()
    except FileNotFoundError:
        return False
