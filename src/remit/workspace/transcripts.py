"""Reading the agents' own transcript files. Hostile text: only what has the shape is taken, however long a line is."""

import os
import re
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from remit.workspace.versions import read_tail

TAIL = 256 * 1024
MODEL = re.compile(rb'"model"\s*:\s*"([A-Za-z0-9][A-Za-z0-9._:@/\[\]-]{1,120})"')
ANSWERS = (b'"assistant"', b'"type":"gemini"')

LINE_BYTES = 16 * 1024 * 1024
"""A longer line is passed over: no message is as long."""

MOST_BYTES = 512 * 1024 * 1024
"""What is read of a transcript at a time: an agent names the file, and one full of holes costs it nothing."""

WHOLE = ".json"
"""A transcript of that ending is one document, written anew each time."""

IN_ROWS = "opencode"
"""The agent whose transcripts are rows of one database, read only where that agent keeps it."""

SESSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{7,127}")
PLACES = {
    "claude-code": ".claude/projects/*/{session}.jsonl",
    "codex": ".codex/sessions/*/*/*/rollout-*-{session}.jsonl",
    "copilot": ".copilot/session-state/{session}/events.jsonl",
    "gemini": ".gemini/tmp/*/chats/session-*-{start}.json*",
    "opencode": ".local/share/opencode/opencode.db",
    "qwen": ".qwen/projects/*/chats/{session}.jsonl",
}
"""Where agents keep a session below HOME, as found 2026-11; `start` is the first 8 characters of its id."""

PARTS = """select p.id, p.time_created, m.data, p.data from part p join message m on m.id = p.message_id
  where p.session_id = ? and length(p.data) < ? order by p.time_created, p.id"""


class Chunk(Struct, frozen=True):
    """One line without its newline, empty where it was too long. `end` is where the next one begins."""

    line: bytes
    end: int


class Mark(Struct, frozen=True):
    """How far a file was read, and which file it was."""

    inode: int = 0
    offset: int = 0


def last_model(path: Path) -> str | None:
    """The model that the newest answer in a transcript came from; None where that cannot be told.

    Source: Claude Code 2.1.330 and Qwen Code 0.24.4 name it in lines of type `assistant`, Gemini CLI 0.61.0 in those of
    type `gemini`, read 2026-11.
    """
    return next((found for most in (TAIL // 16, TAIL) if (found := model_in(read_tail(path, most)))), None)


def model_in(tail: bytes) -> str | None:
    """The model that the last answer of these lines names."""
    for line in reversed(tail.split(b"\n")):
        found = MODEL.search(line) if any(sign in line for sign in ANSWERS) else None
        if found:
            return found[1].decode("ascii")
    return None


def known_place(home: Path, agent: str, session: str) -> Path | None:
    """The transcript of a session whose agent never told where it is; None where there is none, or more than one."""
    pattern = PLACES.get(agent)
    if pattern is None or SESSION.fullmatch(session) is None:
        return None
    found = list(home.glob(pattern.format(session=session, start=session[:8])))
    return found[0] if len(found) == 1 else None


def lines_after(path: Path, mark: Mark) -> tuple[Mark, Iterator[Chunk]]:
    """What a transcript holds beyond `mark`, and where that begins; the last chunk's `end` is where to go on.

    A file that was replaced or became shorter is read from its beginning; a last line without its newline waits.
    Nothing where there is no such file, or it cannot be read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):  # an agent names the path: it may hold a NUL
        return mark, iter(())
    status = os.fstat(descriptor)
    start = mark.offset if mark.inode == status.st_ino and mark.offset <= status.st_size else 0
    here = Mark(status.st_ino, start)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return mark, iter(())
    return here, whole(descriptor, status.st_size, start) if path.suffix == WHOLE else lines(descriptor, start)


def lines(descriptor: int, start: int) -> Iterator[Chunk]:
    """The whole lines from `start`, as many as are read at a time; the next reading goes on where this one ends."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(start)
        kept, end = True, start
        while end - start < MOST_BYTES and (part := file.readline(LINE_BYTES)):
            end += len(part)
            if not part.endswith(b"\n"):
                kept = False
                continue
            yield Chunk(part[:-1] if kept else b"", end)
            kept = True
        if end - start >= MOST_BYTES and not kept:
            yield Chunk(b"", end)


def whole(descriptor: int, size: int, start: int) -> Iterator[Chunk]:
    """A document as one chunk, where it is not the one that was read."""
    with os.fdopen(descriptor, "rb") as file:
        if size not in (0, start):
            yield Chunk(file.read(LINE_BYTES) if size <= LINE_BYTES else b"", size)


def rows(path: Path, session: str) -> Iterator[Chunk]:
    """The parts of one session of OpenCode, as lines. The database is only read; it has no place to go on from."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=1.0)) as database:
            for name, created, message, part in database.execute(PARTS, (session, LINE_BYTES)):
                yield Chunk(row(name, created, message, part), 0)
    except sqlite3.Error:
        return


def row(name: object, created: object, message: object, part: object) -> bytes:
    """One part as a line of JSON; empty where it is none."""
    if not isinstance(message, str) or not isinstance(part, str):
        return b""
    try:
        parts = {"message": msgspec.Raw(message.encode()), "part": msgspec.Raw(part.encode())}
        return msgspec.json.encode({"id": name, "time_created": created, **parts})
    except (ValueError, TypeError):
        return b""
