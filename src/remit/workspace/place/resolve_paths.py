"""Resolution of paths in tool calls: links followed, protected places named."""

import os
import re
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Target
from remit.core.machine_paths import CONFIG_FOLDER, STATE_FOLDER, TEMPORARY_FOLDERS
from remit.core.scope.path_patterns import InvalidPath, OutsideWorkspace, RepoPath, check_path_text, fold_case
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace, is_folder, locate_by_real_path
from remit.workspace.safe_files import ObservedFile

MAX_LINKS_FOLLOWED = 40  # links that a kernel follows in a path. Source: path_resolution(7), read 2026-11.


INVISIBLE_CHARACTERS = re.compile("[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
"""Characters that case-folding file systems may leave out: HFS+, and ext4 of many kernels."""

PROC_LINKS = re.compile(
    r"/+proc/+(?:self|thread-self|\d+)/(?:.*/)?(?:cwd|root|fd|map_files)(?:/|$)|/+dev/+(?:fd|stdin|stdout|stderr)(?:/|$)",
    re.DOTALL,
)
"""Links that the kernel resolves for the process that asks. Source: proc_pid_cwd(5), fd(4), read 2026-11."""

OWN_TEMPORARY_NAME = f"remit-sandbox-{os.getuid()}"
"""Where contained commands' files are staged if HOME cannot take them."""

STEERS_AGENT = "it steers an agent"


class MachinePlaces(Struct, frozen=True):
    """Folders of the machine. `settings` and `own_folders` come from the table of agents."""

    home: Path
    temporary: Path
    settings: tuple[str, ...] = ()
    own_folders: tuple[str, ...] = ()


def resolve_real_paths(raw: str, cwd: Path, home: Path) -> tuple[str, ...]:
    """Return the absolute paths that `raw` may name, links followed: two if agents may differ. `a/link/../b` is `a/b`
    to an agent that normalises the text first, and a different file to the kernel. Raises InvalidPath, also for white
    space at the ends, which only some agents cut off.
    """
    if raw != raw.strip():
        raise InvalidPath(raw, "it begins or ends with white space")
    expanded = str(home) + raw[1:] if raw == "~" or raw.startswith("~/") else raw
    joined = os.path.join(cwd, check_path_text(expanded))  # noqa: PTH118  Path would tidy `..` away
    spelled = dict.fromkeys((os.path.normpath(joined), joined))
    if any(PROC_LINKS.match(path) for path in spelled):
        raise InvalidPath(raw, "each process finds another file there, the tool another than Remit")
    return tuple(dict.fromkeys(map(follow_links, spelled)))


def follow_links(path: str) -> str:
    """Return the path with links followed. Raises InvalidPath for a loop. `realpath` leaves the rest of a path behind a
    looping link unresolved, hence the repetition.
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


def paths_in_workspace(workspace: Workspace, call: ToolCall, raws: Iterable[str], around: MachinePlaces) -> list[str]:
    """Return the paths of `raws` inside the workspace, relative to the root."""
    found: list[str] = []
    for raw in raws:
        with suppress(InvalidPath, OutsideWorkspace):
            reals = resolve_real_paths(raw, Path(call.cwd), around.home)
            found += [str(RepoPath.parse(real, str(workspace.root))) for real in reals]
    return found


def resolve_target(workspace: Workspace, real: str, raw: str, around: MachinePlaces) -> Target:
    """Return `real` as a target in the workspace; the caller adds the content."""
    try:
        path = RepoPath.parse(real, str(workspace.root))
    except OutsideWorkspace:
        reason = outside_protection_reason(workspace, real, around)
        is_own = any(is_inside(real, around.home / folder) for folder in around.own_folders)
        is_tolerated = reason is None and (is_own or is_temporary(workspace, real, around))
        return Target(raw=raw, resolved=real, path=None, protected=reason, tolerated=is_tolerated)
    reason = inside_protection_reason(path, around.settings)
    moved = (Path(setting) for setting in around.settings if setting.startswith("/"))
    if reason is None and any(is_inside(real, place) for place in moved):
        reason = STEERS_AGENT
    return Target(raw=raw, resolved=real, path=path, protected=reason)


# Temporary folders: every program may write there, by the text of a command, with a file tool, or contained.


class TemporaryFolder(Struct, frozen=True):
    """A folder for everybody's files. `held` are the entries in it that hold the workspace or the home folder."""

    path: str
    held: frozenset[str] = frozenset()

    def opens(self, real: str) -> bool:
        """Return True for a path below the folder, and below none of the held entries."""
        inside = real.startswith(f"{self.path}/")
        return inside and f"{self.path}/{real[len(self.path) + 1 :].partition('/')[0]}" not in self.held


def find_temporary_folders(temporary: Path, places: Iterable[Path]) -> tuple[TemporaryFolder, ...]:
    """Return the folder of TMPDIR, `/tmp` and `/var/tmp`, links followed, each once.

    In the system's folders the entries that hold one of `places` are held; TMPDIR's own folder is left out then, for
    everything beside the workspace would be open. So is a folder that is one of `places`.
    """
    system = {os.path.realpath(path) for path in TEMPORARY_FOLDERS}
    reals = [os.path.realpath(place) for place in places]
    found: list[TemporaryFolder] = []
    for path in dict.fromkeys((os.path.realpath(temporary), *sorted(system))):
        below = [real for real in reals if real.startswith(f"{path.rstrip('/')}/")]
        if path in reals or not is_folder(path) or (below and path not in system):
            continue
        held = frozenset(f"{path}/{real[len(path) + 1 :].partition('/')[0]}" for real in below)
        found.append(TemporaryFolder(path, held))
    return tuple(found)


def find_open_folders(workspace: Workspace, around: MachinePlaces) -> tuple[TemporaryFolder, ...]:
    own = (workspace.root, around.home, *([workspace.common_dir] if workspace.common_dir else []))
    return find_temporary_folders(around.temporary, own)


def is_temporary(workspace: Workspace, real: str, around: MachinePlaces) -> bool:
    folder = next((one.path for one in find_open_folders(workspace, around) if one.opens(real)), None)
    if folder is None:
        return False
    other = locate_by_real_path(os.path.dirname(real))  # noqa: PTH120
    if other is not None and other.is_governed and other.root != workspace.root:
        return False
    at = real
    while at != folder:
        with suppress(OSError):
            if os.lstat(at).st_uid != os.getuid():
                return False
        at = os.path.dirname(at)  # noqa: PTH120
    return True


def add_content(target: Target, now: ObservedFile | None, seen_sha256: str | None, diff: str) -> Target:
    """Return the target with the content on disk and the hash that the session saw last."""
    sha256 = now.version.sha256 if now else None
    return replace(target, sha256=sha256, seen_sha256=seen_sha256, diff=diff)


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
    # All at once, in each process again: no path holds a NUL.
    for setting in fold_case("\0".join(settings)).split("\0"):
        if setting and f"/{setting}/" in rooted:
            return STEERS_AGENT
    return None


def outside_protection_reason(workspace: Workspace, real: str, around: MachinePlaces) -> str | None:
    places = [
        (workspace.common_dir, "it is git's own"),
        (around.home / STATE_FOLDER, "it is Remit's own"),
        (around.home / CONFIG_FOLDER, "it is Remit's own"),
        (around.home / ".local/share/remit", "it is Remit's own"),
        *((around.home / setting, STEERS_AGENT) for setting in around.settings),
    ]
    if any(is_inside(real, Path(folder) / OWN_TEMPORARY_NAME) for folder in (*TEMPORARY_FOLDERS, around.temporary)):
        return "it is Remit's own"
    return next((reason for path, reason in places if path and is_inside(real, path)), None)


def is_inside(real: str, place: Path) -> bool:
    """Return whether the absolute path is `place` or below, with links in `place` followed."""
    folder = os.path.realpath(place)
    return real == folder or real.startswith(folder.rstrip("/") + "/")


def folds_case(root: Path) -> bool:
    if not root.name:
        return False
    swapped = root.with_name(root.name.swapcase())
    try:
        return swapped.name != root.name and swapped.samefile(root)
    except OSError:
        return False
