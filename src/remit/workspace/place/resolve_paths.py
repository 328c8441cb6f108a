"""Resolution of paths in tool calls: links followed, protected places named."""

import os
import re
import stat
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from remit.core.facts import Target
from remit.core.machine_paths import STATE_FOLDER
from remit.core.scope.repopath import InvalidPath, OutsideWorkspace, RepoPath, check_path_text, fold_case
from remit.workspace.files.read_files import ObservedFile
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace

MAX_LINKS_FOLLOWED = 40
"""Links that a kernel follows in a path. Source: path_resolution(7), read 2026-11."""


INVISIBLE_CHARACTERS = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
"""Characters that case-folding file systems may leave out: HFS+, and ext4 of many kernels."""

PROC_LINKS = re.compile(r"/+proc/+(?:self|thread-self|\d+)/(?:.*/)?(?:cwd|root|fd|map_files)(?:/|$)", re.DOTALL)
"""Links that the kernel resolves for the process that asks. Source: proc_pid_cwd(5), read 2026-11."""

STEERS_AGENT = "it steers an agent"


class MachinePlaces(Struct, frozen=True):
    """Folders of the machine. `settings` and `own_folders` come from the table of agents."""

    home: Path
    temporary: Path
    settings: tuple[str, ...] = ()
    own_folders: tuple[str, ...] = ()


def resolve_real_paths(raw: str, cwd: Path, home: Path) -> tuple[str, ...]:
    """Return the absolute paths that `raw` may name, links followed: two if agents may differ.

    `a/link/../b` is `a/b` to an agent that normalises the text first, and a different file to the kernel. Raises
    InvalidPath, also for white space at the ends, which only some agents cut off.
    """
    if raw != raw.strip():
        raise InvalidPath(raw, "it begins or ends with white space")
    expanded = str(home) + raw[1:] if raw == "~" or raw.startswith("~/") else raw
    joined = os.path.join(cwd, check_path_text(expanded))  # noqa: PTH118  Path would tidy `..` away
    spelled = dict.fromkeys((os.path.normpath(joined), joined))
    if any(PROC_LINKS.match(path) for path in spelled):
        raise InvalidPath(raw, "it goes through /proc, where each process finds another file")
    return tuple(dict.fromkeys(map(follow_links, spelled)))


def follow_links(path: str) -> str:
    """Return the path with links followed. Raises InvalidPath for a loop.

    `realpath` leaves the rest of a path behind a looping link unresolved, hence the repetition.
    """
    for _ in range(MAX_LINKS_FOLLOWED):
        try:
            real = os.path.realpath(path)
        except OSError as error:
            raise InvalidPath(path, f"a link on the way cannot be read: {error.strerror}") from error
        if real == path:
            return real
        path = real
    raise InvalidPath(path, "its links lead round and round")


def resolve_target(workspace: Workspace, real: str, raw: str, around: MachinePlaces) -> Target:
    """Return `real` as a target in the workspace; the caller adds the content."""
    try:
        path: RepoPath | None = RepoPath.parse(real, str(workspace.root))
    except OutsideWorkspace:
        path = None
    inside = (
        (inside_protection_reason(path, around.settings) or moved_settings_reason(real, around.settings))
        if path
        else None
    )
    reason = inside if path else outside_protection_reason(workspace, real, around)
    return Target(
        raw=raw,
        resolved=real,
        path=path,
        protected=reason,
        tolerated=path is None and reason is None and is_tolerated_path(workspace, real, around),
    )


def add_content(target: Target, now: ObservedFile | None, seen_sha256: str | None, diff: str) -> Target:
    """Return the target with the content on disk and the hash that the session saw last."""
    return Target(
        raw=target.raw,
        resolved=target.resolved,
        path=target.path,
        protected=target.protected,
        tolerated=target.tolerated,
        sha256=now.version.sha256 if now else None,
        seen_sha256=seen_sha256,
        diff=diff,
        ignored_by=target.ignored_by,
        folds=target.folds,
    )


def special_file_reason(path: Path) -> str | None:
    """Return why writing the file may change a different file; None for an ordinary file."""
    try:
        status = path.lstat()
    except OSError:
        return None
    if stat.S_ISREG(status.st_mode):
        return "has other names (hard links), which may lie anywhere" if status.st_nlink > 1 else None
    if stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode):
        return "is a device"
    return "is a pipe or a socket" if stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode) else None


def inside_protection_reason(path: str, settings: Iterable[str]) -> str | None:
    """Return why a path inside the workspace is protected. Spellings that some file system folds together count as
    equal.
    """
    folded = fold_case(INVISIBLE_CHARACTERS.sub("", path))
    parts = folded.split("/")
    if ".git" in parts:
        return "it is git's own"
    if ORCHESTRATION_FOLDER in parts or parts[-1] == ".intentignore":
        return "it governs agents"
    rooted = f"/{folded}/"
    return STEERS_AGENT if any(place in rooted for place in fold_settings(tuple(settings))) else None


@lru_cache(16)
def fold_settings(settings: tuple[str, ...]) -> tuple[str, ...]:
    """Return the settings folded, with a `/` at both ends. Cached: each call passes the same tuple."""
    return tuple(f"/{fold_case(setting)}/" for setting in settings)


def moved_settings_reason(real: str, settings: Iterable[str]) -> str | None:
    moved = (Path(setting) for setting in settings if setting.startswith("/"))
    return STEERS_AGENT if any(is_inside(real, path) for path in moved) else None


def outside_protection_reason(workspace: Workspace, real: str, around: MachinePlaces) -> str | None:
    """Return why a path outside the workspace is protected, beyond lying outside."""
    places = [
        (workspace.common_dir, "it is git's own"),
        (around.home / STATE_FOLDER, "it is Remit's own"),
        (around.home / ".local/share/remit", "it is Remit's own"),
        *((around.home / setting, STEERS_AGENT) for setting in around.settings),
    ]
    return next((reason for path, reason in places if path and is_inside(real, path)), None)


def is_tolerated_path(workspace: Workspace, real: str, around: MachinePlaces) -> bool:
    """Return whether the path lies in a temporary folder or in a folder of the agent.

    A workspace inside the temporary folder has no tolerated neighbours.
    """
    places = [around.home / folder for folder in around.own_folders]
    if not is_inside(str(workspace.root), around.temporary):
        places.append(around.temporary)
    return any(is_inside(real, path) for path in places)


def is_inside(real: str, place: Path) -> bool:
    """Return whether the absolute path is `place` or below, with links in `place` followed."""
    folder = os.path.realpath(place)
    return real == folder or real.startswith(folder.rstrip("/") + "/")


def folds_case(root: Path) -> bool:
    """Return whether the file system at `root` ignores case, tested with an existing name."""
    if not root.name:
        return False
    swapped = root.with_name(root.name.swapcase())
    try:
        return swapped.name != root.name and swapped.samefile(root)
    except OSError:
        return False
