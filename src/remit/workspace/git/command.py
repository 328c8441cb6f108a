"""The git command: each call of git goes through here, with guards against what a repository may hold.

Programs that a repository's own settings name, which git would run on mere reading, are switched off. A user's settings
(`~/.gitconfig`, the system's) are trusted; settings in the repository came with the repository, or from an agent.
Source: git-config(1), gitattributes(5), githooks(5), read 2026-11.

git opens a FIFO in place of a file to read, and waits for a writer forever. A FIFO cannot be committed, and no setting
comes from a FIFO. If git takes long, each FIFO below the folder is opened for writing and closed again: git reads an
empty file and continues. Source: fifo(7) of man-pages 6.9, dir.c and attr.c of git 2.39 to 2.51, read 2026-11.
"""

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from remit.core.untrusted_input import quote_bytes
from remit.workspace.place.workspace import (
    PRIVATE_GIT_FOLDER,
    find_git_view,
    is_folder,
    path_exists,
    resolve_common_folder,
    resolve_git_folder,
)

TIMEOUT_S = 60.0
CONFIG_TIMEOUT_S = 10.0

GUARDS = (
    "--no-optional-locks",
    *("-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "core.hooksPath=/dev/null"),
    *("-c", "gc.auto=0", "-c", "maintenance.auto=false"),
    *(
        part
        for word in ("", "file.", "git.", "ssh.", "http.", "https.", "ext.")
        for part in ("-c", f"protocol.{word}allow=never")
    ),
    *("-c", "core.ignoreStat=false", "-c", "core.checkStat=default", "-c", "core.trustctime=true"),
    *("-c", "core.untrackedCache=false", "-c", "log.showSignature=false"),
)
"""Options against a repository's own configuration: reading must not run programs, take locks, start gc, fetch missing
objects, or believe a file unchanged without looking. Filters are handled by `override_options`.
"""

MISSING_OBJECT_TEXT = "from promisor remote"  # git's message for an object that a partial clone lacks and may not fetch
PARTIAL_CLONE_HELP = (
    "this partial clone lacks a part of its history that is needed here, and Remit itself fetches nothing\n"
    "hint: `git fetch --refetch --no-filter` brings all of it over, once; `git blame FILE` what that file needs"
)

GIT_FATAL_EXIT_CODE = 128  # git's exit code if the repository cannot be used, among other errors
DUBIOUS_OWNERSHIP = re.compile(r"detected dubious ownership in repository at '(?P<folder>[^\n]+)'")
"""git's message for a repository of another user."""

OWNERSHIP_HELP = (
    "the repository {folder!r} belongs to another user, and git does not work in it\n"
    "hint: if you trust it, run `git config --global --add safe.directory {folder}`"
)


class GitError(RuntimeError):
    """git could not be run, or failed."""

    def __init__(self, arguments: Iterable[str], code: int | None, message: str) -> None:
        arguments = tuple(arguments)
        command = " ".join(["git", *arguments])
        owned = DUBIOUS_OWNERSHIP.search(message)
        if owned:
            message = OWNERSHIP_HELP.format(folder=owned["folder"])
        elif MISSING_OBJECT_TEXT in message:
            message = PARTIAL_CLONE_HELP
        text = message.strip()[:500]
        super().__init__(text if owned else f"`{command[:300]}` failed ({code}): {text}")
        self.arguments = arguments
        self.code = code
        self.message = message

    def __reduce__(self) -> tuple[type["GitError"], tuple[tuple[str, ...], int | None, str]]:
        """Return how another process makes the same error."""
        return GitError, (self.arguments, self.code, self.message)


class GitResult(NamedTuple):
    """The end of a git process, with its output and error text."""

    code: int
    output: bytes
    errors: str


class Git:
    """git in a repository, optionally with the objects of the folder `extra_objects`."""

    def __init__(self, folder: Path, *, extra_objects: Path | None = None) -> None:
        self.folder = folder
        self.extra_objects = extra_objects

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        ok: tuple[int, ...] = (0,),
        above: tuple[str, ...] = (),
        limit_s: float = TIMEOUT_S,
    ) -> bytes:
        """Return the standard output of `git <arguments>`, run by the program `above` if any. Raises GitError for an
        exit code not in `ok`.
        """
        command = (*above, *git_words(self.folder, arguments), *arguments)
        if self.extra_objects is not None:
            # Quoted for git, since a colon would separate two folders: three octal digits per byte.
            path = quote_bytes(os.fsencode(self.extra_objects)).decode()
            command = ("env", f"GIT_ALTERNATE_OBJECT_DIRECTORIES={path}", *command)
        done = execute(command, arguments, stdin, self.folder, limit_s)
        if done.code not in ok or (done.code == GIT_FATAL_EXIT_CODE and DUBIOUS_OWNERSHIP.search(done.errors)):
            raise GitError(arguments, done.code, done.errors)
        return done.output

    def text(self, *arguments: str, ok: tuple[int, ...] = (0,)) -> str:
        return self.run(*arguments, ok=ok).decode("utf-8", "surrogateescape").rstrip("\n")

    def read_head(self) -> str | None:
        return self.text("rev-parse", "--verify", "--quiet", "HEAD^{commit}", ok=(0, 1, 128)) or None


