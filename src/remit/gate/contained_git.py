"""What a contained command did to git's folder: judged as a whole, with what git brought into the working tree.

Content that stands in somebody's commits already is no work of the command's: it was judged, or is a teammate's. So a
pull, another branch or a stash may bring files out of the scope, as long as they are there what the commit says; what
the command itself made of them is judged like any other change. Either all of it stays, or none.
"""

import hashlib
import json
import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Finding
from remit.core.once import Once
from remit.core.shell import UnreadableShell
from remit.gate.contained_verdicts import Verdicts
from remit.gate.contained_words import (
    left_over,
    left_unmerged,
    of_git,
    remits_ref,
    stranger,
    unset,
    unwritten,
)
from remit.policy.commands import analyse
from remit.policy.commands.dangers import called
from remit.workspace.git import Git, GitError
from remit.workspace.head import head_commit
from remit.workspace.ignored import find_ignored
from remit.workspace.place import Workspace, git_root
from remit.workspace.sandbox.committing import Committing
from remit.workspace.sandbox.git_changes import SETTINGS, GitChanges
from remit.workspace.sandbox.git_config import Setting, changed_settings, set_tracking
from remit.workspace.sandbox.git_history import Commit, Entry, History, TooManyCommits, indexed
from remit.workspace.sandbox.git_refs import HEADS, LASTING, OBJECT_NAME, REMOTES, STASH, TAGS, Move
from remit.workspace.sandbox.places import Staging, index_before
from remit.workspace.sandbox.staged import Touched, changed_since, may_be_lost, touched, was_copied

GIT = ".git"

MADE = "git-made:"
"""How the names of the facts begin that tell which session made a commit, a branch or a tag."""

BRINGING = frozenset({"cherry-pick", "rebase", "merge", "pull", "revert"})
"""git's commands that make a known change once more, somewhere else."""

MOVING = BRINGING | {"checkout", "switch", "reset", "stash", "am"}
"""git's commands that bring other versions of files into the working tree."""

MAX_TIPS_COMPARED = 200

FETCHING = frozenset({"fetch", "pull"})
SETTING = frozenset({"config", "remote", "worktree", "clone", "init"})
"""Where the text sets what git works with, what it fetches is no longer from the settings alone."""

FETCH_ALONE = "Run `git fetch` or `git pull` as a command by itself"
DIGITS_OF_SHA1 = 40


class GitVerdict(Struct, frozen=True):
    """What may come over of git's folder. `findings` say why not, where it may not.

    `brought` are the changes of the working tree that are git's own work, and `about` all paths that its part speaks
    of; both from the workspace's root. `made` are the command's own commits and names, with what they stand for.
    """

    stays: bool = False
    findings: tuple[Finding, ...] = ()
    brought: frozenset[str] = frozenset()
    excused: frozenset[str] = frozenset()
    """Those of `brought` that lie outside of the scope without being anybody's violation."""
    about: frozenset[str] = frozenset()
    made: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    halves: frozenset[str] = frozenset()
    """The files that git brought before it stopped in the middle: its index has them not."""


NOTHING = GitVerdict()


class Trees:
    """The working tree before and after a command, by path from the repository's root."""

    def __init__(self, workspace: Workspace, upper: Path, changes: Sequence[Touched]) -> None:
        self.root = workspace.root
        self.upper = upper
        self.changed = {change.path: change for change in changes}
        top = next((p for p in (self.root, *self.root.parents) if (p / ".git").exists()), None)
        self.prefix = "." if top is None else str(self.root.relative_to(top))
        self.top = self.root if top is None else top
        self.names: dict[tuple[Path, int], str] = {}

    def from_root(self, path: str) -> str:
        """Return a path of a commit as the workspace names it: that may be a folder of the repository."""
        return path if self.prefix == "." else posixpath.relpath(path, self.prefix)

    def from_top(self, path: str) -> str:
        """Return a path of the workspace as commits name it."""
        return path if self.prefix == "." else f"{self.prefix}/{path}"

    def before(self, path: str) -> Path:
        """Return where a file stood before, and stands still."""
        return self.top / path

    def after(self, path: str) -> Path:
        """Return where a file is read as the command left it."""
        change = self.changed.get(self.from_root(path))
        if change is None:
            return self.before(path)
        return self.upper / change.path if change.kind in ("file", "link") else Path("/dev/null/none")

    def holds(self, place: Path, path: str, name: str) -> bool:
        """Whether what stands at `place` is the blob of that name, or nothing where it is empty. Raises GitError."""
        if not os.path.lexists(place) or (place.is_dir() and not place.is_symlink()):
            return not name or (place / ".git").exists()  # a submodule is a folder, and a commit to git
        if not name:
            return False
        key = (place, len(name))
        if key not in self.names:
            self.names[key] = blob_of(place, len(name))
        if self.names[key] == name:
            return True
        if place.is_symlink() or not place.is_file():
            return False
        # Line endings and the like: as git itself would store the file under that name.
        words = ("hash-object", f"--path={path}", "--stdin")
        return Git(self.top).run(*words, stdin=place.read_bytes()).decode().strip() == name


