"""Which files nothing but one call can be seen to have written: what it left there is likely the call's.

No proof: somebody may save a file while a command runs. What shows another writer takes the likelihood away: a call
under way beside it, a record made meanwhile, an editor that has the file, a time of change outside the call's window,
and a content that git had already, which a checkout, a merge or a stash brings.
"""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from remit.core.call import ToolCall
from remit.gate.likeliest import AGENTS
from remit.gate.observed import last_known
from remit.gate.site import Site
from remit.gate.state import PendingCall
from remit.gate.windows import LONGEST_S, Windows, possible
from remit.workspace.git import Git, GitError
from remit.workspace.observe import Change, identity
from remit.workspace.writers import likely_writers

CLOCK_S = 0.05
"""File systems tell time by a coarser clock than processes do."""

EDITOR_FILES = (".{}.swp", ".#{}", ".~lock.{}#", ".{}.kate-swp")
"""What vim, Emacs, LibreOffice and Kate keep beside a file while they have it open."""

COMMITTING = frozenset({"add", "commit", "diff", "log", "ls-files", "rev-parse", "show-ref", "status"})
"""Subcommands of git that bring no content into files."""

PROGRAM = re.compile(r"\bgit\b")
SUBCOMMAND = re.compile(r"\bgit(?: +-[Cc] +\S+| +--?[a-z][\w=/.-]*)* +([a-z][a-z-]*)")


def solely_written(
    site: Site, call: ToolCall, pending: PendingCall, row: int | None, done: Iterable[Change]
) -> frozenset[str]:
    """The paths, of these changes, that nothing but this call can be seen to have written. Raises StateError."""
    changed = {change.path: change for change in done if change.after is not None}
    own = next((one for one in site.state.open_calls() if one.row == row), None)
    if not changed or own is None or site.environment.clock() - own.at > LONGEST_S:
        return frozenset()
    found = {path for path in changed if was_changed_since(site.workspace.root / path, own.at)}
    others = [one.pending for one in site.state.open_calls() if one.row != row and one.pending]
    found -= {path for path in found if any(possible(changed[path], other) for other in others)}
    windows = Windows(site.state, site.environment.clock())
    found -= {known.path for known in windows.told() if known.at > own.at}
    found -= recorded_meanwhile(site, changed, found)
    found = {path for path in found if not is_in_editor(site.workspace.root / path)}
    if found:
        found -= {writer.path for writer in likely_writers(site.workspace.root, sorted(found), AGENTS)}
    return frozenset(found - held_by_git(site, call, changed, found))


def recorded_meanwhile(site: Site, changed: Mapping[str, Change], paths: Collection[str]) -> set[str]:
    """Those of the paths whose content is known already: a call that ran beside this one recorded it."""
    known = last_known(site.state, sorted(paths))
    return {path for path, v in known.items() if v and identity(changed[path].after) == (v.sha256, v.mode)}


def was_changed_since(path: Path, began: float) -> bool:
    """Whether the file says that it was changed after the call began: who copies or unpacks may keep an older time."""
    try:
        return path.lstat().st_mtime >= began - CLOCK_S
    except OSError:
        return False


def is_in_editor(path: Path) -> bool:
    """Whether an editor left a sign beside the file that it has it open."""
    return any(os.path.lexists(path.with_name(form.format(path.name))) for form in EDITOR_FILES)


def held_by_git(site: Site, call: ToolCall, changed: Mapping[str, Change], paths: Collection[str]) -> frozenset[str]:
    """Those of the paths whose content git has as an object: checkouts, merges, picks and stashes put it there before
    they write the file. A command that only stages and commits put there what it had written.
    """
    if site.workspace.common_dir is None or not paths or only_commits(call):
        return frozenset()
    blobs = {path: after.version.git_blob for path in paths if (after := changed[path].after)}
    names = "".join(f"{blob}\n" for blob in blobs.values()).encode()
    try:
        out = Git(site.workspace.root).run("cat-file", "--batch-check=%(objecttype)", stdin=names)
    except GitError:
        return frozenset(paths)
    kinds = dict(zip(blobs, out.splitlines(), strict=True))
    return frozenset(path for path, kind in kinds.items() if kind == b"blob")


def only_commits(call: ToolCall) -> bool:
    """Whether the command's text names git, and only to stage, commit or look."""
    text = call.command or ""
    verbs = SUBCOMMAND.findall(text)
    return bool(verbs) and set(verbs) <= COMMITTING and len(verbs) == len(PROGRAM.findall(text))
