"""Observations of the workspace before and after a tool call: effects are compared, not announcements.

Contents that git itself brings, when HEAD moves or during a stopped merge or rebase, are told from the call's.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from remit.core.diff.contents import ContentVersion
from remit.core.intent import INTENTS_FOLDER, LIST_FILE, MAX_FILE_BYTES
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.ignored_files import (
    IGNORE_FILE,
    MAX_HIDDEN_FILES,
    PRIVATE_EXCLUDES,
    find_hidden,
    find_hidden_files,
    find_outside_links,
    read_index_flags,
    refuse_other_worktree,
)
from remit.workspace.git.repository import OID, prefix_in_repository, read_tree_entries, read_worktree_form
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, TRACKED_LOGS_FOLDER, Workspace, read_pointer
from remit.workspace.safe_files import ObservedFile, observe_file, observed_content, read_tail
from remit.workspace.sharing.tracked_logs import read_own_writes

if TYPE_CHECKING:
    from remit.workspace.processes.process_tracking import Suspect

GOVERNING_FILES = (
    *(f"{ORCHESTRATION_FOLDER}/{name}" for name in (LIST_FILE, "remit.toml", ".intentignore")),
    ".intentignore",
)
"""Governing files: always observed, even if git ignores them."""

INTENT_FILES = f"{ORCHESTRATION_FOLDER}/{INTENTS_FOLDER}/"
"""Folder of the files of one intent each: all of them govern. git's status shows their changes, unless it is hidden."""

INTENT_MAP = f"{ORCHESTRATION_FOLDER}/intent_map.md"
"""Remit's own page, written only if git ignores the page or without git."""

HOOKS_FOLDER = f"{ORCHESTRATION_FOLDER}/hooks"  # a team's hooks: each file below governs, too


def is_governing_path(path: str) -> bool:
    return path in GOVERNING_FILES or path.startswith((INTENT_FILES, f"{HOOKS_FOLDER}/"))


LOG_VIEW = f"{ORCHESTRATION_FOLDER}/agent_trace.jsonl"
"""Remit's own copy of its log, which grows with each call: never an effect of the call."""

GOVERNING_GIT_FILES = ("config", "config.worktree", "hooks", "info")
"""Files of the git folder that can make git run programs or pass over files. Reported as `.git/…`."""

VOLATILE_GIT_FILES = frozenset({"info/refs"})  # git writes there on its own
MAX_REFS = 5000
PUSH_REFLOG_TEXT = "update by push"
"""Reflog text of a remote ref after a push from this repository. Source: git-push(1), read 2026-11."""

OPERATION_RANGES: dict[str, str] = {
    "MERGE_HEAD": "HEAD...{0}",
    **dict.fromkeys(("CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD"), "{0}^..{0}"),
}
"""Files in git's folder that name incoming commits, and the range of each. Source: gitrevisions(7)."""


class Observation(Struct, frozen=True):
    """Files found. Each path that differs from `HEAD` has an entry; None means no file.

    `head` is None without a commit or without git: each file has an entry. `remarks` name unobserved places (nested
    repositories, links to outside folders), and files that git is told to pass over.
    """

    head: str | None
    files: dict[str, ObservedFile | None]
    remarks: tuple[str, ...] = ()


class Observer(Protocol):
    """Observes a workspace, and may know the changes since the last observation."""

    def observe(self, *, fully: bool = False) -> Observation:
        """Return the state of the whole workspace; `fully` forces a complete look. Raises GitError."""
        ...

    def suspects(self) -> "Mapping[str, tuple[Suspect, ...]]":
        """Return by path the processes left running by calls that were present at the change."""
        ...


def observe_paths(workspace: Workspace, paths: Iterable[str]) -> Observation:
    return Observation(None, {path: try_observe_file(workspace.root / path) for path in paths})


def observe_workspace(workspace: Workspace) -> Observation:
    """Observe each difference from HEAD, untracked and hidden files included, ignored ones not. Raises GitError."""
    if workspace.common_dir is None:
        return Observation(None, dict(observe_tree(workspace.root)))
    refuse_other_worktree(workspace)
    return observe_dirty_paths(workspace, *git_status(workspace))


