"""Observations of the workspace before and after a tool call: effects are compared, not announcements."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from remit.core.diff.contents import ContentVersion
from remit.workspace.files.read_files import ObservedFile, observe_file, observed_content
from remit.workspace.git.command import Git
from remit.workspace.git.hidden_files import (
    IGNORE_FILE,
    MAX_HIDDEN_FILES,
    PRIVATE_EXCLUDES,
    IndexFlags,
    find_hidden_files,
    find_outside_links,
    read_index_flags,
    refuse_other_worktree,
)
from remit.workspace.git.tree_files import prefix_in_repository, read_tree_entries, read_worktree_form
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace
from remit.workspace.sharing.tracked_logs import is_own_write

if TYPE_CHECKING:
    from remit.workspace.processes.left_running import Suspect

GOVERNING_FILES = (
    f"{ORCHESTRATION_FOLDER}/active_intents.yaml",
    f"{ORCHESTRATION_FOLDER}/remit.toml",
    f"{ORCHESTRATION_FOLDER}/.intentignore",
    ".intentignore",
)
"""Governing files: always observed, even if git ignores them."""

INTENT_MAP = f"{ORCHESTRATION_FOLDER}/intent_map.md"
"""Remit's own page, written only if git ignores the page or without git."""

HOOKS_FOLDER = f"{ORCHESTRATION_FOLDER}/hooks"
"""A team's hooks: each file below governs, too."""

LOG_VIEW = f"{ORCHESTRATION_FOLDER}/agent_trace.jsonl"
"""Remit's own copy of its log, which grows with each call: never an effect of the call."""

GOVERNING_GIT_FILES = ("config", "config.worktree", "hooks", "info")
"""Files of the git folder that can make git run programs or pass over files. Reported as `.git/…`."""

VOLATILE_GIT_FILES = frozenset({"info/refs"})
"""Files that git writes there on its own."""


class Observation(Struct, frozen=True):
    """Files found. Each path that differs from `HEAD` has an entry; None means no file.

    `head` is None without a commit or without git: each file has an entry.
    """

    head: str | None
    files: dict[str, ObservedFile | None]
    remarks: tuple[str, ...] = ()
    """Unobserved places (nested repositories, links to outside folders), and files that git is told to pass over."""


class Observer(Protocol):
    """Observes a workspace, and may know the changes since the last observation."""

    def observe(self, *, fully: bool = False) -> Observation:
        """Return the state of the whole workspace; `fully` forces a complete look. Raises GitError."""
        ...

    def suspects(self) -> "Mapping[str, tuple[Suspect, ...]]":
        """Return by path the processes left running by calls that were present at the change."""
        ...


def observe_paths(workspace: Workspace, paths: Iterable[str]) -> Observation:
    """Observe only these paths, relative to the root."""
    return Observation(None, {path: try_observe_file(workspace.root / path) for path in paths})


def observe_workspace(workspace: Workspace) -> Observation:
    """Observe each difference from HEAD, untracked files included; without git, each file.

    Files ignored by `.gitignore` are left out; files hidden by index flags or private patterns are included. Raises
    GitError.
    """
    if workspace.common_dir is None:
        return Observation(None, dict(observe_tree(workspace.root)))
    refuse_other_worktree(workspace)
    return observe_dirty_paths(workspace, *git_status(workspace))


def observe_dirty_paths(workspace: Workspace, head: str | None, dirty: list[str]) -> Observation:
    """Observe the workspace when the paths that differ from `head` are known. Raises GitError."""
    flags, hidden = read_index_flags(workspace), find_hidden_files(workspace)
    files = {
        path: try_observe_file(workspace.root / path) for path in dirty if path != LOG_VIEW and not path.endswith("/")
    }
    files |= {
        path: found for path in flags.overlooked if (found := try_observe_file(workspace.root / path)) is not None
    }
    files |= {path: drop_content(try_observe_file(workspace.root / path)) for path in hidden or ()}
    return Observation(
        head,
        {**files, **dict(observe_governing_files(workspace))},
        build_remarks(workspace, dirty, flags, files, hidden),
    )


