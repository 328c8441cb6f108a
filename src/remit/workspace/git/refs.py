"""HEAD and refs, read from git's files where the answer is certain: a git process costs more than a decision."""

import re
from pathlib import Path

from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import Workspace, read_pointer

OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
BRANCH_PREFIX = "refs/heads/"
NOTES_REF = "refs/notes/ai"
"""The ref of authorship notes."""


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
    if text and (commit := read_loose_ref(workspace.common_dir, text)):
        return commit
    try:
        return Git(workspace.root).read_head()
    except GitError:
        return None


def read_loose_ref(common_dir: Path, name: str) -> str | None:
    """Return the commit in the ref's own file; None without a file."""
    found = read_pointer(f"{common_dir}/{name}")
    return found if OID.fullmatch(found) else None


def may_have_ref(common_dir: Path | None, ref: str) -> bool:
    """Return whether the repository may have the ref, without starting git. Raises OSError."""
    return common_dir is not None and ((common_dir / ref).exists() or _is_in_packed_refs(common_dir, f" {ref}\n"))


def may_have_refs_below(workspace: Workspace, below: str) -> bool:
    """Return whether the user's repository may have refs below a name. Raises OSError."""
    common = workspace.common_dir
    if common is None:
        return False
    # git leaves an empty folder after packing or deleting the last ref, so files are searched.
    has_loose = any(path.is_file() for path in (common / below).rglob("*"))
    return has_loose or _is_in_packed_refs(common, f" {below}/")


def _is_in_packed_refs(common_dir: Path, text: str) -> bool:
    """Return whether packed refs contain the text; True with reftable, a binary format. Raises OSError."""
    if (common_dir / "reftable").exists():
        return True
    try:
        return text.encode() in (common_dir / "packed-refs").read_bytes()
    except FileNotFoundError:
        return False
