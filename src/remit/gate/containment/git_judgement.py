"""Judgement of a contained command's changes to git's folder, together with files that git brought into the working
tree.

Content from existing commits is not the command's work: an earlier call or a teammate was judged for it. A pull, a
checkout or a stash may therefore bring files outside the scope in their committed version; the command's own content is
judged like any change. Git's part is kept or dropped as a whole.
"""

import hashlib
import os
import posixpath
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from remit.core.decision import Finding
from remit.core.python_runtime import LazyProperty
from remit.core.shell_commands import UnreadableShell
from remit.gate.containment.contained_command import ContainedCommand, find_write_objections
from remit.gate.containment.messages import foreign_content, git_part_dropped, path_finding, refused_settings
from remit.gate.state.staged_entries import StagedEntries, entry_value, load_staged
from remit.gate.state.workspace_state import was_made_by
from remit.policy.commands import analyse
from remit.policy.commands.dangers import find_program_calls
from remit.policy.commands.programs.git import SUBMODULE_UPDATE
from remit.workspace.git.command import Git, list_settings
from remit.workspace.git.ignored_files import find_ignored
from remit.workspace.git.repository import head_commit
from remit.workspace.place.resolve_paths import find_open_folders
from remit.workspace.place.workspace import Workspace, find_git_root, workspace_at
from remit.workspace.sandbox.git_folder_checks import (
    HEADS,
    LASTING_REFS,
    LOG_LINE,
    OBJECT_NAME,
    REMOTES,
    SETTINGS_FILE,
    STASH_REF,
    TAGS,
    GitChanges,
    GitSetting,
    RefMove,
    has_plain_url,
    resolve_submodule_url,
    split_changed_settings,
)
from remit.workspace.sandbox.nested_repositories import NestedRepository
from remit.workspace.sandbox.new_commits import CommandHistory, TreeChange, read_index_entries
from remit.workspace.sandbox.staged_changes import (
    StagedChange,
    could_be_removed_meanwhile,
    has_origin_mark,
    is_changed_since,
)
from remit.workspace.sandbox.staging import Staging, saved_index_path

GIT_FOLDER = ".git"
SHA1_HEX_DIGITS = 40

REAPPLYING_VERBS = frozenset({"cherry-pick", "rebase", "merge", "pull", "revert"})
"""Git commands that apply a known change again elsewhere."""

TREE_CHANGING_VERBS = REAPPLYING_VERBS | {"checkout", "switch", "reset", "stash", "am"}
"""Git commands that bring other versions of files into the working tree."""

MAX_TIPS_COMPARED = 200

FETCHING_VERBS = frozenset({"fetch", "pull"})
GIT_MODULES = ".gitmodules"
SETTING_VERBS = frozenset({"config", "remote", "worktree", "clone", "init"})
"""Git commands that change settings: after them, fetched commits no longer prove the configured remote."""

REWRITTEN_FILES = ("FETCH_HEAD", "ORIG_HEAD", "COMMIT_EDITMSG")
"""Files that git writes anew with every command: nobody's work is lost with them."""


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
    unit: str = ""
    """The work tree of a nested repository, which comes over as a whole."""
    whole: frozenset[str] = frozenset()
    """All that the command changed in that work tree."""


NO_GIT_CHANGES = GitVerdict()
NO_ENTRY = ("", "")
EMPTY_BLOBS = (
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
)
"""git's names of an empty content, by SHA-1 and SHA-256."""


