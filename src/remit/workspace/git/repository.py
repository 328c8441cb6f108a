"""What a repository holds: HEAD, refs, identity (and the machine's), and the files of commits, trees and the index.

HEAD and refs are read from git's files where the answer is certain: a git process costs more than a decision.
"""

import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from remit.core.machine_paths import STATE_FOLDER
from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import Workspace, read_pointer
from remit.workspace.safe_files import create_once, write_atomically

OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
BRANCH_PREFIX = "refs/heads/"
BRANCH_FOLDER = "remit"
"""Below it are the branches of plans: the target, and those of attempts."""

REF_FOLDERS = ("refs/heads", "refs/remotes", "refs/tags", "refs/stash")
NOTES_REF = "refs/notes/ai"  # the ref of authorship notes
MAX_NAMED_PATHS = 200  # above this count the whole tree is listed: a command line is limited


# -- HEAD and refs -------------------------------------------------------------------------------------------


def read_head_reference(workspace: Workspace) -> str | None:
    """Return the ref name or the commit in HEAD. None without git, or with a different ref store. Source:
    gitrepository-layout(5), read 2026-11; with reftable, HEAD names `refs/heads/.invalid`.
    """
    if workspace.git_dir is None:
        return None
    name = read_pointer(f"{workspace.git_view}/HEAD").removeprefix("ref: ")
    return None if name in ("", f"{BRANCH_PREFIX}.invalid") else name


def current_branch(workspace: Workspace) -> str | None:
    text = read_head_reference(workspace)
    return text.removeprefix(BRANCH_PREFIX) if text and text.startswith(BRANCH_PREFIX) else None


def head_commit(workspace: Workspace) -> str | None:
    """Return the commit of HEAD; None before the first commit, and without git."""
    text = read_head_reference(workspace)
    if text is not None and OID.fullmatch(text):
        return text
    common = workspace.common_view
    if common is None:
        return None
    if text and (commit := read_loose_ref(common, text)):
        return commit
    try:
        return Git(workspace.root).read_head()
    except GitError:
        return None


def read_loose_ref(common_dir: Path, name: str) -> str | None:
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


# -- identity ------------------------------------------------------------------------------------------------


def machine_id(home: Path) -> str:
    """Return the first 12 hex digits of the machine's public key, creating the Ed25519 key (0600) at first use. Of
    concurrent callers, the first wins. Raises OSError.
    """
    folder = home / STATE_FOLDER
    try:
        return (folder / "machine").read_text("ascii").strip()
    except FileNotFoundError:
        # 40 ms to import, and a machine creates its key once.
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    create_once(folder / "key", Ed25519PrivateKey.generate().private_bytes_raw(), 0o600)
    key = Ed25519PrivateKey.from_private_bytes((folder / "key").read_bytes())
    name = key.public_key().public_bytes_raw().hex()[:12]
    write_atomically(folder / "machine", f"{name}\n".encode("ascii"))
    return name


def repository_id(workspace: Workspace) -> str:
    """Return the root commit, or a random name before the first commit. Stored in the state folder, never changed.
    Raises OSError; GitError if git does not run.
    """
    kept = workspace.state / "repository"
    try:
        return kept.read_text("ascii").strip()
    except FileNotFoundError:
        pass
    roots: list[str] = []
    try:
        if workspace.common_dir is not None:
            roots = Git(workspace.root).text("rev-list", "--max-parents=0", "HEAD").splitlines()
    except GitError as error:
        if error.code is None:  # git could not be asked: no reason to give the repository another name for ever
            raise
    workspace.state.mkdir(parents=True, exist_ok=True)
    create_once(kept, f"{roots[-1] if roots else secrets.token_hex(20)}\n".encode("ascii"))
    return kept.read_text("ascii").strip()


# -- names of files ------------------------------------------------------------------------------------------


def prefix_in_repository(workspace: Workspace) -> str:
    """Return the workspace's path in its repository with a final `/`; empty at the root."""
    if (workspace.root / ".git").exists():
        return ""
    return Git(workspace.root).text("rev-parse", "--show-prefix")


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


def list_commit_paths(workspace: Workspace, limit: int) -> list[tuple[str, ...]]:
    """Return the paths of each of the newest commits of HEAD but merges, relative to the workspace. Raises GitError."""
    return [paths for _, paths in list_commits(workspace, limit)]


def list_commits(workspace: Workspace, limit: int) -> list[tuple[str, tuple[str, ...]]]:
    """Return name and paths of the newest commits of HEAD but merges, the newest first; none before the first. Paths
    are relative to the workspace. Raises GitError.
    """
    if head_commit(workspace) is None:
        return []
    options = ("--no-merges", "--no-renames", "--name-only", "--relative", "-z", f"--max-count={limit}")
    logged = os.fsdecode(Git(workspace.root).run("log", *options, "--format=%x01%h"))
    commits = (chunk.split("\0") for chunk in logged.split("\x01")[1:])
    return [(name.strip(), tuple(filter(None, (path.lstrip("\n") for path in paths)))) for name, *paths in commits]


def list_existing_paths(workspace: Workspace) -> frozenset[str]:
    """Return the files of the work tree, ignored ones included, and of each branch and tag. Paths are relative to the
    workspace. Raises GitError.
    """
    if workspace.common_dir is None:
        root = workspace.root
        return frozenset(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    git = Git(workspace.root)
    listed = [git.run("ls-files", "-z", "--cached", "--others")]
    refs = git.text("for-each-ref", "--format=%(objecttype) %(objectname) %(*objecttype) %(*objectname)", *REF_FOLDERS)
    rows = [line.split() for line in refs.splitlines()]
    commits = {words[-1] for words in rows if words[-2] == "commit"}
    trees = {git.text("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}") for commit in commits}
    trees.add(git.text("rev-parse", "--verify", "--quiet", "HEAD^{tree}", ok=(0, 1, 128)))
    listed += [git.run("ls-tree", "-r", "-z", "--name-only", tree) for tree in filter(None, trees)]
    return frozenset(os.fsdecode(path) for out in listed for path in out.split(b"\0") if path)


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
    contents = dict(zip(paths, _parse_filtered_batch(out, [blobs[path] for path in paths]), strict=False))
    for path in blobs.keys() - contents.keys():
        contents[path] = git.run(*options, "cat-file", "--filters", f"--path={prefix}{path}", blobs[path])
    return {path: contents[path] for path in blobs}


def _parse_filtered_batch(out: bytes, names: Sequence[str]) -> list[bytes]:
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
        size = out[at:end].rpartition(b" ")[2]
        at = end + 1
        if size.isdigit():
            yield out[at : at + int(size)]
            at += int(size) + 1
        else:
            yield None
