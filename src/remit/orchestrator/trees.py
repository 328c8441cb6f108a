"""Worktrees of attempts, and landing of what they hand in (a stand-in: no trains, no verification)."""

from pathlib import Path

from remit.workspace.git.command import Git, GitError

EVERYTHING_BUT_GOVERNING = ("/*", "!/.orchestration/")


def make_tree(root: Path, place: Path, branch: str, base: str) -> None:
    """Make a sparse worktree without `.orchestration/`, whose rules then come from the main worktree. May run again."""
    git = Git(root)
    if (place / ".git").exists():
        return
    place.parent.mkdir(parents=True, exist_ok=True)
    git.run("worktree", "prune")
    git.run("worktree", "add", "--quiet", "--no-checkout", "-B", branch, str(place), base)
    tree = Git(place)
    tree.run("sparse-checkout", "set", "--no-cone", *EVERYTHING_BUT_GOVERNING)
    tree.run("checkout", "--quiet")


def list_changes(place: Path, base: str) -> tuple[str, ...]:
    """Return the paths that differ from the base, committed or not."""
    git = Git(place)
    committed = git.run("diff", "--name-only", "-z", base, "HEAD").split(b"\0")
    left = git.run("ls-files", "-z", "--modified", "--deleted", "--others", "--exclude-standard").split(b"\0")
    staged = git.run("diff", "--name-only", "-z", "--cached").split(b"\0")
    found = {path.decode("utf-8", "surrogateescape") for path in (*committed, *left, *staged) if path}
    return tuple(sorted(found))


def commit_tree(place: Path, message: str, author: str) -> str:
    """Commit everything that the tree holds, and return its head."""
    git = Git(place)
    git.run("add", "--all")
    if git.run("status", "--porcelain", "-z", "--untracked-files=no"):
        identity = ("-c", f"user.name={author}", "-c", f"user.email={author}@remit.invalid")
        git.run(*identity, "commit", "--quiet", "--no-verify", "--message", message)
    return git.text("rev-parse", "HEAD")


def remove_tree(root: Path, place: Path) -> None:
    Git(root).run("worktree", "remove", "--force", "--force", str(place), ok=(0, 128))


def find_base(root: Path, target: str) -> str:
    """Return the newest commit to start from: the target's tip, else what the main worktree has checked out."""
    git = Git(root)
    tip = git.text("rev-parse", "--verify", "--quiet", f"refs/heads/{target}^{{commit}}", ok=(0, 1, 128))
    return tip or git.text("rev-parse", "HEAD")


class MergeConflict(RuntimeError):
    """Two changes that do not merge by themselves."""


def land_branch(root: Path, target: str, branch: str, message: str) -> tuple[str, str]:
    """Merge a branch into the target in the object store, and return its tip before and after. Raises MergeConflict,
    GitError. Landed twice it stays as it is.
    """
    git = Git(root)
    old = git.text("rev-parse", "--verify", "--quiet", f"refs/heads/{target}^{{commit}}", ok=(0, 1, 128))
    base = old or find_base(root, target)
    head = git.text("rev-parse", f"refs/heads/{branch}")
    if git.text("merge-base", base, head) == head:
        return base, base
    try:
        tree = git.text("merge-tree", "--write-tree", base, head)
    except GitError as error:
        raise MergeConflict(str(error)) from error
    new = git.text("commit-tree", tree, "-p", base, "-p", head, "-m", message)
    git.run("update-ref", f"refs/heads/{target}", new, old or "0" * 40)
    return base, new
