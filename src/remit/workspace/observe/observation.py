"""What the workspace is, so that before and after can be compared: effects are the truth, not what was announced."""

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
    MAX_NAMED_PATHS,
    PRIVATE_EXCLUDES,
    IndexFlags,
    find_hidden_files,
    find_outside_links,
    prefix_in_repository,
    read_index_flags,
    refuse_other_worktree,
)
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace
from remit.workspace.sharing.tracked_logs import is_own_write

if TYPE_CHECKING:
    from remit.workspace.processes.background import Suspect

GOVERNING_FILES = (
    f"{ORCHESTRATION_FOLDER}/active_intents.yaml",
    f"{ORCHESTRATION_FOLDER}/remit.toml",
    f"{ORCHESTRATION_FOLDER}/.intentignore",
    ".intentignore",
)
"""What governs: looked at always, even where git ignores it."""

INTENT_MAP = f"{ORCHESTRATION_FOLDER}/intent_map.md"
"""Remit's own page, which it writes only where git ignores it, or where there is no git to see it."""

HOOKS_FOLDER = f"{ORCHESTRATION_FOLDER}/hooks"
"""A team's own hooks: every file below it governs, too."""

LOG_VIEW = f"{ORCHESTRATION_FOLDER}/agent_trace.jsonl"
"""Remit's own copy of its log, which grows at every call: no effect of the call, ignored by git or not."""

GOVERNING_GIT_FILES = ("config", "config.worktree", "hooks", "info")
"""Files of the git folder that can make git run programs, or overlook files. They appear as `.git/…`."""

VOLATILE_GIT_FILES = frozenset({"info/refs"})
"""What git itself writes there."""


class Observation(Struct, frozen=True):
    """What was found. Every path that `HEAD` does not tell has an entry; None means there is no file.

    `head` is None where there is no commit, or no git: then all files have entries.
    """

    head: str | None
    files: dict[str, ObservedFile | None]
    remarks: tuple[str, ...] = ()
    """What was not looked at (repositories inside, links to folders elsewhere), and what git is told to overlook."""


class Observer(Protocol):
    """Who looks at one workspace, and may know what changed since the last time."""

    def observe(self, *, fully: bool = False) -> Observation:
        """The whole workspace; `fully` where everything has to be looked at. Raises GitError."""
        ...

    def suspects(self) -> "Mapping[str, tuple[Suspect, ...]]":
        """By path, which processes that calls left running were there when it changed."""
        ...


def observe_paths(workspace: Workspace, paths: Iterable[str]) -> Observation:
    """These paths (relative to the root), and nothing else."""
    return Observation(None, {path: try_observe_file(workspace.root / path) for path in paths})


def observe_workspace(workspace: Workspace) -> Observation:
    """The whole workspace: all that differs from HEAD, untracked files too; without git, all files.

    Files that `.gitignore` names are not seen; those that flags of the index or private patterns hide are. Raises
    GitError.
    """
    if workspace.common_dir is None:
        return Observation(None, dict(observe_tree(workspace.root)))
    refuse_other_worktree(workspace)
    return observe_dirty_paths(workspace, *git_status(workspace))


def observe_dirty_paths(workspace: Workspace, head: str | None, dirty: list[str]) -> Observation:
    """The observation, where it is known which paths differ from `head`. Raises GitError."""
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
    """What people should know of an observation: what it leaves out, and what git would."""
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
    """The file without its content: what is hidden from git is not put into it."""
    return None if found is None else ObservedFile(found.version, None)


def git_status(workspace: Workspace) -> tuple[str | None, list[str]]:
    """HEAD and the paths that differ from it, those that new rules hide among them; a repository inside ends in `/`.

    Source: git-status(1), porcelain v2, read 2026-11. What a submodule holds is its own: no git runs in there.
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
    """The files that only `.gitignore` files hide which are not as committed, and such files that hide themselves.

    Whoever writes a file may write the rule that hides it as well. Before the first commit all rules count, and those
    of `.orchestration/` always do: no agent may write there, and they hide only what Remit writes there itself.
    """
    ignored = [path for path in ignored if not path.startswith(f"{ORCHESTRATION_FOLDER}/")]
    own = [path for path in ignored if is_ignore_file(path)]
    changed = [
        path for path in (*dirty, *own) if is_ignore_file(path) and not path.startswith(f"{ORCHESTRATION_FOLDER}/")
    ]
    if head is None or not changed:
        return ()
    from remit.workspace.git.committed_ignores import find_hidden  # for those who change rules: it asks git anew

    above = tuple(path.removesuffix(IGNORE_FILE) for path in changed)
    return (*own, *find_hidden(workspace, head, [p for p in ignored if p not in own and p.startswith(above)]))


def is_ignore_file(path: str) -> bool:
    """Whether a path is one of git's files of ignore patterns."""
    return path == IGNORE_FILE or path.endswith(f"/{IGNORE_FILE}")


def observe_governing_files(workspace: Workspace) -> Iterator[tuple[str, ObservedFile | None]]:
    """The files that govern."""
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
    """All files below `root`, Remit's own state left out."""
    return ((path, try_observe_file(root / path)) for path in walk_paths(root))


