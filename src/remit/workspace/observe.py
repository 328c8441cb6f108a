"""What the workspace is, so that before and after can be compared: effects are the truth, not what was announced."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from remit.core.contents import Version
from remit.workspace.git import Git
from remit.workspace.place import FOLDER, Workspace
from remit.workspace.versions import Seen, look, seen

WATCHED = (f"{FOLDER}/active_intents.yaml", f"{FOLDER}/remit.toml", f"{FOLDER}/.intentignore", ".intentignore")
"""What governs: looked at always, even where git ignores it."""

VIEW = f"{FOLDER}/agent_trace.jsonl"
"""Remit's own copy of its log, which grows at every call: no effect of the call, ignored by git or not."""

WATCHED_GIT = ("config", "hooks")
"""Files of the git folder that can make git run programs. They appear as `.git/…`."""


ASKED_BY_NAME = 200
"""More paths than this are looked up in the whole tree: a command line has an end."""


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
    files = {path: glance(workspace.root / path) for path in dirty if path != VIEW}
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
            if path != VIEW:
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
    brought: bool = False
    """git put this content there from a commit that was made before: a merge, a pull, another branch."""


def changes(workspace: Workspace, before: Observation, after: Observation) -> tuple[Change, ...]:
    """What became different between an observation and one made just now, by path.

    A path without an entry had the content of HEAD before: git is asked for it. Now it is as it lies there: git
    may call a file clean whose line endings a checkout would write differently.
    """
    paths = set(before.files) | set(after.files) | moved_between(workspace, before.head, after.head)
    old = filled(workspace, before, paths)
    new = {**{path: glance(workspace.root / path) for path in paths - set(after.files)}, **after.files}
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
    contents = checked_out(workspace, {p: blob for p, (_, blob) in modes.items()})
    return {p: seen(found, modes[p][0]) if (found := contents.get(p)) is not None else None for p in paths}


def checked_out(workspace: Workspace, blobs: dict[str, str]) -> dict[str, bytes | None]:
    """What a checkout would write at each path for that blob: one git for all, where its answer can be read.

    git 2.39 states the size before the filters: where one (`core.autocrlf`, LFS) changes it, each path is asked alone.
    """
    git, prefix = Git(workspace.root), prefix_in_repository(workspace)
    plain = [p for p in blobs if "\n" not in p]
    lines = "".join(f"{blobs[p]} {prefix}{p}\n" for p in plain)
    out = git.run("cat-file", "--batch", "--filters", stdin=os.fsencode(lines)) if plain else b""
    found = dict(zip(plain, aligned(out, [blobs[p] for p in plain]), strict=False))
    alone = [p for p in blobs if p not in found]
    return {**found, **{p: git.run("cat-file", "--filters", f"--path={prefix}{p}", blobs[p]) for p in alone}}


def aligned(out: bytes, names: list[str]) -> list[bytes]:
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


def tree_modes(workspace: Workspace, commit: str, paths: list[str]) -> dict[str, tuple[str, str]]:
    """(mode, blob) of those of `paths` that are files in the commit."""
    wanted = set(paths)
    named = [f":(literal){p}" for p in paths] if len(paths) <= ASKED_BY_NAME else []
    out = Git(workspace.root).run("ls-tree", "-r", "-z", commit, "--", *named)
    found: dict[str, tuple[str, str]] = {}
    for line in out.decode("utf-8", "surrogateescape").split("\0"):
        about, _, path = line.partition("\t")
        if path in wanted and " blob " in about:
            mode, _, blob = about.split(" ")
            found[path] = (mode, blob)
    return found


def versions(observation: Observation) -> dict[str, Version | None]:
    """The observation without contents, for keeping."""
    return {path: found.version if found else None for path, found in observation.files.items()}
