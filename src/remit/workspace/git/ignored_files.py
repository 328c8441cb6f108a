"""Files that git passes over although they lie in the workspace, and ignore rules as committed.

An agent may have told git to pass files over, by flags in the index or by private patterns.

The `.gitignore` files in the working tree do not settle what is ignored: the command that created a file may have
written them. git is therefore asked in a private repository whose working tree holds only the `.gitignore` files of a
commit. A path counts as ignored only if the current files ignore the path as well.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import islice
from pathlib import Path

from msgspec import Struct

from remit.core.diff.contents import sha256
from remit.workspace.git.command import Git, GitError, file_state, read_repository_settings
from remit.workspace.git.repository import list_tracked, parse_batch_output, prefix_in_repository
from remit.workspace.place.workspace import Workspace

IGNORE_FILE = ".gitignore"
PRIVATE_EXCLUDES = "info/exclude"

SUSPICIOUS_ENTRY = re.compile(rb"(?<![^\0])(?:[a-zS] \d{6}|[A-Z?] 1[26]0000) [0-9a-f]+ \d\t[^\0]+")
"""An index entry that needs a look: flagged to be passed over (lower case, `S`), a link, or a repository.

Source: git-ls-files(1) on `-v` and `-s`, read 2026-11.
"""

MAX_HIDDEN_FILES = 2000
"""Bound of files, hidden by private patterns or by new rules, that are observed nevertheless; more are reported."""

MAX_RULES_BYTES = 256 * 1024  # limit per pattern file; a larger file counts as empty
MAX_RULES_FILES = 5000
MAX_PROBES = 4  # private repositories kept, most recently used first: one per commit with different rules
EMPTY_REPOSITORY = {
    "HEAD": b"ref: refs/heads/main\n",
    "config": b"[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
}
"""Files that make a folder a repository. Source: gitrepository-layout(5), read 2026-11."""


# -- hidden files --------------------------------------------------------------------------------------------


class IndexFlags(Struct, frozen=True):
    """Flags in the index; paths are relative to the workspace root."""

    overlooked: tuple[str, ...] = ()  # marked assume-unchanged or skip-worktree: git does not look at these files
    repositories: tuple[str, ...] = ()
    links: tuple[str, ...] = ()


def read_index_flags(workspace: Workspace) -> IndexFlags:
    view = workspace.git_view
    return list_index_flags(workspace.root, file_state(view / "index")) if view else IndexFlags()


@lru_cache(64)
def list_index_flags(root: Path, _state: tuple[int, ...]) -> IndexFlags:
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
    """Return the untracked files hidden by patterns outside the work tree; None for too many. A `.gitignore` is visible
    like any file and names build output; patterns elsewhere are not visible. Raises GitError.
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

    def has_patterns(path: Path) -> bool:
        try:
            return any(line.strip() and not line.startswith(b"#") for line in path.read_bytes().splitlines())
        except OSError:
            return False

    return [path for path in paths if has_patterns(path)]


def refuse_other_worktree(workspace: Workspace) -> None:
    """Raise GitError if the settings make git look at a folder other than the workspace."""
    if workspace.git_dir is None:
        return
    named = read_repository_settings(workspace.git_dir).get("core.worktree")
    if named is None:
        return
    seen = (workspace.git_dir / named).resolve()
    if seen != workspace.root and seen not in workspace.root.parents:
        why = f"core.worktree is {named!r}: git looks at another folder than {str(workspace.root)!r}"
        raise GitError(("status",), None, why)


def find_outside_links(root: Path, links: tuple[str, ...]) -> tuple[str, ...]:
    def leads_out(link: Path) -> bool:
        real = Path(os.path.realpath(link))
        return link.is_symlink() and real.is_dir() and real != root and root not in real.parents

    return tuple(link for link in links if leads_out(root / link))


# -- ignored files -------------------------------------------------------------------------------------------


class IgnoredPaths(Struct, frozen=True):
    """The ignored paths of a query."""

    by_folder: Mapping[str, str] = {}  # by path, the topmost ignored folder
    by_name: frozenset[str] = frozenset()  # paths ignored by their own name