def build_remarks(
    workspace: Workspace,
    dirty: list[str],
    flags: IndexFlags,
    files: dict[str, ObservedFile | None],
    hidden: tuple[str, ...] | None,
) -> tuple[str, ...]:
    """Return remarks for people: places left out here, and places that git would leave out."""
    fresh = tuple(path for path, found in files.items() if found and found.version.mode == "120000")
    repositories = dict.fromkeys((*flags.repositories, *(path.rstrip("/") for path in dirty if path.endswith("/"))))
    links = dict.fromkeys(find_outside_links(workspace.root, (*flags.links, *fresh)))
    crowd = (
        ()
        if hidden is not None
        else (f"not observed: more than {MAX_HIDDEN_FILES} files that {PRIVATE_EXCLUDES} hides",)
    )
    overlooked = (path for path in flags.overlooked if path in files)
    return (
        *(f"not observed: nested repository {path}" for path in repositories),
        *(f"not observed: link to a folder outside, {path}" for path in links),
        *(f"observed, though git is told to overlook it: {path}" for path in overlooked),
        *crowd,
    )


def drop_content(found: ObservedFile | None) -> ObservedFile | None:
    """Return the file without content: files hidden from git must not be stored in git."""
    return None if found is None else ObservedFile(found.version, None)


def git_status(workspace: Workspace) -> tuple[str | None, list[str]]:
    """Return HEAD and the differing paths, files hidden by new rules included; a nested repository ends in `/`.

    No git runs inside submodules. Source: git-status(1), porcelain v2, read 2026-11.
    """
    out = Git(workspace.root).run(
        *("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames"),
        *("--ignored=matching", "--ignore-submodules=dirty", "--", "."),
    )
    prefix = prefix_in_repository(workspace)
    head: str | None = None
    dirty: list[str] = []
    ignored: list[str] = []
    for entry in out.decode("utf-8", "surrogateescape").split("\0"):
        if entry.startswith("# branch.oid "):
            oid = entry.removeprefix("# branch.oid ")
            head = None if oid == "(initial)" else oid
        elif entry[:2] in ("1 ", "u ", "? "):
            path = entry.split(" ", {"1": 8, "u": 10, "?": 1}[entry[0]])[-1]
            dirty.append(path.removeprefix(prefix))
        elif entry[:2] == "! ":
            ignored.append(entry[2:].removeprefix(prefix))
    return head, [*dirty, *find_files_hidden_by_new_rules(workspace, head, dirty, ignored)]


def find_files_hidden_by_new_rules(
    workspace: Workspace, head: str | None, dirty: list[str], ignored: list[str]
) -> tuple[str, ...]:
    """Return files hidden only by uncommitted `.gitignore` files, and such files that hide themselves.

    Whoever writes a file may also write the rule that hides the file. Before the first commit each rule counts. Rules
    in `.orchestration/` always count: agents may not write there, and the rules hide only files of Remit's own.
    """
    ignored = [path for path in ignored if not path.startswith(f"{ORCHESTRATION_FOLDER}/")]
    own = [path for path in ignored if is_ignore_file(path)]
    changed = [
        path for path in (*dirty, *own) if is_ignore_file(path) and not path.startswith(f"{ORCHESTRATION_FOLDER}/")
    ]
    if head is None or not changed:
        return ()
    from remit.workspace.git.committed_ignores import find_hidden  # costs start-up time; needed for changed rules

    above = tuple(path.removesuffix(IGNORE_FILE) for path in changed)
    return (*own, *find_hidden(workspace, head, [p for p in ignored if p not in own and p.startswith(above)]))


def is_ignore_file(path: str) -> bool:
    return path == IGNORE_FILE or path.endswith(f"/{IGNORE_FILE}")


def observe_governing_files(workspace: Workspace) -> Iterator[tuple[str, ObservedFile | None]]:
    for path in GOVERNING_FILES:
        yield path, try_observe_file(workspace.root / path)
    yield from ((f"{HOOKS_FOLDER}/{path}", seen) for path, seen in observe_tree(workspace.root / HOOKS_FOLDER))
    common = workspace.common_dir
    if common is None:
        return
    for name in GOVERNING_GIT_FILES:
        found = common / name
        for path in sorted(found.iterdir()) if found.is_dir() else [found]:
            name = str(path.relative_to(common))
            if not name.endswith(".sample") and name not in VOLATILE_GIT_FILES and not path.is_dir():
                yield f".git/{name}", try_observe_file(path)


