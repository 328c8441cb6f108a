"""HEAD, read from git's files where that is certain: a process of git costs more than a decision."""

import re
from pathlib import Path

from remit.workspace.git import Git, GitError
from remit.workspace.place import Workspace, pointer

OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
BRANCH = "refs/heads/"


def symbolic_head(workspace: Workspace) -> str | None:
    """What HEAD says: a ref's name, or a commit. None without git, or where another ref store hides it.

    Source: gitrepository-layout(5), read 2026-11; with reftable, HEAD names `refs/heads/.invalid`.
    """
    if workspace.git_dir is None:
        return None
    name = pointer(f"{workspace.git_dir}/HEAD").removeprefix("ref: ")
    return None if name in ("", f"{BRANCH}.invalid") else name


def branch_name(workspace: Workspace) -> str | None:
    """The branch that HEAD is on; None when detached."""
    said = symbolic_head(workspace)
    return said.removeprefix(BRANCH) if said and said.startswith(BRANCH) else None


def head_commit(workspace: Workspace) -> str | None:
    """The commit that HEAD names; None before the first, and without git."""
    said = symbolic_head(workspace)
    if said is not None and OID.fullmatch(said):
        return said
    if workspace.common_dir is None:
        return None
    loose = loose_ref(workspace.common_dir, said) if said else None
    return loose or asked(workspace)


def loose_ref(common_dir: Path, name: str) -> str | None:
    """What the ref's own file holds; None where it has none."""
    found = pointer(f"{common_dir}/{name}")
    return found if OID.fullmatch(found) else None


def asked(workspace: Workspace) -> str | None:
    """What git says."""
    try:
        return Git(workspace.root).head()
    except GitError:
        return None