def walk_paths(root: Path) -> Iterator[str]:
    """The paths of all files below `root`, Remit's own state left out."""
    for folder, names, files in os.walk(root):
        here = Path(folder)
        if here == root / ORCHESTRATION_FOLDER:
            names[:] = [n for n in names if n != ".state"]
        for name in files:
            path = str((here / name).relative_to(root))
            if path not in (LOG_VIEW, INTENT_MAP):
                yield path


def try_observe_file(path: Path) -> ObservedFile | None:
    """`look`, where a file that cannot be read counts as one that is not there."""
    try:
        return observe_file(path)
    except OSError:
        return None


class Change(Struct, frozen=True):
    """One path with another content, or mode, than before."""

    path: str
    before: ObservedFile | None
    after: ObservedFile | None
    from_git: bool = False
    """git put this content there from a commit that was made before: a merge, a pull, another branch."""
    possible_sessions: tuple[str, ...] = ()
    """The sessions whose commands ran at that time, where any of them may have done it."""


def find_changes(workspace: Workspace, before: Observation, after: Observation) -> tuple[Change, ...]:
    """What became different between an observation and one made just now, by path.

    A path without an entry had the content of HEAD before: git is asked for it. Now it is as it lies there: git
    may call a file clean whose line endings a checkout would write differently. What Remit itself wrote for a commit,
    its tracked log, is no change of anybody's.
    """
    paths = set(before.files) | set(after.files) | list_changed_paths(workspace, before.head, after.head)
    old = fill_from_head(workspace, before, paths)
    new = {**{path: try_observe_file(workspace.root / path) for path in paths - set(after.files)}, **after.files}
    found = (Change(p, old[p], new[p]) for p in sorted(paths) if content_identity(old[p]) != content_identity(new[p]))
    return tuple(c for c in found if c.after is None or not is_own_write(workspace, c.path, c.after.version.sha256))


def content_identity(found: ObservedFile | None) -> tuple[str, str] | None:
    """What makes two versions the same: bytes and mode."""
    return None if found is None else (found.version.sha256, found.version.mode)


def list_changed_paths(workspace: Workspace, old: str | None, new: str | None) -> set[str]:
    """The paths in which two commits differ, when HEAD moved in between."""
    if old == new or new is None:
        return set()
    base = old or Git(workspace.root).text("hash-object", "-t", "tree", "/dev/null")
    out = Git(workspace.root).run("diff-tree", "-r", "-z", "--no-renames", "--name-only", "--relative", base, new)
    return {path for path in out.decode("utf-8", "surrogateescape").split("\0") if path}


def fill_from_head(workspace: Workspace, observation: Observation, paths: set[str]) -> dict[str, ObservedFile | None]:
    """The observation with an entry for each of `paths`, those it left to HEAD read from there."""
    absent = sorted(p for p in paths if p not in observation.files)
    committed = read_at_commit(workspace, observation.head, absent) if observation.head else dict.fromkeys(absent)
    return {**committed, **observation.files}


def read_at_commit(workspace: Workspace, commit: str, paths: list[str]) -> dict[str, ObservedFile | None]:
    """What these paths hold in a commit, as a checkout would write it."""
    if not paths:
        return {}
    modes = read_tree_entries(workspace, commit, paths)
    contents = read_worktree_form(workspace, {p: blob for p, (_, blob) in modes.items()})
    return {p: observed_content(found, modes[p][0]) if (found := contents.get(p)) is not None else None for p in paths}


def read_worktree_form(workspace: Workspace, blobs: dict[str, str]) -> dict[str, bytes | None]:
    """What a checkout would write at each path for that blob: one git for all, where its answer can be read.

    git 2.39 states the size before the filters: where one (`core.autocrlf`, LFS) changes it, each path is asked alone.
    """
    git, prefix = Git(workspace.root), prefix_in_repository(workspace)
    plain = [p for p in blobs if "\n" not in p]
    lines = "".join(f"{blobs[p]} {prefix}{p}\n" for p in plain)
    out = git.run("cat-file", "--batch", "--filters", stdin=os.fsencode(lines)) if plain else b""
    found = dict(zip(plain, parse_filtered_batch(out, [blobs[p] for p in plain]), strict=False))
    alone = [p for p in blobs if p not in found]
    return {**found, **{p: git.run("cat-file", "--filters", f"--path={prefix}{p}", blobs[p]) for p in alone}}


def parse_filtered_batch(out: bytes, names: list[str]) -> list[bytes]:
    """The contents that `cat-file --batch` printed for these blobs; none where what it printed does not add up."""
    found: list[bytes] = []
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
        found.append(out[start : at - 1])
    return found if at == len(out) else []


def read_tree_entries(workspace: Workspace, commit: str, paths: list[str]) -> dict[str, tuple[str, str]]:
    """(mode, blob) of those of `paths` that are files in the commit."""
    wanted = set(paths)
    named = [f":(literal){p}" for p in paths] if len(paths) <= MAX_NAMED_PATHS else []
    out = Git(workspace.root).run("ls-tree", "-r", "-z", commit, "--", *named)
    found: dict[str, tuple[str, str]] = {}
    for line in out.decode("utf-8", "surrogateescape").split("\0"):
        about, _, path = line.partition("\t")
        if path in wanted and " blob " in about:
            mode, _, blob = about.split(" ")
            found[path] = (mode, blob)
    return found


def versions_by_path(observation: Observation) -> dict[str, ContentVersion | None]:
    """The observation without contents, for keeping."""
    return {path: found.version if found else None for path, found in observation.files.items()}
