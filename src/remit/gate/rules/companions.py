"""Companions: tests and pages of an intent's files, in scope if the intent's `companions` setting is on."""

from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.facts import Target
from remit.core.intent import Intent
from remit.core.scope.file_roles import Mirror, find_mirror, select_mirrored_files
from remit.core.scope.globs import Scope
from remit.workspace.git.command import Git, GitError
from remit.workspace.place.workspace import Workspace

MAX_FILES = 500
"""Files of one name that are looked at."""


def mark_mirrored_files(
    targets: tuple[Target, ...], call: ToolCall, workspace: Workspace, intent: Intent | None
) -> tuple[Target, ...]:
    """Mark the targets of a file tool outside the scope with the files that they mirror."""
    if intent is None or not intent.companions or call.command is not None or call.effect not in ("write", "delete"):
        return targets
    scope = Scope(intent.owned_scope)
    return tuple(
        t
        if t.path is None or scope.matches(t.path, fold=t.folds)
        else replace(t, mirrors=files_mirrored(str(t.path), workspace))
        for t in targets
    )


def files_mirrored(path: str, workspace: Workspace) -> tuple[str, ...]:
    """Return the files of which `path` is the test or the page; none if git cannot tell.

    Tracked files count. A new file counts only for a new companion: otherwise an agent could make an old test its own
    by writing a file of the right name.
    """
    mirror = find_mirror(path)
    if mirror is None or workspace.common_dir is None:
        return ()
    git = Git(workspace.root)
    try:
        tracked = list_git_files(git, "--cached", mirror_pathspec(mirror), f":(literal){path}")
        new = () if path in tracked else list_git_files(git, "--others", "--exclude-standard", mirror_pathspec(mirror))
    except GitError:
        return ()
    return select_mirrored_files(mirror, sorted({*tracked, *new} - {path})[:MAX_FILES])


def list_git_files(git: Git, *words: str) -> frozenset[str]:
    """Return the files that `git ls-files` lists. Raises GitError."""
    options = [word for word in words if word.startswith("--")]
    paths = [word for word in words if not word.startswith("--")]
    out = git.run("ls-files", "-z", *options, "--", *paths)
    return frozenset(out.decode("utf-8", "surrogateescape").split("\0")) - {""}


def mirror_pathspec(mirror: Mirror) -> str:
    """Return git's pattern for files of the mirrored name, with any suffix."""
    name = "".join(f"\\{c}" if c in "*?[\\" else c for c in mirror.name)
    return f":(glob)**/{name}.*"