def observe_dirty_paths(workspace: Workspace, head: str | None, dirty: list[str]) -> Observation:
    """Observe the workspace when the paths that differ from `head` are known. Raises GitError."""
    root, flags, hidden = workspace.root, read_index_flags(workspace), find_hidden_files(workspace)
    files = {path: try_observe_file(root / path) for path in dirty if path != LOG_VIEW and not path.endswith("/")}
    overlooked = {path: found for path in flags.overlooked if (found := try_observe_file(root / path)) is not None}
    files |= overlooked
    for path in hidden or ():
        found = try_observe_file(root / path)
        # Without content: files hidden from git must not be stored in git.
        files[path] = None if found is None else ObservedFile(found.version, None)
    links = tuple(path for path, found in files.items() if found and found.version.mode == "120000")
    outside = dict.fromkeys(find_outside_links(root, (*flags.links, *links)))
    repositories = dict.fromkeys((*flags.repositories, *(path.rstrip("/") for path in dirty if path.endswith("/"))))
    remarks = [
        *(f"not observed: nested repository {path}" for path in repositories),
        *(f"not observed: link to a folder outside, {path}" for path in outside),
        *(f"observed, though git is told to overlook it: {path}" for path in flags.overlooked if path in files),
    ]
    if hidden is None:
        remarks.append(f"not observed: more than {MAX_HIDDEN_FILES} files that {PRIVATE_EXCLUDES} hides")
    return Observation(head, {**files, **dict(observe_governing_files(workspace))}, tuple(remarks))


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
    dirty, ignored = ([p for p in paths if not p.startswith(f"{ORCHESTRATION_FOLDER}/")] for paths in (dirty, ignored))
    own = [path for path in ignored if is_ignore_file(path)]
    changed = [path for path in (*dirty, *own) if is_ignore_file(path)]
    if head is None or not changed:
        return ()
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
    if ORCHESTRATION_FOLDER.encode() in read_tail(common / "info/exclude", MAX_FILE_BYTES):  # `remit init --private`
        yield from ((f"{INTENT_FILES}{path}", seen) for path, seen in observe_tree(workspace.root / INTENT_FILES))
    for found in (common / name for name in GOVERNING_GIT_FILES):
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
        paths = (str((here / name).relative_to(root)) for name in files)
        yield from (path for path in paths if path not in (LOG_VIEW, INTENT_MAP))


def try_observe_file(path: Path) -> ObservedFile | None:
    """Return the observed file; an unreadable file counts as absent."""
    try:
        return observe_file(path)
    except OSError:
        return None


# -- changes -------------------------------------------------------------------------------------------------


class Change(Struct, frozen=True):
    """A path whose content or mode differs from before.

    `from_git`: git put the content there from an earlier commit, by a merge, a pull, a branch switch. The commands of
    `possible_sessions` ran at the time and may have made the change.
    """

    path: str
    before: ObservedFile | None
    after: ObservedFile | None
    from_git: bool = False
    possible_sessions: tuple[str, ...] = ()


def find_changes(workspace: Workspace, before: Observation, after: Observation) -> tuple[Change, ...]:
    """Return the differences between an observation and a fresh one, by path.

    A path without an entry had the content of HEAD before, so git is asked. The present content is read from disk: git
    may call a file clean although a checkout would write different line endings. Remit's own tracked log is left out.
    """
    paths = set(before.files) | set(after.files)
    if after.head is not None and before.head != after.head:
        git = Git(workspace.root)
        base = before.head or git.text("hash-object", "-t", "tree", "/dev/null")
        words = ("diff-tree", "-r", "-z", "--no-renames", "--name-only", "--relative", base, after.head)
        paths |= set(split_paths(git.run(*words)))
    absent = sorted(path for path in paths if path not in before.files)
    committed = read_at_commit(workspace, before.head, absent) if before.head else dict.fromkeys(absent)
    old = {**committed, **before.files}
    new = {**{path: try_observe_file(workspace.root / path) for path in paths - set(after.files)}, **after.files}
    found = (Change(p, old[p], new[p]) for p in sorted(paths) if content_identity(old[p]) != content_identity(new[p]))
    return tuple(c for c in found if c.after is None or not is_own_write(workspace, c.path, c.after.version.sha256))


def is_own_write(workspace: Workspace, path: str, sha256: str) -> bool:
    return path.startswith(f"{TRACKED_LOGS_FOLDER}/") and sha256 in read_own_writes(workspace.state)[1:]


