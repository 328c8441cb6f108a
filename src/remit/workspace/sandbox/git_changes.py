"""Judgement of a command's changes to git's folder: accepted or refused as a whole, since the files refer to each
other.

Here the files are checked: each must be a file that git's usual commands write, with the content that its name
promises. The history behind the names is judged by `new_commits`. Remit's own refs stay unchanged; other changes
proceed without them. Of the settings, only a branch's upstream may come over: other settings run programs, hide files,
or redirect git, and belong to a person.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from remit.core.lazy_property import LazyProperty
from remit.workspace.git.command import Git
from remit.workspace.git.programs_in_settings import list_settings
from remit.workspace.sandbox.layer_changes import SPECIAL_KINDS, StagedChange
from remit.workspace.sandbox.layered_git import LayeredGit
from remit.workspace.sandbox.layers import OWN_REFS
from remit.workspace.sandbox.object_checks import is_whole_pack, object_name

PACKED_REFS = "packed-refs"
STASH_REF = "refs/stash"
HEADS, TAGS, REMOTES = "refs/heads/", "refs/tags/", "refs/remotes/"
LASTING_REFS = (HEADS, TAGS, REMOTES)
"""Refs whose commits count as known: their commits were judged before."""

REF_PATH = re.compile(
    r"refs/(heads|tags|remotes|notes|bisect|rewritten)/.+|refs/stash|worktrees/[^/]+/refs/(bisect|rewritten)/.+"
)
OBJECT_NAME = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")

OBJECT_PATH = re.compile(r"objects/([0-9a-f]{2}/[0-9a-f]{38,62}|pack/pack-[0-9a-f]{40,64}\.(pack|idx|promisor))")
REGENERATED_FILES = re.compile(
    r"objects/info/.+|objects/pack/(multi-pack-index.*|pack-.+\.(rev|bitmap|mtimes|keep))|.*\.lock|(.*/)?gc\.(log|pid)"
)
"""Files that git recreates if missing, and believes without checking: commit graphs, pack maps."""

REMIT_REF_PATH = re.compile(rf"(logs/)?({'|'.join(OWN_REFS)})(/.+)?")
"""Remit's refs and authorship notes: not writable or removable for agents."""

SHARED_PATH = re.compile(r"objects/.+|(logs/)?refs/.+|packed-refs|shallow")
"""Paths shared by the worktrees of a repository; other paths of `common` belong to the main worktree."""

WORKTREES_PREFIX = "worktrees/"
HEAD_PATH = re.compile(r"(worktrees/[^/]+/)?HEAD")
LOG_PATH = re.compile(r"(worktrees/[^/]+/)?logs/.+")
WORKTREE_FILE = re.compile(
    r"(worktrees/[^/]+/)?(index|ORIG_HEAD|FETCH_HEAD|COMMIT_EDITMSG|MERGE_\w+|AUTO_MERGE|SQUASH_MSG|CHERRY_PICK_HEAD"
    r"|REVERT_HEAD|REBASE_HEAD|BISECT_\w+|rebase-merge(/[\w.-]+)?)"
)
IN_PROGRESS_FILE = re.compile(
    r"(worktrees/[^/]+/)?(MERGE_HEAD|CHERRY_PICK_HEAD|REVERT_HEAD|MERGE_AUTOSTASH|rebase-merge/(onto|orig-head|autostash))"
)
"""Files with the commits that a merge or rebase continues with."""

REBASE_STEPS_FILE = re.compile(r"(worktrees/[^/]+/)?rebase-merge/(git-rebase-todo(\.backup)?|done)")
REBASE_STEP = re.compile(
    r"\s*|#.*|noop|(pick|reword|edit|squash|fixup|fixup -[cC]|drop|[presfd]) [0-9a-f]{40,64}( .*)?"
    r"|update-ref refs/heads/\S+"
)
"""A line of a remaining rebase. `exec` would run a program for whoever continues."""

STRATEGY_FILE = re.compile(r"(worktrees/[^/]+/)?rebase-merge/strategy")
STRATEGIES = (b"", b"ort", b"recursive", b"resolve", b"ours")
SETTINGS_FILE = "config"
TRACKING_KEY = re.compile(r"branch\.(?P<branch>[^\n]+)\.(?P<name>remote|merge|rebase)")
BRANCH_NAME = re.compile(r"refs/heads/[\w][\w./@+-]*")
REBASE_VALUES = frozenset({"true", "false", "merges"})


