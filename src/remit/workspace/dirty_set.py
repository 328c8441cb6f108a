"""Observations whose cost follows what changed: a full look once, then only at the paths that a watcher names.

Correct before quick: where it is not certain that the watcher knows of every change since the last full look, the next
one is full again, and `said` tells why.
"""

import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from remit.workspace.git import Git, GitError
from remit.workspace.git_settings import state_of
from remit.workspace.head import head_commit
from remit.workspace.hidden import private_patterns, refuse_elsewhere
from remit.workspace.observe import (
    ASKED_BY_NAME,
    VIEW,
    Observation,
    glance,
    is_rules,
    looked_at,
    observe,
    status,
    tree_modes,
)
from remit.workspace.place import Workspace
from remit.workspace.watching import Changed, Tree

Signature: TypeAlias = tuple[int, ...]
Standing: TypeAlias = tuple[str | None, tuple[Signature, ...]]
"""HEAD, and git's files that decide what differs from it: with any of them changed, git is asked about everything."""

MOST_CHANGED = 2000
"""With more changed paths than this, asking git about everything is no slower."""

SETTINGS = ("config", "config.worktree", "info/exclude", "info/attributes", "info/sparse-checkout")


class TooMany(RuntimeError):
    """So much changed that a full look is no slower."""


class Known(Struct):
    """The last full look, brought up to date: what stood, which paths differ from HEAD, what git said of others.

    `listed` are the paths of that look; `warm` those that were touched since, as they were when last looked at.
    """

    standing: Standing
    dirty: dict[str, None]
    listed: frozenset[str]
    heads: dict[str, tuple[str, str] | None] = {}
    ignored: dict[str, bool] = {}
    staged: dict[str, bool] = {}
    warm: dict[str, Signature] = {}