class WorkingTrees:
    """Working tree before and after a command, by path from the repository's root. `nested` is the work tree of another
    repository, from the workspace's root.
    """

    def __init__(self, workspace: Workspace, upper: Path, changes: Sequence[StagedChange], nested: str = "") -> None:
        root = workspace.root
        self.upper = upper
        self.changed = {change.path: change for change in changes}
        self.top = next((p for p in (root, *root.parents) if (p / ".git").exists()), root)
        self.prefix = str(root.relative_to(self.top))
        self.nested = nested
        if nested:
            self.top, self.prefix = root / nested, "."
        self.names: dict[tuple[Path, int], str] = {}

    def to_workspace_path(self, path: str) -> str:
        """Return a commit's path relative to the workspace, a possible subfolder of the repository."""
        if self.nested:
            return f"{self.nested}/{path}"
        return path if self.prefix == "." else posixpath.relpath(path, self.prefix)

    def to_commit_path(self, path: str) -> str:
        if self.nested:
            return path.removeprefix(f"{self.nested}/")
        return path if self.prefix == "." else f"{self.prefix}/{path}"

    def path_after(self, path: str) -> Path:
        change = self.changed.get(self.to_workspace_path(path))
        if change is None:
            return self.top / path
        return self.upper / change.path if change.kind in ("file", "link") else Path("/dev/null/none")

    def held_before(self, path: str, name: str) -> bool:
        return self.holds_blob(self.top / path, path, name)

    def held_after(self, path: str, name: str) -> bool:
        return self.holds_blob(self.path_after(path), path, name)

    def holds_blob(self, place: Path, path: str, name: str) -> bool:
        """Return True if the file at `place` is the named blob, or missing for an empty name. Raises GitError."""
        if not os.path.lexists(place) or (place.is_dir() and not place.is_symlink()):
            return not name or (place / ".git").exists()  # a submodule is a folder, and a commit to git
        if not name:
            return False
        is_plain = place.is_file() and not place.is_symlink()
        if (place, len(name)) not in self.names:
            # Git's name for the file's bytes, or for the link's target.
            content = os.fsencode(place.readlink()) if place.is_symlink() else place.read_bytes() if is_plain else b""
            found = hashlib.sha1(usedforsecurity=False) if len(name) == SHA1_HEX_DIGITS else hashlib.sha256()
            found.update(b"blob %d\0%b" % (len(content), content))
            self.names[place, len(name)] = found.hexdigest()
        if self.names[place, len(name)] == name or not is_plain:
            return self.names[place, len(name)] == name
        # Line endings and the like: as git itself would store the file under that name.
        words = ("hash-object", f"--path={path}", "--stdin")
        return Git(self.top).run(*words, stdin=place.read_bytes()).decode().strip() == name