def git_words(folder: Path, arguments: Iterable[str] = (), options: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the words before the arguments: git in `folder`, running no program of the repository. Raises GitError."""
    try:
        return ("git", *GUARDS, *override_options(folder), *options, *view_options(folder), "-C", str(folder))
    except ValueError as error:
        raise GitError(arguments, None, str(error)) from error


def view_options(folder: Path) -> tuple[str, ...]:
    """Return the options that lead git to the copy of a running attempt, and in the git folder of a submodule past its
    work tree, which may be gone; none elsewhere.
    """
    if "/modules/" in str(folder) and all(path_exists(folder / name) for name in ("HEAD", "objects", "refs")):
        return (f"--git-dir={folder}", "--work-tree=/")
    found = find_git_folder(folder)
    if found is None or PRIVATE_GIT_FOLDER not in str(found):
        return ()
    top = next((path for path in (folder, *folder.parents) if path_exists(path / ".git")), folder)
    return (f"--git-dir={found}", f"--work-tree={top}")


def execute(
    command: Sequence[str], arguments: Iterable[str], stdin: bytes, folder: Path, limit_s: float = TIMEOUT_S
) -> GitResult:
    try:
        code, out, errors = run_git_process(command, stdin, limit_s, str(folder))
    except FileNotFoundError as error:
        raise GitError(arguments, None, "git is not on PATH; install it, or mend PATH") from error
    except OSError as error:
        raise GitError(arguments, None, str(error)) from error
    return GitResult(code, out, errors.decode("utf-8", "replace"))


# -- FIFOs that would block git ------------------------------------------------------------------------------

GIT_READ_NAMES = frozenset({".gitignore", ".gitattributes", ".gitmodules", ".mailmap"})
"""Files of a working tree that git reads on its own. In git's own folder, git may read any file."""

PIPE_BYTES = 16 * 1024  # length of input that every pipe takes at once
PATIENCE_S = 1.0  # time for git before the first search for FIFOs, and between two searches
GRACE_S = 2.0  # for git to end before it is killed
PAUSE_S = 0.01  # wait after FIFOs were found
MAX_ENTRIES = 500_000  # bound of directory entries per search
KNOWN_PIPES: dict[str, list[str]] = {}  # FIFOs of the last search by worktree: the next git meets them, too


class DeviceFound(TimeoutError):
    """A device has the name of a file that git reads, and may never end."""


def run_git_process(command: Sequence[str], question: bytes, limit_s: float, folder: str) -> tuple[int, bytes, bytes]:
    """Return exit code, output and errors of a command. Raises OSError; TimeoutError after `limit_s`."""
    import subprocess  # a call that writes a file needs no git
    from tempfile import TemporaryFile

    start = Path(folder).absolute()
    top = str(next((at for at in (start, *start.parents) if os.path.lexists(at / ".git")), start))
    until = time.monotonic() + limit_s
    source = pipe = subprocess.PIPE
    unsent = question or None
    wait_s = min(PAUSE_S if top in KNOWN_PIPES else PATIENCE_S, limit_s)
    with ExitStack() as stack:
        if len(question) > PIPE_BYTES:
            # What a pipe has no room for is not sent any more once `communicate` has reached its time limit.
            source, unsent = stack.enter_context(TemporaryFile()), None
            source.write(question)
            source.seek(0)
        process = stack.enter_context(subprocess.Popen(command, stdin=source, stdout=pipe, stderr=pipe))
        try:
            while True:
                try:
                    out, errors = process.communicate(unsent, wait_s)
                except subprocess.TimeoutExpired as error:
                    if time.monotonic() >= until:
                        raise TimeoutError(f"it did not end within {limit_s:g} seconds") from error
                    # Without a FIFO, git is only slow: each search takes long in a large tree, so the waits grow.
                    wait_s = PAUSE_S if release_pipes(top) else max(PATIENCE_S, 2 * wait_s)
                    unsent, wait_s = None, min(wait_s, max(until - time.monotonic(), 0.001))
                else:
                    return process.returncode, out, errors
        except BaseException:
            process.terminate()  # git removes its locks, and a reaper ends what git has started
            with suppress(subprocess.TimeoutExpired):
                process.wait(GRACE_S)
            process.kill()
            raise


def release_pipes(top: str) -> bool:
    """Unblock a git that waits at a FIFO; return whether the tree has one. Raises DeviceFound."""
    if any([release_pipe(path) for path in KNOWN_PIPES.get(top, ())]):  # a list: each FIFO is to be opened
        return True
    pipes = list(find_pipes(top))
    KNOWN_PIPES.pop(top, None)
    if pipes:
        KNOWN_PIPES[top] = pipes
    for path in pipes:
        release_pipe(path)
    return bool(pipes)


def find_pipes(top: str) -> Iterator[str]:
    """Yield FIFOs with such names, and each FIFO in git's folders; no other link is followed. Raises DeviceFound."""
    own = resolve_git_folder(top)
    git_folder = find_git_view(own) if own else None
    common = resolve_common_folder(git_folder) if git_folder else None
    waiting = [(top, False), *((folder, True) for folder in {git_folder, common} if folder)]
    passed = 0
    while waiting and passed < MAX_ENTRIES:
        folder, is_gits = waiting.pop()
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except OSError:
            continue
        for entry in entries:
            passed += 1
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, is_gits or entry.name == ".git"))
            elif (is_gits or entry.name in GIT_READ_NAMES) and not entry.is_file(follow_symlinks=False):
                path = os.path.realpath(entry.path) if is_gits else entry.path
                if is_pipe(path):
                    yield path


