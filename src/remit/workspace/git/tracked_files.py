"""Which files exist today, on any branch: what was recorded of others explains no line that stands."""

import os
from pathlib import Path

from remit.workspace.git.command import Git
from remit.workspace.place.workspace import Workspace

REF_FOLDERS = ("refs/heads", "refs/remotes", "refs/tags", "refs/stash")


def list_existing_paths(workspace: Workspace) -> frozenset[str]:
    """The files of the work tree, ignored ones too, and of all branches and tags; relative to the workspace.

    Raises GitError.
    """
    if workspace.common_dir is None:
        return frozenset(_list_files(workspace.root))
    git = Git(workspace.root)
    found = set(_split_paths(git.run("ls-files", "-z", "--cached", "--others")))
    listed = git.text(
        "for-each-ref", "--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname)", *REF_FOLDERS
    )
    named = [line.split() for line in listed.splitlines()]
    commits = {words[-1] for words in named if words[-2] == "commit"}
    trees = {git.text("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}") for commit in commits}
    head = git.text("rev-parse", "--verify", "--quiet", "HEAD^{tree}", ok=(0, 1, 128))
    for tree in filter(None, trees | {head}):
        found |= set(_split_paths(git.run("ls-tree", "-r", "-z", "--name-only", tree)))
    return frozenset(found)


def _split_paths(listed: bytes) -> list[str]:
    return [os.fsdecode(path) for path in listed.split(b"\0") if path]


def _list_files(root: Path) -> list[str]:
    return [path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()]