class RefMove(Struct, frozen=True):
    """A ref with a new target; `old` or `new` is empty for a created or deleted ref."""

    name: str
    old: str
    new: str

    @property
    def is_branch_or_tag(self) -> bool:
        return self.name.startswith(LASTING_REFS)


def find_ref_moves(upper: Path, common: Path, changes: Sequence[StagedChange]) -> list[RefMove]:
    """Return the moved refs. `upper` took the writes, `common` is the real folder. Raises OSError."""
    loose = {c.path: c for c in changes if REF_PATH.fullmatch(c.path)}
    repacked = any(c.path == PACKED_REFS for c in changes)
    before = read_packed_refs(common / PACKED_REFS)
    after = before
    if repacked:
        after = read_packed_refs(upper / PACKED_REFS)
    names = {*loose, *(name for name in {*before, *after} if before.get(name) != after.get(name))}
    found: list[RefMove] = []
    for name in sorted(names):
        old = read_ref_file(common / name) or before.get(name, "")
        change = loose.get(name)
        new = ""
        if change is None or change.kind == "file":
            new = read_ref_file((common if change is None else upper) / name)
        new = new or after.get(name, "")
        if old != new:
            found.append(RefMove(name, old, new))
    return found


def read_ref_file(place: Path) -> str:
    """Return a ref file's text: an object name, or `ref: …`; empty if absent. Raises OSError."""
    return place.read_bytes().decode("utf-8", "replace").strip() if place.is_file() and not place.is_symlink() else ""


def read_packed_refs(place: Path) -> Mapping[str, str]:
    """Return the targets of packed refs. Source: git-pack-refs(1), read 2026-11. Raises OSError."""
    if not place.is_file() or place.is_symlink():
        return {}
    rows = (
        line.split(" ") for line in place.read_text("utf-8", "surrogateescape").splitlines() if line[:1] not in "#^"
    )
    return {row[1]: row[0] for row in rows if len(row) == 2}


