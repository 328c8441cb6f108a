"""Reading the agents' own transcript files. Hostile text: only what has the shape is taken, however long a line is.

Whether an agent runs commands in a sandbox of its own: there, neither another sandbox nor a socket works.

Source: Codex CLI 0.169.0, which writes a line of type `turn_context` at each turn's start, read 2026-11. What its hooks
are told as `permission_mode` is about questions, and the same with and without its sandbox.
"""

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

from remit.workspace.files.read_files import read_tail

TAIL_BYTES = 256 * 1024
MODEL_FIELD = re.compile(rb'"model"\s*:\s*"([A-Za-z0-9][A-Za-z0-9._:@/\[\]-]{1,120})"')
ANSWER_SIGNS = (b'"assistant"', b'"type":"gemini"')

MAX_LINE_BYTES = 16 * 1024 * 1024
"""A longer line is passed over: no message is as long."""

MAX_READ_BYTES = 512 * 1024 * 1024
"""What is read of a transcript at a time: an agent names the file, and one full of holes costs it nothing."""

DOCUMENT_SUFFIX = ".json"
"""A transcript of that ending is one document, written anew each time."""

DATABASE_AGENT = "opencode"
"""The agent whose transcripts are rows of one database, read only where that agent keeps it."""

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{7,127}")
TRANSCRIPT_PATTERNS = {
    "claude-code": ".claude/projects/*/{session}.jsonl",
    "codex": ".codex/sessions/*/*/*/rollout-*-{session}.jsonl",
    "copilot": ".copilot/session-state/{session}/events.jsonl",
    "gemini": ".gemini/tmp/*/chats/session-*-{start}.json*",
    "opencode": ".local/share/opencode/opencode.db",
    "qwen": ".qwen/projects/*/chats/{session}.jsonl",
}
"""Where agents keep a session below HOME, as found 2026-11; `start` is the first 8 characters of its id."""

PARTS_QUERY = """select p.id, p.time_created, m.data, p.data from part p join message m on m.id = p.message_id
  where p.session_id = ? and length(p.data) < ? order by p.time_created, p.id"""


class TranscriptLine(Struct, frozen=True):
    """One line without its newline, empty where it was too long. `end` is where the next one begins."""

    line: bytes
    end: int


class ReadPosition(Struct, frozen=True):
    """How far a file was read, and which file it was."""

    inode: int = 0
    offset: int = 0


def find_last_model(path: Path) -> str | None:
    """The model that the newest answer in a transcript came from; None where that cannot be told.

    Source: Claude Code 2.1.330 and Qwen Code 0.24.4 name it in lines of type `assistant`, Gemini CLI 0.61.0 in those of
    type `gemini`, read 2026-11.
    """
    return next(
        (found for most in (TAIL_BYTES // 16, TAIL_BYTES) if (found := find_model(read_tail(path, most)))), None
    )


def find_model(tail: bytes) -> str | None:
    """The model that the last answer of these lines names."""
    for line in reversed(tail.split(b"\n")):
        found = MODEL_FIELD.search(line) if any(sign in line for sign in ANSWER_SIGNS) else None
        if found:
            return found[1].decode("ascii")
    return None


def find_transcript(home: Path, agent: str, session: str) -> Path | None:
    """The transcript of a session whose agent never told where it is; None where there is none, or more than one."""
    pattern = TRANSCRIPT_PATTERNS.get(agent)
    if pattern is None or SESSION_ID.fullmatch(session) is None:
        return None
    found = list(home.glob(pattern.format(session=session, start=session[:8])))
    return found[0] if len(found) == 1 else None


def read_lines_after(path: Path, mark: ReadPosition) -> tuple[ReadPosition, Iterator[TranscriptLine]]:
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
    here = ReadPosition(status.st_ino, start)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return mark, iter(())
    return here, read_document(descriptor, status.st_size, start) if path.suffix == DOCUMENT_SUFFIX else read_lines(
        descriptor, start
    )


def read_lines(descriptor: int, start: int) -> Iterator[TranscriptLine]:
    """The whole lines from `start`, as many as are read at a time; the next reading goes on where this one ends."""
    with os.fdopen(descriptor, "rb") as file:
        file.seek(start)
        kept, end = True, start
        while end - start < MAX_READ_BYTES and (part := file.readline(MAX_LINE_BYTES)):
            end += len(part)
            if not part.endswith(b"\n"):
                kept = False
                continue
            yield TranscriptLine(part[:-1] if kept else b"", end)
            kept = True
        if end - start >= MAX_READ_BYTES and not kept:
            yield TranscriptLine(b"", end)


def read_document(descriptor: int, size: int, start: int) -> Iterator[TranscriptLine]:
    """A document as one chunk, where it is not the one that was read."""
    with os.fdopen(descriptor, "rb") as file:
        if size not in (0, start):
            yield TranscriptLine(file.read(MAX_LINE_BYTES) if size <= MAX_LINE_BYTES else b"", size)


def read_database_rows(path: Path, session: str) -> Iterator[TranscriptLine]:
    """The parts of one session of OpenCode, as lines. The database is only read; it has no place to go on from."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=1.0)) as database:
            for name, created, message, part in database.execute(PARTS_QUERY, (session, MAX_LINE_BYTES)):
                yield TranscriptLine(encode_row(name, created, message, part), 0)
    except sqlite3.Error:
        return


def encode_row(name: object, created: object, message: object, part: object) -> bytes:
    """One part as a line of JSON; empty where it is none."""
    if not isinstance(message, str) or not isinstance(part, str):
        return b""
    try:
        parts = {"message": msgspec.Raw(message.encode()), "part": msgspec.Raw(part.encode())}
        return msgspec.json.encode({"id": name, "time_created": created, **parts})
    except (ValueError, TypeError):
        return b""


CODEX_TAIL_BYTES = 8 * 1024 * 1024
TURN_SIGN = b'"turn_context"'


class SandboxPolicy(Struct, frozen=True):
    """The part that tells."""

    type: str = ""


class TurnContext(Struct, frozen=True):
    """What a turn runs in."""

    sandbox_policy: SandboxPolicy = SandboxPolicy()


class CodexLine(Struct, frozen=True):
    """One line of the transcript."""

    type: str
    payload: TurnContext


def is_codex_unsandboxed(transcript: str | None) -> bool:
    """Whether the transcript says that the newest turn runs without a sandbox; not where it cannot be told."""
    if transcript is None or "\0" in transcript:
        return False
    for line in reversed(read_tail(Path(transcript), CODEX_TAIL_BYTES).split(b"\n")):
        if TURN_SIGN in line and (found := parse_turn_context(line)) is not None:
            return found.sandbox_policy.type == "danger-full-access"
    return False


def parse_turn_context(line: bytes) -> TurnContext | None:
    """The turn that begins in this line; None for any other line that only speaks of one."""
    try:
        found = msgspec.json.decode(line, type=CodexLine)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return found.payload if found.type == "turn_context" else None