def find_ignored(
    workspace: Workspace,
    commit: str | None,
    paths: Iterable[str],
    folders: Iterable[str] = (),
    *,
    with_private_rules: bool = True,
    with_worktree_rules: bool = True,
) -> IgnoredPaths:
    """Return the given paths and folders, relative to the root, that git ignores and does not track. Rules are those of
    `commit` and, with `with_private_rules`, of `info/exclude`; with `with_worktree_rules`, the `.gitignore` files in
    the working tree must agree. Without a commit no rule counts. Raises GitError, OSError.
    """
    paths, folders = list(paths), list(folders)
    if workspace.common_dir is None or commit is None or not (paths or folders):
        return IgnoredPaths()
    prefix = prefix_in_repository(workspace)
    above = {prefix + path: list(parent_folders(prefix + path)) for path in paths}
    above |= {prefix + path: [*parent_folders(prefix + path), prefix + path] for path in folders}
    named = [prefix + path for path in paths]
    probe = _create_ignore_probe(workspace, commit, with_private_rules=with_private_rules)
    found = _query_probe(probe, workspace.root, named, above)
    if with_worktree_rules and (changed := _find_changed_rules(workspace, prefix, found, probe)):
        import shutil
        import tempfile

        with tempfile.TemporaryDirectory(dir=workspace.state) as scratch:
            now = Path(scratch) / "now"
            shutil.copytree(probe, now, symlinks=True)
            _write_rules(now, changed)
            present = _query_probe(now, workspace.root, named, above)
        every = {*present.by_folder, *present.by_name}
        by_folder = {path: top for path, top in found.by_folder.items() if path in every}
        found = IgnoredPaths(by_folder, found.by_name & every)
    tracked = list_tracked(workspace, list(dict.fromkeys((*found.by_folder.values(), *found.by_name))))
    return IgnoredPaths(
        {path[len(prefix) :]: top for path, top in found.by_folder.items() if path not in tracked},
        frozenset(path[len(prefix) :] for path in found.by_name if path not in tracked),
    )


def find_hidden(workspace: Workspace, commit: str, entries: Iterable[str]) -> list[str]:
    """Return the given ignored files and folders (ending in `/`) that the rules of `commit` do not ignore. Folders are
    expanded to files, up to MAX_HIDDEN_FILES altogether. Raises GitError, OSError.
    """
    entries = list(entries)
    folders = [path.rstrip("/") for path in entries if path.endswith("/")]
    files = [path for path in entries if not path.endswith("/")]
    found = find_ignored(workspace, commit, files, folders, with_worktree_rules=False)
    hidden = [path for path in files if path not in found.by_folder and path not in found.by_name]
    for folder in folders:
        if folder not in found.by_folder and len(hidden) < MAX_HIDDEN_FILES:
            walked = os.walk(workspace.root / folder)
            below = (os.path.relpath(f"{here}/{name}", workspace.root) for here, _, names in walked for name in names)
            hidden += islice(below, MAX_HIDDEN_FILES - len(hidden))
    return hidden[:MAX_HIDDEN_FILES]


def parent_folders(path: str) -> Iterator[str]:
    at = path.find("/")
    while at > 0:
        yield path[:at]
        at = path.find("/", at + 1)


def _query_probe(probe: Path, root: Path, paths: list[str], above: Mapping[str, list[str]]) -> IgnoredPaths:
    """Return what the rules in the private repository ignore. `above` are the folders of each path, topmost first. The
    pattern file in the user's settings counts, unless the file lies in the workspace at `root`, where agents may write.
    Raises GitError.
    """
    every = dict.fromkeys(folder for folders in above.values() for folder in folders)
    found = list_matches(probe, [*(f"{folder}/" for folder in every), *paths])
    sources = {source for source, _, _ in found}
    theirs = {source for source in sources if source[:1] == "/" and not Path(source).is_relative_to(probe)}
    barred = {source for source in theirs if os.path.realpath(source).startswith(f"{root}{os.sep}")}
    text = {path for source, pattern, path in found if not pattern.startswith("!") and source not in barred}
    tops = {path: next((f for f in folders if f"{f}/" in text), None) for path, folders in above.items()}
    below = {path: top for path, top in tops.items() if top is not None}
    return IgnoredPaths(below, frozenset(path for path in paths if path in text and path not in below))


