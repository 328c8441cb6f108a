"""Worktrees of attempts, sparse and without `.orchestration/`, governed by the folder of the main worktree; and
checkpoints of a worktree's files, as commits under a private ref.

A worktree is given up only after the end of the attempt, with all work reachable from a ref. Source: git-worktree(1),
git-sparse-checkout(1), git-fast-import(1) of git 2.39, read 2026-11.
"""

import os
import re
import shutil
import stat
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import quote_bytes
from remit.workspace.git.command import Git, GitError, list_disabled_filters
from remit.workspace.git.repository import BRANCH_FOLDER, prefix_in_repository
from remit.workspace.merging import NO_COMMIT, Identity, TreeStore
from remit.workspace.observe.observation import Observation, observe_workspace
from remit.workspace.place.assignment_file import read_assignment
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace, locate_workspace
from remit.workspace.safe_files import ObservedFile
from remit.workspace.sandbox.private_git_folder import PrivateGitFolder, WorkRefused, take_over_commits
from remit.workspace.snapshots.snapshot import is_secret_path, read_content

STATUS_WORDS = ("status", "--porcelain", "--ignore-submodules=dirty")
"""Words of a status that starts no git inside a submodule: its settings, which an agent may write, name programs."""

GITLINK_MODE = "160000"
NESTED = "not observed: nested repository "
WIP_REFS = "refs/remit/wip"
HANDED_IN_REFS = "refs/remit/handed-in"
"""Marks of handed-in attempts: an agent may commit on its branch at any time, and a person may take a task over."""

ARTIFACT_REFS = "refs/remit/artifacts"
PLAN_REFS = "refs/remit/plans/"
ATTEMPT_NAME = re.compile(r"[A-Z]{2,8}-[0-9]{1,9}/[1-9][0-9]{0,8}")
IDLE_BRANCH = re.compile(rf"refs/heads/{BRANCH_FOLDER}/{ATTEMPT_NAME.pattern}")
HEAD_CONTENT = re.compile(rb"ref: refs/[^\n]+\n|[0-9a-f]{40,64}\n")
MAX_HEAD_BYTES = 4096
FILE_MODES = ("100644", "100755", "120000")
CHECKPOINT_AUTHOR = "Remit <remit@localhost>"


class NoWorktree(RuntimeError):
    """No worktree can be made here. The message names the next step."""


class FilterDisabled(NoWorktree):
    """Error for a file that would be committed without its filter, such as an encrypting one."""

    def __init__(self, path: str, name: str) -> None:
        super().__init__(
            f"git would commit {path!r} without its filter {name!r}: this repository's settings name its program, and "
            f"Remit runs none of theirs. If you trust it, name it in yours: `git config --global filter.{name}.clean`, "
            "and smudge; nothing was committed"
        )


class ContentAtRisk(RuntimeError):
    """A worktree holds what no ref leads to: it is kept."""

    def __init__(self, place: Path, what: str) -> None:
        super().__init__(f"{str(place)!r} is kept: {what}")


class Checkpoint(Struct, frozen=True):
    """What stands in a worktree, as a commit on top of HEAD. `left` are paths that must not get into git, with why."""

    commit: str
    ref: str
    left: Mapping[str, str] = {}


class HandInResult(Struct, frozen=True):
    """Result of handing in: the commit of the work; or the changed paths outside the write set, and no commit."""

    commit: str
    outside: tuple[str, ...] = ()


def is_disposable(workspace: Workspace) -> bool:
    """Return whether a linked worktree is without files kept by a plan's attempt and without uncommitted changes, even
    with a setting that hides untracked files from git.
    """
    if workspace.assignment_path is None or Path(workspace.assignment_path).parent.exists():
        return False
    with suppress(GitError):
        return not Git(workspace.root).run(*STATUS_WORDS, "--untracked-files=normal")
    return False