class DirtySet:
    """The observer of one work tree. `said` is empty where only the changed paths were looked at last."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.tree = Tree(workspace.root, self.ignored)
        self.known: Known | None = None
        self.said = self.tree.lost
        self.lock = threading.RLock()

    def observe(self, *, fully: bool = False) -> Observation:
        """What `observe` would find. Raises GitError."""
        with self.lock:
            try:
                self.tree.drain()
            except GitError as error:
                self.tree.lose(str(error).partition("\n")[0])
            why = "it was asked for" if fully else self.why_full()
            if why:
                return self.full(why)
            try:
                found = self.partial(self.tree.take())
            except (GitError, TooMany) as error:
                return self.full(str(error).partition("\n")[0])
            self.said = ""
            return found

    def why_full(self) -> str:
        """Why everything has to be looked at; empty where only what changed has."""
        why = self.tree.ended or self.tree.lost
        if why or self.known is None:
            return why or "nothing was looked at in full yet"
        if private_patterns(self.workspace):
            return "patterns outside the work tree hide files from git"
        standing = self.standing()
        if standing[0] is None:
            return "there is no commit yet"
        if standing != self.known.standing:
            return "HEAD, the index or git's settings changed"
        return ""

    def standing(self) -> Standing:
        """What stands now."""
        git_dir, common = self.workspace.git_dir, self.workspace.common_dir
        if git_dir is None or common is None:
            return (None, ())
        files = (git_dir / "index", git_dir / "config.worktree", *(common / name for name in SETTINGS))
        return head_commit(self.workspace), tuple(map(state_of, files))

    # -- in full --------------------------------------------------------------------------------------------

    def full(self, why: str) -> Observation:
        """Look at everything; what changes meanwhile is looked at again the next time. Raises GitError."""
        self.said, self.known = why, None
        if self.workspace.common_dir is None:
            return observe(self.workspace)
        whole = not self.tree.ended and not self.tree.lost
        self.tree.take()
        before = self.standing()
        refuse_elsewhere(self.workspace)
        head, dirty = status(self.workspace)
        found = looked_at(self.workspace, head, dirty)
        if whole and head is not None and head == before[0] and before == self.standing():
            self.known = Known(before, dict.fromkeys(dirty), frozenset(dirty))
        return found

    def renew(self) -> None:
        """Watch anew, where what changed is not known any more; the next look is full: nobody knows what was between.

        It takes long, and no call waits for it.

        Raises GitError.
        """
        if not self.tree.lost or self.tree.ended:
            return
        fresh = Tree(self.workspace.root, self.ignored)
        fresh.start()
        with self.lock:
            old, self.tree, self.known = self.tree, fresh, None
        old.close()

    def close(self) -> None:
        """Watch no more."""
        with self.lock:
            self.tree.end("it was closed")

    # -- in part --------------------------------------------------------------------------------------------

    def partial(self, changed: Changed) -> Observation:
        """Look at what differed, and at what changed. Raises GitError."""
        known = self.known
        if known is None:
            raise AssertionError("a partial look follows a full one")
        touched = {*changed.paths, *self.below(known, changed.folders), *cooled(self.workspace.root, known.warm)}
        touched.discard(VIEW)
        if any(map(is_rules, touched)):
            raise TooMany("a file of ignore patterns changed")
        if len(touched) + len(known.warm) > MOST_CHANGED:
            raise TooMany(f"more than {MOST_CHANGED} files changed since the last full look")
        if touched:
            self.settle(known, sorted(touched))
        return looked_at(self.workspace, known.standing[0], list(known.dirty))

    def below(self, known: Known, folders: Iterable[str]) -> set[str]:
        """Every path that was in one of these folders, or is in HEAD. What is there now, the watcher has named."""
        named = tuple(f"{folder}/" for folder in folders)
        if not named:
            return set()
        if len(named) > ASKED_BY_NAME:
            raise TooMany(f"more than {ASKED_BY_NAME} folders changed since the last look")
        found = {path for path in (*known.dirty, *known.warm) if path.startswith(named)} | set(folders)
        asked = ("--", *(f":(literal){folder}" for folder in folders))
        out = Git(self.workspace.root).run("ls-tree", "-r", "-z", "--name-only", str(known.standing[0]), *asked)
        return found | {path for path in out.decode("utf-8", "surrogateescape").split("\0") if path}

    def settle(self, known: Known, touched: list[str]) -> None:
        """Whether each of these paths differs from HEAD now. Raises GitError."""
        self.learn(known, touched)
        for path in touched:
            known.warm[path] = found = signature(self.workspace.root, path)
            if found[-1:] > (1,):
                raise TooMany("a file that changed has other names (hard links), of which nothing is told")
            if self.differs(known, path):
                known.dirty[path] = None
            else:
                known.dirty.pop(path, None)

    def learn(self, known: Known, touched: list[str]) -> None:
        """Ask git what HEAD has there, and which of the others it ignores, as far as that was not asked before."""
        fresh = [path for path in touched if path not in known.heads]
        modes = tree_modes(self.workspace, str(known.standing[0]), fresh) if fresh else {}
        known.heads |= {path: modes.get(path) for path in fresh}
        loose = [p for p in touched if known.heads[p] is None and p not in known.ignored and p not in known.listed]
        barred = self.ignored(loose)
        known.ignored |= {path: path in barred for path in loose}
        new = [p for p in touched if known.heads[p] is None and p in known.listed and p not in known.staged]
        held = self.in_index(new)
        known.staged |= {path: path in held for path in new}

    def differs(self, known: Known, path: str) -> bool:
        """Whether a path that git was asked about belongs into an observation."""
        held = known.heads[path]
        if held is None and path not in known.listed and known.ignored[path]:
            return False
        now = glance(self.workspace.root / path)
        if held is not None:
            return now is None or (now.version.mode, now.version.git_blob) != held
        return now is not None or (path in known.listed and known.staged[path])

    def in_index(self, paths: list[str]) -> set[str]:
        """Those of `paths` that were added to the index. Raises GitError."""
        if not paths:
            return set()
        asked = (f":(literal){path}" for path in paths)
        out = Git(self.workspace.root).run("ls-files", "-z", "--cached", "--", *asked)
        return set(out.decode("utf-8", "surrogateescape").split("\0")) - {""}

    def ignored(self, paths: list[str]) -> set[str]:
        """Those of `paths` that git ignores. A folder with tracked files in it is none. Raises GitError."""
        if not paths or self.workspace.common_dir is None:
            return set()
        asked = b"".join(path.encode("utf-8", "surrogateescape") + b"\0" for path in paths)
        out = Git(self.workspace.root).run("check-ignore", "-z", "--stdin", stdin=asked, ok=(0, 1))
        return set(out.decode("utf-8", "surrogateescape").split("\0")) - {""}


def signature(root: Path, path: str) -> Signature:
    """What changes with a file, as far as looking at it without reading tells; last how many names it has."""
    try:
        found = (root / path).lstat()
    except OSError:
        return ()
    names = 1 if stat.S_ISDIR(found.st_mode) else found.st_nlink
    return (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, names)


def cooled(root: Path, warm: dict[str, Signature]) -> list[str]:
    """Those that changed without a word from the kernel: through a mapping that was still open."""
    return [path for path, known in warm.items() if signature(root, path) != known]
