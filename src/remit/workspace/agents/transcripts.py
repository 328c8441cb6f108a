"""Agents' transcript files. Content is hostile: only known shapes are read, and lengths are bounded."""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.agents import ROWS
from remit.workspace.safe_files import read_tail

TAIL_BYTES = 256 * 1024
MODEL_FIELD = re.compile(rb'"model"\s*:\s*"([A-Za-z0-9][A-Za-z0-9._:@/\[\]-]{1,120})"')
ANSWER_SIGNS = tuple({row.answer_sign: None for row in ROWS.values()})

MAX_LINE_BYTES = 16 * 1024 * 1024  # longer lines are skipped: no message is as long
MAX_READ_BYTES = 512 * 1024 * 1024
"""Bound per read: an agent names the file, and a sparse file costs the agent no space."""

SESSION_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{7,127}")
CODEX_TAIL_BYTES = 8 * 1024 * 1024


class TranscriptLine(Struct, frozen=True):
    """A line without newline, empty if too long. `end` is the offset of the next line."""

    line: bytes
    end: int


class ReadPosition(Struct, frozen=True):
    """Progress in a file, and the file's inode."""

    inode: int = 0
    offset: int = 0


def find_last_model(path: Path) -> str | None:
    """Return the model of the newest answer in a transcript; None if unknown.

    Source: Claude Code 2.1.330 and Qwen Code 0.24.4 name the model in lines of type `assistant`, Gemini CLI 0.61.0 in
    lines of type `gemini`, read 2026-11.
    """
    for max_bytes in (TAIL_BYTES // 16, TAIL_BYTES):
        for line in reversed(read_tail(path, max_bytes).split(b"\n")):
            found = MODEL_FIELD.search(line) if any(sign in line for sign in ANSWER_SIGNS) else None
            if found:
                return found[1].decode("ascii")
    return None


def find_transcript(home: Path, agent: str, session: str) -> Path | None:
    """Return the transcript of a session whose agent reported no path; None if none, or several."""
    if agent not in ROWS or SESSION_ID.fullmatch(session) is None:
        return None
    found = list(home.glob(ROWS[agent].transcript_path.format(session=session, start=session[:8])))
    return found[0] if len(found) == 1 else None


def read_lines_after(path: Path, mark: ReadPosition) -> tuple[ReadPosition, Iterator[TranscriptLine]]:
    """Return the start position and the lines after `mark`; a replaced file is read anew, an open last line waits."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):  # an agent names the path: it may hold a NUL
        return mark, iter(())
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        return mark, iter(())
    start = mark.offset if mark.inode == status.st_ino and mark.offset <= status.st_size else 0
    # A transcript with this suffix is a single document, rewritten each time.
    is_document = path.suffix == ".json"
    lines = read_document(descriptor, status.st_size, start) if is_document else read_lines(descriptor, start)
    return ReadPosition(status.st_ino, start), lines


def read_lines(descriptor: int, start: int) -> Iterator[TranscriptLine]:
    """Yield the complete lines from `start`, bounded; the next read continues."""
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
    with os.fdopen(descriptor, "rb") as file:
        if size not in (0, start):
            yield TranscriptLine(file.read(MAX_LINE_BYTES) if size <= MAX_LINE_BYTES else b"", size)


def is_codex_unsandboxed(transcript: str | None) -> bool:
    """Return whether the newest turn runs without Codex's own sandbox; False if unknown.

    Inside such a sandbox, neither a second sandbox nor a socket works. Source: Codex CLI 0.169.0, which writes a line
    of type `turn_context` at the start of each turn, read 2026-11. `permission_mode` in its hooks concerns questions,
    and is the same with and without a sandbox.
    """
    if transcript is None or "\0" in transcript:
        return False
    for line in reversed(read_tail(Path(transcript), CODEX_TAIL_BYTES).split(b"\n")):
        if b'"turn_context"' not in line:
            continue
        try:
            found: object = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        match found:
            case {"type": "turn_context", "payload": {"sandbox_policy": {"type": "danger-full-access"}}}:
                return True
            case {"type": "turn_context", "payload": {}}:
                return False
            case _:
                continue
    return False
