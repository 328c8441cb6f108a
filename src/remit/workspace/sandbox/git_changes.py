"""Whether what a command did to git's own folder may stay: all of it or nothing, since its files speak of each other.

What adds to history may stay (objects, branches that go forward, the index, logs that grow); what takes away from it,
or makes git run programs, may not.
"""

import hashlib
import re
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path

from remit.workspace.git import TIMEOUT_S, Git
from remit.workspace.git_ahead import GUARDS
from remit.workspace.sandbox.staged import Touched

OBJECT = re.compile(r"objects/([0-9a-f]{2}/[0-9a-f]{38,62}|pack/pack-[0-9a-f]{40,64}\.(pack|idx|rev))")
REF = re.compile(r"refs/(heads|tags|remotes|notes)/.+|refs/stash")
WITNESS = "refs/notes/remit"
"""The heads of the log that `remit ledger witness` keeps with commits: no agent's to write, or to take away."""
HEAD = re.compile(r"(worktrees/[^/]+/)?HEAD")
LOG = re.compile(r"(worktrees/[^/]+/)?logs/.+")
LOOSE = re.compile(
    r"(worktrees/[^/]+/)?(index|ORIG_HEAD|FETCH_HEAD|COMMIT_EDITMSG|MERGE_\w+|AUTO_MERGE|SQUASH_MSG|CHERRY_PICK_HEAD)"
)
SHA256_DIGITS = 64
BLOCK = 1 << 18
OBJECTS = "GIT_ALTERNATE_OBJECT_DIRECTORIES"
COMMIT = re.compile(rb"[0-9a-f]{40}([0-9a-f]{24})?")


class GitChanges:
    """What one command did to git's folder: `upper` took its writes, `common` is the real one."""

    def __init__(self, upper: Path, common: Path, changes: Sequence[Touched]) -> None:
        self.upper = upper
        self.common = common
        self.changes = [c for c in changes if c.kind != "folder" and not ignored(c)]

    def objection(self) -> str | None:
        """Why none of it may stay; None where all may. Raises OSError, GitError."""
        return next((f"{c.path}: {why}" for c in self.changes if (why := self.why_not(c)) is not None), None)

    def in_order(self) -> list[Touched]:
        """The changes as they may be made: what others point to comes first."""
        return sorted(self.changes, key=lambda c: (rank(c.path), c.path))

    def why_not(self, change: Touched) -> str | None:
        """Why one change may not stay."""
        path = change.path
        if change.kind == "gone":
            return None if LOOSE.fullmatch(path) and "_" in path else "it was taken away"
        if change.kind != "file":
            return f"it became a {change.kind}"
        if OBJECT.fullmatch(path):
            return "an object was rewritten" if (self.common / path).exists() else self.why_forged(path)
        if LOOSE.fullmatch(path):
            return None
        if LOG.fullmatch(path):
            return None if self.grew(path) else "its past was rewritten"
        if path == WITNESS:
            return "only Remit writes these notes"
        if HEAD.fullmatch(path) or REF.fullmatch(path):
            return self.why_no_move(path)
        return "it is not a part of git's folder that a commit changes"

    def why_forged(self, path: str) -> str | None:
        """Why an object is not what its name says: git never looks, and would take it for a file that comes later."""
        place = self.upper / path
        if path.startswith("objects/pack/"):
            if not path.endswith(".idx"):
                return None if place.with_suffix(".idx").exists() else "a pack has no index"
            return None if self.is_whole(place) else "a pack does not hold what its index says"
        name = path.removeprefix("objects/").replace("/", "")
        return None if name_of(place, len(name)) == name else "an object is not what its name says"

    def is_whole(self, index: Path) -> bool:
        """Whether a pack holds what its index says."""
        words = ["git", *GUARDS, "--git-dir", str(self.common), "verify-pack", str(index)]
        try:
            return subprocess.run(words, capture_output=True, timeout=TIMEOUT_S, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def grew(self, path: str) -> bool:
        """Whether the new log begins with all of the old."""
        old = self.common / path
        return not old.exists() or (self.upper / path).read_bytes().startswith(old.read_bytes())

    def why_no_move(self, path: str) -> str | None:
        """Why a name may not come to stand for what it now stands for: it may only go forward."""
        new = (self.upper / path).read_bytes().strip()
        if HEAD.fullmatch(path) and new.startswith(b"ref: refs/heads/"):
            return None
        if not COMMIT.fullmatch(new):
            return "it names no commit"
        git = Git(self.common)
        name = path if REF.fullmatch(path) else "HEAD"
        old = git.text("rev-parse", "--verify", "--quiet", f"{name}^{{object}}", ok=(0, 1, 128))
        if not old or old == new.decode() or self.is_ancestor(old, new.decode()):
            return None
        return "it leaves commits behind"

    def is_ancestor(self, old: str, new: str) -> bool:
        """Whether the new commit, which only the sandbox has so far, builds on the old one."""
        done = subprocess.run(
            [
                "env",
                f"{OBJECTS}={self.upper / 'objects'}",
                "git",
                *GUARDS,
                "--git-dir",
                str(self.common),
                "merge-base",
                "--is-ancestor",
                old,
                new,
            ],
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        return done.returncode == 0


def name_of(place: Path, digits: int) -> str:
    """The name that a loose object has by its content; empty where it can be none."""
    found = hashlib.sha256() if digits == SHA256_DIGITS else hashlib.sha1(usedforsecurity=False)
    unpacking = zlib.decompressobj()
    try:
        with place.open("rb") as packed:
            while block := packed.read(BLOCK):
                found.update(unpacking.decompress(block))
        found.update(unpacking.flush())
    except zlib.error:
        return ""
    return found.hexdigest() if unpacking.eof and not unpacking.unused_data else ""


def ignored(change: Touched) -> bool:
    """Whether a change is left out without a word: an object that is gone stays, a lock that is left over goes."""
    return (change.kind == "gone" and change.path.startswith("objects/")) or change.path.endswith(".lock")


def rank(path: str) -> int:
    """What comes first, so that nothing ever points to what is not there yet."""
    return 0 if path.startswith("objects/") else 2 if REF.fullmatch(path) else 3 if HEAD.fullmatch(path) else 1