def list_matches(probe: Path, paths: Iterable[str], *options: str) -> list[tuple[str, str, str]]:
    """Return (source, pattern, path) of the `paths` that a pattern in a private repository decides. Raises GitError."""
    out = Git(probe).run(
        *("--git-dir=git", "--work-tree=tree", *options),
        *("check-ignore", "--no-index", "--verbose", "-z", "--stdin"),
        stdin=os.fsencode("".join(f"{path}\0" for path in paths)),
        ok=(0, 1),
    )
    fields = os.fsdecode(out).split("\0")
    return list(zip(fields[0::4], fields[2::4], fields[3::4], strict=False))


def create_probe(probe: Path, exclude: bytes, rules: Mapping[str, bytes]) -> None:
    """Create a private repository with these private patterns, and a `.gitignore` per folder. Raises OSError."""
    import tempfile

    probe.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=probe.parent) as scratch:
        fresh = Path(scratch) / "probe"
        for name in ("tree", "git/info", "git/objects", "git/refs"):
            (fresh / name).mkdir(parents=True)
        for name, content in (*EMPTY_REPOSITORY.items(), (PRIVATE_EXCLUDES, exclude)):
            (fresh / "git" / name).write_bytes(content)
        _write_rules(fresh, rules)
        with suppress(FileExistsError, OSError):
            fresh.rename(probe)


def _write_rules(probe: Path, rules: Mapping[str, bytes]) -> None:
    for folder, content in rules.items():
        path = probe / "tree" / folder
        path.mkdir(parents=True, exist_ok=True)
        (path / IGNORE_FILE).write_bytes(content)


def _create_ignore_probe(workspace: Workspace, commit: str, *, with_private_rules: bool) -> Path:
    """Return a private repository with the `.gitignore` files of `commit`; created once per commit. Raises GitError,
    OSError.
    """
    exclude = b""
    if with_private_rules and workspace.common_dir is not None:
        exclude = _read_rules_file(workspace.common_dir / PRIVATE_EXCLUDES)
    folder = workspace.state / "ignored"
    probe = folder / sha256(commit.encode() + b"\0" + exclude)[:24]
    if probe.is_dir():
        with suppress(OSError):
            os.utime(probe)
        return probe
    import shutil

    create_probe(probe, exclude, _read_committed_rules(workspace, commit))
    probes = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    for path in probes[MAX_PROBES:]:
        shutil.rmtree(path, ignore_errors=True)
    return probe


def _read_committed_rules(workspace: Workspace, commit: str) -> dict[str, bytes]:
    """Return the `.gitignore` files of a commit by folder; links do not count. Raises GitError."""
    git = Git(workspace.root)
    blobs: dict[str, str] = {}
    for entry in os.fsdecode(git.run("ls-tree", "-r", "-z", "--full-tree", commit)).split("\0"):
        head, _, path = entry.partition("\t")
        folder, _, name = path.rpartition("/")
        if name == IGNORE_FILE and head.startswith("100"):
            blobs[folder] = head.split(" ")[2]
    names = list(dict.fromkeys(blobs.values()))[:MAX_RULES_FILES]
    out = git.run("cat-file", "--batch", stdin="".join(f"{name}\n" for name in names).encode()) if names else b""
    contents = dict(zip(names, parse_batch_output(out), strict=True))
    rules = {folder: contents[name] or b"" for folder, name in blobs.items() if name in contents}
    return {folder: content if len(content) <= MAX_RULES_BYTES else b"" for folder, content in rules.items()}


def _find_changed_rules(workspace: Workspace, prefix: str, found: IgnoredPaths, probe: Path) -> dict[str, bytes]:
    top = workspace.root.parents[prefix.count("/") - 1] if prefix else workspace.root
    ignored = (*found.by_folder.values(), *found.by_name)
    folders = {"", *(folder for path in ignored for folder in parent_folders(path))}
    now = {folder: _read_rules_file(top / folder / IGNORE_FILE) for folder in folders}
    return {f: rules for f, rules in now.items() if rules != _read_rules_file(probe / "tree" / f / IGNORE_FILE)}


def _read_rules_file(path: Path) -> bytes:
    """Return a regular pattern file; empty for a missing or large file, a link, or a FIFO. Raises OSError."""
    try:
        status = path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return b""
    if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_RULES_BYTES:
        return b""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
        return file.read(MAX_RULES_BYTES)
