"""Answers of `remit blame` that are given again while nothing that they depend on has changed.

An answer is kept with the state of each file that could change it: HEAD and its branch, the file, git's settings, the
ledger, this code. Nothing but the built-in modules is imported here: looking an answer up has to cost less than the
command line would. The folder may be deleted at any time.
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
"""What changed this shortly before the work began may have changed during it, and its times would not tell."""

KEY_VARIABLES = (
    "GIT_",
    "LC_",
    "LANG",
    "TZ",
    "HOME",
    "XDG_CONFIG_HOME",
    "NO_COLOR",
    "CLICOLOR",
    "FORCE_COLOR",
    "TERM",
    "COLUMNS",
    "PYTHON",
    "PAGER",
)
DECODE_ERRORS = "surrogateescape"
NARROW_COLUMNS = 120
"""A terminal of fewer columns gets a narrow form."""


def terminal_kind() -> str:
    """Return what standard output is: `narrow` or `wide` for a terminal, empty for a file or a pipe."""
    try:
        return "narrow" if os.get_terminal_size(1).columns < NARROW_COLUMNS else "wide"
    except OSError:
        return ""


def make_cache_key(words: Sequence[str], folder: str, around: Mapping[str, str], terminal: str) -> str:
    """All that the question says, as one text."""
    known = sorted(f"{name}={value}" for name, value in around.items() if name.startswith(KEY_VARIABLES))
    return "\n".join([CACHE_FORMAT, sys.version, __file__, folder, terminal, *map(repr, words), *map(repr, known)])


def state_folder(folder: str) -> str | None:
    """Remit's folder in the repository around `folder`, as `workspace.place` finds it; None without git."""
    while True:
        git = os.path.join(folder, ".git")  # noqa: PTH118  pathlib costs a third of the whole look-up
        if os.path.isdir(git):  # noqa: PTH112
            return os.path.join(git, "remit")  # noqa: PTH118
        if os.path.lexists(git):
            return None
        above = os.path.dirname(folder)  # noqa: PTH120
        if above == folder:
            return None
        folder = above


def file_state(path: str) -> str:
    """What changes whenever the file or folder at `path` does."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except (OSError, ValueError):
        return "-"
    return f"{found.st_dev}:{found.st_ino}:{found.st_mode}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def cache_path(state: str, question: str) -> str:
    """Where the answer to a question lies. Two questions may share a place: the newer answer stands."""
    name = f"{zlib.crc32(question.encode('utf-8', DECODE_ERRORS)):08x}{len(question):x}"
    return os.path.join(state, CACHE_FOLDER, name)  # noqa: PTH118


def load_answer(
    words: Sequence[str], folder: str, around: Mapping[str, str], terminal: str
) -> tuple[bytes, str] | None:
    """The answer that was given to these words, and the pager that shows it; None where it may be another now."""
    state = None if "--repo" in " ".join(words) else state_folder(folder)
    if state is None:
        return None
    question = make_cache_key(words, folder, around, terminal)
    try:
        with open(cache_path(state, question), "rb") as file:  # noqa: PTH123
            length = file.readline(32)
            head = file.read(int(length)).decode("utf-8", DECODE_ERRORS).split("\0")
            if head[0] != question or any(file_state(p) != s for p, s in zip(head[2::2], head[3::2], strict=True)):
                return None
            return file.read(), head[1]
    except (OSError, ValueError):
        return None


def store_answer(state: str, question: str, answer: bytes, depends: Iterable[str], pager: str, began_ns: int) -> None:
    """Keep an answer, unless something that it depends on changed while it was made. Failing to is no failure."""
    paths = list(dict.fromkeys(depends))
    states = [file_state(path) for path in paths]
    newest = max((int(part) for known in states if known != "-" for part in known.split(":")[-2:]), default=0)
    if newest > began_ns - RACY_NS or len(answer) > MAX_ANSWER_BYTES:
        return
    head = "\0".join([question, pager, *(part for pair in zip(paths, states, strict=True) for part in pair)])
    raw = head.encode("utf-8", DECODE_ERRORS)
    path = cache_path(state, question)
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
    """Delete the oldest answers beyond what may be kept. Raises OSError."""
    found = [(entry.stat().st_mtime_ns, entry.stat().st_size, entry.path) for entry in os.scandir(folder)]
    total = 0
    for number, (_, size, path) in enumerate(sorted(found, reverse=True)):
        total += size
        if number >= MAX_ANSWERS or total > MAX_CACHE_BYTES:
            os.unlink(path)  # noqa: PTH108


def now_ns() -> int:
    """When work begins."""
    return time.time_ns()


def answer_from_cache(words: Sequence[str]) -> bool:
    """Give a kept answer, where one is still true; whether it was given."""
    terminal = terminal_kind()
    try:
        found = load_answer(words, os.getcwd(), os.environ, terminal)  # noqa: PTH109
    except OSError:
        return False
    if found is None:
        return False
    show_answer(*found)
    return True


def show_answer(answer: bytes, pager: str) -> None:
    """Write an answer, through the pager where there is one. A reader that leaves early is none the worse."""
    if pager:
        from remit.cli.terminal.pager import (
            show_in_pager,  # only a terminal needs it, and it costs as much as all the rest here
        )

        show_in_pager(answer, pager)
        return
    try:
        write_stdout(answer)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def write_stdout(answer: bytes) -> None:
    """Write all of it to standard output, wherever that leads."""
    sys.stdout.flush()
    sys.stdout.buffer.write(answer)
    sys.stdout.buffer.flush()
