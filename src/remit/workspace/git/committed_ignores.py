"""Ignore rules as committed: the `.gitignore` files of a commit, and a person's private patterns.

The `.gitignore` files in the working tree are not sufficient: the command that created a file may have written them.
git is therefore asked in a private repository whose working tree holds only the committed `.gitignore` files. A path
counts as ignored only if the current files ignore the path as well.
"""

import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.workspace.git.command import Git
from remit.workspace.git.hidden_files import IGNORE_FILE, PRIVATE_EXCLUDES
from remit.workspace.git.tree_files import list_tracked, parse_batch_output, prefix_in_repository
from remit.workspace.place.workspace import Workspace

MAX_RULES_BYTES = 256 * 1024
"""Limit per pattern file; a larger file counts as empty."""

MAX_RULES_FILES = 5000
MAX_HIDDEN = 2000
"""Bound of files, hidden by new rules, that are observed nevertheless."""

MAX_PROBES = 4
"""Private repositories kept, most recently used first: one per commit with different rules."""

EMPTY_REPOSITORY = {
    "HEAD": b"ref: refs/heads/main\n",
    "config": b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
}
"""Files that make a folder a repository. Source: gitrepository-layout(5), read 2026-11."""

RulesByFolder = Mapping[str, bytes]
"""Patterns by folder from the repository's root; the root is empty."""


class IgnoredPaths(Struct, frozen=True):
    """The ignored paths of a query."""

    by_folder: Mapping[str, str] = {}
    """By path, the topmost ignored folder."""
    by_name: frozenset[str] = frozenset()
    """Paths ignored by their own name."""


def find_ignored(
    workspace: Workspace,
    commit: str | None,
    paths: Iterable[str],
    folders: Iterable[str] = (),
    *,
    with_private_rules: bool = True,
    with_worktree_rules: bool = True,
) -> IgnoredPaths:
    """Return the given paths and folders, relative to the root, that git ignores and does not track.

    Rules are those of `commit` and, with `with_private_rules`, of `info/exclude`; with `with_worktree_rules`, the
    `.gitignore` files in the working tree must agree. Without a commit no rule counts. Raises GitError, OSError.
    """
    paths, folders = list(paths), list(folders)
    if workspace.common_dir is None or commit is None or not (paths or folders):
        return IgnoredPaths()
    prefix = prefix_in_repository(workspace)
    query = IgnoreQuery([prefix + path for path in paths], [prefix + path for path in folders])
    probe = create_ignore_probe(workspace, commit, with_private_rules=with_private_rules)
    found = query.run_in_probe(probe, workspace.root)
    changed = find_changed_rules(workspace, prefix, found, probe) if with_worktree_rules else {}
    if changed:
        with tempfile.TemporaryDirectory(dir=workspace.state) as scratch:
            now = Path(scratch) / "now"
            shutil.copytree(probe, now, symlinks=True)
            write_rules(now, changed)
            found = intersect_ignored(found, query.run_in_probe(now, workspace.root))
    tracked = list_tracked(workspace, list(dict.fromkeys((*found.by_folder.values(), *found.by_name))))
    return IgnoredPaths(
        {path[len(prefix) :]: top for path, top in found.by_folder.items() if path not in tracked},
        frozenset(path[len(prefix) :] for path in found.by_name if path not in tracked),
    )


def find_hidden(workspace: Workspace, commit: str, entries: Iterable[str]) -> list[str]:
    """Return the given ignored files and folders (ending in `/`) that the rules of `commit` do not ignore.

    Folders are expanded to files, up to MAX_HIDDEN altogether. Raises GitError, OSError.
    """
    entries = list(entries)
    folders = [path.rstrip("/") for path in entries if path.endswith("/")]
    files = [path for path in entries if not path.endswith("/")]
    found = find_ignored(workspace, commit, files, folders, with_worktree_rules=False)
    hidden = [path for path in files if path not in found.by_folder and path not in found.by_name]
    for folder in folders:
        if folder not in found.by_folder and len(hidden) < MAX_HIDDEN:
            hidden += islice(list_files_below(workspace.root, folder), MAX_HIDDEN - len(hidden))
    return hidden[:MAX_HIDDEN]


def list_files_below(root: Path, folder: str) -> Iterator[str]:
    for path, _, names in os.walk(root / folder):
        yield from (os.path.relpath(os.path.join(path, name), root) for name in names)  # noqa: PTH118


class IgnoreQuery:
    """Paths relative to the repository's root, with each folder above."""

    def __init__(self, paths: list[str], folders: list[str]) -> None:
        self.paths = paths
        self.folders = folders
        self.above = {path: tuple(parent_folders(path)) for path in paths}
        self.above |= {path: (*parent_folders(path), path) for path in folders}

    def run_in_probe(self, probe: Path, root: Path) -> IgnoredPaths:
        """Return the paths that the rules in the private repository ignore."""
        every = dict.fromkeys(folder for above in self.above.values() for folder in above)
        text = check_ignored(probe, root, [*(f"{folder}/" for folder in every), *self.paths])
        below: dict[str, str] = {}
        for path, above in self.above.items():
            top = next((folder for folder in above if f"{folder}/" in text), None)
            if top is not None:
                below[path] = top
        return IgnoredPaths(below, frozenset(path for path in self.paths if path in text and path not in below))


