"""What the workspace is, so that before and after can be compared: effects are the truth, not what was announced."""

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from remit.core.contents import Version
from remit.workspace.git import Git
from remit.workspace.hidden import (
    ASKED_BY_NAME,
    EXCLUDES,
    MOST,
    RULES,
    IndexFlags,
    hidden_files,
    index_flags,
    prefix_in_repository,
    refuse_elsewhere,
    unobserved_links,
)
from remit.workspace.place import FOLDER, Workspace
from remit.workspace.tracked import is_own_write
from remit.workspace.versions import Seen, look, seen

if TYPE_CHECKING:
    from remit.workspace.following import Suspect

WATCHED = (f"{FOLDER}/active_intents.yaml", f"{FOLDER}/remit.toml", f"{FOLDER}/.intentignore", ".intentignore")
"""What governs: looked at always, even where git ignores it."""

MAP = f"{FOLDER}/intent_map.md"
"""Remit's own page, which it writes only where git ignores it, or where there is no git to see it."""

HOOKS = f"{FOLDER}/hooks"
"""A team's own hooks: every file below it governs, too."""

VIEW = f"{FOLDER}/agent_trace.jsonl"
"""Remit's own copy of its log, which grows at every call: no effect of the call, ignored by git or not."""

WATCHED_GIT = ("config", "config.worktree", "hooks", "info")
"""Files of the git folder that can make git run programs, or overlook files. They appear as `.git/…`."""

VOLATILE = frozenset({"info/refs"})
"""What git itself writes there."""


class Observation(Struct, frozen=True):
    """What was found. Every path that `HEAD` does not tell has an entry; None means there is no file.

    `head` is None where there is no commit, or no git: then all files have entries.
    """

    head: str | None
    files: dict[str, Seen | None]
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
    return Observation(None, {path: glance(workspace.root / path) for path in paths})


def observe(workspace: Workspace) -> Observation:
    """The whole workspace: all that differs from HEAD, untracked files too; without git, all files.

    Files that `.gitignore` names are not seen; those that flags of the index or private patterns hide are. Raises
    GitError.
    """
    if workspace.common_dir is None:
        return Observation(None, dict(walk(workspace.root)))
    refuse_elsewhere(workspace)
    return looked_at(workspace, *status(workspace))


def looked_at(workspace: Workspace, head: str | None, dirty: list[str]) -> Observation:
    """The observation, where it is known which paths differ from `head`. Raises GitError."""
    flags, hidden = index_flags(workspace), hidden_files(workspace)
    files = {path: glance(workspace.root / path) for path in dirty if path != VIEW and not path.endswith("/")}
    files |= {path: found for path in flags.overlooked if (found := glance(workspace.root / path)) is not None}
    files |= {path: unkept(glance(workspace.root / path)) for path in hidden or ()}
    return Observation(head, {**files, **dict(watched(workspace))}, remarks_on(workspace, dirty, flags, files, hidden))


def remarks_on(
    workspace: Workspace,
    dirty: list[str],
    flags: IndexFlags,
    files: dict[str, Seen | None],
    hidden: tuple[str, ...] | None,
) -> tuple[str, ...]:
    """What people should know of an observation: what it leaves out, and what git would."""
    fresh = tuple(path for path, found in files.items() if found and found.version.mode == "120000")
    repositories = dict.fromkeys((*flags.repositories, *(path.rstrip("/") for path in dirty if path.endswith("/"))))
    links = dict.fromkeys(unobserved_links(workspace.root, (*flags.links, *fresh)))
    crowd = () if hidden is not None else (f"not observed: more than {MOST} files that {EXCLUDES} hides",)
    overlooked = (path for path in flags.overlooked if path in files)
    return (
        *(f"not observed: nested repository {path}" for path in repositories),
        *(f"not observed: link to a folder outside, {path}" for path in links),
        *(f"observed, though git is told to overlook it: {path}" for path in overlooked),
        *crowd,
    )


def unkept(found: Seen | None) -> Seen | None:
    """The file without its content: what is hidden from git is not put into it."""
    return None if found is None else Seen(found.version, None)


def status(workspace: Workspace) -> tuple[str | None, list[str]]:
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
    return head, [*dirty, *hidden_by_new_rules(workspace, head, dirty, ignored)]


def hidden_by_new_rules(
    workspace: Workspace, head: str | None, dirty: list[str], ignored: list[str]
) -> tuple[str, ...]:
    """The files that only `.gitignore` files hide which are not as committed, and such files that hide themselves.

    Whoever writes a file may write the rule that hides it as well. Before the first commit all rules count, and those
    of `.orchestration/` always do: no agent may write there, and they hide only what Remit writes there itself.
    """
    ignored = [path for path in ignored if not path.startswith(f"{FOLDER}/")]
    own = [path for path in ignored if is_rules(path)]
    changed = [path for path in (*dirty, *own) if is_rules(path) and not path.startswith(f"{FOLDER}/")]
    if head is None or not changed:
        return ()
    from remit.workspace.ignored import find_hidden  # for those who change rules: it asks git anew

    above = tuple(path.removesuffix(RULES) for path in changed)
    return (*own, *find_hidden(workspace, head, [p for p in ignored if p not in own and p.startswith(above)]))


def is_rules(path: str) -> bool:
    """Whether a path is one of git's files of ignore patterns."""
    return path == RULES or path.endswith(f"/{RULES}")


def watched(workspace: Workspace) -> Iterator[tuple[str, Seen | None]]:
    """The files that govern."""
    for path in WATCHED:
        yield path, glance(workspace.root / path)
    yield from ((f"{HOOKS}/{path}", seen) for path, seen in walk(workspace.root / HOOKS))
    common = workspace.common_dir
    if common is None:
        return
    for name in WATCHED_GIT:
        found = common / name
        for path in sorted(found.iterdir()) if found.is_dir() else [found]:
            name = str(path.relative_to(common))
            if not name.endswith(".sample") and name not in VOLATILE and not path.is_dir():
                yield f".git/{name}", glance(path)


def walk(root: Path) -> Iterator[tuple[str, Seen | None]]:
    """All files below `root`, Remit's own state left out."""
    return ((path, glance(root / path)) for path in walk_names(root))


def walk_names(root: Path) -> Iterator[str]:
    """The paths of all files below `root`, Remit's own state left out."""
    for folder, names, files in os.walk(root):
        here = Path(folder)
        if here == root / FOLDER:
            names[:] = [n for n in names if n != ".state"]
        for name in files:
            path = str((here / name).relative_to(root))
            if path not in (VIEW, MAP):
                yield path


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
    shared: tuple[str, ...] = ()
    """The sessions whose commands ran at that time, where any of them may have done it."""


def changes(workspace: Workspace, before: Observation, after: Observation) -> tuple[Change, ...]:
    """What became different between an observation and one made just now, by path.

    A path without an entry had the content of HEAD before: git is asked for it. Now it is as it lies there: git
    may call a file clean whose line endings a checkout would write differently. What Remit itself wrote for a commit,
    its tracked log, is no change of anybody's.
    """
    paths = set(before.files) | set(after.files) | moved_between(workspace, before.head, after.head)
    old = filled(workspace, before, paths)
    new = {**{path: glance(workspace.root / path) for path in paths - set(after.files)}, **after.files}
    found = (Change(p, old[p], new[p]) for p in sorted(paths) if identity(old[p]) != identity(new[p]))
    return tuple(c for c in found if c.after is None or not is_own_write(workspace, c.path, c.after.version.sha256))


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