class GitJudgement:
    """Judgement of one command's git changes. Methods raise OSError, GitError, StateError, TooManyCommits."""

    def __init__(
        self,
        command: ContainedCommand,
        staging: Staging,
        changes: Sequence[StagedChange],
        git_changes: GitChanges,
        trees: WorkingTrees,
        nested: NestedRepository | None = None,
    ) -> None:
        self.command = command
        self.workspace = command.context.workspace
        self.nested = nested
        self.is_new = nested is not None and nested.state == "made"
        self.git_folder = GIT_FOLDER if nested is None else f"{nested.tree}/{GIT_FOLDER}"
        self.staging = staging
        self.changed_paths = [c.path for c in changes if c.kind in ("file", "link", "gone")]
        """Changed files of the working tree, from the workspace's root."""
        self.git_changes = git_changes
        self.trees = trees
        self.layered = git_changes.layered
        self.real_git = Git(git_changes.common)
        git_dir = None if nested is not None else self.workspace.git_dir
        self.earlier_index_path = (git_dir or git_changes.common) / "index"
        self.scratch = staging.folder / "git-scratch"

        # The git commands in the text if every command of the text is known and runs in this repository.
        analysis = analyse(command.call.command or "")
        places = [Path(command.call.cwd, folder).resolve() for folder in analysis.git_folders]
        # `git fetch` and `git submodule update` go on in the submodules.
        homes = (trees.top, find_git_root(self.workspace.root))
        is_home = all(analysis.git_folders) and all(find_git_root(place) in homes for place in places)
        self.plain_commands = analysis.git_verbs if is_home else ()

    def judge(self) -> GitVerdict:
        """Judge the git files, the history, the contents of commits and index, and the working tree."""
        # 1 The git files themselves.
        why = self.git_changes.find_objection() or self.explain_foreign_change()
        self.history = CommandHistory(self.git_changes, self.scratch, () if why else self.fetched_commits)
        if why:
            return self.drop_all((git_part_dropped(self.git_folder, why),))
        why = self.git_changes.explain_forged_log(self.history.head_after)
        if why:
            return self.drop_all((git_part_dropped(self.git_folder, why),))

        # 2 The history: moved refs, dropped stashes, an index that hides changes.
        stashed = self.history.find_new_commits(self.git_changes.list_new_stashes().values())
        new_commits = [*self.history.find_new_commits(self.git_changes.list_tips().values()), *stashed]
        unique = {commit.name: commit for commit in new_commits}.values()
        self.entries = self.history.list_commit_changes([*unique], frozenset(c.name for c in stashed))
        why = self.explain_ref_refusal() or self.explain_lost_stash()
        if not why and self.git_changes.index is not None:
            new = self.find_hidden_paths(self.git_changes.index) - self.hidden_before
            why = f"index: git would overlook changes of {min(new)}" if new else None
        if why:
            return self.drop_all((git_part_dropped(self.git_folder, why),))

        # 3 Contents of commits and index, and the working tree beside the new HEAD.
        waiting = self.find_objections(self.git_changes.list_waiting_patches())
        findings = [path_finding("waiting patch", self.trees.to_workspace_path(path)) for path in waiting]
        findings += self.find_foreign_history() if self.is_new else []
        findings += [*self.find_foreign_contents(), *self.find_unstaged_work(), *self.find_stale_files()]
        if findings:
            unchanged = git_part_dropped(self.git_folder, "no branch was moved, and the index is as before")
            return self.drop_all((*findings, unchanged))

        # 4 Git's part stays, with the files that git brought, and the upstream settings of new branches.
        settings: list[GitSetting] = []
        refused: list[str] = []
        moves = self.git_changes.ref_moves
        if self.git_changes.has_settings_change:
            gone = {m.name.removeprefix(HEADS) for m in moves if m.name.startswith(HEADS) and not m.new}
            common, upper = self.git_changes.common, self.git_changes.upper
            tree = self.trees.top if self.nested is not None and self.nested.is_submodule else None
            known = (self.remote_names, gone, self.submodule_urls, tree)
            settings, refused = split_changed_settings(common, upper, *known)
        brought, excused = self.find_brought_paths()
        new_refs = (move.name for move in moves if move.name.startswith((HEADS, TAGS)) and not move.old)
        return GitVerdict(
            stays=True,
            findings=(refused_settings(f"{self.git_folder}/{SETTINGS_FILE}", refused),) if refused else (),
            brought=brought,
            excused=excused,
            paths=frozenset(map(self.trees.to_workspace_path, (*self.head_changes, *self.staged_changes))),
            new_names=tuple(map(self.own_name, (*(c.name for c in new_commits), *new_refs))),
            settings=tuple(settings),
        )

    def drop_all(self, findings: tuple[Finding, ...]) -> GitVerdict:
        return GitVerdict(False, findings, frozenset(filter(self.is_foreign_version, self.changed_paths)))

    # -- what is compared -----------------------------------------------------------------------------------

    @LazyProperty
    def head_changes(self) -> dict[str, TreeChange]:
        return self.history.diff_commits(self.history.head_before, self.history.head_after)

    @LazyProperty
    def staged_changes(self) -> dict[str, TreeChange]:
        index = self.git_changes.index or self.earlier_index_path
        return self.history.diff_index(index, self.history.head_after) if index.is_file() else {}

    @LazyProperty
    def earlier_entries(self) -> dict[str, tuple[str, str]]:
        return read_index_entries(self.layered, self.earlier_index_path)

    @LazyProperty
    def earlier_index(self) -> dict[str, str]:
        return {path: blob for path, (_, blob) in self.earlier_entries.items()}

    @LazyProperty
    def hidden_before(self) -> set[str]:
        return self.find_hidden_paths(self.earlier_index_path)

    @LazyProperty
    def staged_before(self) -> StagedEntries:
        return load_staged(self.command.context.state) if self.nested is None else StagedEntries("")

    @LazyProperty
    def index_moves(self) -> dict[str, tuple[str, str]]:
        if self.git_changes.index is None:
            return {}
        before, after = self.earlier_entries, read_index_entries(self.layered, self.git_changes.index)
        return {p: after.get(p, NO_ENTRY) for p in before.keys() | after.keys() if before.get(p) != after.get(p)}

    def find_objections(self, paths: Iterable[str]) -> dict[str, Finding]:
        names = {path: self.trees.to_workspace_path(path) for path in dict.fromkeys(paths)}
        found = find_write_objections(self.command, names.values()) if names else {}
        return {p: found[name] for p, name in names.items() if name in found and found[name].code != "STALE_FILE"}

    def blob_at(self, commit: str, path: str) -> str:
        return self.layered.read_blob_names(commit, [path]).get(path, "")

    def own_name(self, name: str) -> str:
        """Return the name under which the maker of a commit or a ref is kept: refs of other repositories differ."""
        return f"{self.nested.tree}:{name}" if self.nested is not None and name.startswith("refs/") else name

    def is_session_made(self, name: str) -> bool:
        command, name = self.command, self.own_name(name)
        return was_made_by(command.context.state, name, command.call.session.session_id, command.intent_id)

    @LazyProperty
    def remote_names(self) -> set[str]:
        return set(self.real_git.text("remote").split())

    @LazyProperty
    def submodule_urls(self) -> Mapping[str, str]:
        path = self.trees.to_workspace_path(GIT_MODULES)
        is_changed = path in self.trees.changed and not self.find_objections([GIT_MODULES])
        place = self.trees.path_after(GIT_MODULES) if is_changed else self.trees.top / GIT_MODULES
        if not place.is_file() or place.is_symlink():
            return {}
        remotes = list_settings(self.git_changes.common / SETTINGS_FILE)
        base = remotes.get("remote.origin.url", str(self.trees.top))
        urls = {
            k[10:-4]: v for k, v in list_settings(place).items() if k.startswith("submodule.") and k.endswith(".url")
        }
        return {name: resolve_submodule_url(url, base) for name, url in urls.items() if has_plain_url(url)}

    @LazyProperty
    def git_verbs(self) -> frozenset[str]:
        try:
            commands = [one.words for one in find_program_calls(self.command.call.command or "") if one.name == "git"]
        except UnreadableShell:
            commands = []
        words = [next((word for word in each if not word.startswith("-")), "") for each in commands]
        return frozenset((*words, *(use.partition(" ")[0] for use in self.plain_commands)))

    # -- files ----------------------------------------------------------------------------------------------

    def explain_foreign_change(self) -> str | None:
        began, common, upper = self.staging.began_ns, self.git_changes.common, self.git_changes.upper
        rewritten = set(map(self.git_changes.worktree_path, REWRITTEN_FILES))
        index, index_then = self.git_changes.worktree_path("index"), saved_index_path(self.staging.folder)

        def read_entries(place: Path) -> bytes:
            return self.layered.output("ls-files", "--stage", "-v", "-z", index=place)

        for change in self.git_changes.changes:
            if change.path in rewritten or self.is_new:
                continue
            lost = has_origin_mark(upper / change.path) and could_be_removed_meanwhile(common, change, began)
            if not lost and not is_changed_since(common, change, began):
                continue
            is_index = not lost and change.path == index and index_then.is_file()
            if not is_index or read_entries(index_then) != read_entries(common / index):
                return "somebody else used git meanwhile"
        return None

    # -- fetched --------------------------------------------------------------------------------------------

    @LazyProperty
    def fetched_commits(self) -> tuple[str, ...]:
        if self.is_new:
            return self.cloned_commits
        changes, commands = self.git_changes, self.plain_commands
        remotes = [use.partition(" ")[2] for use in commands if use.partition(" ")[0] in FETCHING_VERBS]
        if self.nested is not None and any(use.startswith(SUBMODULE_UPDATE) for use in commands):
            remotes.append("")
        if not remotes or not SETTING_VERBS.isdisjoint(commands) or self.can_write_hooks():
            return ()
        if not set(filter(None, remotes)) <= self.remote_names or "shallow" in changes.paths:
            return ()
        path = changes.worktree_path("FETCH_HEAD")
        lines = (changes.upper / path).read_text("utf-8", "replace").splitlines() if path in changes.paths else []
        tips = [line.split("\t")[0] for line in lines if not line.endswith(" of .")]
        if "push" not in commands:
            tips += [move.new for move in changes.ref_moves if move.name.startswith(REMOTES)]
        if "tag" not in commands:
            tips += [move.new for move in changes.ref_moves if move.name.startswith(TAGS) and not move.old]

        # The commits leading to a tip must have been absent, except under a branch, a tag or a remote's branch.
        known, found = CommandHistory(changes, self.scratch), list[str]()
        for tip in filter(OBJECT_NAME.fullmatch, dict.fromkeys(tips)):
            query = "".join(f"{name}\n" for name in known.list_commits([tip], known.known, max_count=0)).encode()
            rows = self.real_git.run("cat-file", "--batch-check=%(objecttype)", stdin=query) if query else b""
            if all(row.endswith(b" missing") for row in rows.splitlines()):
                found.append(tip)
        return tuple(found)

    @LazyProperty
    def cloned_commits(self) -> tuple[str, ...]:
        """The commits that a new repository came with: the names it holds, but for the commits made in it since."""
        lines = [match for line in self.git_changes.new_log_lines() if (match := LOG_LINE.fullmatch(line))]
        made = {line["new"]: line["old"] for line in lines if (line["message"] or "").startswith("commit")}
        tips = {*self.git_changes.list_tips().values(), *self.git_changes.list_new_stashes().values()}
        found = (tips - made.keys()) | (set(made.values()) - made.keys())
        return tuple(name for name in found if name.strip("0"))

    def find_foreign_history(self) -> list[Finding]:
        tips = [*self.git_changes.list_tips().values(), *self.git_changes.list_new_stashes().values()]
        words = ("log", "--stdin", "--format=", "--name-only", "--no-renames", "--root", "-m", "-z")
        query = "".join(f"{name}\n" for name in tips).encode()
        out = self.git_changes.layered.output(*words, stdin=query) if tips else b""
        objections = self.find_objections(sorted({os.fsdecode(path) for path in out.split(b"\0") if path}))
        is_pinned = self.nested is not None and self.nested.is_submodule and SUBMODULE_UPDATE in self.plain_commands
        if is_pinned and objections and find_write_objections(self.command, [GIT_MODULES]):
            return []
        return [foreign_content(f, self.trees.to_workspace_path(p), tips[0], "") for p, f in objections.items()]

    def can_write_hooks(self) -> bool:
        named = self.real_git.text("config", "--get-all", "core.hookspath", ok=(0, 1)).splitlines()
        places = [Path(self.trees.top, one).expanduser() for one in named if one != "/dev/null"]
        if not places:
            return False
        folder, root = places[-1], self.workspace.root
        if not folder.is_dir() or not folder.is_relative_to(root):
            environment = self.command.context.environment
            in_open = any(one.opens(os.path.realpath(folder)) for one in find_open_folders(self.workspace, environment))
            return in_open or folder.is_relative_to(environment.temporary)
        hooks = {str(p.relative_to(root)) for p in (*folder.iterdir(), folder / "reference-transaction")}
        return len(find_write_objections(self.command, hooks)) < len(hooks)

    # -- names ----------------------------------------------------------------------------------------------

    def explain_ref_refusal(self) -> str | None:
        changes = self.git_changes
        fetching = self.is_new or (bool(self.fetched_commits) and "push" not in self.plain_commands)
        remote = {m.name for m in changes.ref_moves if m.name.startswith(REMOTES)} if fetching else set[str]()
        for move in changes.ref_moves:
            name, is_object = move.name, OBJECT_NAME.fullmatch(move.new)
            if name in remote:
                continue
            if name.startswith(REMOTES):
                # A push moves a remote's branch to a commit that holds the old one.
                pushed = "push" in self.git_verbs and is_object
                is_ahead = ("merge-base", "--is-ancestor", move.old, move.new)
                if not pushed or (move.old and not self.layered.succeeds(*is_ahead)):
                    advice = "Run `git fetch` or `git pull` as a command by itself"
                    return f"{name}: only a push or a fetch moves a remote's branch. {advice}"
            if not move.new and name.startswith(LASTING_REFS) and not self.is_session_made(name):
                return f"{name}: it was taken away, and this session did not make it"
            if name.startswith(HEADS) and move.old and self.is_moved_aside(move):
                return f"{name}: it is not the branch that is checked out, and this session did not make it"
            if name.startswith(TAGS) and move.old and not self.is_session_made(name):
                return f"{name}: a tag of somebody else's was moved"
            if name.startswith((HEADS, TAGS)) and name.endswith("HEAD"):
                return f"{name}: git would take it for HEAD"
            if move.new and not is_object and not move.new.startswith(f"ref: {REMOTES}"):
                return f"{name}: it names no commit"
        head = changes.worktree_path("HEAD")
        if head in changes.paths:
            target = (changes.upper / head).read_text("utf-8", "replace").strip()
            if not target.startswith(f"ref: {HEADS}") and not OBJECT_NAME.fullmatch(target):
                return "HEAD: it names no commit"
        lost = next((name for name in self.history.find_lost_commits(remote) if not self.is_session_made(name)), None)
        return lost and f"it leaves commits behind that this session did not make: {lost[:12]}"

    def is_moved_aside(self, move: RefMove) -> bool:
        checked_out = {self.history.branch_before, self.history.branch_after}
        lines = (line.partition("\tcheckout: ") for line in self.git_changes.new_log_lines())
        checked_out |= {f"{HEADS}{message.rpartition(' to ')[2]}" for _, _, message in lines}
        if move.name in checked_out or self.is_session_made(move.name) or not self.git_changes.is_real_object(move.new):
            return False
        upstreams = {f"{REMOTES}{remote}/{move.name.removeprefix(HEADS)}" for remote in self.remote_names}
        return all(self.history.names.get(name) != move.new for name in upstreams)

    def find_hidden_paths(self, index: Path) -> set[str]:
        if not index.is_file():
            return set()
        lines = self.layered.output("ls-files", "-v", "-z", index=index).decode("utf-8", "surrogateescape").split("\0")
        return {line[2:] for line in lines[:-1] if line[0] == "S" or line[0].islower()}

    def explain_lost_stash(self) -> str | None:
        before, after = self.git_changes.stashes_before, self.git_changes.stashes_after
        for name in (one for one in before if one not in after and not self.is_session_made(one)):
            for path, change in self.stash_changes(name).items():
                if not self.is_result_of_change(path, [change]):
                    return f"{STASH_REF}: a stash was taken away whose {path} is not in the working tree"
        return None

    def stash_changes(self, name: str) -> dict[str, tuple[str, str]]:
        parents = self.layered.output("rev-parse", f"{name}^@").decode().split()
        if not parents:
            return {}
        found = {path: (e.old, e.new) for path, e in self.history.diff_commits(parents[0], name).items()}
        if len(parents) > 2:
            found |= {path: ("", e.new) for path, e in self.history.diff_commits("", parents[2]).items()}
        return found

    # -- contents -------------------------------------------------------------------------------------------

    def find_foreign_contents(self) -> list[Finding]:
        # 1 Out-of-scope contents of the new commits, and of the index beyond its earlier state.
        index = {p: e for p, e in self.staged_changes.items() if e.conflict or p in self.index_moves}
        objections = self.find_objections([*(e.path for e in self.entries), *index])
        committed = [e for e in self.entries if e.path in objections]
        staged = [e for path, e in index.items() if path in objections]
        if not committed and not staged:
            return []

        # 2 Contents of a person's, and changes that git made again from known ones, are no work of the command's.
        head = self.layered.read_blob_names(self.history.head_before, [e.path for e in (*committed, *staged)])
        unknown = [e for e in staged if not e.conflict and not self.is_made_by(self.open_changes(e.path), e.old, e.new)]
        foreign = [
            e
            for e in (*committed, *unknown)
            if not self.is_persons_version(e, head.get(e.path, "")) and not self.is_reapplied_change(e)
        ]

        # 3 One finding for each path, about its newest content.
        newest = {e.path: e for e in reversed(foreign)}
        name_of = self.trees.to_workspace_path
        conflicts = [path_finding("unmerged", name_of(e.path)) for e in staged if e.conflict]
        return [*conflicts, *(foreign_content(objections[p], name_of(p), e.commit, e.new) for p, e in newest.items())]

    def is_persons_version(self, entry: TreeChange, head: str) -> bool:
        """Return True if a person left or staged exactly this before the command: a content, or that there is none."""
        path, trees, workspace = entry.path, self.trees, self.workspace
        is_as_staged = self.earlier_entries.get(path, NO_ENTRY) == entry_value(entry)
        if is_as_staged and self.staged_before.has_known_stager(entry):
            return True
        if not trees.held_before(path, entry.new) or trees.held_before(path, head):
            return False
        if not entry.new and path in self.hidden_before:
            return False  # a sparse checkout leaves the file out: nobody took it away
        # A file that git ignores any command may have left there without a record.
        name = trees.to_workspace_path(path)
        if self.nested is not None:
            workspace, name = workspace_at(trees.top, None if self.is_new else trees.top), path
        ignored = find_ignored(workspace, head_commit(workspace), [name], with_worktree_rules=False)
        return name not in ignored.by_folder and name not in ignored.by_name

    def find_unstaged_work(self) -> list[Finding]:
        # An entry with the intent to add (`add -N`) has an empty content, and differs from no commit.
        values = {p: (self.earlier_entries.get(p, NO_ENTRY), value) for p, value in self.index_moves.items()}
        empty = [p for p, pair in values.items() if any(blob in EMPTY_BLOBS for _, blob in pair)]
        head = self.layered.read_blob_names(self.history.head_before, empty)
        new_head = self.layered.read_blob_names(self.history.head_after, empty)
        moved: list[str] = []
        for path, (before, after) in values.items():
            was_intended = before[1] in EMPTY_BLOBS and path not in head and path not in self.staged_before.entries
            is_intended = after[1] in EMPTY_BLOBS and path not in new_head and path not in self.staged_changes
            if self.staged_before.is_persons(path, before) or was_intended or is_intended:
                moved.append(path)
        return [
            path_finding("staged by a person", self.trees.to_workspace_path(p)) for p in self.find_objections(moved)
        ]

    def is_reapplied_change(self, entry: TreeChange) -> bool:
        known = [(e.old, e.new) for e in self.known_changes if e.path == entry.path]
        if "revert" in self.git_verbs:
            known += [(new, old) for old, new in known]
        return self.is_made_by(known, entry.old, entry.new)

    def is_made_by(self, changes: Iterable[tuple[str, str]], old: str, new: str) -> bool:
        return any(self.history.is_merge_of(change, old, new) for change in changes)

    @LazyProperty
    def known_changes(self) -> list[TreeChange]:
        paths = {e.path for e in self.entries} | self.staged_changes.keys()
        return [] if REAPPLYING_VERBS.isdisjoint(self.git_verbs) else self.history.list_known_changes(sorted(paths))

    def open_changes(self, path: str) -> list[tuple[str, str]]:
        return [changes[path] for changes in self.all_open_changes if path in changes]

    @LazyProperty
    def all_open_changes(self) -> list[Mapping[str, tuple[str, str]]]:
        """The open changes of each source, by path."""

        def parent(name: str) -> str:
            # The commit may be the first: its parent is empty.
            words = ("rev-parse", "--verify", "--quiet", f"{name}^")
            return self.layered.output(*words, ok=(0, 1, 128)).decode().strip()

        def fork_point(name: str) -> str:
            return self.layered.output("merge-base", self.history.head_after, name, ok=(0, 1)).decode().strip()

        ranges = [(fork_point(name), name) for name in self.pending_commits("MERGE_HEAD")]
        ranges += [(parent(name), name) for name in self.pending_commits("CHERRY_PICK_HEAD")]
        ranges += [(name, parent(name)) for name in self.pending_commits("REVERT_HEAD")]
        ranges += [(parent(name), name) for name in self.history.find_lost_commits(())]
        diffs = (self.history.diff_commits(old, new) for old, new in ranges)
        open_ranges = ({path: (e.old, e.new) for path, e in diff.items()} for diff in diffs)
        return [*map(self.stash_changes, self.git_changes.stashes_before), *open_ranges]

    def pending_commits(self, name: str) -> list[str]:
        own = self.git_changes.worktree_path(name)
        places = dict.fromkeys((self.git_changes.common / own, self.git_changes.path_after(own)))
        texts = (place.read_text("utf-8", "replace") for place in places if place.is_file())
        return [word for text in texts for word in text.split() if OBJECT_NAME.fullmatch(word)]

    # -- the working tree -----------------------------------------------------------------------------------

    def find_stale_files(self) -> list[Finding]:
        behind = [path for path, e in self.head_changes.items() if not self.trees.held_after(path, e.new)]
        objections = self.find_objections(behind)
        wrong = [p for p in objections if not self.is_result_of_change(p, self.open_changes(p))]
        # A person may have staged HEAD's new version, with the file unchanged since.
        staged = {p: self.earlier_index.get(p, "") for p in wrong}
        by_person = {p for p in wrong if self.head_changes[p].new == staged[p] != self.head_changes[p].old}
        kept = {p for p in by_person if self.trees.path_after(p) == self.trees.top / p}
        wrong = [p for p in wrong if p not in kept or self.trees.held_before(p, staged[p])]
        skipped = self.find_hidden_paths(self.git_changes.index or self.earlier_index_path) if wrong else set[str]()
        behind_head = {True: "governing file behind HEAD", False: "behind HEAD"}
        return [
            path_finding(behind_head[objections[p].code == "PROTECTED_PATH"], self.trees.to_workspace_path(p))
            for p in wrong
            if p not in skipped
        ]

    def is_result_of_change(self, path: str, changes: Sequence[tuple[str, str]]) -> bool:
        if not changes:
            return False
        place = self.trees.path_after(path)
        content = place.read_bytes() if place.is_file() and not place.is_symlink() else None
        olds = dict.fromkeys((self.blob_at(self.history.head_after, path), self.earlier_index.get(path, "")))
        return any(
            self.trees.holds_blob(place, path, new)
            or (content is not None and any(self.history.merge_blobs(old, base, new) == content for old in olds))
            for base, new in changes
        )

    def find_brought_paths(self) -> tuple[frozenset[str], frozenset[str]]:
        trees, head = self.trees, self.history.head_before
        conflicts: set[str] = set()
        excused: set[str] = set()
        own = {(e.path, e.new) for e in self.entries if not self.is_reapplied_change(e)}
        stashes = map(self.stash_changes, self.git_changes.list_new_stashes().values())
        stashed = {path: new for changes in stashes for path, (_, new) in changes.items()}
        for path in self.changed_paths:
            name = trees.to_commit_path(path)
            moved, staged = self.head_changes.get(name), self.staged_changes.get(name)
            if staged is not None and staged.conflict:
                conflicts.add(path)
            elif moved is not None and trees.held_after(name, moved.new):
                if (name, moved.new) not in own and trees.held_before(name, self.blob_at(head, name)):
                    excused.add(path)
            elif (name in stashed and trees.held_before(name, stashed[name])) or self.is_result_of_change(
                name, self.open_changes(name)
            ):
                excused.add(path)
            else:
                # Back at HEAD's version, after an aborted merge or a similar operation?
                after, then = self.blob_at(self.history.head_after, name), self.earlier_index.get(name, "")
                aborted = self.is_made_by(self.open_changes(name), after, then) and trees.held_before(name, then)
                if aborted and trees.held_after(name, after):
                    excused.add(path)
        return frozenset(conflicts | excused), frozenset(excused)

    def find_half_brought(self) -> frozenset[str]:
        """Return the changed files in another branch's version that are missing in the index.

        Git writes the index last, so an interrupted command (for instance at a read-only governing file) leaves files
        without index entries.
        """
        if TREE_CHANGING_VERBS.isdisjoint(self.git_verbs) or not self.changed_paths:
            return frozenset()
        self.history = CommandHistory(self.git_changes, self.scratch)
        index = read_index_entries(self.layered, self.git_changes.index or self.earlier_index_path)
        names = {path: self.trees.to_commit_path(path) for path in self.changed_paths}
        loose = {p: n for p, n in names.items() if not self.trees.held_after(n, index.get(n, NO_ENTRY)[1])}
        loose = {p: n for p, n in loose.items() if not self.is_result_of_change(n, self.open_changes(n))}
        fetched = [move.new for move in self.git_changes.ref_moves if move.name.startswith(REMOTES)]
        lasting = [commit for name, commit in self.history.names.items() if name.startswith(LASTING_REFS)]
        tips = [*dict.fromkeys(filter(OBJECT_NAME.fullmatch, (*fetched, *lasting)))][:MAX_TIPS_COMPARED]
        for tip in tips if loose else ():
            blobs = self.layered.read_blob_names(tip, loose.values())
            if any(name in blobs and self.trees.held_after(name, blobs[name]) for name in loose.values()):
                return frozenset(loose)
        return frozenset()

    def is_foreign_version(self, changed: str) -> bool:
        path = self.trees.to_commit_path(changed)
        if any(self.trees.held_after(path, new) for _, new in self.open_changes(path) if new):
            return True
        tips = [*(m.new for m in self.git_changes.ref_moves if m.name.startswith(REMOTES)), self.history.head_after]
        before = self.blob_at(self.history.head_before, path)
        for tip in filter(OBJECT_NAME.fullmatch, dict.fromkeys(tips)):
            name = self.blob_at(tip, path)
            if name != before and (path, name) not in self.committed_contents and self.trees.held_after(path, name):
                return True
        return False

    @LazyProperty
    def committed_contents(self) -> set[tuple[str, str]]:
        made = {line.split(" ")[1] for line in self.git_changes.new_log_lines() if "\tcommit" in line}
        commits = self.history.find_new_commits(self.git_changes.list_tips().values())
        return {(e.path, e.new) for e in self.history.list_commit_changes([c for c in commits if c.name in made])}
