"""What the workspace is, so that before and after can be compared: effects are the truth, not what was announced."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from remit.core.contents import Version
from remit.workspace.contents import batch
from remit.workspace.git import Git
from remit.workspace.place import FOLDER, Workspace
from remit.workspace.versions import Seen, look, seen

WATCHED = (f"{FOLDER}/active_intents.yaml", f"{FOLDER}/remit.toml", f"{FOLDER}/.intentignore", ".intentignore")
"""What governs: looked at always, even where git ignores it."""

WATCHED_GIT = ("config", "hooks")
"""Files of the git folder that can make git run programs. They appear as `.git/…`."""


class Observation(Struct, frozen=True):
    """What was found. Every path that `HEAD` does not tell has an entry; None means there is no file.

    `head` is None where there is no commit, or no git: then all files have entries.
    """

    head: str | None
    files: dict[str, Seen | None]


def observe_paths(workspace: Workspace, paths: Iterable[str]) -> Observation:
    """These paths (relative to the root), and nothing else."""
    return Observation(None, {path: glance(workspace.root / path) for path in paths})


def observe(workspace: Workspace) -> Observation:
    """The whole workspace: all that differs from HEAD, untracked files too; without git, all files.

    Files that git ignores are not seen. Raises GitError.
    """
    if workspace.common_dir is None:
        return Observation(None, dict(walk(workspace.root)))
    head, dirty = status(workspace)
    files = {path: glance(workspace.root / path) for path in dirty}
    return Observation(head, {**files, **dict(watched(workspace))})


def status(workspace: Workspace) -> tuple[str | None, list[str]]:
    """HEAD and the paths that differ from it. Source: git-status(1), porcelain v2, read 2026-11."""
    out = Git(workspace.root).run(
        "status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames", "--", "."
    )
    prefix = prefix_in_repository(workspace)
    head: str | None = None
    dirty: list[str] = []
    for entry in out.decode("utf-8", "surrogateescape").split("\0"):
        if entry.startswith("# branch.oid "):
            oid = entry.removeprefix("# branch.oid ")
            head = None if oid == "(initial)" else oid
        elif entry[:2] in ("1 ", "u ", "? "):
            path = entry.split(" ", {"1": 8, "u": 10, "?": 1}[entry[0]])[-1]
            if not path.endswith("/"):
                dirty.append(path.removeprefix(prefix))
    return head, dirty


def prefix_in_repository(workspace: Workspace) -> str:
    """The workspace's place in its repository, with a final `/`; empty where it is the repository's root."""
    if (workspace.root / ".git").exists():
        return ""
    return Git(workspace.root).text("rev-parse", "--show-prefix")


def watched(workspace: Workspace) -> Iterator[tuple[str, Seen | None]]:
    """The files that govern."""
    for path in WATCHED:
        yield path, glance(workspace.root / path)
    common = workspace.common_dir
    if common is None:
        return
    for name in WATCHED_GIT:
        found = common / name
        for path in sorted(found.iterdir()) if found.is_dir() else [found]:
            if not path.name.endswith(".sample"):
                yield f".git/{path.relative_to(common)}", glance(path)


def walk(root: Path) -> Iterator[tuple[str, Seen | None]]:
    """All files below `root`, Remit's own state left out."""
    for folder, names, files in os.walk(root):
        here = Path(folder)
        if here == root / FOLDER:
            names[:] = [n for n in names if n != ".state"]
        for name in files:
            path = str((here / name).relative_to(root))
            if path != f"{FOLDER}/agent_trace.jsonl":
                yield path, glance(here / name)


def glance(path: Path) -> Seen | None:
    """`look`, where a file that cannot be read counts as one that is not there."""
    try:
        return look(path)
    except OSError:
        return None


class Change(Struct, frozen=True):
    """One path with another content, or mode, than before."""

    path: str
    before: Seen | None
    after: Seen | None


def changes(workspace: Workspace, before: Observation, after: Observation) -> tuple[Change, ...]:
    """What became different between two observations of the same kind, by path.

    A path without an entry has the content that HEAD had at that observation: git is asked for those.
    """
    paths = set(before.files) | set(after.files) | moved_between(workspace, before.head, after.head)
    old = filled(workspace, before, paths)
    new = filled(workspace, after, paths)
    return tuple(Change(p, old[p], new[p]) for p in sorted(paths) if identity(old[p]) != identity(new[p]))


def identity(found: Seen | None) -> tuple[str, str] | None:
    """What makes two versions the same: bytes and mode."""
    return None if found is None else (found.version.sha256, found.version.mode)


def moved_between(workspace: Workspace, old: str | None, new: str | None) -> set[str]:
    """The paths in which two commits differ, when HEAD moved in between."""
    if old == new or new is None:
        return set()
    base = old or Git(workspace.root).text("hash-object", "-t", "tree", "/dev/null")
    out = Git(workspace.root).run("diff-tree", "-r", "-z", "--no-renames", "--name-only", "--relative", base, new)
    return {path for path in out.decode("utf-8", "surrogateescape").split("\0") if path}


def filled(workspace: Workspace, observation: Observation, paths: set[str]) -> dict[str, Seen | None]:
    """The observation with an entry for each of `paths`, those it left to HEAD read from there."""
    absent = sorted(p for p in paths if p not in observation.files)
    committed = at_commit(workspace, observation.head, absent) if observation.head else dict.fromkeys(absent)
    return {**committed, **observation.files}


def at_commit(workspace: Workspace, commit: str, paths: list[str]) -> dict[str, Seen | None]:
    """What these paths hold in a commit, as a checkout would write it."""
    if not paths:
        return {}
    modes = tree_modes(workspace, commit, paths)
    wanted = [p for p in paths if p in modes]
    lines = "".join(f"{modes[p][1]} {prefix_in_repository(workspace)}{p}\n" for p in wanted if "\n" not in p)
    out = Git(workspace.root).run("cat-file", "--batch", "--filters", stdin=os.fsencode(lines))
    contents = dict(zip([p for p in wanted if "\n" not in p], batch(out), strict=True))
    return {p: seen(found, modes[p][0]) if (found := contents.get(p)) is not None else None for p in paths}


def tree_modes(workspace: Workspace, commit: str, paths: list[str]) -> dict[str, tuple[str, str]]:
    """(mode, blob) of those of `paths` that are files in the commit."""
    out = Git(workspace.root).run("ls-tree", "-r", "-z", commit, "--", *[f":(literal){p}" for p in paths])
    found: dict[str, tuple[str, str]] = {}
    for line in out.decode("utf-8", "surrogateescape").split("\0"):
        about, _, path = line.partition("\t")
        if path and " blob " in about:
            mode, _, blob = about.split(" ")
            found[path] = (mode, blob)
    return found


def versions(observation: Observation) -> dict[str, Version | None]:
    """The observation without contents, for keeping."""
    return {path: found.version if found else None for path, found in observation.files.items()}