class Worktrees:
    """The worktrees of attempts of one repository, in a folder outside of it. Methods raise GitError, OSError.

    The folder must not lie in a temporary folder, which agents share: `~/.local/share/remit/trees/<repository>` is
    protected from all agents but the ones that work there.
    """

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        if workspace.common_dir is None:
            raise NoWorktree(f"{str(workspace.root)!r} is not in git, and only git has worktrees")
        self.workspace = workspace
        self.folder = folder
        self.git = Git(workspace.common_dir)
        self.store = TreeStore(workspace)

    # Making and giving up

    def prepare(self, intent: str, attempt: int, base: str) -> Workspace:
        """Return a worktree on the new branch `remit/<intent>/<attempt>` at the commit `base`: an idle or a new
        worktree. A branch of the same name from an interrupted try is taken over only if still at `base`.
        """
        name = attempt_name(intent, attempt)
        branch, commit = f"{BRANCH_FOLDER}/{name}", self.require_commit(base)
        for tree in self.list_trees():
            if current_branch_ref(tree) == f"refs/heads/{branch}":
                return tree
        present = self.store.find_commit(f"refs/heads/{branch}")
        if present not in (None, commit):
            raise NoWorktree(f"the branch {branch!r} exists, at {present[:12]}: number the attempt anew")
        for tree in self.list_trees():
            if self.is_idle(tree):
                return self.reuse(tree, branch, commit)
        place = self.folder / f"tree-{os.urandom(4).hex()}"
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.git.run("worktree", "add", "--quiet", "--no-checkout", "-B", branch, "--", str(place), commit)
        tree = require_workspace(place)
        self.fill(tree)
        return tree

    def prepare_for_verification(self, commit: str) -> Workspace:
        """Return the worktree that landings are verified in, with exactly the files of the commit."""
        place = self.folder / "verification"
        tree = locate_workspace(place) if (place / ".git").is_file() else None
        if tree is None or tree.root != place.resolve() or tree.common_dir != self.workspace.common_dir:
            # A command may have removed what makes it a worktree: git would then work in a repository above.
            shutil.rmtree(place, ignore_errors=True)
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.git.run("worktree", "prune")
            self.git.run("worktree", "add", "--quiet", "--no-checkout", "--detach", "--", str(place), commit)
            tree = require_workspace(place)
            self.fill(tree)
        git = Git(tree.root)
        git.run("checkout", "--quiet", "--force", "--detach", commit)
        git.run("clean", "--quiet", "-ffdx")
        return tree

    def list_changed_files(self, tree: Workspace) -> list[str]:
        """Return the files below the worktree's root that differ from HEAD, new and removed ones too, unless ignored
        and untracked.
        """
        words = (*STATUS_WORDS, "-z", "--no-renames", "--untracked-files=all", "--", ".")
        prefix = prefix_in_repository(tree)
        listed = filter(None, os.fsdecode(Git(tree.root).run(*words)).split("\0"))
        return [entry[3:].removeprefix(prefix) for entry in listed]

    def fill(self, tree: Workspace) -> None:
        """Leave `.orchestration/` out of a fresh worktree, and bring the files of HEAD in."""
        git = Git(tree.root)
        hidden = f"!/{prefix_in_repository(self.workspace)}{ORCHESTRATION_FOLDER}/"
        git.run("sparse-checkout", "set", "--no-cone", "/*", hidden)
        git.run("checkout", "--quiet", "HEAD")

    def reuse(self, tree: Workspace, branch: str, commit: str) -> Workspace:
        """Bring an idle worktree to the commit, on a new branch; nothing of the attempt before is left in it."""
        git = Git(tree.root)
        git.run("checkout", "--quiet", "--force", "-B", branch, commit)
        self.fill(tree)  # the attempt before may have brought `.orchestration/` in
        git.run("clean", "--quiet", "-ffdx")
        if tree.assignment_path:
            shutil.rmtree(Path(tree.assignment_path).parent, ignore_errors=True)
        return tree

    def list_trees(self) -> list[Workspace]:
        """Return the worktrees of attempts that still exist. git is not asked: it would wait at what an agent left."""
        places = sorted(self.folder.resolve().glob("tree-*"))
        found = [(place, tree) for place in places if (tree := locate_workspace(place)) is not None]
        return [tree for place, tree in found if (tree.root, tree.common_dir) == (place, self.workspace.common_dir)]

    def is_idle(self, tree: Workspace) -> bool:
        """Return True if the worktree's attempt was ended, and everything in it is reachable from a ref."""
        held = read_assignment(tree)
        if held is None or held.terms is None or held.terms.state != "ended" or PrivateGitFolder(tree).exists:
            return False
        return not self.explain_risk(tree)

    def explain_risk(self, tree: Workspace) -> str:
        git = Git(tree.root)
        head = git.read_head()
        if head is not None and git.text("rev-list", "--max-count=1", head, "--not", "--glob=refs/*"):
            return f"no ref leads to its commit {head[:12]}"
        seen, gitlinks = observe_workspace(tree), list_gitlinks(git)
        nested = [remark.removeprefix(NESTED) for remark in seen.remarks if remark.startswith(NESTED)]
        if filled := [path for path in nested if path not in gitlinks or os.path.lexists(tree.root / path / ".git")]:
            return f"nested repository {filled[0]}"
        if stray := list_stray_files(tree.root, gitlinks):
            return f"{stray[0]!r} lies in the folder of a submodule"
        differing = {path: file for path, file in seen.files.items() if not is_governing(path)}
        if not differing:
            return ""
        kept = self.find_kept_files(tree)
        lost = [path for path, file in differing.items() if kept.get(path, "") != (file and file.version.git_blob)]
        return f"{lost[0]!r} is in no checkpoint" if lost else ""

    def find_kept_files(self, tree: Workspace) -> dict[str, str | None]:
        branch = current_branch_ref(tree)
        commit = self.store.find_commit(wip_ref_of(branch)) if branch else None
        if commit is None:
            return {}
        prefix = prefix_in_repository(tree)
        changes = self.store.list_changes(f"{commit}^", commit)
        return {c.path.removeprefix(prefix): None if c.is_removed else c.new_blob for c in changes}

    def remove(self, tree: Workspace) -> None:
        """Remove a worktree whose attempt is over. Raises ContentAtRisk, and then leaves it."""
        held = read_assignment(tree)
        if held is not None and not (held.terms is not None and held.terms.state == "ended"):
            raise ContentAtRisk(tree.root, "its attempt has not ended")
        if risk := self.explain_risk(tree):
            raise ContentAtRisk(tree.root, risk)
        self.git.run("worktree", "remove", "--force", "--", str(tree.root))

    def require_commit(self, name: str) -> str:
        found = self.store.find_commit(name)
        if found is None:
            raise NoWorktree(f"{name!r} is no commit here; fetch it first")
        return found

    # Keeping

    def checkpoint(self, tree: Workspace, intent: str, attempt: int, message: str, at: int) -> Checkpoint | None:
        """Keep what stands in the worktree as a commit on HEAD, under `refs/remit/wip/<intent>/<attempt>`; None where
        nothing differs from HEAD and from the checkpoint before. HEAD, index and files stay untouched.
        """
        ref = f"{WIP_REFS}/{attempt_name(intent, attempt)}"
        seen = observe_workspace(tree)
        files, left = split_files(seen)
        for path in find_filters(Git(tree.root), [path for path, file in files.items() if file is not None]):
            left[path] = "git passes it through a filter, and a checkpoint holds bytes as they are"
            del files[path]
        take_over_commits(tree)  # at least what was seen
        old = self.store.find_commit(ref)
        if seen.head is None or (not files and old is None):
            return None
        if old is not None and self.is_same_state(tree, old, seen.head, files):
            return Checkpoint(old, ref, left)
        prefix = os.fsencode(prefix_in_repository(tree))
        stream = b"".join(commit_stream(tree, ref, seen.head, prefix, files, f"{message}\n", at))
        self.git.run("fast-import", "--quiet", "--force", stdin=stream)
        commit = self.store.find_commit(ref)
        if commit is None or commit == old:
            raise GitError(("fast-import",), None, f"the ref {ref!r} was not written")
        return Checkpoint(commit, ref, left)

    def is_same_state(self, tree: Workspace, old: str, head: str, files: Mapping[str, ObservedFile | None]) -> bool:
        if self.store.find_commit(f"{old}^") != head:
            return False
        present = {path: seen.version.git_blob if seen else None for path, seen in files.items()}
        return self.find_kept_files(tree) == present

    def push_checkpoint(self, remote: str, checkpoint: Checkpoint, old: str = NO_COMMIT) -> None:
        """Push a checkpoint. Raises RefMoved if the remote's ref is not at `old`."""
        self.store.push_ref(remote, checkpoint.ref, checkpoint.commit, old)

    def end_git_folder(self, tree: Workspace) -> str:
        """Take over the agent's commits from the worktree's own git folder, and end an existing folder; return the
        reason for refusing the commits, empty without a refusal.
        """
        try:
            PrivateGitFolder(tree).close()
        except WorkRefused as error:
            return str(error)
        return ""

    def remove_traps(self, tree: Workspace, branch: str) -> tuple[Path, ...]:
        """Remove, after the agent's end, traps for git outside of the jail in the agent's writable folders, and return
        the traps: links to write through, files to wait at, and refs standing for a further ref. Locks of a killed git
        are removed too, and not returned.
        """
        common = self.workspace.common_dir
        assert common is not None, "worktrees are git's"
        own = f"refs/heads/{branch.rpartition('/')[0]}"
        folders = [tree.git_dir, common / own, common / "logs" / own]
        inner = [path for folder in folders if folder is not None for path in folder.rglob("*")]
        found = find_object_traps(common / "objects")
        for path in found:  # first: all worktrees read these
            path.unlink(missing_ok=True)
        found += filter(is_trap, inner)
        found += [path for path in (common / own).rglob("*") if path.is_file() and path not in found and is_alias(path)]
        for path in (*found, *(path for path in inner if path.suffix == ".lock")):
            with suppress(IsADirectoryError):
                path.unlink(missing_ok=True)
        head = Path(tree.git_dir or tree.root, "HEAD")
        if not head.is_file() or not HEAD_CONTENT.fullmatch(head.read_bytes()[:MAX_HEAD_BYTES]):
            head.write_text(f"ref: refs/heads/{branch}\n")  # without it, git finds no worktree here
        return tuple(found)

    def hand_in(
        self, tree: Workspace, patterns: Iterable[tuple[str, ...]], message: str, author: Identity
    ) -> HandInResult:
        """Commit all that is in the worktree on the attempt's branch, and return the commit; HEAD's if nothing differs.

        Changed paths since `base`, in earlier commits of the agent too, have to match each of the `patterns`: else they
        are named and nothing is committed. Whatever the agent did to HEAD or the branch, both are at the commit then.
        Raises WorkRefused.
        """
        PrivateGitFolder(tree).close()
        held = read_assignment(tree)
        terms = held.terms if held is not None else None
        git, sets = Git(tree.root), [Scope(one) for one in patterns]
        prefix, head = prefix_in_repository(tree), git.read_head() or (terms.base if terms else "")
        self.require_commit(head)
        # git would run in the submodules that it knows, by the settings that an agent left there.
        gitlinks = list_gitlinks(git)
        git.run("add", "--all", "--", ".", *(f":(exclude,literal){path}" for path in gitlinks))
        stray = list_stray_files(tree.root, gitlinks)
        written = git.text("write-tree")
        base = (terms.base if terms else "") or head
        changed = self.store.list_changes(base, written)
        paths = [change.path for change in changed]
        outside = [p for p in paths if not all(s.matches(p.removeprefix(prefix)) for s in sets)]
        outside += [f"{path} (in a submodule)" for path in stray]
        if outside:
            return HandInResult("", tuple(outside))
        disabled = list_disabled_filters(tree.root)
        inert = {
            path: name
            for path, name in find_filters(git, [p.removeprefix(prefix) for p in paths]).items()
            if name in disabled
        }
        if inert:
            raise FilterDisabled(*next(iter(inert.items())))
        is_new = written != self.store.read_tree_name(head)
        commit = self.store.commit(written, (head,), message, author) if is_new else head
        if terms is not None:
            branch = f"refs/heads/{BRANCH_FOLDER}/{attempt_name(terms.intent, terms.attempt)}"
            git.run("symbolic-ref", "-m", "remit: handed in", "HEAD", branch)
            git.run("update-ref", "--no-deref", "-m", "remit: handed in", branch, commit)
        elif is_new:
            git.run("update-ref", "-m", "remit: handed in", "HEAD", commit, head)
        return HandInResult(commit)


