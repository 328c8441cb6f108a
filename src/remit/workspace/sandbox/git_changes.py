"""Whether what a command did to git's own folder may stay: all of it or nothing, since its files speak of each other.

This looks at the files: each has to be one that git's usual commands write, and what its name says. What the names
stand for afterwards is judged by `git_history`. Remit's own refs are left as they are; the rest goes on without them.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from remit.core.once import Once
from remit.workspace.git import Git
from remit.workspace.sandbox.git_asked import Layered
from remit.workspace.sandbox.git_refs import OBJECT_NAME, PACKED, REF, STASH, Move, find_moves, read_name
from remit.workspace.sandbox.object_checks import is_whole_pack, object_name
from remit.workspace.sandbox.places import OWN_REFS
from remit.workspace.sandbox.staged import SPECIAL, Touched

OBJECT = re.compile(r"objects/([0-9a-f]{2}/[0-9a-f]{38,62}|pack/pack-[0-9a-f]{40,64}\.(pack|idx|promisor))")
LEFT_BEHIND = re.compile(
    r"objects/info/.+|objects/pack/(multi-pack-index.*|pack-.+\.(rev|bitmap|mtimes|keep))|.*\.lock|(.*/)?gc\.(log|pid)"
)
"""What git makes anew where it is missing, and believes without looking: a graph of commits, a map of a pack."""

REMITS = re.compile(rf"(logs/)?({'|'.join(OWN_REFS)})(/.+)?")
"""What Remit keeps as refs, and its notes of who wrote a commit: no agent's to write, or to take away."""
SHARED = re.compile(r"objects/.+|(logs/)?refs/.+|packed-refs|shallow")
"""What belongs to all work trees of a repository; the rest of `common` is the first one's."""
TREES = "worktrees/"
HEAD = re.compile(r"(worktrees/[^/]+/)?HEAD")
LOG = re.compile(r"(worktrees/[^/]+/)?logs/.+")
LOOSE = re.compile(
    r"(worktrees/[^/]+/)?(index|ORIG_HEAD|FETCH_HEAD|COMMIT_EDITMSG|MERGE_\w+|AUTO_MERGE|SQUASH_MSG|CHERRY_PICK_HEAD"
    r"|REVERT_HEAD|REBASE_HEAD|BISECT_\w+|rebase-merge(/[\w.-]+)?)"
)
UNDER_WAY = re.compile(
    r"(worktrees/[^/]+/)?(MERGE_HEAD|CHERRY_PICK_HEAD|REVERT_HEAD|MERGE_AUTOSTASH|rebase-merge/(onto|orig-head|autostash))"
)
"""What names the commits that a merge or a rebase goes on with, whoever ends it."""
STEPS = re.compile(r"(worktrees/[^/]+/)?rebase-merge/(git-rebase-todo(\.backup)?|done)")
STEP = re.compile(
    r"\s*|#.*|noop|(pick|reword|edit|squash|fixup|fixup -[cC]|drop|[presfd]) [0-9a-f]{40,64}( .*)?"
    r"|update-ref refs/heads/\S+"
)
"""A line of what is left of a rebase. `exec` would have git run a program for whoever goes on with it."""
STRATEGY = re.compile(r"(worktrees/[^/]+/)?rebase-merge/strategy")
STRATEGIES = (b"", b"ort", b"recursive", b"resolve", b"ours")
SETTINGS = "config"


