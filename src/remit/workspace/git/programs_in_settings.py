"""Programs named by a repository's own settings, which git would run on mere reading.

A user's settings (`~/.gitconfig`, the system's) are trusted. Settings in the repository came with the repository, or
from an agent. Source: git-config(1), gitattributes(5), githooks(5), read 2026-11.
"""

import os
import re
import stat
from functools import lru_cache
from pathlib import Path

from remit.workspace.git.early_start import PROGRAM_SETTING_WORDS
from remit.workspace.git.run_process import run_git_process
from remit.workspace.place.workspace import is_folder, path_exists, resolve_common_folder, resolve_git_folder

PROGRAM_SETTINGS = (
    r"core\.(?:fsmonitor|pager)|pager\..+|interactive\.difffilter|diff\.external|diff\..+\.(?:command|textconv)"
    r"|filter\..+\.(?:clean|smudge|process)|gpg\.(?:.+\.)?program"
)
"""Settings, in lower case, that make a reading command start a program. Compiled on demand, like the two patterns
below: few repositories have them.
"""

PARTIAL_CLONE_SETTINGS = r"extensions\.partialclone|remote\..+\.promisor"
"""A partial clone fetches missing objects by the transport, helper or proxy in its settings."""

MAY_NAME_PROGRAM = re.compile(b"|".join(PROGRAM_SETTING_WORDS), re.IGNORECASE)
"""git is not asked about a settings file without a match."""

HARMLESS_VALUES = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1", "cat"})
GIT_LFS_COMMANDS = r"git-lfs (?:clean|smudge|filter-process)(?: --skip)?(?: -- %f)?"
"""Commands written by `git lfs install --local`: the program belongs to the user."""

READING_HOOK = "post-index-change"
"""The hook that `git status` starts when refreshing the index."""

CONFIG_TIMEOUT_S = 10.0

DRIVER_OVERRIDES: dict[str, dict[str, str]] = {
    "filter": {"clean": "", "smudge": "", "process": "", "required": "false"},
    "diff": {"textconv": "cat"},
}
"""Replacements for driver programs; git would run an empty text converter as a command."""


def find_git_folder(folder: Path) -> Path | None:
    """Return the git folder that git would use in `folder`: the nearest `.git`, or a bare repository above."""
    for path in (folder, *folder.parents):
        if path_exists(path / ".git"):
            return resolve_git_folder(path)
        if path_exists(path / "HEAD") and is_folder(path / "objects") and is_folder(path / "refs"):
            return path
    return None


def find_programs(folder: Path) -> tuple[str, ...]:
    """Return the settings and hooks that reading would run in the repository around `folder`; `?` for unreadable
    settings.
    """
    found = find_git_folder(folder)
    if found is None:
        return ()
    named = [key for key, value in read_repository_settings(found).items() if starts_program(key, value)]
    hook = (f"the hook {READING_HOOK}",) if path_exists(hooks_folder(found) / READING_HOOK) else ()
    return (*named, *hook)


def hooks_folder(git_dir: Path) -> Path:
    named = read_repository_settings(git_dir).get("core.hookspath", "")
    common = Path(resolve_common_folder(str(git_dir)))
    return common.parent / named if named else common / "hooks"


def starts_program(key: str, value: str) -> bool:
    """Return whether the setting starts a program on reading."""
    if key == "?" or re.fullmatch(PARTIAL_CLONE_SETTINGS, key, re.DOTALL):
        return value != "false"
    if not re.fullmatch(PROGRAM_SETTINGS, key, re.DOTALL):
        return False
    return value.lower() not in HARMLESS_VALUES and not re.fullmatch(GIT_LFS_COMMANDS, value)


def read_repository_settings(git_dir: Path) -> dict[str, str]:
    """Return the repository's settings that can run or hide something; keys in lower case."""
    common = Path(resolve_common_folder(str(git_dir)))
    files = tuple(dict.fromkeys((common / "config", common / "config.worktree", git_dir / "config.worktree")))
    return read_settings_files(tuple(f for f in files if path_exists(f)), tuple(map(file_state, files)))


def file_state(path: Path) -> tuple[int, ...]:
    """Return values that change whenever the file changes; empty without a file."""
    try:
        status = path.stat()
    except OSError:
        return ()
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


@lru_cache(64)
def read_settings_files(files: tuple[Path, ...], _states: tuple[tuple[int, ...], ...]) -> dict[str, str]:
    """Return the settings of these files with includes. `_states` is part of the cache key only."""
    found: dict[str, str] = {}
    for file in files:
        try:
            if MAY_NAME_PROGRAM.search(read_settings_file(file)):
                found |= list_settings(file)
        except OSError:
            found["?"] = str(file)
    return found


def read_settings_file(file: Path) -> bytes:
    """Return the bytes of a settings file. Raises OSError for a FIFO or device: git could read different bytes."""
    with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:  # noqa: PTH123
        if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
            raise OSError(f"{str(file)!r} is not a regular file")
        return opened.read()


def list_settings(file: Path) -> dict[str, str]:
    """Return the settings of a file; a key without value is `true`. Raises OSError."""
    command = ["git", "config", "--file", str(file), "--includes", "--null", "--list"]
    code, out, text = run_git_process(command, b"", CONFIG_TIMEOUT_S, str(file.parent))
    if code:
        raise OSError(text.decode("utf-8", "replace"))
    entries = (entry.partition("\n") for entry in out.decode("utf-8", "surrogateescape").split("\0") if entry)
    return {lower_key(key): value if line else "true" for key, line, value in entries}


def lower_key(key: str) -> str:
    """Lower the section and the name of a key; the middle part is case-sensitive."""
    section, _, rest = key.partition(".")
    middle, dot, name = rest.rpartition(".")
    return f"{section.lower()}.{middle}{dot}{name.lower()}"


def override_options(folder: Path) -> tuple[str, ...]:
    """Return git options that disable filters and text converters of the repository around `folder`.

    Other settings are covered by GUARDS. Raises ValueError for a driver name that an option cannot hold.
    """
    git_dir = find_git_folder(folder)
    known = read_repository_settings(git_dir) if git_dir else {}
    drivers = [found for key, value in known.items() if (found := parse_driver_key(key)) and starts_program(key, value)]
    if "?" in known or any("=" in name or "\n" in name for _, name, _ in drivers):
        raise ValueError(
            f"the settings of {str(git_dir)!r} cannot be read, or name a filter that cannot be switched off"
        )
    return tuple(
        part
        for kind, name in dict.fromkeys((kind, name) for kind, name, key in drivers if key in DRIVER_OVERRIDES[kind])
        for key, value in DRIVER_OVERRIDES[kind].items()
        for part in ("-c", f"{kind}.{name}.{key}={value}")
    )


def parse_driver_key(key: str) -> tuple[str, str, str] | None:
    """Return (kind, name, setting) of a driver's setting; None for other keys."""
    kind, _, rest = key.partition(".")
    name, dot, setting = rest.rpartition(".")
    return (kind, name, setting) if dot and kind in DRIVER_OVERRIDES else None