def content_identity(found: ObservedFile | None) -> tuple[str, str] | None:
    return None if found is None else (found.version.sha256, found.version.mode)


def read_at_commit(workspace: Workspace, commit: str, paths: list[str]) -> dict[str, ObservedFile | None]:
    if not paths:
        return {}
    modes = read_tree_entries(workspace, commit, paths)
    blobs = {path: blob for path, (_, blob) in modes.items()}
    contents = read_worktree_form(Git(workspace.root), prefix_in_repository(workspace), blobs)
    return {p: observed_content(found, modes[p][0]) if (found := contents.get(p)) is not None else None for p in paths}


def versions_by_path(observation: Observation) -> dict[str, ContentVersion | None]:
    return {path: found.version if found else None for path, found in observation.files.items()}


def split_paths(listed: bytes) -> Iterator[str]:
    return (path for path in listed.decode("utf-8", "surrogateescape").split("\0") if path)


# -- contents that git brings --------------------------------------------------------------------------------


def list_known_commits(workspace: Workspace, head: str | None) -> tuple[str, ...]:
    """Return the tips of each ref and `head`; empty without git. With very many refs, only branches."""
    if workspace.common_dir is None:
        return ()
    git = Git(workspace.root)
    found = set(git.text("for-each-ref", "--format=%(objectname)").split())
    if len(found) > MAX_REFS:
        found = set(git.text("for-each-ref", "--format=%(objectname)", "refs/heads").split()[:MAX_REFS])
    return tuple(sorted(found | ({head} if head else set())))


def find_git_arrivals(
    workspace: Workspace, before: Observation, after: Observation, paths: set[str], known: tuple[str, ...]
) -> set[str]:
    """Return the `paths` whose content was in the repository before the call, or was fetched during the call.

    Commit dates count for nothing: the author chooses them. A path that differs from the new HEAD was changed by hand.
    A removed file arrived only if HEAD moved to a commit that existed before. Empty if git fails: the call is held
    responsible.
    """
    clean = sorted(path for path in paths if path not in after.files)
    if after.head is None or before.head == after.head or not clean or not known:
        return set()
    try:
        fresh = list_new_objects(workspace, after.head, known)
        held = read_tree_entries(workspace, after.head, clean)
    except GitError:
        return set()
    arrived = after.head not in fresh
    return {path for path in clean if (held[path][1] not in fresh if path in held else arrived)}


def list_new_objects(workspace: Workspace, head: str, known: tuple[str, ...]) -> set[str]:
    others = (*known, *list_fetched_tips(workspace, known))
    lines = "".join(f"{name}\n" for name in (head, *(f"^{oid}" for oid in others)))
    words = ("rev-list", "--objects", "--no-object-names", "--ignore-missing", "--stdin")
    return set(Git(workspace.root).run(*words, stdin=lines.encode()).decode("ascii", "replace").split())


def list_fetched_tips(workspace: Workspace, known: tuple[str, ...]) -> list[str]:
    """Return remote refs that moved since, except by a push from this repository."""
    git = Git(workspace.root)
    out = git.run("for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes")
    rows = [line.partition(" ")[::2] for line in os.fsdecode(out).splitlines()]
    moved = [(oid, name) for oid, name in rows if oid not in known]
    # Without a reflog, the text is empty.
    texts = [git.text("reflog", "-1", "--format=%gs", name, ok=(0, 128)) for _, name in moved]
    return [oid for (oid, _), text in zip(moved, texts, strict=True) if not text.startswith(PUSH_REFLOG_TEXT)]


def find_arriving_paths(workspace: Workspace, known: tuple[str, ...]) -> frozenset[str]:
    """Return the paths that a stopped operation brings: undoing would lose them from the merge. Empty if git fails."""
    found: set[str] = set()
    try:
        for name, between in OPERATION_RANGES.items() if known else ():
            for commit in filter(OID.fullmatch, read_pointer(f"{workspace.git_view}/{name}").split()):
                # Without commits made by the call itself.
                if commit not in list_new_objects(workspace, commit, known):
                    words = ("diff", "--name-only", "-z", "--no-renames", "--relative", between.format(commit), "--")
                    found.update(split_paths(Git(workspace.root).run(*words)))
    except GitError:
        return frozenset()
    return frozenset(found)
