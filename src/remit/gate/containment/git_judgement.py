"""Judgement of a contained command's changes to git's folder, together with files that git brought into the working
tree.

Content from existing commits is not the command's work: an earlier call or a teammate was judged for it. A pull, a
checkout or a stash may therefore bring files outside the scope in their committed version; the command's own content is
judged like any change. Git's part is kept or dropped as a whole.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from remit.core.decision import Finding
from remit.core.lazy_property import LazyProperty
from remit.core.shell.simple_commands import UnreadableShell
from remit.gate.containment import judge
from remit.gate.containment.compare_trees import WorkingTrees
from remit.gate.containment.contained_command import ContainedCommand
from remit.gate.containment.messages import (
    foreign_content,
    git_part_dropped,
    refused_settings,
    stale_file,
    unmerged_conflict,
)
from remit.policy.commands import analyse
from remit.policy.commands.program_calls import find_program_calls
from remit.workspace.git.command import Git
from remit.workspace.git.committed_ignores import find_ignored
from remit.workspace.git.refs import head_commit
from remit.workspace.place.workspace import find_git_root
from remit.workspace.sandbox.git_changes import (
    HEADS,
    LASTING_REFS,
    OBJECT_NAME,
    REMOTES,
    SETTINGS_FILE,
    STASH_REF,
    TAGS,
    GitChanges,
    GitSetting,
    RefMove,
    split_changed_settings,
)
from remit.workspace.sandbox.layer_changes import (
    StagedChange,
    could_be_removed_meanwhile,
    has_origin_mark,
    is_changed_since,
)
from remit.workspace.sandbox.layers import Staging, saved_index_path
from remit.workspace.sandbox.new_commits import CommandHistory, NewCommit, TreeChange, read_index_blobs

GIT_FOLDER = ".git"

MADE_FACT = "git-made:"
"""Prefix of the facts with the session that made a commit, a branch or a tag."""

REAPPLYING_VERBS = frozenset({"cherry-pick", "rebase", "merge", "pull", "revert"})
"""Git commands that apply a known change again elsewhere."""

TREE_CHANGING_VERBS = REAPPLYING_VERBS | {"checkout", "switch", "reset", "stash", "am"}
"""Git commands that bring other versions of files into the working tree."""

MAX_TIPS_COMPARED = 200

FETCHING_VERBS = frozenset({"fetch", "pull"})
SETTING_VERBS = frozenset({"config", "remote", "worktree", "clone", "init"})
"""Git commands that change settings: after them, fetched commits no longer prove the configured remote."""

FETCH_ADVICE = "Run `git fetch` or `git pull` as a command by itself"


class GitVerdict(Struct, frozen=True):
    """Verdict on git's folder. `findings` are the reasons against keeping the changes.

    `brought` are the working tree changes made by git itself, `paths` every path in git's part, both from the
    workspace's root. `new_names` are the command's own commits, branches and tags.
    """

    stays: bool = False
    findings: tuple[Finding, ...] = ()
    brought: frozenset[str] = frozenset()
    excused: frozenset[str] = frozenset()
    """Paths of `brought` outside the scope that are nobody's violation."""
    paths: frozenset[str] = frozenset()
    new_names: tuple[str, ...] = ()
    settings: tuple[GitSetting, ...] = ()
    halves: frozenset[str] = frozenset()
    """Files brought by git before it stopped half-way: missing in its index."""


NO_GIT_CHANGES = GitVerdict()


def is_session_made(command: ContainedCommand, name: str) -> bool:
    """Return True if this session, or another under its intent, made the commit, branch or tag. Raises StateError."""
    session, intent = json.loads(command.context.state.read_fact(f"{MADE_FACT}{name}") or '["", ""]')
    return command.call.session.session_id == session or (intent != "" and intent == command.intent_id)


