"""Whether what a command did to git's own folder may stay: all of it or nothing, since its files speak of each other.

What adds to history may stay (objects, branches that go forward, the index, logs that grow); what takes away from it,
or makes git run programs, may not. Remit's own refs are left as they are, and the rest goes on without them.
"""

import re
from collections.abc import Sequence
from pathlib import Path

from remit.workspace.git import Git
from remit.workspace.sandbox.git_asked import Layered
from remit.workspace.sandbox.object_checks import is_whole_pack, object_name
from remit.workspace.sandbox.places import OWN_REFS
from remit.workspace.sandbox.staged import SPECIAL, Touched

OBJECT = re.compile(r"objects/([0-9a-f]{2}/[0-9a-f]{38,62}|pack/pack-[0-9a-f]{40,64}\.(pack|idx|rev))")
REF = re.compile(r"refs/(heads|tags|remotes|notes)/.+|refs/stash")
REMITS = re.compile(rf"(logs/)?({'|'.join(OWN_REFS)})(/.+)?")
"""What Remit keeps as refs, and its notes of who wrote a commit: no agent's to write, or to take away."""
STASH = "refs/stash"
SHARED = re.compile(r"objects/.+|(logs/)?refs/.+")
"""What belongs to all work trees of a repository; the rest of `common` is the first one's."""
TREES = "worktrees/"
HEAD = re.compile(r"(worktrees/[^/]+/)?HEAD")
LOG = re.compile(r"(worktrees/[^/]+/)?logs/.+")
LOOSE = re.compile(
    r"(worktrees/[^/]+/)?(index|ORIG_HEAD|FETCH_HEAD|COMMIT_EDITMSG|MERGE_\w+|AUTO_MERGE|SQUASH_MSG|CHERRY_PICK_HEAD)"
)
COMMIT = re.compile(rb"[0-9a-f]{40}([0-9a-f]{24})?")


class GitChanges:
    """What one command did to git's folder: `upper` took its writes, `common` is the real one.

    `tree` is the git folder of the work tree that it ran in, relative to `common`: empty for the first.
    """

    def __init__(self, upper: Path, common: Path, changes: Sequence[Touched], tree: str = "") -> None:
        self.upper = upper
        self.common = common
        self.tree = tree
        self.layered = Layered(upper, common)
        found = [c for c in changes if c.kind != "folder" and not ignored(c) and not self.emptied(c)]
        self.remits = [c for c in found if REMITS.fullmatch(c.path)]
        self.changes = [c for c in found if c not in self.remits]
        self.paths = {c.path for c in self.changes}

    def emptied(self, change: Touched) -> bool:
        """Whether it is a folder that is gone: git takes away empty ones, and what was in it is named by itself."""
        return change.kind == "gone" and (self.common / change.path).is_dir()

    def objection(self) -> str | None:
        """Why none of it may stay; None where all may. Raises OSError, GitError."""
        return next((f"{c.path}: {why}" for c in self.changes if (why := self.why_not(c)) is not None), None)

    def in_order(self) -> list[Touched]:
        """The changes as they may be made: what others point to comes first."""
        return sorted(self.changes, key=lambda c: (rank(c.path), c.path))

    def objects(self) -> list[Touched]:
        """The objects among them, where each is what its name says; else none. Raises OSError, GitError."""
        found = [c for c in self.in_order() if c.kind == "file" and OBJECT.fullmatch(c.path)]
        return [] if any(self.why_not(c) for c in found) else found

    def tips(self) -> dict[str, str]:
        """The names that came to stand for another commit, and which. Raises OSError."""
        names = [c.path for c in self.changes if c.kind == "file" and (REF.fullmatch(c.path) or HEAD.fullmatch(c.path))]
        found = {name: (self.upper / name).read_bytes().strip() for name in names}
        return {name: commit.decode() for name, commit in found.items() if COMMIT.fullmatch(commit)}

    def is_real(self, name: str) -> bool:
        """Whether the real repository holds that object. Raises GitError."""
        return bool(Git(self.common).text("rev-parse", "--verify", "--quiet", f"{name}^{{object}}", ok=(0, 1, 128)))

    @property
    def index(self) -> Path | None:
        """The index of its own work tree as the command left it; None where that is as it was."""
        name = f"{self.tree}/index".lstrip("/")
        return self.upper / name if name in self.paths else None

    def why_not(self, change: Touched) -> str | None:
        """Why one change may not stay."""
        path = change.path
        if not SHARED.fullmatch(path) and not self.is_own(path):
            return "it belongs to another work tree"
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
        if HEAD.fullmatch(path) or REF.fullmatch(path):
            return self.why_no_move(path)
        return "it is not a part of git's folder that a commit changes"

    def is_own(self, path: str) -> bool:
        """Whether it belongs to the work tree that the command ran in, or to no work tree."""
        if path.startswith(TREES):
            return self.tree != "" and path.startswith(f"{self.tree}/")
        return not self.tree or not (LOOSE.fullmatch(path) or HEAD.fullmatch(path) or path == "logs/HEAD")

    def why_forged(self, path: str) -> str | None:
        """Why an object is not what its name says: git never looks, and would take it for a file that comes later."""
        place = self.upper / path
        if path.startswith("objects/pack/"):
            if not path.endswith(".idx"):
                return None if place.with_suffix(".idx").exists() else "a pack has no index"
            return None if is_whole_pack(self.layered, place) else "a pack does not hold what its index says"
        name = path.removeprefix("objects/").replace("/", "")
        return None if object_name(place, len(name)) == name else "an object is not what its name says, or too large"

    def grew(self, path: str) -> bool:
        """Whether the new log begins with all of the old."""
        old = self.common / path
        return not old.exists() or (self.upper / path).read_bytes().startswith(old.read_bytes())

    def why_no_move(self, path: str) -> str | None:
        """Why a name may not come to stand for what it now stands for: it may only go forward.

        A new stash does not build on the one before, which the log still names.
        """
        new = (self.upper / path).read_bytes().strip()
        if HEAD.fullmatch(path) and new.startswith(b"ref: refs/heads/"):
            return None
        if not COMMIT.fullmatch(new):
            return "it names no commit"
        if path == STASH and f"logs/{STASH}" in self.paths and self.grew(f"logs/{STASH}"):
            return None
        old = Git(self.common).text("rev-parse", "--verify", "--quiet", f"{path}^{{object}}", ok=(0, 1, 128))
        if not old or old == new.decode() or self.layered.says("merge-base", "--is-ancestor", old, new.decode()):
            return None
        return "it leaves commits behind"


def ignored(change: Touched) -> bool:
    """Whether a change is left out without a word: an object that is gone stays; a lock that is left over goes, and the
    socket of a watcher, which ended with the command.
    """
    if change.kind == "gone":
        return change.path.startswith("objects/")
    return change.kind in SPECIAL or change.path.endswith(".lock")


def rank(path: str) -> int:
    """What comes first, so that nothing ever points to what is not there yet."""
    return 0 if path.startswith("objects/") else 2 if REF.fullmatch(path) else 3 if HEAD.fullmatch(path) else 1