class GitChanges:
    """What one command did to git's folder: `upper` took its writes, `common` is the real one.

    `tree` is the git folder of the work tree that it ran in, relative to `common`: empty for the first.
    """

    def __init__(self, upper: Path, common: Path, changes: Sequence[Touched], tree: str = "") -> None:
        self.upper = upper
        self.common = common
        self.tree = tree
        self.layered = Layered(upper, common)
        found = [c for c in changes if c.kind != "folder" and not is_left_behind(c) and not self.is_emptied(c)]
        self.settings = any(c.path == SETTINGS and c.kind == "file" for c in found)
        """It set something for the repository: of that, only where a branch is pulled from may come over."""
        self.remits = [c for c in found if REMITS.fullmatch(c.path)]
        self.changes = [c for c in found if c not in self.remits and c.path != SETTINGS]
        self.paths = {c.path for c in self.changes}

    @Once
    def moves(self) -> list[Move]:
        """The names that stand for something else. Raises OSError."""
        return [move for move in find_moves(self.upper, self.common, self.changes) if not REMITS.fullmatch(move.name)]

    def is_emptied(self, change: Touched) -> bool:
        """Whether it is a folder that is gone: git takes away empty ones, and names what was in it by itself."""
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

    def own(self, name: str) -> str:
        """Return the path of a file that each work tree has for itself, as its command's work tree has it."""
        return f"{self.tree}/{name}".lstrip("/")

    def place_after(self, path: str) -> Path:
        """Return where a file of git's folder is read as the command left it."""
        return self.upper / path if path in self.paths else self.common / path

    def is_real(self, name: str) -> bool:
        """Whether the real repository holds that object. Raises GitError."""
        return bool(Git(self.common).text("rev-parse", "--verify", "--quiet", f"{name}^{{object}}", ok=(0, 1, 128)))

    @property
    def index(self) -> Path | None:
        """The index of its own work tree as the command left it; None where that is as it was."""
        name = self.own("index")
        return self.upper / name if name in self.paths else None

    def tips(self) -> dict[str, str]:
        """Return the commits that were not named so before, by what names them now. Raises OSError.

        A stash, and what a merge or a rebase goes on with, count as the branches do: the next command ends in those.
        """
        found = {move.name: move.new for move in self.moves if move.lasting and OBJECT_NAME.fullmatch(move.new)}
        head = read_name(self.upper / self.own("HEAD")) if self.own("HEAD") in self.paths else ""
        found |= {"HEAD": head} if OBJECT_NAME.fullmatch(head) else {}
        for path in sorted(self.paths):
            if UNDER_WAY.fullmatch(path) or STEPS.fullmatch(path):
                names = OBJECT_NAME.finditer(read_name(self.upper / path))
                found |= {f"{path} {match.start()}": match[0] for match in names}
        return found

    def stashes(self) -> dict[str, str]:
        """Return the stashed commits that no stash of before is, by what names them. Raises OSError."""
        new = [name for name in self.stashes_after if name not in self.stashes_before]
        return {f"{STASH} {at}": name for at, name in enumerate(new)}

    @Once
    def stashes_before(self) -> list[str]:
        """The stashes as they were: all the entries of the log, and the newest by its name. Raises OSError."""
        return list(stashes_in(self.common, self.common))

    @Once
    def stashes_after(self) -> list[str]:
        """The stashes as the command left them. Raises OSError."""
        gone = {c.path for c in self.changes if c.kind == "gone"}
        log, ref = f"logs/{STASH}", STASH
        places = [self.place_after(path) if path not in gone else Path("/dev/null") for path in (log, ref)]
        return list(dict.fromkeys([*entries_of(places[0]), *filter(OBJECT_NAME.fullmatch, [read_name(places[1])])]))

    def why_not(self, change: Touched) -> str | None:
        """Why one change may not stay."""
        path = change.path
        if not SHARED.fullmatch(path) and not self.is_own(path):
            return "it belongs to another work tree"
        if REF.fullmatch(path) or path == PACKED:
            return None if change.kind in ("file", "gone") else f"it became a {change.kind}"
        if change.kind == "gone":
            return self.why_not_gone(path)
        if change.kind != "file":
            return f"it became a {change.kind}"
        if OBJECT.fullmatch(path):
            return "an object was rewritten" if (self.common / path).exists() else self.why_forged(path)
        if STEPS.fullmatch(path) and not all(map(STEP.fullmatch, (self.upper / path).read_text("utf-8").splitlines())):
            return "what is left of the rebase is more than commits to pick"
        if STRATEGY.fullmatch(path) and (self.upper / path).read_bytes().strip() not in STRATEGIES:
            return "the rebase names a program"
        if LOOSE.fullmatch(path) or HEAD.fullmatch(path):
            return None
        if LOG.fullmatch(path):
            return None if path == f"logs/{STASH}" or self.has_grown(path) else "its past was rewritten"
        return "it is not a part of git's folder that a commit changes"

    def why_not_gone(self, path: str) -> str | None:
        """Why a file may not be gone: a log goes with its name, and what was under way comes to an end."""
        if LOG.fullmatch(path) and path != self.own("logs/HEAD"):
            name = path.partition("logs/")[2]
            left = any(move.name == name and not move.new for move in self.moves)
            return None if left or path == f"logs/{STASH}" else "it was taken away"
        return None if LOOSE.fullmatch(path) and not path.endswith("index") else "it was taken away"

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

    def has_grown(self, path: str) -> bool:
        """Whether the new log begins with all of the old."""
        old = self.common / path
        return not old.exists() or (self.upper / path).read_bytes().startswith(old.read_bytes())

    def new_log_lines(self) -> list[str]:
        """Return what the command added to the log of HEAD. Raises OSError."""
        path = self.own("logs/HEAD")
        if path not in self.paths or not self.has_grown(path):
            return []
        old = self.common / path
        size = old.stat().st_size if old.exists() else 0
        return (self.upper / path).read_bytes()[size:].decode("utf-8", "replace").splitlines()


def stashes_in(log_folder: Path, ref_folder: Path) -> Iterator[str]:
    """Yield the commits of a repository's stash, each once. Raises OSError."""
    newest = read_name(ref_folder / STASH)
    yield from dict.fromkeys([*entries_of(log_folder / "logs" / STASH), *filter(OBJECT_NAME.fullmatch, [newest])])


def entries_of(log: Path) -> list[str]:
    """Return what the lines of a name's log say that it came to stand for. Raises OSError."""
    if not log.is_file() or log.is_symlink():
        return []
    rows = (line.split(" ", 2) for line in log.read_text("utf-8", "replace").splitlines())
    return [row[1] for row in rows if len(row) > 2 and OBJECT_NAME.fullmatch(row[1])]


def is_left_behind(change: Touched) -> bool:
    """Whether a change is left out without a word: an object that is gone stays; what git makes anew goes, and the
    socket of a watcher, which ended with the command.
    """
    if change.kind == "gone":
        return change.path.startswith("objects/")
    return change.kind in SPECIAL or LEFT_BEHIND.fullmatch(change.path) is not None


def rank(path: str) -> int:
    """What comes first, so that nothing ever points to what is not there yet."""
    return 0 if path.startswith("objects/") else 2 if REF.fullmatch(path) else 3 if HEAD.fullmatch(path) else 1