class GitChanges:
    """Changes of a command to git's folder: `upper` took the writes, `common` is the real folder.

    `worktree_folder` is the git folder of the command's worktree, relative to `common`: empty for the main worktree.
    """

    def __init__(self, upper: Path, common: Path, changes: Sequence[StagedChange], worktree_folder: str = "") -> None:
        self.upper = upper
        self.common = common
        self.worktree_folder = worktree_folder
        self.layered = LayeredGit(upper, common)
        found = [
            c for c in changes if c.kind != "folder" and not is_ignorable_change(c) and not self.is_removed_folder(c)
        ]
        self.has_settings_change = any(c.path == SETTINGS_FILE and c.kind == "file" for c in found)
        """Whether the command changed the repository's settings; only upstream settings may come over."""
        self.remit_changes = [c for c in found if REMIT_REF_PATH.fullmatch(c.path)]
        self.changes = [c for c in found if c not in self.remit_changes and c.path != SETTINGS_FILE]
        self.paths = {c.path for c in self.changes}

    @LazyProperty
    def ref_moves(self) -> list[RefMove]:
        """Refs with a new target. Raises OSError."""
        return [
            move
            for move in find_ref_moves(self.upper, self.common, self.changes)
            if not REMIT_REF_PATH.fullmatch(move.name)
        ]

    def is_removed_folder(self, change: StagedChange) -> bool:
        """Return whether a folder is gone: git removes empty folders, and lists removed files separately."""
        return change.kind == "gone" and (self.common / change.path).is_dir()

    def find_objection(self) -> str | None:
        """Return why the changes are refused; None if accepted. Raises OSError, GitError."""
        return next(
            (f"{c.path}: {reason}" for c in self.changes if (reason := self.find_change_objection(c)) is not None), None
        )

    def order_changes(self) -> list[StagedChange]:
        """Return the changes in a safe order: targets before references."""
        return sorted(self.changes, key=lambda c: (write_order(c.path), c.path))

    def valid_objects(self) -> list[StagedChange]:
        """Return the new objects if each matches its name; else an empty list. Raises OSError, GitError."""
        found = [c for c in self.order_changes() if c.kind == "file" and OBJECT_PATH.fullmatch(c.path)]
        return [] if any(self.find_change_objection(c) for c in found) else found

    def worktree_path(self, name: str) -> str:
        return f"{self.worktree_folder}/{name}".lstrip("/")

    def path_after(self, path: str) -> Path:
        return self.upper / path if path in self.paths else self.common / path

    def is_real_object(self, name: str) -> bool:
        return bool(Git(self.common).text("rev-parse", "--verify", "--quiet", f"{name}^{{object}}", ok=(0, 1, 128)))

    @property
    def index(self) -> Path | None:
        """The changed index of the command's worktree; None if unchanged."""
        name = self.worktree_path("index")
        return self.upper / name if name in self.paths else None

    def list_tips(self) -> dict[str, str]:
        """Return commits with a new name, by name. Raises OSError.

        A stash, and the commits that a merge or rebase continues with, count as well: the next command ends there.
        """
        found = {m.name: m.new for m in self.ref_moves if m.is_branch_or_tag and OBJECT_NAME.fullmatch(m.new)}
        head_path = self.worktree_path("HEAD")
        if head_path in self.paths and OBJECT_NAME.fullmatch(head := read_ref_file(self.upper / head_path)):
            found["HEAD"] = head
        for path in sorted(self.paths):
            if IN_PROGRESS_FILE.fullmatch(path) or REBASE_STEPS_FILE.fullmatch(path):
                names = OBJECT_NAME.finditer(read_ref_file(self.upper / path))
                found |= {f"{path} {match.start()}": match[0] for match in names}
        return found

    def list_new_stashes(self) -> dict[str, str]:
        """Return stashed commits that are new, by name. Raises OSError."""
        new = [name for name in self.stashes_after if name not in self.stashes_before]
        return {f"{STASH_REF} {at}": name for at, name in enumerate(new)}

    @LazyProperty
    def stashes_before(self) -> list[str]:
        """The stashes before: entries of the log, and the newest by ref. Raises OSError."""
        return list(list_stashes(self.common, self.common))

    @LazyProperty
    def stashes_after(self) -> list[str]:
        """The stashes after the command. Raises OSError."""
        gone = {c.path for c in self.changes if c.kind == "gone"}
        log, ref = f"logs/{STASH_REF}", STASH_REF
        places = [self.path_after(path) if path not in gone else Path("/dev/null") for path in (log, ref)]
        return list(
            dict.fromkeys([*read_log_entries(places[0]), *filter(OBJECT_NAME.fullmatch, [read_ref_file(places[1])])])
        )

    def find_change_objection(self, change: StagedChange) -> str | None:
        """Return why a change is refused; None if accepted."""
        path = change.path
        if not SHARED_PATH.fullmatch(path) and not self.belongs_to_worktree(path):
            return "it belongs to another work tree"
        if REF_PATH.fullmatch(path) or path == PACKED_REFS:
            return None if change.kind in ("file", "gone") else f"it became a {change.kind}"
        if change.kind == "gone":
            return self.find_removal_objection(path)
        if change.kind != "file":
            return f"it became a {change.kind}"
        if OBJECT_PATH.fullmatch(path):
            return "an object was rewritten" if (self.common / path).exists() else self.find_object_objection(path)
        if REBASE_STEPS_FILE.fullmatch(path):
            steps = (self.upper / path).read_text("utf-8").splitlines()
            if not all(map(REBASE_STEP.fullmatch, steps)):
                return "what is left of the rebase is more than commits to pick"
        if STRATEGY_FILE.fullmatch(path) and (self.upper / path).read_bytes().strip() not in STRATEGIES:
            return "the rebase names a program"
        if WORKTREE_FILE.fullmatch(path) or HEAD_PATH.fullmatch(path):
            return None
        if LOG_PATH.fullmatch(path):
            return None if path == f"logs/{STASH_REF}" or self.is_log_extended(path) else "its past was rewritten"
        return "it is not a part of git's folder that a commit changes"

    def find_removal_objection(self, path: str) -> str | None:
        """Return why a removal is refused: a log goes with its ref, and files of a finished operation go."""
        if LOG_PATH.fullmatch(path) and path != self.worktree_path("logs/HEAD"):
            name = path.partition("logs/")[2]
            left = any(move.name == name and not move.new for move in self.ref_moves)
            return None if left or path == f"logs/{STASH_REF}" else "it was taken away"
        return None if WORKTREE_FILE.fullmatch(path) and not path.endswith("index") else "it was taken away"

    def belongs_to_worktree(self, path: str) -> bool:
        """Return whether the path belongs to the command's worktree, or to no worktree."""
        if path.startswith(WORKTREES_PREFIX):
            return self.worktree_folder != "" and path.startswith(f"{self.worktree_folder}/")
        return not self.worktree_folder or not (
            WORKTREE_FILE.fullmatch(path) or HEAD_PATH.fullmatch(path) or path == "logs/HEAD"
        )

    def find_object_objection(self, path: str) -> str | None:
        """Return why an object differs from its name: git never checks, and would use the object for a later file."""
        place = self.upper / path
        if path.startswith("objects/pack/"):
            if not path.endswith(".idx"):
                return None if place.with_suffix(".idx").exists() else "a pack has no index"
            return None if is_whole_pack(self.layered, place) else "a pack does not hold what its index says"
        name = path.removeprefix("objects/").replace("/", "")
        return None if object_name(place, len(name)) == name else "an object is not what its name says, or too large"

    def is_log_extended(self, path: str) -> bool:
        old = self.common / path
        return not old.exists() or (self.upper / path).read_bytes().startswith(old.read_bytes())

    def new_log_lines(self) -> list[str]:
        """Return the lines that the command added to the log of HEAD. Raises OSError."""
        path = self.worktree_path("logs/HEAD")
        if path not in self.paths or not self.is_log_extended(path):
            return []
        old = self.common / path
        size = old.stat().st_size if old.exists() else 0
        return (self.upper / path).read_bytes()[size:].decode("utf-8", "replace").splitlines()


