"""Stray commits: commits of an uncontained command that hold a change outside the scope, and in no file here.

In a sandbox with an overlay such commits get no branch or tag. Elsewhere they are found when the call comes back,
reported, and recorded as changes out of scope, so that `remit verify` names them in every range that holds them.
"""

import os
from collections.abc import Iterable, Mapping, Sequence

from remit.core.call import ToolCall
from remit.core.display_text import sanitise_line
from remit.core.scope.globs import Scope
from remit.gate.state.pending_calls import PendingCall
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
    """Return the changes of new commits outside the scope whose content is in no file, before the call or `after`.

    Raises GitError.
    """
    if not pending.whole or not pending.known_commits or call.command is None or not can_name_commits(call.command):
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
    # An observation leaves out files that are as HEAD has them: for those HEAD is asked.
    there = {**read_at_commit(workspace, "HEAD", [path for _, path, _ in outside if path not in after]), **after}
    for commit, path, blob in outside:
        versions = (pending.before.get(path), seen.version if (seen := there.get(path)) else None)
        if not any(version is not None and version.git_blob == blob for version in versions):
            found.setdefault(path, commit)
    return tuple(stray_change(workspace, path, commit) for path, commit in found.items())


def can_name_commits(command: str) -> bool:
    return "git" in command or analyse(command).outcome == "unknown"


def new_blobs(raw: bytes) -> Iterable[tuple[str, str, str]]:
    """Yield commit, path and blob from git's raw format (parts end with NUL), without deleted files."""
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
    """Return a commit's change of a path. Raises GitError."""
    parent = Git(workspace.root).text("rev-parse", "--verify", "--quiet", f"{commit}^", ok=(0, 1, 128))
    before = read_at_commit(workspace, parent, [path])[path] if parent else None
    return Change(path, before, read_at_commit(workspace, commit, [path])[path])


def stray_commit_warning(changes: Sequence[Change]) -> str:
    """Return the message to the model about stray commits."""
    if not changes:
        return ""
    names = ", ".join(sanitise_line(change.path, 120) for change in changes[:10]) + (" …" if len(changes) > 10 else "")
    return (
        f"Remit: a commit of this call holds {names}, outside the scope and not as any file here. It is recorded as "
        "out of scope, and `remit verify` names it. Tell the person."
    )
