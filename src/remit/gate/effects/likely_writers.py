"""Who most likely made a change that no call explains: candidates with reasons, and never an origin.

Which files nothing but one call can be seen to have written: what it left there is likely the call's.

No proof: somebody may save a file while a command runs. What shows another writer takes the likelihood away: a call
under way beside it, a record made meanwhile, an editor that has the file, a time of change outside the call's window,
and a content that git had already, which a checkout, a merge or a stash brings.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from remit.adapters import ROWS
from remit.core.call import SessionKey, ToolCall
from remit.core.display_text import quote_path, sanitise_line
from remit.gate.context import WorkspaceContext
from remit.gate.effects.concurrent_calls import MAX_CALL_S, ConcurrentCalls, can_be_author
from remit.gate.state.baseline import find_known_versions
from remit.gate.state.workspace_state import PendingCall
from remit.workspace.git.command import Git, GitError
from remit.workspace.observe.observation import Change, content_identity
from remit.workspace.processes.writers import LikelyWriter, find_likely_writers

MAX_CANDIDATES = 6
ANY_PATH = "*"
"""The key of those that may have written any of the files."""

AGENT_BINARIES = frozenset(row.binary for row in ROWS.values())


def name_likely_writers(
    context: WorkspaceContext, paths: Sequence[str], sessions: Iterable[str]
) -> dict[str, list[str]]:
    """By path, in words, who may have written it, the likeliest first; under `*` who may have written any.

    `sessions` have run commands and are not over. Raises StateError.
    """
    seen = find_likely_writers(context.workspace.root, paths, AGENT_BINARIES)
    about = {path: [describe_writer(w) for w in seen if w.path == path][:MAX_CANDIDATES] for path in paths}
    others = [
        *(describe_session(context, name) for name in sessions),
        *(describe_writer(w) for w in seen if not w.path),
    ]
    found = {quote_path(path): words for path, words in about.items() if words}
    return {**found, ANY_PATH: others[:MAX_CANDIDATES]} if others else found


def describe_session(context: WorkspaceContext, name: str) -> str:
    """A session as a candidate."""
    known = context.state.find_session(SessionKey(name))
    agent = f" of {known.agent}" if known and known.agent else ""
    return f"session {sanitise_line(name, 60)}{agent}, which has run commands and is not over"


def describe_writer(writer: LikelyWriter) -> str:
    """A process as a candidate."""
    return sanitise_line(str(writer), 200)


CLOCK_SKEW_S = 0.05
"""File systems tell time by a coarser clock than processes do."""

EDITOR_FILES = (".{}.swp", ".#{}", ".~lock.{}#", ".{}.kate-swp")
"""What vim, Emacs, LibreOffice and Kate keep beside a file while they have it open."""

COMMIT_SUBCOMMANDS = frozenset({"add", "commit", "diff", "log", "ls-files", "rev-parse", "show-ref", "status"})
"""Subcommands of git that bring no content into files."""

GIT_PROGRAM = re.compile(r"\bgit\b")
GIT_SUBCOMMAND = re.compile(r"\bgit(?: +-[Cc] +\S+| +--?[a-z][\w=/.-]*)* +([a-z][a-z-]*)")


def find_solely_written(
    context: WorkspaceContext, call: ToolCall, pending: PendingCall, row: int | None, done: Iterable[Change]
) -> frozenset[str]:
    """The paths, of these changes, that nothing but this call can be seen to have written. Raises StateError."""
    changed = {change.path: change for change in done if change.after is not None}
    own = next((one for one in context.state.list_open_calls() if one.row == row), None)
    if not changed or own is None or context.environment.clock() - own.at > MAX_CALL_S:
        return frozenset()
    found = {path for path in changed if was_changed_since(context.workspace.root / path, own.at)}
    others = [one.pending for one in context.state.list_open_calls() if one.row != row and one.pending]
    found -= {path for path in found if any(can_be_author(changed[path], other) for other in others)}
    windows = ConcurrentCalls(context.state, context.environment.clock())
    found -= {known.path for known in windows.recorded_changes() if known.at > own.at}
    found -= find_recorded_since(context, changed, found)
    found = {path for path in found if not is_in_editor(context.workspace.root / path)}
    if found:
        found -= {writer.path for writer in find_likely_writers(context.workspace.root, sorted(found), AGENT_BINARIES)}
    return frozenset(found - find_git_contents(context, call, changed, found))


def find_recorded_since(context: WorkspaceContext, changed: Mapping[str, Change], paths: Collection[str]) -> set[str]:
    """Those of the paths whose content is known already: a call that ran beside this one recorded it."""
    known = find_known_versions(context.state, sorted(paths))
    return {path for path, v in known.items() if v and content_identity(changed[path].after) == (v.sha256, v.mode)}


def was_changed_since(path: Path, began: float) -> bool:
    """Whether the file says that it was changed after the call began: who copies or unpacks may keep an older time."""
    try:
        return path.lstat().st_mtime >= began - CLOCK_SKEW_S
    except OSError:
        return False


def is_in_editor(path: Path) -> bool:
    """Whether an editor left a sign beside the file that it has it open."""
    return any(os.path.lexists(path.with_name(form.format(path.name))) for form in EDITOR_FILES)


def find_git_contents(
    context: WorkspaceContext, call: ToolCall, changed: Mapping[str, Change], paths: Collection[str]
) -> frozenset[str]:
    """Those of the paths whose content git has as an object: checkouts, merges, picks and stashes put it there before
    they write the file. A command that only stages and commits put there what it had written.
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
    """Whether the command's text names git, and only to stage, commit or look."""
    text = call.command or ""
    verbs = GIT_SUBCOMMAND.findall(text)
    return bool(verbs) and set(verbs) <= COMMIT_SUBCOMMANDS and len(verbs) == len(GIT_PROGRAM.findall(text))