def intersect_ignored(one: IgnoredPaths, other: IgnoredPaths) -> IgnoredPaths:
    every = {*other.by_folder, *other.by_name}
    return IgnoredPaths({p: top for p, top in one.by_folder.items() if p in every}, one.by_name & every)


def parent_folders(path: str) -> Iterator[str]:
    """Yield each folder above a path, topmost first."""
    at = path.find("/")
    while at > 0:
        yield path[:at]
        at = path.find("/", at + 1)


def check_ignored(probe: Path, root: Path, paths: Iterable[str]) -> set[str]:
    """Return the `paths` that the rules of a private repository ignore; a folder's path ends in `/`.

    The pattern file in the user's settings counts, unless the file lies in the workspace at `root`, where agents may
    write. Raises GitError.
    """
    question = "".join(f"{path}\0" for path in paths)
    out = Git(probe).run(
        *("--git-dir=git", "--work-tree=tree", "check-ignore", "--no-index", "--verbose", "-z", "--stdin"),
        stdin=os.fsencode(question),
        ok=(0, 1),
    )
    fields = os.fsdecode(out).split("\0")
    within = f"{root}{os.sep}"
    own = {source for source in fields[0::4] if source[:1] != "/" or Path(source).is_relative_to(probe)}
    return {
        path
        for source, pattern, path in zip(fields[0::4], fields[2::4], fields[3::4], strict=False)
        if not pattern.startswith("!") and (source in own or not os.path.realpath(source).startswith(within))
    }


# -- the private repository ----------------------------------------------------------------------------------


def create_ignore_probe(workspace: Workspace, commit: str, *, with_private_rules: bool) -> Path:
    """Return a repository whose working tree holds only the `.gitignore` files of `commit`; created once per commit.

    Raises GitError, OSError.
    """
    exclude = b""
    if with_private_rules and workspace.common_dir is not None:
        exclude = read_rules_file(workspace.common_dir / PRIVATE_EXCLUDES)
    folder = workspace.state / "ignored"
    probe = folder / sha256(commit.encode() + b"\0" + exclude)[:24]
    if probe.is_dir():
        with suppress(OSError):
            os.utime(probe)
        return probe
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        fresh = Path(scratch) / "probe"
        for name in ("tree", "git/info", "git/objects", "git/refs"):
            (fresh / name).mkdir(parents=True)
        for name, content in (*EMPTY_REPOSITORY.items(), (PRIVATE_EXCLUDES, exclude)):
            (fresh / "git" / name).write_bytes(content)
        write_rules(fresh, read_committed_rules(workspace, commit))
        with suppress(FileExistsError, OSError):
            fresh.rename(probe)
    probes = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in probes[MAX_PROBES:]:
        shutil.rmtree(path, ignore_errors=True)
    return probe


def read_committed_rules(workspace: Workspace, commit: str) -> dict[str, bytes]:
    """Return the `.gitignore` files of a commit by folder; links do not count. Raises GitError."""
    git = Git(workspace.root)
    listed = os.fsdecode(git.run("ls-tree", "-r", "-z", "--full-tree", commit)).split("\0")
    blobs: dict[str, str] = {}
    for entry in listed:
        head, _, path = entry.partition("\t")
        if path.rpartition("/")[2] == IGNORE_FILE and head.startswith("100"):
            blobs[path.rpartition("/")[0]] = head.split(" ")[2]
    names = list(dict.fromkeys(blobs.values()))[:MAX_RULES_FILES]
    out = git.run("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode()) if names else b""
    contents = dict(zip(names, parse_batch_output(out), strict=True))
    rules = {folder: contents[name] or b"" for folder, name in blobs.items() if name in contents}
    return {folder: content if len(content) <= MAX_RULES_BYTES else b"" for folder, content in rules.items()}


def write_rules(probe: Path, rules: RulesByFolder) -> None:
    for folder, content in rules.items():
        path = probe / "tree" / folder
        path.mkdir(parents=True, exist_ok=True)
        (path / IGNORE_FILE).write_bytes(content)


# -- the present rules ---------------------------------------------------------------------------------------


def find_changed_rules(workspace: Workspace, prefix: str, found: IgnoredPaths, probe: Path) -> dict[str, bytes]:
    """Return the current patterns above the ignored paths that differ from the commit's."""
    top = workspace.root.parents[prefix.count("/") - 1] if prefix else workspace.root
    folders = {""}
    for path, ignored in found.by_folder.items():
        folders.update(parent_folders(ignored if ignored != path else path))
    for path in found.by_name:
        folders.update(parent_folders(path))
    changed: dict[str, bytes] = {}
    for folder in folders:
        now, then = read_rules_file(top / folder / IGNORE_FILE), read_rules_file(probe / "tree" / folder / IGNORE_FILE)
        if now != then:
            changed[folder] = now
    return changed


def read_rules_file(path: Path) -> bytes:
    """Return a regular pattern file; empty for a missing or large file, a link, or a FIFO. Raises OSError."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_RULES_BYTES:
        return b""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        return file.read(MAX_RULES_BYTES)
