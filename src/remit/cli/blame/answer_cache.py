"""Cache of `remit blame` answers, valid while their dependencies stay unchanged.

An entry stores the state of each file that could change the answer: HEAD and its branch, the file, git settings, the
ledger, this code. Only built-in modules are imported here: a lookup must cost less than loading the command line. The
folder may be deleted at any time.
"""

import os
import sys
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence

CACHE_FOLDER = "blame-cache"
CACHE_FORMAT = "1"
MAX_CACHE_BYTES = 64 * 1024 * 1024
MAX_ANSWERS = 256
MAX_ANSWER_BYTES = 16 * 1024 * 1024
RACY_NS = 50_000_000
"""A file changed this shortly before the start may change again without a new timestamp."""

KEY_VARIABLES = (
    *("GIT_", "LC_", "LANG", "TZ", "HOME", "XDG_CONFIG_HOME", "NO_COLOR", "CLICOLOR", "FORCE_COLOR", "TERM"),
    *("COLUMNS", "PYTHON", "PAGER"),
)
"""Beginnings of the environment variables that can change an answer."""

DECODE_ERRORS = "surrogateescape"
NARROW_COLUMNS = 120
"""Terminals with fewer columns get the narrow form."""


def terminal_kind() -> str:
    """Return the kind of standard output: `narrow` or `wide` for a terminal, empty for a file or a pipe."""
    try:
        return "narrow" if os.get_terminal_size(1).columns < NARROW_COLUMNS else "wide"
    except OSError:
        return ""


def make_cache_key(words: Sequence[str], folder: str, environment: Mapping[str, str], terminal: str) -> str:
    variables = sorted(f"{name}={value}" for name, value in environment.items() if name.startswith(KEY_VARIABLES))
    return "\n".join([CACHE_FORMAT, sys.version, __file__, folder, terminal, *map(repr, words), *map(repr, variables)])


def state_folder(folder: str) -> str | None:
    """Return Remit's folder in the repository around `folder`, as `workspace.place` would; None without git."""
    while True:
        git = os.path.join(folder, ".git")  # noqa: PTH118  importing pathlib costs a third of the lookup
        if os.path.isdir(git):  # noqa: PTH112
            return os.path.join(git, "remit")  # noqa: PTH118
        if os.path.lexists(git):
            return None
        above = os.path.dirname(folder)  # noqa: PTH120
        if above == folder:
            return None
        folder = above


def file_state(path: str) -> str:
    try:
        stat = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return "-"
    return f"{stat.st_dev}:{stat.st_ino}:{stat.st_mode}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"


def cache_path(state: str, key: str) -> str:
    """Return the path of a cached answer. Two keys may collide: the newer answer overwrites the older."""
    name = f"{zlib.crc32(key.encode('utf-8', DECODE_ERRORS)):08x}{len(key):x}"
    return os.path.join(state, CACHE_FOLDER, name)  # noqa: PTH118


def load_answer(
    words: Sequence[str], folder: str, environment: Mapping[str, str], terminal: str
) -> tuple[bytes, str] | None:
    """Return the cached answer and its pager; None if a dependency changed or no entry exists."""
    state = None if "--repo" in " ".join(words) else state_folder(folder)
    if state is None:
        return None
    key = make_cache_key(words, folder, environment, terminal)
    try:
        with open(cache_path(state, key), "rb") as file:  # noqa: PTH123
            length = file.readline(32)
            head = file.read(int(length)).decode("utf-8", DECODE_ERRORS).split("\0")
            if head[0] != key or any(file_state(p) != s for p, s in zip(head[2::2], head[3::2], strict=True)):
                return None
            return file.read(), head[1]
    except (OSError, ValueError):
        return None


def store_answer(folder: str, key: str, answer: bytes, dependencies: Iterable[str], pager: str, began_ns: int) -> None:
    """Store an answer, unless a dependency changed meanwhile. Errors are ignored: the cache is optional."""
    paths = list(dict.fromkeys(dependencies))
    states = [file_state(path) for path in paths]
    # The last two parts of a state are the times of the last change.
    newest = max((int(part) for state in states if state != "-" for part in state.split(":")[-2:]), default=0)
    if newest > began_ns - RACY_NS or len(answer) > MAX_ANSWER_BYTES:
        return
    head = "\0".join([key, pager, *(part for pair in zip(paths, states, strict=True) for part in pair)])
    raw = head.encode("utf-8", DECODE_ERRORS)
    path = cache_path(folder, key)
    fresh = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120
        with open(fresh, "wb") as file:  # noqa: PTH123
            file.write(b"%d\n%s%s" % (len(raw), raw, answer))
        os.replace(fresh, path)  # noqa: PTH105
        prune_cache(os.path.dirname(path))  # noqa: PTH120
    except OSError:
        return


def prune_cache(folder: str) -> None:
    """Delete the oldest entries beyond the limits. Raises OSError."""
    entries = [(entry.stat().st_mtime_ns, entry.stat().st_size, entry.path) for entry in os.scandir(folder)]
    total = 0
    for number, (_, size, path) in enumerate(sorted(entries, reverse=True)):
        total += size
        if number >= MAX_ANSWERS or total > MAX_CACHE_BYTES:
            os.unlink(path)  # noqa: PTH108


def now_ns() -> int:
    return time.time_ns()


def answer_from_cache(words: Sequence[str]) -> bool:
    """Write a cached answer if a valid entry exists; return whether one was written."""
    terminal = terminal_kind()
    try:
        cached = load_answer(words, os.getcwd(), os.environ, terminal)  # noqa: PTH109
    except OSError:
        return False
    if cached is not None:
        show_answer(*cached)
    return cached is not None


def show_answer(answer: bytes, pager: str) -> None:
    """Write an answer, through the pager if one is set. A reader that closes early is no error."""
    if pager:
        # Only a terminal needs a pager, and the import costs as much as the rest of this module.
        from remit.cli.terminal.pager import show_in_pager

        show_in_pager(answer, pager)
        return
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
