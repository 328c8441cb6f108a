"""Files in commits, trees and the index: names, modes, and contents as a checkout would write them."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from remit.workspace.git.command import Git
from remit.workspace.place.workspace import Workspace

MAX_NAMED_PATHS = 200
"""Above this count the whole tree is listed: a command line is limited."""

REF_FOLDERS = ("refs/heads", "refs/remotes", "refs/tags", "refs/stash")


def prefix_in_repository(workspace: Workspace) -> str:
    """Return the workspace's path in its repository with a final `/`; empty at the root."""
    if (workspace.root / ".git").exists():
        return ""
    return Git(workspace.root).text("rev-parse", "--show-prefix")


# -- names ---------------------------------------------------------------------------------------------------


def read_tree_entries(workspace: Workspace, commit: str, paths: list[str]) -> dict[str, tuple[str, str]]:
    """Return (mode, blob) of those `paths` that are files in the commit. Raises GitError."""
    wanted = set(paths)
    pathspecs = [f":(literal){p}" for p in paths] if len(paths) <= MAX_NAMED_PATHS else []
    out = Git(workspace.root).run("ls-tree", "-r", "-z", commit, "--", *pathspecs)
    entries: dict[str, tuple[str, str]] = {}
    for line in out.decode("utf-8", "surrogateescape").split("\0"):
        about, _, path = line.partition("\t")
        if path in wanted and " blob " in about:
            mode, _, blob = about.split(" ")
            entries[path] = (mode, blob)
    return entries


def find_tracked(workspace: Workspace, paths: Iterable[str]) -> frozenset[str]:
    """Return the `paths`, relative to the root, that are in git's index. Raises GitError."""
    paths = list(paths)
    if workspace.common_dir is None or not paths:
        return frozenset()
    prefix = prefix_in_repository(workspace)
    listed = list_tracked(workspace, [prefix + path for path in paths])
    return frozenset(path for path in paths if prefix + path in listed)


def list_tracked(workspace: Workspace, tops: list[str]) -> set[str]:
    """Return the paths in git's index, from the repository's root, at or below `tops`. Raises GitError."""
    if not tops:
        return set()
    pathspecs = [f":(top,literal){path}" for path in tops] if len(tops) <= MAX_NAMED_PATHS else [":(top)"]
    listed = Git(workspace.root).run("ls-files", "-z", "--full-name", "--", *pathspecs)
    return set(os.fsdecode(listed).split("\0"))


def list_existing_paths(workspace: Workspace) -> frozenset[str]:
    """Return the files of the work tree, ignored ones included, and of each branch and tag.

    Paths are relative to the workspace. Raises GitError.
    """
    if workspace.common_dir is None:
        root = workspace.root
        return frozenset(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    git = Git(workspace.root)
    paths = set(_split_paths(git.run("ls-files", "-z", "--cached", "--others")))
    refs = git.text("for-each-ref", "--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname)", *REF_FOLDERS)
    rows = [line.split() for line in refs.splitlines()]
    commits = {words[-1] for words in rows if words[-2] == "commit"}
    trees = {git.text("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}") for commit in commits}
    head = git.text("rev-parse", "--verify", "--quiet", "HEAD^{tree}", ok=(0, 1, 128))
    for tree in filter(None, trees | {head}):
        paths |= set(_split_paths(git.run("ls-tree", "-r", "-z", "--name-only", tree)))
    return frozenset(paths)


def _split_paths(listed: bytes) -> list[str]:
    return [os.fsdecode(path) for path in listed.split(b"\0") if path]


# -- contents ------------------------------------------------------------------------------------------------


def read_worktree_form(git: Git, prefix: str, blobs: Mapping[str, str], *options: str) -> dict[str, bytes]:
    """Return the bytes that a checkout would write for each path and blob, with a single git process if possible.

    `prefix` leads from the repository's root to the paths; `options` go before the git command. git 2.39 prints the
    size before filters. If a filter (`core.autocrlf`, LFS) changes the size, the output cannot be split and each path
    is asked separately. Raises GitError.
    """
    paths = [path for path in blobs if "\n" not in path]
    query = os.fsencode("".join(f"{blobs[path]} {prefix}{path}\n" for path in paths))
    out = git.run(*options, "cat-file", "--batch", "--filters", stdin=query) if paths else b""
    contents = dict(zip(paths, parse_filtered_batch(out, [blobs[path] for path in paths]), strict=False))
    for path in blobs.keys() - contents.keys():
        contents[path] = git.run(*options, "cat-file", "--filters", f"--path={prefix}{path}", blobs[path])
    return {path: contents[path] for path in blobs}


def parse_filtered_batch(out: bytes, names: Sequence[str]) -> list[bytes]:
    """Return the contents printed by `cat-file --batch` for these blobs; empty if the sizes do not add up."""
    contents: list[bytes] = []
    at = 0
    for name in names:
        header = out[at : at + 100].partition(b"\n")[0]
        words = header.split(b" ")
        if len(words) != 3 or words[0] != name.encode() or not words[2].isdigit():
            return []
        start = at + len(header) + 1
        at = start + int(words[2]) + 1
        if out[at - 1 : at] != b"\n":
            return []
        contents.append(out[start : at - 1])
    return contents if at == len(out) else []


def parse_batch_output(out: bytes) -> Iterator[bytes | None]:
    """Yield the contents printed by `cat-file --batch`; None for a missing object."""
    at = 0
    while at < len(out):
        end = out.index(b"\n", at)
        fields = out[at:end].rsplit(b" ", 2)
        if not fields[-1].isdigit():
            yield None
            at = end + 1
            continue
        size = int(fields[-1])
        yield out[end + 1 : end + 1 + size]
        at = end + size + 2
