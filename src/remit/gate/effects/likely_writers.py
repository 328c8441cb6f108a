"""Likely writers of changed files: candidates with reasons, never a proof.

For a change that no call explains, running processes and open sessions are named as candidates. A change during a
command is likely the command's if nothing else can be seen to have written the file. Signs of another writer are: a
concurrent call, a record made meanwhile, an editor that has the file open, a time of change outside the call, and a
content that git had already (a checkout, a merge or a stash brings one).
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from remit.adapters.agents import AGENT_BINARIES
from remit.core.call import SessionKey, ToolCall
from remit.core.display_text import quote_path, sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.effects.concurrent_calls import MAX_CALL_S, ConcurrentCalls, can_be_author
from remit.gate.state.baseline import find_known_versions, version_identity
from remit.gate.state.pending_calls import PendingCall
from remit.workspace.git.command import Git, GitError
from remit.workspace.observe.observation import Change, content_identity
from remit.workspace.processes.writers import find_likely_writers

MAX_CANDIDATES = 6
ANY_PATH = "*"
"""Key of the writers that may have written any of the files."""

CLOCK_SKEW_S = 0.05
"""Seconds that the clock of a file system may be behind: it is coarser than that of processes."""

EDITOR_FILES = (".{}.swp", ".#{}", ".~lock.{}#", ".{}.kate-swp")
"""Files that vim, Emacs, LibreOffice and Kate keep beside a file that they have open."""

COMMIT_SUBCOMMANDS = frozenset({"add", "commit", "diff", "log", "ls-files", "rev-parse", "show-ref", "status"})
"""Subcommands of git that bring no content into files."""

GIT_PROGRAM = re.compile(r"\bgit\b")
GIT_SUBCOMMAND = re.compile(r"\bgit(?: +-[Cc] +\S+| +--?[a-z][\w=/.-]*)* +([a-z][a-z-]*)")


# A change that no call explains


def name_likely_writers(
    context: WorkspaceContext, paths: Sequence[str], sessions: Iterable[str]
) -> dict[str, list[str]]:
    """Return the candidates for each path in words, the likeliest first; candidates for any path under ANY_PATH.

    `sessions` are open sessions that have run commands. Raises StateError.
    """
    seen = find_likely_writers(context.workspace.root, paths, AGENT_BINARIES)
    by_path = {
        path: [sanitise_line(str(writer), 200) for writer in seen if writer.path == path][:MAX_CANDIDATES]
        for path in paths
    }
    found = {quote_path(path): words for path, words in by_path.items() if words}
    others = [describe_session(context, name) for name in sessions]
    others += [sanitise_line(str(writer), 200) for writer in seen if not writer.path]
    return {**found, ANY_PATH: others[:MAX_CANDIDATES]} if others else found


def describe_session(context: WorkspaceContext, name: str) -> str:
    known = context.state.find_session(SessionKey(name))
    agent = f" of {known.agent}" if known and known.agent else ""
    return f"session {sanitise_line(name, 60)}{agent}, which has run commands and is not over"


# A change during a command


def find_solely_written(
    context: WorkspaceContext, call: ToolCall, pending: PendingCall, row: int | None, changes: Iterable[Change]
) -> frozenset[str]:
    """Return the paths without signs of a second writer. Raises StateError.

    `row` is the call's row in the state.
    """
    changed = {change.path: change for change in changes if change.after is not None}
    open_calls = context.state.list_open_calls()
    own = next((other for other in open_calls if other.row == row), None)
    if not changed or own is None or context.environment.clock() - own.at > MAX_CALL_S:
        return frozenset()
    root = context.workspace.root
    found = {path for path in changed if was_changed_since(root / path, own.at)}
    others = [other.pending for other in open_calls if other.row != row and other.pending]
    found -= {path for path in found if any(can_be_author(changed[path], other) for other in others)}
    concurrent = ConcurrentCalls(context.state, context.environment.clock())
    found -= {recorded.path for recorded in concurrent.recorded_changes() if recorded.at > own.at}
    known = find_known_versions(context.state, sorted(found))
    found -= {path for path, v in known.items() if v and content_identity(changed[path].after) == version_identity(v)}
    found = {path for path in found if not is_in_editor(root / path)}
    if found:
        found -= {writer.path for writer in find_likely_writers(root, sorted(found), AGENT_BINARIES)}
    return frozenset(found - find_git_contents(context, call, changed, found))


def was_changed_since(path: Path, began: float) -> bool:
    try:
        return path.lstat().st_mtime >= began - CLOCK_SKEW_S
    except OSError:
        return False


def is_in_editor(path: Path) -> bool:
    """Return True if an editor's own file lies beside the file."""
    return any(os.path.lexists(path.with_name(form.format(path.name))) for form in EDITOR_FILES)


def find_git_contents(
    context: WorkspaceContext, call: ToolCall, changed: Mapping[str, Change], paths: Collection[str]
) -> frozenset[str]:
    """Return the paths whose content git has as an object.

    Checkouts, merges, picks and stashes make the object before they write the file. A command that only stages and
    commits makes objects of files that were written before.
    """
    if context.workspace.common_dir is None or not paths or only_commits(call):
        return frozenset()
    blobs = {path: after.version.git_blob for path in paths if (after := changed[path].after)}
    names = "".join(f"{blob}\n" for blob in blobs.values()).encode()
    try:
        out = Git(context.workspace.root).run("cat-file", "--batch-check=%(objecttype)", stdin=names)
    except GitError:
        return frozenset(paths)
    kinds = dict(zip(blobs, out.splitlines(), strict=True))
    return frozenset(path for path, kind in kinds.items() if kind == b"blob")


def only_commits(call: ToolCall) -> bool:
    """Return True if the command's text names git, and only to stage, commit or look."""
    text = call.command or ""
    subcommands = GIT_SUBCOMMAND.findall(text)
    is_known = bool(subcommands) and set(subcommands) <= COMMIT_SUBCOMMANDS
    return is_known and len(subcommands) == len(GIT_PROGRAM.findall(text))