def blob_of(place: Path, digits: int) -> str:
    """Return the name that git gives to a file's content, or to a link's target, as they are. Raises OSError."""
    content = os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes() if place.is_file() else b""
    found = hashlib.sha1(usedforsecurity=False) if digits == DIGITS_OF_SHA1 else hashlib.sha256()
    found.update(b"blob %d\0" % len(content))
    found.update(content)
    return found.hexdigest()


class GitTaking:
    """Judges what one command did to git's folder, and brings it over."""

    def __init__(
        self, verdicts: Verdicts, staging: Staging, changes: Sequence[Touched], own: Sequence[Touched]
    ) -> None:
        self.verdicts = verdicts
        self.state = verdicts.site.state
        self.workspace = verdicts.site.workspace
        self.staging = staging
        self.own = own
        self.found = changes_of(self.workspace, staging, changes)
        self.trees = Trees(self.workspace, staging.root.upper, own)

    def judge(self, call: ToolCall) -> GitVerdict:
        """Judge all of it. Raises OSError, StateError."""
        found = self.found
        if found is None:
            return NOTHING
        remits = tuple(remits_ref(GIT, c.path) for c in found.remits if c.path.startswith("refs/"))
        try:
            judgement = Judgement(self, found, call)
            judged = judgement.judge() if found.changes or found.settings else GitVerdict()
            judged = replace(judged, halves=judgement.halves())
        except (GitError, TooManyCommits, UnicodeDecodeError) as error:
            # What git brought into the working tree is not told from the rest then: all of it goes.
            every = frozenset(change.path for change in self.own)
            judged = GitVerdict(findings=(of_git(GIT, str(error)),), brought=every)
        return replace(judged, findings=(*remits, *judged.findings))

    def bring(self, call: ToolCall, verdict: GitVerdict) -> list[Finding]:
        """Bring over what was judged to stay; what could not be. Raises GitError, StateError."""
        if self.found is None or not verdict.stays:
            return []
        failed = Committing(self.found.upper, self.found.common).kept_in_order(self.found.in_order())
        if failed:
            return [unwritten(f"{GIT}/{path}", why) for path, why in failed.items()]
        set_tracking(self.found.common, verdict.settings)
        if self.found.index is not None and self.own:
            # The index tells a file by its inode and its times, which are others now than in the sandbox: `git merge
            # --abort` and the like would take the file for changed.
            Git(self.trees.top).run("update-index", "-q", "--refresh", ok=(0, 1, 128))
        self.remember(call, verdict.made)
        return []

    def remember(self, call: ToolCall, made: Iterable[str]) -> None:
        """Remember which session, under which intent, made these commits and names. Raises StateError."""
        value = json.dumps([call.session.session_id, self.verdicts.intent_id(call)])
        with self.state.together():
            for name in made:
                self.state.put_fact(f"{MADE}{name}", value)

    def is_own(self, call: ToolCall, name: str) -> bool:
        """Whether this session, or another one under its intent, made that commit, branch or tag. Raises StateError."""
        session, intent = json.loads(self.state.fact(f"{MADE}{name}") or '["", ""]')
        return call.session.session_id == session or (intent != "" and intent == self.verdicts.intent_id(call))

    def keep_objects(self, verdict: GitVerdict) -> tuple[str, ...]:
        """Keep the command's own commits whose names may not come over, as objects without one; which they are.

        None where it fetched: what a later fetch brings must not have been here before.
        """
        found = self.found
        if found is None or verdict.stays or any(m.name.startswith(REMOTES) for m in found.moves):
            return ()
        if found.own("FETCH_HEAD") in found.paths:
            return ()
        tips = tuple(tip for tip in dict.fromkeys(found.tips().values()) if not found.is_real(tip))
        objects = found.objects() if tips else []
        failed = Committing(found.upper, found.common).kept_in_order(objects)
        return tips if objects and not failed else ()


