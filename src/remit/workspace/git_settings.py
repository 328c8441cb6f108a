"""Programs that a repository's own settings name, which git would run although it was only asked to look.

The user's own settings (`~/.gitconfig`, the system's) are theirs and trusted; those that lie in the repository came
with it, or an agent wrote them. Source: git-config(1), gitattributes(5), githooks(5), read 2026-11.
"""

import os
import re
import stat
from functools import lru_cache
from pathlib import Path

from remit.workspace.git_ahead import TELLING
from remit.workspace.git_process import finished
from remit.workspace.place import common_folder, git_folder, is_folder, is_there

RUNS = (
    r"core\.(?:fsmonitor|pager)|pager\..+|interactive\.difffilter|diff\.external|diff\..+\.(?:command|textconv)"
    r"|filter\..+\.(?:clean|smudge|process)|gpg\.(?:.+\.)?program"
)
"""Settings, in small letters, that make one of git's reading commands start a program. These and the two below are
compiled when they are needed: few repositories have such settings.
"""

PARTIAL = r"extensions\.partialclone|remote\..+\.promisor"
"""A partial clone fetches what it lacks, by whatever transport, helper or proxy its settings name."""

NAMES_ONE = re.compile(b"|".join(TELLING), re.IGNORECASE)
"""Where it finds nothing in a settings file, git is not asked."""

HARMLESS = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1", "cat"})
LARGE_FILES = r"git-lfs (?:clean|smudge|filter-process)(?: --skip)?(?: -- %f)?"
"""What `git lfs install --local` writes: that program is the user's."""

HOOK_OF_READING = "post-index-change"
"""The hook that `git status` starts when it brings the index up to date."""

SECONDS = 10.0


def repository_of(folder: Path) -> Path | None:
    """The git folder that git would use in `folder`: the nearest `.git`, or a bare repository on the way up."""
    for place in (folder, *folder.parents):
        if is_there(place / ".git"):
            return git_folder(place)
        if is_there(place / "HEAD") and is_folder(place / "objects") and is_folder(place / "refs"):
            return place
    return None


def programs(folder: Path) -> tuple[str, ...]:
    """The names of what the repository around `folder` would make git run on reading: settings, hooks. Empty is well.

    Settings that cannot be read count: `?`.
    """
    found = repository_of(folder)
    if found is None:
        return ()
    named = [key for key, value in settings(found).items() if runs(key, value)]
    hook = (f"the hook {HOOK_OF_READING}",) if is_there(hooks_folder(found) / HOOK_OF_READING) else ()
    return (*named, *hook)


def hooks_folder(git_dir: Path) -> Path:
    """Where the repository keeps its hooks."""
    named = settings(git_dir).get("core.hookspath", "")
    common = Path(common_folder(str(git_dir)))
    return common.parent / named if named else common / "hooks"


def runs(key: str, value: str) -> bool:
    """Whether this setting starts a program when git reads."""
    if key == "?" or re.fullmatch(PARTIAL, key, re.DOTALL):
        return value != "false"
    if not re.fullmatch(RUNS, key, re.DOTALL):
        return False
    return value.lower() not in HARMLESS and not re.fullmatch(LARGE_FILES, value)


def settings(git_dir: Path) -> dict[str, str]:
    """What the repository's own settings files say, as far as it can run or hide something; keys in small letters."""
    common = Path(common_folder(str(git_dir)))
    files = tuple(dict.fromkeys((common / "config", common / "config.worktree", git_dir / "config.worktree")))
    return read_settings(tuple(f for f in files if is_there(f)), tuple(map(state_of, files)))


def state_of(path: Path) -> tuple[int, ...]:
    """What changes whenever the file does."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(64)
def read_settings(files: tuple[Path, ...], _states: tuple[tuple[int, ...], ...]) -> dict[str, str]:
    """The settings in these files, those that they include too. `_states` only keeps an old answer from being used."""
    found: dict[str, str] = {}
    for file in files:
        try:
            if NAMES_ONE.search(read_file(file)):
                found |= listed(file)
        except OSError:
            found["?"] = str(file)
    return found


def read_file(file: Path) -> bytes:
    """The bytes of a settings file. Raises OSError where it is a pipe or a device: git might read others from it."""
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:  # noqa: PTH123
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(f"{str(file)!r} is not a regular file")
        return opened.read()


def listed(file: Path) -> dict[str, str]:
    """All that one settings file says. A key without a value is `true`. Raises OSError."""
    command = ["git", "config", "--file", str(file), "--includes", "--null", "--list"]
    code, out, said = finished(command, b"", SECONDS, str(file.parent))
    if code:
        raise OSError(said.decode("utf-8", "replace"))
    entries = (entry.partition("\n") for entry in out.decode("utf-8", "surrogateescape").split("\0") if entry)
    return {lowered(key): value if line else "true" for key, line, value in entries}


def lowered(key: str) -> str:
    """The key in small letters, but for its middle part, where capitals count."""
    section, _, rest = key.partition(".")
    middle, dot, name = rest.rpartition(".")
    return f"{section.lower()}.{middle}{dot}{name.lower()}"


REPLACED: dict[str, dict[str, str]] = {
    "filter": {"clean": "", "smudge": "", "process": "", "required": "false"},
    "diff": {"textconv": "cat"},
}
"""What stands in for the programs of a driver; an empty text converter would be run as a command."""


def overrides(folder: Path) -> tuple[str, ...]:
    """Arguments for `git` that take out the filters and text converters of the repository around `folder`.

    All else GUARDS take out. Raises ValueError for a name that an argument cannot hold.
    """
    git_dir = repository_of(folder)
    known = settings(git_dir) if git_dir else {}
    drivers = [found for key, value in known.items() if (found := driver(key)) and runs(key, value)]
    if "?" in known or any("=" in name or "\n" in name for _, name, _ in drivers):
        raise ValueError(
            f"the settings of {str(git_dir)!r} cannot be read, or name a filter that cannot be switched off"
        )
    return tuple(
        part
        for kind, name in dict.fromkeys((kind, name) for kind, name, key in drivers if key in REPLACED[kind])
        for key, value in REPLACED[kind].items()
        for part in ("-c", f"{kind}.{name}.{key}={value}")
    )


def driver(key: str) -> tuple[str, str, str] | None:
    """(kind, name, setting) of a driver's setting; None for other settings."""
    kind, _, rest = key.partition(".")
    name, dot, setting = rest.rpartition(".")
    return (kind, name, setting) if dot and kind in REPLACED else None