def observe_tree(root: Path) -> Iterator[tuple[str, ObservedFile | None]]:
    return ((path, try_observe_file(root / path)) for path in walk_paths(root))


def walk_paths(root: Path) -> Iterator[str]:
    """Yield the paths of files below `root`, except Remit's state."""
    for folder, names, files in os.walk(root):
        here = Path(folder)
        if here == root / ORCHESTRATION_FOLDER:
            names[:] = [n for n in names if n != ".state"]
        for name in files:
            path = str((here / name).relative_to(root))
            if path not in (LOG_VIEW, INTENT_MAP):
                yield path


def try_observe_file(path: Path) -> ObservedFile | None:
    """Return the observed file; an unreadable file counts as absent."""
    try:
        return observe_file(path)
    except OSError:
        return None


class Change(Struct, frozen=True):
    """A path whose content or mode differs from before."""

    path: str
    before: ObservedFile | None
    after: ObservedFile | None
    from_git: bool = False
    """git put the content there from an earlier commit: a merge, a pull, a branch switch."""
    possible_sessions: tuple[str, ...] = ()
    """Sessions whose commands ran at the time and may have made the change."""


def find_changes(workspace: Workspace, before: Observation, after: Observation) -> tuple[Change, ...]:
    """Return the differences between an observation and a fresh one, by path.

    A path without an entry had the content of HEAD before, so git is asked. The present content is read from disk: git
    may call a file clean although a checkout would write different line endings. Remit's own tracked log is left out.
    """
    paths = set(before.files) | set(after.files) | list_changed_paths(workspace, before.head, after.head)
    old = fill_from_head(workspace, before, paths)
    new = {**{path: try_observe_file(workspace.root / path) for path in paths - set(after.files)}, **after.files}
    found = (Change(p, old[p], new[p]) for p in sorted(paths) if content_identity(old[p]) != content_identity(new[p]))
    return tuple(c for c in found if c.after is None or not is_own_write(workspace, c.path, c.after.version.sha256))


def content_identity(found: ObservedFile | None) -> tuple[str, str] | None:
    """Return the values that make two versions equal: hash and mode."""
    return None if found is None else (found.version.sha256, found.version.mode)


def list_changed_paths(workspace: Workspace, old: str | None, new: str | None) -> set[str]:
    """Return the paths that differ between two commits; empty if HEAD did not move."""
    if old == new or new is None:
        return set()
    base = old or Git(workspace.root).text("hash-object", "-t", "tree", "/dev/null")
    out = Git(workspace.root).run("diff-tree", "-r", "-z", "--no-renames", "--name-only", "--relative", base, new)
    return {path for path in out.decode("utf-8", "surrogateescape").split("\0") if path}


def fill_from_head(workspace: Workspace, observation: Observation, paths: set[str]) -> dict[str, ObservedFile | None]:
    """Return the observation with an entry for each of `paths`, read from HEAD where absent."""
    absent = sorted(p for p in paths if p not in observation.files)
    committed = read_at_commit(workspace, observation.head, absent) if observation.head else dict.fromkeys(absent)
    return {**committed, **observation.files}


def read_at_commit(workspace: Workspace, commit: str, paths: list[str]) -> dict[str, ObservedFile | None]:
    """Return the paths as a checkout of the commit would write them."""
    if not paths:
        return {}
    modes = read_tree_entries(workspace, commit, paths)
    blobs = {path: blob for path, (_, blob) in modes.items()}
    contents = read_worktree_form(Git(workspace.root), prefix_in_repository(workspace), blobs)
    return {p: observed_content(found, modes[p][0]) if (found := contents.get(p)) is not None else None for p in paths}


def versions_by_path(observation: Observation) -> dict[str, ContentVersion | None]:
    return {path: found.version if found else None for path, found in observation.files.items()}
