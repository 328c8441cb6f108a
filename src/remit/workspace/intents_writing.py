"""Putting a changed intents file in its place: only over the text that was edited, and one writer at a time.

What can keep it from being changed is named here, for those who ask for a change and need nothing else of it.
"""

import fcntl
import os
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from remit.core.contents import Sha256, sha256
from remit.core.intent import FILE_LIMIT
from remit.workspace.beneath import write_below
from remit.workspace.whole_files import read_regular

LOCK_TIMEOUT_S = 10.0


class EditRefused(ValueError):
    """The change cannot be made without harm; the file is as it was."""


class IntentsFileChanged(RuntimeError):
    """The file on disk is not the version that was edited. None stands for no file."""

    def __init__(self, path: Path, expected: Sha256 | None, found: Sha256 | None) -> None:
        self.path = path
        self.expected = expected
        self.found = found
        was, now = (digest[:12] if digest else "absent" for digest in (expected, found))
        super().__init__(f"{str(path)!r} changed meanwhile: edited was {was}, found {now}; read it again")


class IntentsFileLocked(TimeoutError):
    """Somebody else held the lock for the whole time."""


def write_intents(path: Path, text: str, *, expected_sha256: Sha256 | None, lock: Path) -> Sha256:
    """Put `text` at `path`, whole or not at all; the SHA-256 of what stands there then.

    `expected_sha256` names the content that was edited, None that there was no file. `lock` is a file in
    Remit's state folder. Raises IntentsFileChanged, IntentsFileLocked, OSError.
    """
    content = text.encode("utf-8")
    with _locked(lock):
        found, mode = _on_disk(path)
        if found != expected_sha256:
            raise IntentsFileChanged(path, expected_sha256, found)
        write_below(path.parent.parent, path, content, mode)
    return sha256(content)


def _on_disk(path: Path) -> tuple[Sha256 | None, int]:
    """The SHA-256 of what is there, None of nothing, and the mode that a new content should have."""
    try:
        content = read_regular(path, FILE_LIMIT)
        return sha256(content), path.stat().st_mode & 0o777
    except FileNotFoundError:
        return None, 0o666


@contextmanager
def _locked(lock: Path) -> Generator[None]:
    """Hold `lock`, waiting LOCK_TIMEOUT_S at most. Raises IntentsFileLocked."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while not _taken(handle):
            if time.monotonic() > deadline:
                raise IntentsFileLocked(f"{str(lock)!r} was held by somebody else for {LOCK_TIMEOUT_S:g} s")
            time.sleep(0.01)
        yield
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
