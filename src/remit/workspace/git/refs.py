"""HEAD and refs, read from git's files where the answer is certain: a git process costs more than a decision."""

import re
from pathlib import Path

from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import Workspace, read_pointer

OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
BRANCH_PREFIX = "refs/heads/"


def read_head_reference(workspace: Workspace) -> str | None:
    """Return the ref name or the commit in HEAD. None without git, or with a different ref store.

    Source: gitrepository-layout(5), read 2026-11; with reftable, HEAD names `refs/heads/.invalid`.
    """
    if workspace.git_dir is None:
        return None
    name = read_pointer(f"{workspace.git_dir}/HEAD").removeprefix("ref: ")
    return None if name in ("", f"{BRANCH_PREFIX}.invalid") else name


def current_branch(workspace: Workspace) -> str | None:
    """Return the branch of HEAD; None if detached."""
    text = read_head_reference(workspace)
    return text.removeprefix(BRANCH_PREFIX) if text and text.startswith(BRANCH_PREFIX) else None


def head_commit(workspace: Workspace) -> str | None:
    """Return the commit of HEAD; None before the first commit, and without git."""
    text = read_head_reference(workspace)
    if text is not None and OID.fullmatch(text):
        return text
    if workspace.common_dir is None:
        return None
    loose = read_loose_ref(workspace.common_dir, text) if text else None
    return loose or ask_git_for_head(workspace)


def read_loose_ref(common_dir: Path, name: str) -> str | None:
    """Return the commit in the ref's own file; None without a file."""
    found = read_pointer(f"{common_dir}/{name}")
    return found if OID.fullmatch(found) else None


def ask_git_for_head(workspace: Workspace) -> str | None:
    try:
        return Git(workspace.root).read_head()
    except GitError:
        return None


NOTES_REF = "refs/notes/ai"
"""The ref of authorship notes."""


def may_have_ref(common_dir: Path | None, ref: str) -> bool:
    """Return whether the repository may have the ref, without starting git. Raises OSError."""
    if common_dir is None:
        return False
    if (common_dir / ref).exists() or (common_dir / "reftable").exists():
        return True
    try:
        return f" {ref}\n".encode() in (common_dir / "packed-refs").read_bytes()
    except FileNotFoundError:
        return False


def may_have_refs_below(workspace: Workspace, below: str) -> bool:
    """Return whether the user's repository may have refs below a name. Raises OSError."""
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
