"""Intents file on disk: reads through a cache, writes only over the version that was edited.

Each tool call reads the intents and the file changes rarely, so the YAML parser is imported only for a changed file.
"""

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.diff.contents import Sha256, sha256
from remit.core.gc_pause import pause_gc
from remit.core.intent import MAX_FILE_BYTES, IntentsDocument, LintFinding
from remit.workspace.files.atomic import write_atomically, write_below
from remit.workspace.files.locks import hold_lock
from remit.workspace.files.read_files import read_regular_file

CACHE_FORMAT = 3
"""Format of the cache. To be raised whenever equal bytes would be read differently."""


def read_intents(path: Path, cache: Path | None = None) -> IntentsDocument | None:
    """Return the parsed file at `path`; None without a file.

    A file that is irregular, unreadable or too large gives a document with a single error. `cache` is a file in Remit's
    state folder: valid for exactly these bytes and this CACHE_FORMAT, and ignored if unusable.
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
    """The change cannot be made safely; the file is unchanged."""


class IntentsFileChanged(RuntimeError):
    """The file on disk is not the version that was edited. None stands for no file."""

    def __init__(self, path: Path, expected: Sha256 | None, found: Sha256 | None) -> None:
        self.path = path
        self.expected = expected
        self.found = found
        was, now = (digest[:12] if digest else "absent" for digest in (expected, found))
        super().__init__(f"{str(path)!r} changed meanwhile: edited was {was}, found {now}; read it again")


def write_intents(path: Path, text: str, *, expected_sha256: Sha256 | None, lock: Path) -> Sha256:
    """Write `text` to `path` atomically; return the SHA-256 of the new content.

    `expected_sha256` names the edited content, None for no file. `lock` is a file in Remit's state folder. Raises
    IntentsFileChanged, FileLocked, OSError.
    """
    content = text.encode("utf-8")
    with hold_lock(lock):
        found, mode = _read_current(path)
        if found != expected_sha256:
            raise IntentsFileChanged(path, expected_sha256, found)
        write_below(path.parent.parent, path, content, mode)
    return sha256(content)


def _read_current(path: Path) -> tuple[Sha256 | None, int]:
    """Return the SHA-256 of the current content (None without a file), and the mode for the new content."""
    try:
        content = read_regular_file(path, MAX_FILE_BYTES)
        return sha256(content), path.stat().st_mode & 0o777
    except FileNotFoundError:
        return None, 0o666