def is_trap(path: Path) -> bool:
    mode = path.lstat().st_mode
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def find_object_traps(objects: Path) -> list[Path]:
    found: list[Path] = []
    for folder in (objects, *(path for path in (objects / "pack", *objects.glob("??")) if not path.is_symlink())):
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            found += [
                Path(entry.path)
                for entry in entries
                if not (entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False))
            ]
    return found


def is_alias(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"ref:"


def find_filters(git: Git, paths: Iterable[str]) -> dict[str, str]:
    """Return the filter that git passes each of these files through, without files that have none."""
    question = os.fsencode("".join(f"{path}\0" for path in paths))
    out = os.fsdecode(git.run("check-attr", "-z", "--stdin", "filter", stdin=question)) if question else ""
    parts = out.split("\0")
    found = zip(parts[0::3], parts[2::3], strict=False)
    return {path: name for path, name in found if name not in ("unspecified", "unset", "set")}


def list_gitlinks(git: Git) -> list[str]:
    entries = (entry.partition("\t") for entry in os.fsdecode(git.run("ls-files", "-z", "--stage")).split("\0"))
    return [path for about, _, path in entries if about.startswith(GITLINK_MODE)]


def list_stray_files(root: Path, gitlinks: Iterable[str]) -> list[str]:
    folders = [path for path in gitlinks if (root / path).is_dir() and not os.path.lexists(root / path / ".git")]
    return [str(path.relative_to(root)) for folder in folders for path in sorted((root / folder).iterdir())]


def mark_handed_in(store: TreeStore, intent: str, attempt: int, commit: str = "") -> None:
    """Mark a commit, or that of the attempt's branch, as handed in. Raises GitError without the commit."""
    name = attempt_name(intent, attempt)
    store.git.run("update-ref", f"{HANDED_IN_REFS}/{name}", commit or f"refs/heads/{BRANCH_FOLDER}/{name}")


def forget_hand_ins(store: TreeStore, intent: str) -> None:
    """Delete the marks of an intent's attempts: a person has the task now, or has given it up."""
    for ref in store.git.text("for-each-ref", "--format=%(refname)", f"{HANDED_IN_REFS}/{intent}").split():
        store.git.run("update-ref", "-d", ref)


def attempt_name(intent: str, attempt: int) -> str:
    """Return `<intent>/<attempt>`, which names branches and refs. Raises ValueError for what is no such name."""
    name = f"{intent}/{attempt}"
    if not ATTEMPT_NAME.fullmatch(name):
        raise ValueError(f"{name!r} names no attempt; expected one like INT-014/7")
    return name


def current_branch_ref(tree: Workspace) -> str | None:
    """Return the branch of an attempt that is checked out; None for another one, and without."""
    own = Git(tree.git_dir or tree.root)  # not the copy that its agent may write
    ref = own.text("--git-dir=.", "symbolic-ref", "--quiet", "HEAD", ok=(0, 1))
    return ref if IDLE_BRANCH.fullmatch(ref) else None


def wip_ref_of(branch: str) -> str:
    return f"{WIP_REFS}/{branch.removeprefix(f'refs/heads/{BRANCH_FOLDER}/')}"


def require_workspace(place: Path) -> Workspace:
    found = locate_workspace(place)
    if found is None or found.root != place.resolve():
        raise NoWorktree(f"{str(place)!r} is no worktree of its own")
    return found


def is_governing(path: str) -> bool:
    """Return whether the path governs agents: no attempt's commit holds a change of it."""
    parts = path.split("/")
    return parts[0] == ".git" or ORCHESTRATION_FOLDER in parts or parts[-1] == ".intentignore"


def split_files(seen: Observation) -> tuple[dict[str, ObservedFile | None], dict[str, str]]:
    """Return the files that a checkpoint holds, and the ones it must not hold, with why."""
    files: dict[str, ObservedFile | None] = {}
    left: dict[str, str] = {}
    for path, file in seen.files.items():
        if is_governing(path):
            continue
        if file is not None and is_secret_path(path):
            left[path] = "its name suggests secrets"
        elif file is not None and (file.content is None or file.version.mode not in FILE_MODES):
            left[path] = "it is too large, hidden from git, or no plain file"
        else:
            files[path] = file
    return files, left


def commit_stream(
    tree: Workspace, ref: str, head: str, prefix: bytes, files: Mapping[str, ObservedFile | None], message: str, at: int
) -> Iterable[bytes]:
    """Yield a commit on top of HEAD; deletions first, since a file may replace a folder."""
    text = message.encode("utf-8", "replace")
    yield f"commit {ref}\ncommitter {CHECKPOINT_AUTHOR} {at} +0000\ndata {len(text)}\n".encode() + text
    yield f"\nfrom {head}\n".encode()
    for path in (p for p, seen in files.items() if seen is None):
        yield b"D %s\n" % quote_bytes(prefix + os.fsencode(path))
    for path, seen in files.items():
        if seen is not None:
            content = read_content(tree, path, seen)
            words = (seen.version.mode.encode(), quote_bytes(prefix + os.fsencode(path)), len(content), content)
            yield b"M %s inline %s\ndata %d\n%s\n" % words
    yield b"\n"
