"""The folder of a run below the state folder, and its journal: JSON lines with one writer.

A line is one write(2): after a kill the page cache holds every whole line, and after a power cut the torn tail is cut
when the journal is opened, under its lock. `sync` makes the appended lines durable.
"""

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import msgspec
from msgspec.structs import replace

from remit.core.record import make_uuid7
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import FileLocked, create_once, lock_file
from remit_agent.models.messages import ImageRef
from remit_agent.session.journal.lines import AnyLine, decode_line
from remit_agent.tools.tool import ToolFailure

RUNS_FOLDER = "runs"
JOURNAL_NAME = "run.jsonl"
ARTIFACT_ID = re.compile(r"cmd-[A-Za-z0-9_-]{1,96}(?:\.txt)?")
SHA256 = re.compile(r"[0-9a-f]{64}")
SECONDS_PER_DAY = 86400


class JournalError(Exception):
    """A journal that cannot be opened or written: another process holds the run, or the folder is none of a run."""


class RunDirectory:
    """The folder of one run, with images by hash, outputs of commands, and the folders of its children."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def id(self) -> str:
        return self.path.name

    @property
    def journal_path(self) -> Path:
        return self.path / JOURNAL_NAME

    @classmethod
    def create(cls, parent: Path, run_id: str) -> Self:
        path = parent / run_id
        for folder in (path, path / "blobs", path / "out", path / "children"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return cls(path)

    def keep_image(self, content: bytes, media_type: str, name: str) -> ImageRef:
        digest = hashlib.sha256(content).hexdigest()
        create_once(self.path / "blobs" / digest, content, 0o600)
        return ImageRef(digest, media_type, name)

    def read_image(self, sha256: str) -> bytes:
        """Return an image's bytes. Raises OSError, ValueError."""
        if not SHA256.fullmatch(sha256):
            raise ValueError(f"{sha256!r} is no SHA-256")
        return (self.path / "blobs" / sha256).read_bytes()

    def output_path(self, artifact_id: str) -> str:
        if not ARTIFACT_ID.fullmatch(artifact_id):
            raise ToolFailure("NO_SUCH_OUTPUT", f"{artifact_id!r} is no id of an output, such as cmd-…txt")
        return str(self.path / "out" / f"{artifact_id.removesuffix('.txt')}.txt")


class Journal:
    """The open journal of a run, held by a lock on the run's folder. Safe for several threads."""

    def __init__(self, folder: RunDirectory, clock: Callable[[], float] = time.time) -> None:
        """Open the journal, created if missing, and cut a torn tail. Raises JournalError, OSError."""
        self.folder, self.clock = folder, clock
        self.write_lock = threading.Lock()
        self.lock = os.open(folder.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            lock_file(self.lock, folder.path / "lock", timeout_s=0)
        except FileLocked:
            os.close(self.lock)
            raise JournalError(f"run {folder.id} is in use by another process") from None
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self.file = os.open(folder.journal_path, flags, 0o600)
        content = folder.journal_path.read_bytes()
        whole = find_whole_length(content)
        if whole < len(content):
            os.ftruncate(self.file, whole)
        self.lines = tuple(read_lines(content[:whole]))
        self.last_n = max((line.n for line in self.lines), default=0)
        self.length = whole

    def append(self, line: AnyLine) -> AnyLine:
        """Write a line and return the line with its number and time. Raises OSError; a part of a line never stays."""
        with self.write_lock:
            numbered = replace(line, n=self.last_n + 1, at=round(self.clock(), 6))
            data = msgspec.json.encode(numbered) + b"\n"
            written = os.write(self.file, data)
            if written != len(data):
                os.ftruncate(self.file, self.length)
                raise OSError(f"the journal {self.folder.journal_path} took {written} of {len(data)} bytes")
            self.last_n, self.length = numbered.n, self.length + written
        return numbered

    def sync(self) -> None:
        os.fdatasync(self.file)

    def close(self) -> None:
        os.close(self.file)
        os.close(self.lock)


def find_whole_length(content: bytes) -> int:
    end = content.rfind(b"\n") + 1
    while end:
        start = content.rfind(b"\n", 0, end - 1) + 1
        try:
            msgspec.json.decode(content[start:end])
            return end
        except (msgspec.DecodeError, UnicodeDecodeError):
            end = start
    return 0


def read_lines(content: bytes) -> Iterator[AnyLine]:
    """Yield the lines whose kind is known; damaged lines in the middle are skipped."""
    for raw in content.split(b"\n"):
        line = decode_line(raw) if raw else None
        if line is not None:
            yield line


def read_journal(folder: RunDirectory) -> tuple[AnyLine, ...]:
    """Return the lines of a run, possibly under write by a second process. Raises OSError."""
    content = folder.journal_path.read_bytes()
    return tuple(read_lines(content[: find_whole_length(content)]))


def runs_folder(workspace: Workspace) -> Path:
    return workspace.state / RUNS_FOLDER


def make_run_id(now: float) -> str:
    return make_uuid7(int(now * 1000), os.urandom(10))


def list_runs(workspace: Workspace) -> list[RunDirectory]:
    """Return the runs of a workspace, newest first."""
    folder = runs_folder(workspace)
    names = os.listdir(folder) if folder.is_dir() else []  # noqa: PTH208  a thousand runs in a tenth of a second
    return [RunDirectory(folder / name) for name in sorted(names, reverse=True)]


def read_first_and_last_line(folder: RunDirectory) -> tuple[AnyLine | None, AnyLine | None]:
    """Return a run's first line and last whole line, without reading the lines between. Raises OSError."""
    with folder.journal_path.open("rb") as file:
        first = decode_line(file.readline().rstrip(b"\n"))
        size = file.seek(0, os.SEEK_END)
        span = 4096
        while True:
            start = file.seek(max(0, size - span))
            lines = file.read().split(b"\n")[:-1]
            known = [line for raw in (lines if start == 0 else lines[1:]) if (line := decode_line(raw)) is not None]
            if known or start == 0:
                return first, known[-1] if known else None
            span *= 8


def remove_old_runs(workspace: Workspace, retain_days: float, now: float) -> list[str]:
    """Remove runs without a new line for `retain_days`, unless a process holds them; return their ids. 0 removes all
    that are not held. Raises OSError.
    """
    removed: list[str] = []
    for folder in list_runs(workspace):
        try:
            place = folder.journal_path if folder.journal_path.exists() else folder.path
            if place.stat().st_mtime > now - retain_days * SECONDS_PER_DAY:
                continue
            journal = Journal(folder)
        except (JournalError, NotADirectoryError):
            continue
        try:
            remove_folder(folder.path)
            removed.append(folder.id)
        finally:
            journal.close()
    return removed


def remove_folder(path: Path) -> None:
    """Remove a folder with its content; links are removed, never followed. Raises OSError."""
    for here, folders, names in os.walk(path, topdown=False):
        for name in names:
            Path(here, name).unlink()
        for found in (Path(here, name) for name in folders):
            found.unlink() if found.is_symlink() else found.rmdir()
    path.rmdir()
