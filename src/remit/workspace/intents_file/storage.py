"""The intents in force: from the cache where the file stands as it was read, else read anew.

Every call of an agent asks, and the file seldom changes: what reads it is imported where it did.

Putting a changed intents file in its place: only over the text that was edited, and one writer at a time.

What can keep it from being changed is named here, for those who ask for a change and need nothing else of it.
"""

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.diff.contents import Sha256, sha256
from remit.core.gc_pause import pause_gc
from remit.core.intent import MAX_FILE_BYTES, IntentsDocument, LintFinding
from remit.workspace.files.atomic import read_regular_file, write_atomically
from remit.workspace.files.locks import lock_file
from remit.workspace.files.safe_paths import write_below

CACHE_FORMAT = 3
"""Of the cache. Raise it whenever the same bytes would now be read differently."""


def read_intents(path: Path, cache: Path | None = None) -> IntentsDocument | None:
    """The file at `path`, read; None where there is none.

    What is no regular file, cannot be read or is too large becomes a document with one error. `cache` is a
    file in Remit's own state folder: it is believed for exactly these bytes and this FORMAT, and passed
    over when it cannot be used.
    """
    try:
        content = read_regular_file(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"{str(path)!r} cannot be read: {error.strerror or error}"
        return IntentsDocument(findings=(LintFinding("YAML_PARSE_ERROR", "error", message),))
    if cache is None:
        return _parse(content)
    with pause_gc():
        known = _read_cache(cache, sha256(content))
        if known is not None:
            return known
        document = _parse(content)
        _write_cache(cache, document)
        return document


def _parse(content: bytes) -> IntentsDocument:
    from remit.workspace.intents_file.parse import parse_intents  # milliseconds, and few calls find a changed file

    return parse_intents(content)


class _CachedIntents(Struct, frozen=True, array_like=True):
    format: int
    sha256: Sha256
    document: IntentsDocument


def _read_cache(cache: Path, digest: Sha256) -> IntentsDocument | None:
    try:
        compiled = msgspec.msgpack.decode(read_regular_file(cache, MAX_FILE_BYTES * 8), type=_CachedIntents)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    fits = compiled.format == CACHE_FORMAT and digest == compiled.sha256 == compiled.document.sha256
    return compiled.document if fits else None


def _write_cache(cache: Path, document: IntentsDocument) -> None:
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        compiled = _CachedIntents(CACHE_FORMAT, document.sha256, document)
        write_atomically(cache, msgspec.msgpack.encode(compiled), 0o600)


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
    with _hold_lock(lock):
        found, mode = _read_current(path)
        if found != expected_sha256:
            raise IntentsFileChanged(path, expected_sha256, found)
        write_below(path.parent.parent, path, content, mode)
    return sha256(content)


def _read_current(path: Path) -> tuple[Sha256 | None, int]:
    """The SHA-256 of what is there, None of nothing, and the mode that a new content should have."""
    try:
        content = read_regular_file(path, MAX_FILE_BYTES)
        return sha256(content), path.stat().st_mode & 0o777
    except FileNotFoundError:
        return None, 0o666


@contextmanager
def _hold_lock(lock: Path) -> Generator[None]:
    """Hold `lock` while the block runs. Raises FileLocked, OSError."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        lock_file(handle, lock)
        yield
    finally:
        os.close(handle)
