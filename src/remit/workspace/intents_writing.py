"""Putting a changed intents file in its place: only over the text that was edited, and one writer at a time.

What can keep it from being changed is named here, for those who ask for a change and need nothing else of it.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from remit.core.contents import Sha256, sha256
from remit.core.intent import FILE_LIMIT
from remit.workspace.beneath import write_below
from remit.workspace.file_locks import lock_file
from remit.workspace.whole_files import read_regular


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


def write_intents(path: Path, text: str, *, expected_sha256: Sha256 | None, lock: Path) -> Sha256:
    """Put `text` at `path`, whole or not at all; the SHA-256 of what stands there then.

    `expected_sha256` names the content that was edited, None that there was no file. `lock` is a file in
    Remit's state folder. Raises IntentsFileChanged, FileLocked, OSError.
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
    """Hold `lock` while the block runs. Raises FileLocked, OSError."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        lock_file(handle, lock)
        yield
    finally:
        os.close(handle)
