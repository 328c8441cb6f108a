"""Commits of a command that ran as it was, which put on a branch or a tag what neither the scope nor a file covers.

In a sandbox with layers they get no name. Elsewhere they are found when the call comes back, told, and recorded as a
change out of the scope, so that `remit verify` names them in every range that holds them.
"""

import os
from collections.abc import Iterable, Mapping, Sequence

from remit.core.call import ToolCall
from remit.core.display_text import sanitise_line
from remit.core.scope.globs import Scope
from remit.gate.state.workspace_state import PendingCall
from remit.policy.commands import analyse
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.git.command import Git
from remit.workspace.observe.git_arrivals import list_fetched_tips
from remit.workspace.observe.observation import Change, read_at_commit
from remit.workspace.place.workspace import Workspace

MAX_COMMITS = 200
RAW_OPTIONS = ("-r", "--raw", "-z", "--root", "--no-renames", "--no-abbrev", "--relative")


def find_stray_changes(
    workspace: Workspace, call: ToolCall, pending: PendingCall, after: Mapping[str, ObservedFile | None]
) -> tuple[Change, ...]:
    """Find what new commits changed out of the scope that stands in no file, before the call or `after` it.

    Raises GitError.
    """
    if not pending.whole or not pending.known_commits or call.command is None or not may_name_commits(call.command):
        return ()
    git = Git(workspace.root)
    known = (*pending.known_commits, *list_fetched_tips(workspace, pending.known_commits))
    asked = "".join(f"^{name}\n" for name in known).encode()
    words = (
        "rev-list",
        f"--max-count={MAX_COMMITS}",
        "--no-merges",
        "--ignore-missing",
        "--branches",
        "--tags",
        "HEAD",
    )
    commits = git.run(*words, "--stdin", stdin=asked, ok=(0, 128)).decode().split()
    if not commits:
        return ()
    raw = git.run("diff-tree", "--stdin", *RAW_OPTIONS, stdin="".join(f"{name}\n" for name in commits).encode())
    scope, found = Scope(pending.owned_scope), dict[str, str]()
    outside = [(commit, path, blob) for commit, path, blob in new_blobs(raw) if not scope.matches(path)]
    # What stands as HEAD has it is no part of what was observed: HEAD is asked.
    there = {**read_at_commit(workspace, "HEAD", [path for _, path, _ in outside if path not in after]), **after}
    for commit, path, blob in outside:
        versions = (pending.before.get(path), seen.version if (seen := there.get(path)) else None)
        if not any(version is not None and version.git_blob == blob for version in versions):
            found.setdefault(path, commit)
    return tuple(stray_change(workspace, path, commit) for path, commit in found.items())


def may_name_commits(command: str) -> bool:
    """Whether a command may give a commit a name: its text speaks of git, or does not tell what it writes."""
    return "git" in command or analyse(command).outcome == "unknown"


def new_blobs(raw: bytes) -> Iterable[tuple[str, str, str]]:
    """Yield commit, path and blob of git's raw format, NUL after each part; files that are gone are left out."""
    parts = iter(os.fsdecode(raw).split("\0")[:-1])
    commit = ""
    for part in parts:
        if not part.startswith(":"):
            commit = part
            continue
        path, blob = next(parts), part.split(" ")[3]
        if blob.strip("0"):
            yield commit, path, blob


def stray_change(workspace: Workspace, path: str, commit: str) -> Change:
    """Return the change of one path by a commit, as the records of changes hold it. Raises GitError."""
    parent = Git(workspace.root).text("rev-parse", "--verify", "--quiet", f"{commit}^", ok=(0, 1, 128))
    before = read_at_commit(workspace, parent, [path])[path] if parent else None
    return Change(path, before, read_at_commit(workspace, commit, [path])[path])


def stray_commit_warning(changes: Sequence[Change]) -> str:
    """Tell the model of them; empty for none."""
    if not changes:
        return ""
    names = ", ".join(sanitise_line(change.path, 120) for change in changes[:10]) + (" …" if len(changes) > 10 else "")
    return (
        f"Remit: a commit of this call holds {names}, outside the scope and not as any file here. It is recorded as "
        "out of scope, and `remit verify` names it. Tell the person."
    )