def list_stashes(log_folder: Path, ref_folder: Path) -> Iterator[str]:
    """Yield the commits of a repository's stash without repetition. Raises OSError."""
    newest = read_ref_file(ref_folder / STASH_REF)
    yield from dict.fromkeys(
        [*read_log_entries(log_folder / "logs" / STASH_REF), *filter(OBJECT_NAME.fullmatch, [newest])]
    )


def read_log_entries(log: Path) -> list[str]:
    """Return the new targets in the lines of a reflog. Raises OSError."""
    if not log.is_file() or log.is_symlink():
        return []
    rows = (line.split(" ", 2) for line in log.read_text("utf-8", "replace").splitlines())
    return [row[1] for row in rows if len(row) > 2 and OBJECT_NAME.fullmatch(row[1])]


def is_ignorable_change(change: StagedChange) -> bool:
    """Return whether a change is silently left out: removed objects stay, regenerated files and watcher sockets are
    dropped.
    """
    if change.kind == "gone":
        return change.path.startswith("objects/")
    return change.kind in SPECIAL_KINDS or REGENERATED_FILES.fullmatch(change.path) is not None


def write_order(path: str) -> int:
    """Return a sort key: targets before the refs that name them."""
    return (
        0 if path.startswith("objects/") else 2 if REF_PATH.fullmatch(path) else 3 if HEAD_PATH.fullmatch(path) else 1
    )


class GitSetting(Struct, frozen=True):
    """A setting; `value` is None if removed."""

    key: str
    value: str | None


def split_changed_settings(
    common: Path, upper: Path, remotes: Collection[str], gone: Collection[str]
) -> tuple[list[GitSetting], list[str]]:
    """Return the acceptable changed settings, and the keys of refused ones.

    `remotes` are those of the real settings, `gone` the branches removed by the command. Raises OSError.
    """
    before, after = list_settings(common / "config"), list_settings(upper / "config")
    changed = {key: after.get(key) for key in (*after, *before) if before.get(key) != after.get(key)}
    local = {"."} if not any(TRACKING_KEY.fullmatch(key) for key in changed.keys() & before.keys()) else set[str]()
    own = [
        GitSetting(key, value)
        for key, value in changed.items()
        if (match := TRACKING_KEY.fullmatch(key)) and is_tracking_setting(match, value, {*remotes, *local}, gone)
    ]
    return own, sorted(changed.keys() - {setting.key for setting in own})


def is_tracking_setting(
    match: re.Match[str], value: str | None, remotes: Collection[str], gone: Collection[str]
) -> bool:
    """Return whether a setting only names a branch's upstream: a known remote, and a branch there."""
    if value is None:
        return match["branch"] in gone
    if match["name"] == "remote":
        return value in remotes
    return bool(BRANCH_NAME.fullmatch(value)) if match["name"] == "merge" else value in REBASE_VALUES


def write_tracking_settings(common: Path, settings: Iterable[GitSetting]) -> None:
    """Write the settings to the repository's own file. Raises GitError."""
    git = Git(common)
    for setting in settings:
        words = ("--unset-all", setting.key) if setting.value is None else ("--replace-all", setting.key, setting.value)
        git.run("config", "--file", str(common / "config"), *words, ok=(0, 5))