class GitJudgement:
    """Judgement of one command's git changes. Methods raise OSError, GitError, StateError, TooManyCommits."""

    def __init__(
        self,
        command: ContainedCommand,
        staging: Staging,
        changes: Sequence[StagedChange],
        git_changes: GitChanges,
        trees: WorkingTrees,
    ) -> None:
        self.command = command
        self.workspace = command.context.workspace
        self.staging = staging
        self.changes = changes
        self.git_changes = git_changes
        self.trees = trees
        self.layered = git_changes.layered
        self.git_dir = self.workspace.git_dir or git_changes.common
        self.plain_commands = self.find_plain_commands()
        self.scratch = staging.folder / "git-scratch"

    def judge(self) -> GitVerdict:
        """Judge the git files, the history, the contents of commits and index, and the working tree."""
        # 1 The git files themselves.
        why = self.git_changes.find_objection() or self.explain_foreign_change()
        self.history = CommandHistory(self.git_changes, self.scratch, () if why else self.fetched_commits)
        if why:
            return self.drop_all((git_part_dropped(GIT_FOLDER, why),))

        # 2 The history: moved refs, dropped stashes, an index that hides changes.
        self.new_commits = self.history.find_new_commits(self.git_changes.list_tips().values())
        self.stash_commits = self.history.find_new_commits(self.git_changes.list_new_stashes().values())
        self.entries = self.history.list_commit_changes(
            [*self.new_commits, *(c for c in self.stash_commits if c not in self.new_commits)],
            frozenset(c.name for c in self.stash_commits),
        )
        why = self.explain_ref_refusal() or self.explain_lost_stash() or self.explain_hidden_paths()
        if why:
            return self.drop_all((git_part_dropped(GIT_FOLDER, why),))

        # 3 Contents of commits and index, and the working tree beside the new HEAD.
        settings, refused = self.judge_settings()
        findings = [*self.find_foreign_contents(), *self.find_stale_files()]
        if findings:
            unchanged = git_part_dropped(GIT_FOLDER, "no branch was moved, and the index is as before")
            return self.drop_all((*findings, unchanged))

        # 4 Git's part stays, with the files that git brought.
        brought, excused = self.find_brought_paths()
        moves = self.git_changes.ref_moves
        new_refs = (move.name for move in moves if move.name.startswith((HEADS, TAGS)) and not move.old)
        return GitVerdict(
            stays=True,
            findings=tuple(refused),
            brought=brought,
            excused=excused,
            paths=frozenset(map(self.trees.to_workspace_path, (*self.head_changes, *self.staged_changes))),
            new_names=(*(c.name for c in (*self.new_commits, *self.stash_commits)), *new_refs),
            settings=tuple(settings),
        )

    def drop_all(self, findings: tuple[Finding, ...]) -> GitVerdict:
        """Return the verdict that drops git's part with the files it brought."""
        brought = frozenset(
            path for path in self.changed_paths if self.is_foreign_version(self.trees.to_commit_path(path))
        )
        return GitVerdict(False, findings, brought)

    # -- what is compared -----------------------------------------------------------------------------------

    @property
    def changed_paths(self) -> list[str]:
        """Return the changed files of the working tree, from the workspace's root."""
        return [c.path for c in self.changes if c.kind in ("file", "link", "gone")]

    @LazyProperty
    def head_changes(self) -> dict[str, TreeChange]:
        return self.history.diff_commits(self.history.head_before, self.history.head_after)

    @LazyProperty
    def staged_changes(self) -> dict[str, TreeChange]:
        index = self.git_changes.index or self.git_dir / "index"
        return self.history.diff_index(index, self.history.head_after) if index.is_file() else {}

    @LazyProperty
    def earlier_index(self) -> dict[str, str]:
        return read_index_blobs(self.layered, self.git_dir / "index")

    def find_plain_commands(self) -> tuple[str, ...]:
        """Return the git commands in the text if every command of the text is known and runs in this repository."""
        analysis = analyse(self.command.call.command or "")
        places = [Path(self.command.call.cwd, folder).resolve() for folder in analysis.git_folders]
        home = all(analysis.git_folders) and all(find_git_root(place) == self.trees.top for place in places)
        return analysis.git_verbs if home else ()

    def find_objections(self, paths: Iterable[str]) -> dict[str, Finding]:
        """Return, by commit path, the finding of the checks about a write there."""
        names = {path: self.trees.to_workspace_path(path) for path in dict.fromkeys(paths)}
        found = judge.find_objections(self.command, names.values())
        return {p: found[name] for p, name in names.items() if name in found and found[name].code != "STALE_FILE"}

    def read_head_blobs(self, paths: Iterable[str]) -> dict[str, str]:
        return self.layered.read_blob_names(self.history.head_before, paths)

    # -- files ----------------------------------------------------------------------------------------------

    def explain_foreign_change(self) -> str | None:
        """Return a reason if someone else changed the same git files. Refreshed times of an index are no change."""
        began, common, upper = self.staging.began_ns, self.git_changes.common, self.git_changes.upper
        regenerated = {self.git_changes.worktree_path(name) for name in ("FETCH_HEAD", "ORIG_HEAD", "COMMIT_EDITMSG")}
        for change in self.git_changes.changes:
            if change.path in regenerated:
                continue
            lost = has_origin_mark(upper / change.path) and could_be_removed_meanwhile(common, change, began)
            if lost or (is_changed_since(common, change, began) and not self.is_unchanged_index(change)):
                return "somebody else used git meanwhile"
        return None

    def is_unchanged_index(self, change: StagedChange) -> bool:
        """Return True for the index if its entries equal those at the command's start."""
        then = saved_index_path(self.staging.folder)
        if change.path != self.git_changes.worktree_path("index") or not then.is_file():
            return False
        return self.read_index_entries(then) == self.read_index_entries(self.git_changes.common / change.path)

    def read_index_entries(self, index: Path) -> bytes:
        return self.layered.output("ls-files", "--stage", "-v", "-z", index=index)

    # -- fetched --------------------------------------------------------------------------------------------

    @LazyProperty
    def fetched_commits(self) -> tuple[str, ...]:
        """Return the commits that a plain `git fetch` or `git pull` got from a configured remote.

        Only if the text runs no command that could have made them and no hook writable by the agent: in the sandbox any
        program can pose its own commit as a remote's. A commit already present without a name did not come from the
        remote either.
        """
        remotes = [use.partition(" ")[2] for use in self.plain_commands if use.partition(" ")[0] in FETCHING_VERBS]
        if (
            not remotes
            or not SETTING_VERBS.isdisjoint(self.plain_commands)
            or self.can_write_hooks()
            or not set(filter(None, remotes)) <= self.remote_names()
        ):
            return ()
        head = self.git_changes.upper / self.git_changes.worktree_path("FETCH_HEAD")
        lines = (
            head.read_text("utf-8", "replace").splitlines()
            if self.git_changes.worktree_path("FETCH_HEAD") in self.git_changes.paths
            else []
        )
        tips = [line.split("\t")[0] for line in lines if not line.endswith(" of .")]
        if "push" not in self.plain_commands:
            tips += [move.new for move in self.git_changes.ref_moves if move.name.startswith(REMOTES)]
        if "tag" not in self.plain_commands:
            tips += [move.new for move in self.git_changes.ref_moves if move.name.startswith(TAGS) and not move.old]
        if "shallow" in self.git_changes.paths:
            return ()
        known = CommandHistory(self.git_changes, self.scratch)
        return tuple(
            tip for tip in dict.fromkeys(tips) if OBJECT_NAME.fullmatch(tip) and self.is_unknown_commit(known, tip)
        )

    def is_unknown_commit(self, known: CommandHistory, tip: str) -> bool:
        """Return True if the commits leading to `tip` were absent before, except under a branch, a tag or a remote's
        branch.
        """
        asked = "".join(f"{name}\n" for name in known.list_commits([tip], known.known, max_count=0))
        words = ("cat-file", "--batch-check=%(objecttype)")
        lines = Git(self.git_changes.common).run(*words, stdin=asked.encode()).decode().splitlines() if asked else []
        return all(line.endswith(" missing") for line in lines)

    def remote_names(self) -> set[str]:
        """Return the remotes in the repository's own settings, which agents cannot write."""
        return set(Git(self.git_changes.common).text("remote").split())

    def can_write_hooks(self) -> bool:
        """Return True if a git hook of the repository lies in a place writable by the agent."""
        words = ("config", "--get-all", "core.hookspath")
        named = [v for v in Git(self.git_changes.common).text(*words, ok=(0, 1)).splitlines() if v != "/dev/null"]
        folder = Path(self.trees.top, named[-1]).expanduser() if named else None
        root = self.workspace.root
        if folder is None or not folder.is_dir() or not folder.is_relative_to(root):
            return folder is not None and folder.is_relative_to(self.command.context.environment.temporary)
        hooks = [str(p.relative_to(root)) for p in (*folder.iterdir(), folder / "reference-transaction")]
        return len(judge.find_objections(self.command, hooks)) < len(set(hooks))

    # -- names ----------------------------------------------------------------------------------------------

    def explain_ref_refusal(self) -> str | None:
        """Return the reason why a ref may not have moved or vanished: someone's work, or their name, would be lost."""
        fetching = bool(self.fetched_commits) and "push" not in self.plain_commands
        remote = {m.name for m in self.git_changes.ref_moves if m.name.startswith(REMOTES)} if fetching else set[str]()
        for move in self.git_changes.ref_moves:
            if move.name in remote:
                continue
            if move.name.startswith(REMOTES) and not self.is_push_result(move):
                return f"{move.name}: only a push or a fetch moves a remote's branch. {FETCH_ADVICE}"
            if not move.new and move.name.startswith(LASTING_REFS) and not is_session_made(self.command, move.name):
                return f"{move.name}: it was taken away, and this session did not make it"
            if move.name.startswith(TAGS) and move.old and not is_session_made(self.command, move.name):
                return f"{move.name}: a tag of somebody else's was moved"
            if move.name.startswith((HEADS, TAGS)) and move.name.endswith("HEAD"):
                return f"{move.name}: git would take it for HEAD"
            if move.new and not OBJECT_NAME.fullmatch(move.new) and not move.new.startswith(f"ref: {REMOTES}"):
                return f"{move.name}: it names no commit"
        head = self.git_changes.worktree_path("HEAD")
        if head in self.git_changes.paths:
            target = (self.git_changes.upper / head).read_text("utf-8", "replace").strip()
            if not target.startswith(f"ref: {HEADS}") and not OBJECT_NAME.fullmatch(target):
                return "HEAD: it names no commit"
        lost = [name for name in self.history.find_lost_commits(remote) if not is_session_made(self.command, name)]
        if lost:
            return f"it leaves commits behind that this session did not make: {lost[0][:12]}"
        return None

    def explain_hidden_paths(self) -> str | None:
        """Return a reason if the new index makes git overlook changes that were visible before."""
        hidden = self.find_hidden_paths(self.git_changes.index) if self.git_changes.index is not None else set[str]()
        new = sorted(hidden - self.find_hidden_paths(self.git_dir / "index")) if hidden else []
        return f"index: git would overlook changes of {new[0]}" if new else None

    def find_hidden_paths(self, index: Path) -> set[str]:
        """Return the index entries marked as unchanged or as absent from the working tree."""
        if not index.is_file():
            return set()
        lines = self.layered.output("ls-files", "-v", "-z", index=index).decode("utf-8", "surrogateescape").split("\0")
        return {line[2:] for line in lines[:-1] if line[0] == "S" or line[0].islower()}

    def is_push_result(self, move: RefMove) -> bool:
        """Return True if a remote's branch moved as a push moves it."""
        if "push" not in self.git_verbs or not OBJECT_NAME.fullmatch(move.new):
            return False
        return not move.old or self.layered.succeeds("merge-base", "--is-ancestor", move.old, move.new)

    def explain_lost_stash(self) -> str | None:
        """Return a reason if a dropped stash holds changes missing in the working tree."""
        before, after = self.git_changes.stashes_before, self.git_changes.stashes_after
        for name in (one for one in before if one not in after and not is_session_made(self.command, one)):
            for path, (base, stashed) in self.stash_changes(name).items():
                if not self.is_result_of_change(path, [(base, stashed)]):
                    return f"{STASH_REF}: a stash was taken away whose {path} is not in the working tree"
        return None

    def stash_changes(self, name: str) -> dict[str, tuple[str, str]]:
        """Return, by path, the blob before and inside a stash, including untracked files."""
        parents = self.layered.output("rev-parse", f"{name}^@").decode().split()
        if not parents:
            return {}
        found = {path: (e.old, e.new) for path, e in self.history.diff_commits(parents[0], name).items()}
        if len(parents) > 2:
            found |= {path: ("", e.new) for path, e in self.history.diff_commits("", parents[2]).items()}
        return found

    # -- contents -------------------------------------------------------------------------------------------

    def find_foreign_contents(self) -> list[Finding]:
        """Return findings for out-of-scope contents in new commits and the index that no person had put there."""
        # 1 Out-of-scope contents of the new commits, and of the index beyond its earlier state.
        index = {p: e for p, e in self.staged_changes.items() if e.conflict or self.earlier_index.get(p, "") != e.new}
        objections = self.find_objections([*(e.path for e in self.entries), *index])
        committed = [e for e in self.entries if e.path in objections]
        staged = [e for path, e in index.items() if path in objections]
        if not committed and not staged:
            return []

        # 2 Contents of a person's, and changes that git made again from known ones, are no work of the command's.
        head = self.read_head_blobs([e.path for e in (*committed, *staged)])
        foreign = [
            e
            for e in (*committed, *(e for e in staged if not e.conflict and not self.is_pending_change(e)))
            if not self.is_persons_version(e, head.get(e.path, "")) and not self.is_reapplied_change(e)
        ]

        # 3 One finding for each path, about its newest content.
        newest = {e.path: e for e in reversed(foreign)}
        to_workspace_path = self.trees.to_workspace_path
        conflicts = [unmerged_conflict(to_workspace_path(e.path)) for e in staged if e.conflict]
        contents = [foreign_content(objections[p], to_workspace_path(p), e.commit) for p, e in newest.items()]
        return [*conflicts, *contents]

    def is_persons_version(self, entry: TreeChange, head: str) -> bool:
        """Return True if a person left or staged exactly this content before the command."""
        staged = self.earlier_index.get(entry.path, "")
        if staged != head and staged == entry.new:
            return True
        place = self.trees.path_before(entry.path)
        if not self.trees.holds_blob(place, entry.path, entry.new) or self.trees.holds_blob(place, entry.path, head):
            return False
        return not self.is_git_ignored(entry.path)

    def is_git_ignored(self, path: str) -> bool:
        """Return True if git ignores the path: any command may have left the file there without a record."""
        name, workspace = self.trees.to_workspace_path(path), self.workspace
        found = find_ignored(workspace, head_commit(workspace), [name], with_worktree_rules=False)
        return name in found.by_folder or name in found.by_name

    def is_reapplied_change(self, entry: TreeChange) -> bool:
        """Return True if the text makes git reapply or revert a change from a known commit."""
        if REAPPLYING_VERBS.isdisjoint(self.git_verbs):
            return False
        known = [(e.old, e.new) for e in self.known_changes if e.path == entry.path]
        if "revert" in self.git_verbs:
            known += [(new, old) for old, new in known]
        return any(self.history.is_merge_of(change, entry.old, entry.new) for change in known)

    @LazyProperty
    def known_changes(self) -> list[TreeChange]:
        """Return the changes of known commits at the paths of the new commits and the index."""
        paths = {e.path for e in self.entries} | self.staged_changes.keys()
        return self.history.list_known_changes(sorted(paths)) if not REAPPLYING_VERBS.isdisjoint(self.git_verbs) else []

    @LazyProperty
    def git_verbs(self) -> frozenset[str]:
        """Return the git subcommands in the text."""
        try:
            commands = [one.words for one in find_program_calls(self.command.call.command or "") if one.name == "git"]
        except UnreadableShell:
            commands = []
        words = [next((word for word in each if not word.startswith("-")), "") for each in commands]
        return frozenset((*words, *(use.partition(" ")[0] for use in self.plain_commands)))

    def is_pending_change(self, entry: TreeChange) -> bool:
        """Return True if a merge in progress, a stash, or a removed commit of the session has this change."""
        return any(self.history.is_merge_of(change, entry.old, entry.new) for change in self.open_changes(entry.path))

    def open_changes(self, path: str) -> list[tuple[str, str]]:
        """Return the changes at a path from stashes, operations in progress, and removed commits of this session."""
        return [changes[path] for changes in self.all_open_changes if path in changes]

    @LazyProperty
    def all_open_changes(self) -> list[Mapping[str, tuple[str, str]]]:
        """Return the open changes of each source, by path."""
        stashes = [self.stash_changes(name) for name in self.git_changes.stashes_before]
        ranges: list[tuple[str, str]] = []
        for name in self.pending_commits("MERGE_HEAD"):
            ranges.append((self.read_commit_name("merge-base", self.history.head_after, name), name))
        for name in self.pending_commits("CHERRY_PICK_HEAD"):
            ranges.append((self.read_commit_name("rev-parse", f"{name}^"), name))
        for name in self.pending_commits("REVERT_HEAD"):
            ranges.append((name, self.read_commit_name("rev-parse", f"{name}^")))
        for name in self.history.find_lost_commits(()):
            # A lost commit may be the first: its parent is empty.
            words = ("rev-parse", "--verify", "--quiet", f"{name}^")
            ranges.append((self.read_commit_name(*words, ok=(0, 1, 128)), name))
        diffs = (self.history.diff_commits(old, new) for old, new in ranges)
        return [*stashes, *({path: (e.old, e.new) for path, e in diff.items()} for diff in diffs)]

    def read_commit_name(self, *words: str, ok: tuple[int, ...] = (0, 1)) -> str:
        return self.layered.output(*words, ok=ok).decode().strip()

    def pending_commits(self, name: str) -> list[str]:
        """Return the commits in a git state file, such as MERGE_HEAD, before and after."""
        own = self.git_changes.worktree_path(name)
        places = dict.fromkeys((self.git_changes.common / own, self.git_changes.path_after(own)))
        texts = (place.read_text("utf-8", "replace") for place in places if place.is_file())
        return [word for text in texts for word in text.split() if OBJECT_NAME.fullmatch(word)]

    # -- the working tree -----------------------------------------------------------------------------------

    def find_stale_files(self) -> list[Finding]:
        """Return findings for files that HEAD moved away from: the next commit would undo HEAD's change."""
        behind = [p for p, e in self.head_changes.items() if not self.holds_blob_after(p, e.new)]
        objections = self.find_objections(behind) if behind else {}
        wrong = [p for p in objections if not self.is_result_of_change(p, self.open_changes(p))]
        wrong = [p for p in wrong if not self.is_staged_by_person(p)]
        if not wrong:
            return []
        skipped = self.find_hidden_paths(self.git_changes.index or self.git_dir / "index")
        return [stale_file(self.trees.to_workspace_path(p), objections[p]) for p in wrong if p not in skipped]

    def is_staged_by_person(self, path: str) -> bool:
        """Return True if a person had staged HEAD's new version and the file is unchanged since."""
        staged, before = self.earlier_index.get(path, ""), self.trees.path_before(path)
        same = self.trees.path_after(path) == before and not self.trees.holds_blob(before, path, staged)
        return same and self.head_changes[path].new == staged != self.head_changes[path].old

    def is_result_of_change(self, path: str, changes: Iterable[tuple[str, str]]) -> bool:
        """Return True if the file equals one of these changes, or such a change merged into an earlier version."""
        place = self.trees.path_after(path)
        olds = (
            self.layered.read_blob_names(self.history.head_after, [path]).get(path, ""),
            self.earlier_index.get(path, ""),
        )
        return any(
            self.trees.holds_blob(place, path, new) or self.is_merge_result(place, (base, new), olds)
            for base, new in changes
        )

    def is_merge_result(self, place: Path, change: tuple[str, str], olds: Iterable[str]) -> bool:
        """Return True if the file equals git's merge of a change with another version."""
        if not place.is_file() or place.is_symlink():
            return False
        content = place.read_bytes()
        return any(self.history.merge_blobs(old, *change) == content for old in dict.fromkeys(olds))

    def find_brought_paths(self) -> tuple[frozenset[str], frozenset[str]]:
        """Return the working tree changes made by git from earlier contents, and the excused ones among them.

        Files in conflict are not excused: their next version is the agent's own.
        """
        conflicts: set[str] = set()
        excused: set[str] = set()
        own = {(e.path, e.new) for e in self.entries if not self.is_reapplied_change(e)}
        stashing = {
            path: new
            for name in self.git_changes.list_new_stashes().values()
            for path, (_, new) in self.stash_changes(name).items()
        }
        for path in self.changed_paths:
            name = self.trees.to_commit_path(path)
            moved, staged = self.head_changes.get(name), self.staged_changes.get(name)
            if staged is not None and staged.conflict:
                conflicts.add(path)
            elif moved is not None and self.holds_blob_after(name, moved.new):
                if (name, moved.new) not in own and self.was_clean_file(name):
                    excused.add(path)
            elif (
                self.is_result_of_change(name, self.open_changes(name))
                or (name in stashing and self.trees.holds_blob(self.trees.path_before(name), name, stashing[name]))
                or self.is_restored_to_head(name)
            ):
                excused.add(path)
        return frozenset(conflicts | excused), frozenset(excused)

    def is_restored_to_head(self, path: str) -> bool:
        """Return True if a file is back at HEAD's version after an aborted merge or a similar operation."""
        head = self.layered.read_blob_names(self.history.head_after, [path]).get(path, "")
        staged = self.earlier_index.get(path, "")
        came = any(self.history.is_merge_of(change, head, staged) for change in self.open_changes(path))
        return (
            came
            and self.trees.holds_blob(self.trees.path_before(path), path, staged)
            and self.holds_blob_after(path, head)
        )

    def holds_blob_after(self, path: str, name: str) -> bool:
        return self.trees.holds_blob(self.trees.path_after(path), path, name)

    def was_clean_file(self, path: str) -> bool:
        """Return True if the file was at HEAD's version before the command."""
        head = self.read_head_blobs([path]).get(path, "")
        return self.trees.holds_blob(self.trees.path_before(path), path, head)

    def find_half_brought(self) -> frozenset[str]:
        """Return the changed files in another branch's version that are missing in the index.

        Git writes the index last, so an interrupted command (for instance at a read-only governing file) leaves files
        without index entries.
        """
        if TREE_CHANGING_VERBS.isdisjoint(self.git_verbs) or not self.changes:
            return frozenset()
        self.history = CommandHistory(self.git_changes, self.scratch)
        index = read_index_blobs(self.layered, self.git_changes.index or self.git_dir / "index")
        names = {path: self.trees.to_commit_path(path) for path in self.changed_paths}
        loose = {p: n for p, n in names.items() if not self.holds_blob_after(n, index.get(n, ""))}
        loose = {p: n for p, n in loose.items() if not self.is_result_of_change(n, self.open_changes(n))}
        lasting = [commit for name, commit in self.history.names.items() if name.startswith(LASTING_REFS)]
        fetched = [move.new for move in self.git_changes.ref_moves if move.name.startswith(REMOTES)]
        tips = [*dict.fromkeys(filter(OBJECT_NAME.fullmatch, (*fetched, *lasting)))][:MAX_TIPS_COMPARED]
        for tip in tips if loose else ():
            blobs = self.layered.read_blob_names(tip, loose.values())
            if any(self.holds_blob_after(name, blobs[name]) for name in loose.values() if name in blobs):
                return frozenset(loose)
        return frozenset()

    def is_foreign_version(self, path: str) -> bool:
        """Return True if a changed file came from dropped git changes: commits not made by the command, or a stash."""
        place = self.trees.path_after(path)
        if any(self.trees.holds_blob(place, path, new) for _, new in self.open_changes(path) if new):
            return True
        head = self.history.head_after
        tips = [*(m.new for m in self.git_changes.ref_moves if m.name.startswith(REMOTES)), *([head] if head else [])]
        log = self.git_changes.new_log_lines()
        committed = {line.split(" ")[1] for line in log if "\tcommit" in line}
        mine = {
            (e.path, e.new)
            for e in self.history.list_commit_changes([c for c in self.own_commits if c.name in committed])
        }
        for tip in dict.fromkeys(filter(OBJECT_NAME.fullmatch, tips)):
            name = self.layered.read_blob_names(tip, [path]).get(path, "")
            if name == self.layered.read_blob_names(self.history.head_before, [path]).get(path, ""):
                continue
            if (path, name) not in mine and self.trees.holds_blob(place, path, name):
                return True
        return False

    @LazyProperty
    def own_commits(self) -> list[NewCommit]:
        """Return the commits made by the command, or brought under an unknown name."""
        return self.history.find_new_commits(self.git_changes.list_tips().values())

    # -- settings -------------------------------------------------------------------------------------------

    def judge_settings(self) -> tuple[list[GitSetting], list[Finding]]:
        """Return the upstream settings of new branches, and findings for every other changed setting."""
        if not self.git_changes.has_settings_change:
            return [], []
        gone = {
            m.name.removeprefix(HEADS) for m in self.git_changes.ref_moves if m.name.startswith(HEADS) and not m.new
        }
        own, others = split_changed_settings(self.git_changes.common, self.git_changes.upper, self.remote_names(), gone)
        return own, [refused_settings(f"{GIT_FOLDER}/{SETTINGS_FILE}", others)] if others else []