class Judgement:
    """The judgement of one command's part of git. Its methods raise OSError, GitError, StateError, TooManyCommits."""

    def __init__(self, taking: GitTaking, found: GitChanges, call: ToolCall) -> None:
        self.taking = taking
        self.verdicts = taking.verdicts
        self.trees = taking.trees
        self.found = found
        self.layered = found.layered
        self.call = call
        self.git_dir = taking.workspace.git_dir or found.common
        self.use = self.plain_use()
        self.scratch = taking.staging.folder / "git-scratch"

    def judge(self) -> GitVerdict:
        """Judge all of it: the files, the history, what commits and the index hold, and the working tree with them."""
        why = self.found.objection() or self.why_overtaken()
        self.history = History(self.found, self.scratch, () if why else self.fetched)
        if why:
            return self.dropped((of_git(GIT, why),))
        self.made = self.history.made(self.found.tips().values())
        self.stashed = self.history.made(self.found.stashes().values())
        self.entries = self.history.entries(
            [*self.made, *(c for c in self.stashed if c not in self.made)], frozenset(c.name for c in self.stashed)
        )
        why = self.why_unnamed() or self.why_unstashed() or self.why_overlooked()
        if why:
            return self.dropped((of_git(GIT, why),))
        settings, refused = self.settings()
        wrong = [*self.strangers(), *self.left_over()]
        if wrong:
            return self.dropped((*wrong, of_git(GIT, "no branch was moved, and the index is as before")))
        brought, excused = self.brought()
        about = {self.trees.from_root(path) for path in (*self.moved, *self.staged)}
        names = (move.name for move in self.found.moves if move.name.startswith((HEADS, TAGS)) and not move.old)
        made = (*(c.name for c in (*self.made, *self.stashed)), *names)
        return GitVerdict(True, tuple(refused), brought, excused, frozenset(about), made, tuple(settings))

    def dropped(self, findings: tuple[Finding, ...]) -> GitVerdict:
        """The verdict where none of it may stay: then what it brought into the working tree does not stay either."""
        brought = frozenset(path for path in self.changed_paths if self.comes_from_elsewhere(self.trees.from_top(path)))
        return GitVerdict(False, findings, brought)

    # -- what is compared -----------------------------------------------------------------------------------

    @property
    def changed_paths(self) -> list[str]:
        """The changed files of the working tree, from the workspace's root."""
        return [c.path for c in self.taking.own if c.kind in ("file", "link", "gone")]

    @Once
    def moved(self) -> dict[str, Entry]:
        """What differs between HEAD before and after."""
        return self.history.between(self.history.head_before, self.history.head_after)

    @Once
    def staged(self) -> dict[str, Entry]:
        """What the index holds beyond HEAD afterwards."""
        index = self.found.index or self.git_dir / "index"
        return self.history.staged(index, self.history.head_after) if index.is_file() else {}

    @Once
    def index_then(self) -> dict[str, str]:
        """The index as it was before."""
        return indexed(self.layered, self.git_dir / "index")

    def plain_use(self) -> tuple[str, ...]:
        """The commands of git's that the text runs, where all that it runs is known, in this repository alone."""
        analysis = analyse(self.call.command or "")
        places = [Path(self.call.cwd, folder).resolve() for folder in analysis.folders]
        home = all(analysis.folders) and all(git_root(place) == self.trees.top for place in places)
        return analysis.git if home else ()

    def objections(self, paths: Iterable[str]) -> dict[str, Finding]:
        """By path of a commit, what every check says of a write there."""
        names = {path: self.trees.from_root(path) for path in dict.fromkeys(paths)}
        found = self.verdicts.objections(self.call, names.values())
        return {p: found[name] for p, name in names.items() if name in found and found[name].code != "STALE_FILE"}

    def head_blobs(self, paths: Iterable[str]) -> dict[str, str]:
        """What HEAD had at these paths before."""
        return self.layered.blobs(self.history.head_before, paths)

    # -- files ----------------------------------------------------------------------------------------------

    def why_overtaken(self) -> str | None:
        """Whether somebody else changed what it changed. An index that only looked at its files anew is the same."""
        began, common, upper = self.taking.staging.began_ns, self.found.common, self.found.upper
        regenerated = {self.found.own(name) for name in ("FETCH_HEAD", "ORIG_HEAD", "COMMIT_EDITMSG")}
        for change in self.found.changes:
            if change.path in regenerated:
                continue
            lost = was_copied(upper / change.path) and may_be_lost(common, change, began)
            if lost or (changed_since(common, change, began) and not self.is_same_index(change)):
                return "somebody else used git meanwhile"
        return None

    def is_same_index(self, change: Touched) -> bool:
        """Whether it is the index, and the real one still holds what it held when the command began."""
        then = index_before(self.taking.staging.folder)
        if change.path != self.found.own("index") or not then.is_file():
            return False
        return self.staged_lines(then) == self.staged_lines(self.found.common / change.path)

    def staged_lines(self, index: Path) -> bytes:
        """All entries of an index, with their flags."""
        return self.layered.asked("ls-files", "--stage", "-v", "-z", index=index)

    # -- fetched --------------------------------------------------------------------------------------------

    @Once
    def fetched(self) -> tuple[str, ...]:
        """The commits that a plain `git fetch` or `git pull` got from a remote of the settings.

        Only where the text runs nothing else that could have made them, and no hook that the agent may write: in the
        sandbox any program can name its own commit as a remote's. A commit that was here before, without a name, did
        not come from there either.
        """
        remotes = [use.partition(" ")[2] for use in self.use if use.partition(" ")[0] in FETCHING]
        if (
            not remotes
            or not SETTING.isdisjoint(self.use)
            or self.writes_hooks()
            or not set(filter(None, remotes)) <= self.remotes()
        ):
            return ()
        head = self.found.upper / self.found.own("FETCH_HEAD")
        lines = (
            head.read_text("utf-8", "replace").splitlines() if self.found.own("FETCH_HEAD") in self.found.paths else []
        )
        tips = [line.split("\t")[0] for line in lines if not line.endswith(" of .")]
        if "push" not in self.use:
            tips += [move.new for move in self.found.moves if move.name.startswith(REMOTES)]
        if "tag" not in self.use:
            tips += [move.new for move in self.found.moves if move.name.startswith(TAGS) and not move.old]
        if "shallow" in self.found.paths:
            return ()
        known = History(self.found, self.scratch)
        return tuple(tip for tip in dict.fromkeys(tips) if OBJECT_NAME.fullmatch(tip) and self.is_new(known, tip))

    def is_new(self, known: History, tip: str) -> bool:
        """Whether no commit that leads to it lay here before, unless a branch, a tag or a remote's branch had it."""
        asked = "".join(f"{name}\n" for name in known.listed([tip], known.known, most=0))
        words = ("cat-file", "--batch-check=%(objecttype)")
        lines = Git(self.found.common).run(*words, stdin=asked.encode()).decode().splitlines() if asked else []
        return all(line.endswith(" missing") for line in lines)

    def remotes(self) -> set[str]:
        """The remotes of the repository's own settings, which no agent writes."""
        return set(Git(self.found.common).text("remote").split())

    def writes_hooks(self) -> bool:
        """Whether a hook of the repository lies where the agent may write."""
        words = ("config", "--get-all", "core.hookspath")
        named = [v for v in Git(self.found.common).text(*words, ok=(0, 1)).splitlines() if v != "/dev/null"]
        folder = Path(self.trees.top, named[-1]).expanduser() if named else None
        root = self.taking.workspace.root
        if folder is None or not folder.is_dir() or not folder.is_relative_to(root):
            return folder is not None and folder.is_relative_to(self.verdicts.site.environment.temporary)
        hooks = [str(p.relative_to(root)) for p in (*folder.iterdir(), folder / "reference-transaction")]
        return len(self.verdicts.objections(self.call, hooks)) < len(set(hooks))

    # -- names ----------------------------------------------------------------------------------------------

    def why_unnamed(self) -> str | None:
        """Why a name may not have moved, or gone: work of somebody else's would be lost, or a name that is theirs."""
        fetching = bool(self.fetched) and "push" not in self.use
        remote = {m.name for m in self.found.moves if m.name.startswith(REMOTES)} if fetching else set[str]()
        for move in self.found.moves:
            if move.name in remote:
                continue
            if move.name.startswith(REMOTES) and not self.is_pushed(move):
                return f"{move.name}: only a push or a fetch moves a remote's branch. {FETCH_ALONE}"
            if not move.new and move.name.startswith(LASTING) and not self.taking.is_own(self.call, move.name):
                return f"{move.name}: it was taken away, and this session did not make it"
            if move.name.startswith(TAGS) and move.old and not self.taking.is_own(self.call, move.name):
                return f"{move.name}: a tag of somebody else's was moved"
            if move.name.startswith((HEADS, TAGS)) and move.name.endswith("HEAD"):
                return f"{move.name}: git would take it for HEAD"
            if move.new and not OBJECT_NAME.fullmatch(move.new) and not move.new.startswith(f"ref: {REMOTES}"):
                return f"{move.name}: it names no commit"
        head = self.found.own("HEAD")
        if head in self.found.paths:
            said = (self.found.upper / head).read_text("utf-8", "replace").strip()
            if not said.startswith(f"ref: {HEADS}") and not OBJECT_NAME.fullmatch(said):
                return "HEAD: it names no commit"
        gone = [name for name in self.history.lost(remote) if not self.taking.is_own(self.call, name)]
        if gone:
            return f"it leaves commits behind that this session did not make: {gone[0][:12]}"
        return None

    def why_overlooked(self) -> str | None:
        """Why the index may not stay: it tells git to overlook changes of a file that it did not overlook before."""
        hidden = self.overlooked(self.found.index) if self.found.index is not None else set[str]()
        new = sorted(hidden - self.overlooked(self.git_dir / "index")) if hidden else []
        return f"index: git would overlook changes of {new[0]}" if new else None

    def overlooked(self, index: Path) -> set[str]:
        """The files of an index that are marked as unchanged, or as left out of the working tree."""
        if not index.is_file():
            return set()
        lines = self.layered.asked("ls-files", "-v", "-z", index=index).decode("utf-8", "surrogateescape").split("\0")
        return {line[2:] for line in lines[:-1] if line[0] == "S" or line[0].islower()}

    def is_pushed(self, move: Move) -> bool:
        """Whether a remote's branch went on to where a push would leave it."""
        if "push" not in self.verbs or not OBJECT_NAME.fullmatch(move.new):
            return False
        return not move.old or self.layered.says("merge-base", "--is-ancestor", move.old, move.new)

    def why_unstashed(self) -> str | None:
        """Why a stash may not be gone: what it holds has to stand in the working tree."""
        before, after = self.found.stashes_before, self.found.stashes_after
        for name in (one for one in before if one not in after and not self.taking.is_own(self.call, one)):
            for path, (base, stashed) in self.stash_changes(name).items():
                if not self.is_explained_after(path, [(base, stashed)]):
                    return f"{STASH}: a stash was taken away whose {path} is not in the working tree"
        return None

    def stash_changes(self, name: str) -> dict[str, tuple[str, str]]:
        """By path, the blob before and in a stash, files that git did not know included."""
        parents = self.layered.asked("rev-parse", f"{name}^@").decode().split()
        if not parents:
            return {}
        found = {path: (e.old, e.new) for path, e in self.history.between(parents[0], name).items()}
        if len(parents) > 2:
            found |= {path: ("", e.new) for path, e in self.history.between("", parents[2]).items()}
        return found

    # -- contents -------------------------------------------------------------------------------------------

    def strangers(self) -> list[Finding]:
        """What its commits and the index hold beyond the scope that nobody else had put there."""
        staged = {p: e for p, e in self.staged.items() if e.conflict or self.index_then.get(p, "") != e.new}
        objections = self.objections([*(e.path for e in self.entries), *staged])
        wrong = [e for e in self.entries if e.path in objections]
        rest = [e for p, e in staged.items() if p in objections]
        if not wrong and not rest:
            return []
        head = self.head_blobs([e.path for e in (*wrong, *rest)])
        wrong = [e for e in wrong if not self.is_left_there(e, head.get(e.path, ""))]
        wrong = [e for e in wrong if not self.is_made_again(e)]
        conflicts = [left_unmerged(self.trees.from_root(e.path)) for e in rest if e.conflict]
        rest = [e for e in rest if not e.conflict and not self.is_left_there(e, head.get(e.path, ""))]
        rest = [e for e in rest if not self.is_under_way(e) and not self.is_made_again(e)]
        newest = {e.path: e for e in reversed([*wrong, *rest])}
        names = {path: self.trees.from_root(path) for path in newest}
        return [*conflicts, *(stranger(objections[p], names[p], e.commit) for p, e in newest.items())]

    def is_left_there(self, entry: Entry, head: str) -> bool:
        """Whether a person left just that in the working tree, or staged it, before the command began."""
        staged = self.index_then.get(entry.path, "")
        if staged != head and staged == entry.new:
            return True
        place = self.trees.before(entry.path)
        held = self.trees.holds(place, entry.path, entry.new) and not self.trees.holds(place, entry.path, head)
        return held and not self.is_ignored(entry.path)

    def is_ignored(self, path: str) -> bool:
        """Whether git ignores a file there: any command may have left it under any intent, without a record."""
        name, workspace = self.trees.from_root(path), self.taking.workspace
        found = find_ignored(workspace, head_commit(workspace), [name], by_tree=False)
        return name in found.below or name in found.alone

    def is_made_again(self, entry: Entry) -> bool:
        """Whether the text has git make a change again, or undo one, that stands in a known commit."""
        if BRINGING.isdisjoint(self.verbs):
            return False
        known = [(e.old, e.new) for e in self.known_changes if e.path == entry.path]
        if "revert" in self.verbs:
            known += [(new, old) for old, new in known]
        return any(self.history.is_merge_of(change, entry.old, entry.new) for change in known)

    @Once
    def known_changes(self) -> list[Entry]:
        """What the known commits changed where this command's own commits, or its index, did."""
        paths = {e.path for e in self.entries} | self.staged.keys()
        return self.history.changes_known(sorted(paths)) if not BRINGING.isdisjoint(self.verbs) else []

    @Once
    def verbs(self) -> frozenset[str]:
        """The commands of git's that the text names."""
        try:
            commands = [one.words for one in called(self.call.command or "") if one.name == "git"]
        except UnreadableShell:
            commands = []
        words = [next((word for word in each if not word.startswith("-")), "") for each in commands]
        return frozenset((*words, *(use.partition(" ")[0] for use in self.use)))

    def is_under_way(self, entry: Entry) -> bool:
        """Whether a merge that waits for its end, a stash, or a commit of this session's that was taken back had it."""
        return any(self.history.is_merge_of(change, entry.old, entry.new) for change in self.open_changes(entry.path))

    def open_changes(self, path: str) -> list[tuple[str, str]]:
        """The changes at a path of stashes, of what is under way, and of this session's own commits that are gone."""
        return [changes[path] for changes in self.all_open_changes if path in changes]

    @Once
    def all_open_changes(self) -> list[Mapping[str, tuple[str, str]]]:
        """The same for all paths."""
        found: list[Mapping[str, tuple[str, str]]] = [self.stash_changes(name) for name in self.found.stashes_before]
        for path in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD"):
            for name in self.under_way(path):
                words = (
                    ("merge-base", self.history.head_after, name) if path == "MERGE_HEAD" else ("rev-parse", f"{name}^")
                )
                below = self.layered.asked(*words, ok=(0, 1)).decode().strip()
                sides = (name, below) if path == "REVERT_HEAD" else (below, name)
                found.append({p: (e.old, e.new) for p, e in self.history.between(*sides).items()})
        for name in self.history.lost(()):
            below = self.layered.asked("rev-parse", "--verify", "--quiet", f"{name}^", ok=(0, 1, 128)).decode().strip()
            found.append({p: (e.old, e.new) for p, e in self.history.between(below, name).items()})
        return found

    def under_way(self, name: str) -> list[str]:
        """The commits that a file of git's names which a merge or the like goes on with, before and afterwards."""
        own = self.found.own(name)
        places = dict.fromkeys((self.found.common / own, self.found.place_after(own)))
        texts = (place.read_text("utf-8", "replace") for place in places if place.is_file())
        return [word for text in texts for word in text.split() if OBJECT_NAME.fullmatch(word)]

    # -- the working tree -----------------------------------------------------------------------------------

    def left_over(self) -> list[Finding]:
        """The files that HEAD brought elsewhere, and that the working tree has not: the next commit would undo them."""
        behind = [p for p, e in self.moved.items() if not self.holds_after(p, e.new)]
        objections = self.objections(behind) if behind else {}
        wrong = [p for p in objections if not self.is_explained_after(p, self.open_changes(p))]
        wrong = [p for p in wrong if not self.was_staged_alone(p)]
        if not wrong:
            return []
        skipped = self.overlooked(self.found.index or self.git_dir / "index")
        return [left_over(self.trees.from_root(p), objections[p]) for p in wrong if p not in skipped]

    def was_staged_alone(self, path: str) -> bool:
        """Whether a person had staged what HEAD has now, and had changed the file since, which it still is."""
        staged, before = self.index_then.get(path, ""), self.trees.before(path)
        same = self.trees.after(path) == before and not self.trees.holds(before, path, staged)
        return same and self.moved[path].new == staged != self.moved[path].old

    def is_explained_after(self, path: str, changes: Iterable[tuple[str, str]]) -> bool:
        """Whether the file is now what one of these changes makes of HEAD's version, or of the one before."""
        place = self.trees.after(path)
        olds = (self.layered.blobs(self.history.head_after, [path]).get(path, ""), self.index_then.get(path, ""))
        return any(
            self.trees.holds(place, path, new) or self.is_merged(place, (base, new), olds) for base, new in changes
        )

    def is_merged(self, place: Path, change: tuple[str, str], olds: Iterable[str]) -> bool:
        """Whether a file is what git makes of a change and another version of it."""
        if not place.is_file() or place.is_symlink():
            return False
        content = place.read_bytes()
        return any(self.history.merge(old, *change) == content for old in dict.fromkeys(olds))

    def brought(self) -> tuple[frozenset[str], frozenset[str]]:
        """The changes of the working tree that git made out of what was there before; of them, those that are excused:
        all but files with a conflict, whose next version is the agent's own.
        """
        found: set[str] = set()
        excused: set[str] = set()
        own = {(e.path, e.new) for e in self.entries if not self.is_made_again(e)}
        stashing = {
            path: new for name in self.found.stashes().values() for path, (_, new) in self.stash_changes(name).items()
        }
        for path in self.changed_paths:
            name = self.trees.from_top(path)
            place, moved, staged = self.trees.after(name), self.moved.get(name), self.staged.get(name)
            if staged is not None and staged.conflict:
                found.add(path)
            elif moved is not None and self.trees.holds(place, name, moved.new):
                clean = self.was_clean(name)
                if (name, moved.new) not in own and clean:
                    found.add(path)
                    excused.add(path)
            elif (
                self.is_explained_after(name, self.open_changes(name))
                or (name in stashing and self.trees.holds(self.trees.before(name), name, stashing[name]))
                or self.is_taken_back(name)
            ):
                found.add(path)
                excused.add(path)
        return frozenset(found), frozenset(excused)

    def is_taken_back(self, path: str) -> bool:
        """Whether a file is as HEAD has it again, after a merge or the like that brought another version and ended."""
        head = self.layered.blobs(self.history.head_after, [path]).get(path, "")
        staged = self.index_then.get(path, "")
        came = any(self.history.is_merge_of(change, head, staged) for change in self.open_changes(path))
        return came and self.trees.holds(self.trees.before(path), path, staged) and self.holds_after(path, head)

    def holds_after(self, path: str, name: str) -> bool:
        """Whether a file is that blob afterwards, or is not there where the name is empty."""
        return self.trees.holds(self.trees.after(path), path, name)

    def was_clean(self, path: str) -> bool:
        """Whether the file was as HEAD had it before, or is one whose change a new stash holds."""
        head = self.head_blobs([path]).get(path, "")
        return self.trees.holds(self.trees.before(path), path, head)

    def halves(self) -> frozenset[str]:
        """The changed files that are another branch's version, or a remote's, and not in the index so: git writes that
        last. It stops so where it meets a file that governs agents.
        """
        if MOVING.isdisjoint(self.verbs) or not self.taking.own:
            return frozenset()
        self.history = History(self.found, self.scratch)
        index = indexed(self.layered, self.found.index or self.git_dir / "index")
        names = {path: self.trees.from_top(path) for path in self.changed_paths}
        loose = {p: n for p, n in names.items() if not self.holds_after(n, index.get(n, ""))}
        loose = {p: n for p, n in loose.items() if not self.is_explained_after(n, self.open_changes(n))}
        lasting = [commit for name, commit in self.history.names.items() if name.startswith(LASTING)]
        fetched = [move.new for move in self.found.moves if move.name.startswith(REMOTES)]
        found: set[str] = set()
        for tip in (
            [*dict.fromkeys(filter(OBJECT_NAME.fullmatch, (*fetched, *lasting)))][:MAX_TIPS_COMPARED] if loose else []
        ):
            held = self.layered.blobs(tip, loose.values())
            found |= {path for path, name in loose.items() if name in held and self.holds_after(name, held[name])}
        return frozenset(loose) if found else frozenset()

    def comes_from_elsewhere(self, path: str) -> bool:
        """Whether a changed file is what git's part, which is dropped, brought: a blob of commits that the command did
        not make out of its own work, or of a stash.
        """
        place = self.trees.after(path)
        if any(self.trees.holds(place, path, new) for _, new in self.open_changes(path) if new):
            return True
        head = self.history.head_after
        tips = [*(m.new for m in self.found.moves if m.name.startswith(REMOTES)), *([head] if head else [])]
        log = self.found.new_log_lines()
        committed = {line.split(" ")[1] for line in log if "\tcommit" in line}
        mine = {(e.path, e.new) for e in self.history.entries([c for c in self.own_commits if c.name in committed])}
        for tip in dict.fromkeys(filter(OBJECT_NAME.fullmatch, tips)):
            name = self.layered.blobs(tip, [path]).get(path, "")
            if name == self.layered.blobs(self.history.head_before, [path]).get(path, ""):
                continue
            if (path, name) not in mine and self.trees.holds(place, path, name):
                return True
        return False

    @Once
    def own_commits(self) -> list[Commit]:
        """The commits that the command made, or brought under a name that nobody knows."""
        return self.history.made(self.found.tips().values())

    # -- settings -------------------------------------------------------------------------------------------

    def settings(self) -> tuple[list[Setting], list[Finding]]:
        """Where its branches are pulled from, as it set that; and what else it set, which may not stay."""
        if not self.found.settings:
            return [], []
        gone = {m.name.removeprefix(HEADS) for m in self.found.moves if m.name.startswith(HEADS) and not m.new}
        own, others = changed_settings(self.found.common, self.found.upper, self.remotes(), gone)
        return own, [unset(f"{GIT}/{SETTINGS}", others)] if others else []


def changes_of(workspace: Workspace, staging: Staging, changes: Sequence[Touched]) -> GitChanges | None:
    """What was done to git's folder; None without one. Raises OSError."""
    common, root = workspace.common_dir, workspace.root
    if common is None:
        return None
    if staging.common is not None:
        upper, own = staging.common.upper, touched(staging.common.upper, common)
    else:
        name = str(common.relative_to(root))
        upper = staging.root.upper / name
        own = [replace(c, path=c.path[len(name) + 1 :]) for c in changes if c.path.startswith(f"{name}/")]
    return GitChanges(upper, common, own, tree_of(workspace.git_dir, common))


def tree_of(git_dir: Path | None, common: Path) -> str:
    """The git folder of a linked work tree, relative to the repository's; empty for the first."""
    if git_dir is None or git_dir == common or not git_dir.is_relative_to(common):
        return ""
    return str(git_dir.relative_to(common))