def is_pipe(path: str) -> bool:
    """Return whether the path is a FIFO. Raises DeviceFound for a device, which git may read without end."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return False
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise DeviceFound(f"{path!r} is a device, which git may read without end: remove it")
    return stat.S_ISFIFO(mode)


def release_pipe(path: str) -> bool:
    if not is_pipe(path):
        return False
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC))
    except OSError:
        return False
    return True


# -- programs in a repository's settings ---------------------------------------------------------------------

PROGRAM_SETTINGS = (
    r"core\.(?:fsmonitor|pager)|pager\..+|interactive\.difffilter|diff\.external|diff\..+\.(?:command|textconv)"
    r"|filter\..+\.(?:clean|smudge|process)|gpg\.(?:.+\.)?program"
)
"""Settings, in lower case, that make a reading command start a program. Compiled on demand, like the two patterns
below: few repositories have them.
"""

PARTIAL_CLONE_SETTINGS = r"extensions\.partialclone|remote\..+\.promisor"
"""A partial clone fetches missing objects by the transport, helper or proxy in its settings."""

MAY_NAME_PROGRAM = re.compile(
    rb"include|fsmonitor|pager|command|difffilter|external|textconv|filter|gpg"
    rb"|partialclone|promisor|excludesfile|worktree|hookspath",
    re.IGNORECASE,
)
"""A settings file without a match names no program and no remote to fetch from: git is not asked about it."""

HARMLESS_VALUES = frozenset({"", "true", "false", "yes", "no", "on", "off", "0", "1", "cat"})
GIT_LFS_COMMANDS = r"git-lfs (?:clean|smudge|filter-process)(?: --skip)?(?: -- %f)?"
"""Commands written by `git lfs install --local`: the program belongs to the user."""

READING_HOOK = "post-index-change"  # the hook that `git status` starts when refreshing the index
DRIVER_OVERRIDES: dict[str, dict[str, str]] = {
    "filter": {"clean": "", "smudge": "", "process": "", "required": "false"},
    "diff": {"textconv": "cat"},
}
"""Replacements for driver programs; git would run an empty text converter as a command."""


def find_git_folder(folder: Path) -> Path | None:
    """Return the git folder that git is to use in `folder`: the nearest `.git`, for a running attempt its own copy, or
    a bare repository above.
    """
    for path in (folder, *folder.parents):
        if path_exists(path / ".git"):
            return Path(find_git_view(found)) if (found := resolve_git_folder(str(path))) else None
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
    settings = read_repository_settings(found)
    common = Path(resolve_common_folder(str(found)))
    named = settings.get("core.hookspath")
    hooks = common.parent / named if named else common / "hooks"
    programs = [key for key, value in settings.items() if starts_program(key, value)]
    return (*programs, *([f"the hook {READING_HOOK}"] if path_exists(hooks / READING_HOOK) else ()))


def starts_program(key: str, value: str) -> bool:
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
    found: dict[str, str] = {}
    for file in files:
        try:
            with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:  # noqa: PTH123
                # git could read different bytes from a FIFO or a device.
                if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
                    raise OSError(f"{str(file)!r} is not a regular file")
                if MAY_NAME_PROGRAM.search(opened.read()):
                    found |= list_settings(file)
        except OSError:
            found["?"] = str(file)
    return found


def list_settings(file: Path) -> dict[str, str]:
    """Return the settings of a file, section and name in lower case; a key without value is `true`. Raises OSError."""
    command = ["git", "config", "--file", str(file), "--includes", "--null", "--list"]
    code, out, text = run_git_process(command, b"", CONFIG_TIMEOUT_S, str(file.parent))
    if code:
        raise OSError(text.decode("utf-8", "replace"))
    settings: dict[str, str] = {}
    for entry in filter(None, out.decode("utf-8", "surrogateescape").split("\0")):
        key, line, value = entry.partition("\n")
        section, _, rest = key.partition(".")
        middle, dot, name = rest.rpartition(".")  # the middle part is case-sensitive
        settings[f"{section.lower()}.{middle}{dot}{name.lower()}"] = value if line else "true"
    return settings


def override_options(folder: Path) -> tuple[str, ...]:
    """Return git options that disable filters and text converters of the repository around `folder`. Other settings are
    covered by GUARDS. Raises ValueError for a driver name that an option cannot hold.
    """
    git_dir = find_git_folder(folder)
    known = read_repository_settings(git_dir) if git_dir else {}
    drivers: dict[tuple[str, str], None] = {}
    is_safe = "?" not in known
    for key, value in known.items():
        kind, _, rest = key.partition(".")
        name, dot, setting = rest.rpartition(".")
        if dot and kind in DRIVER_OVERRIDES and starts_program(key, value):
            is_safe = is_safe and "=" not in name and "\n" not in name
            if setting in DRIVER_OVERRIDES[kind]:
                drivers[kind, name] = None
    if not is_safe:
        raise ValueError(
            f"the settings of {str(git_dir)!r} cannot be read, or name a filter that cannot be switched off"
        )
    return tuple(
        part
        for kind, name in drivers
        for key, value in DRIVER_OVERRIDES[kind].items()
        for part in ("-c", f"{kind}.{name}.{key}={value}")
    )


def list_disabled_filters(folder: Path) -> frozenset[str]:
    """Return the filters of the repository's settings that no git of Remit runs."""
    switched = (part.partition("=")[0] for part in override_options(folder))
    names = (key.removeprefix("filter.").rpartition(".")[0] for key in switched if key.startswith("filter."))
    return frozenset(names)
