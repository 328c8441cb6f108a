"""The intents file and `.intentignore` on disk.

Each tool call reads the intents and the file changes rarely, so they are read through a cache, and the YAML parser is
imported only for a changed file. A write replaces only the version that was edited. `.intentignore` bars intents, and
paths that no intent may change; its path patterns are `.gitignore` patterns, so git evaluates them.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.diff.contents import Sha256, sha256
from remit.core.intent import MAX_FILE_BYTES, IntentsDocument, LintFinding, is_intent_id
from remit.core.python_runtime import pause_gc, prepare_type
from remit.workspace.git.ignored_files import PRIVATE_EXCLUDES, create_probe, list_matches
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import hold_lock, read_regular_file, write_atomically, write_below

MAX_IGNORE_BYTES = 256 * 1024
CACHE_FORMAT = 4  # format of the cache. To be raised whenever equal bytes would be read differently.


def read_intents(path: Path, cache: Path | None = None) -> IntentsDocument | None:
    """Return the parsed file at `path`; None without a file. A file that is irregular, unreadable or too large gives a
    document with a single error. `cache` is a file in Remit's state folder: valid for exactly these bytes and this
    CACHE_FORMAT, and ignored if unusable.
    """
    try:
        content = read_regular_file(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"{str(path)!r} cannot be read: {error.strerror or error}"
        return IntentsDocument(findings=(LintFinding("YAML_PARSE_ERROR", "error", message),))
    digest = sha256(content)
    with pause_gc():
        if cache is not None and (known := _read_cache(cache, digest)) is not None:
            return known
        from remit.workspace.intents_file.parse import parse_intents  # milliseconds, and few calls find a changed file

        document = parse_intents(content)
        if cache is not None:
            with suppress(OSError):
                cache.parent.mkdir(parents=True, exist_ok=True)
                compiled = _CachedIntents(CACHE_FORMAT, digest, document)
                write_atomically(cache, msgspec.msgpack.encode(compiled), 0o600)
        return document


class _CachedIntents(Struct, frozen=True, array_like=True):
    format: int
    sha256: Sha256
    document: IntentsDocument


def _read_cache(cache: Path, digest: Sha256) -> IntentsDocument | None:
    try:
        compiled = msgspec.msgpack.decode(
            read_regular_file(cache, MAX_FILE_BYTES * 8), type=prepare_type(_CachedIntents)
        )
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    fits = compiled.format == CACHE_FORMAT and digest == compiled.sha256 == compiled.document.sha256
    return compiled.document if fits else None


# -- writing -------------------------------------------------------------------------------------------------


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
    """Write `text` to `path` atomically; return the SHA-256 of the new content. `expected_sha256` names the edited
    content, None for no file. `lock` is a file in Remit's state folder. Raises IntentsFileChanged, FileLocked, OSError.
    """
    content = text.encode("utf-8")
    with hold_lock(lock):
        try:
            found, mode = sha256(read_regular_file(path, MAX_FILE_BYTES)), path.stat().st_mode & 0o777
        except FileNotFoundError:
            found, mode = None, 0o666
        if found != expected_sha256:
            raise IntentsFileChanged(path, expected_sha256, found)
        write_below(path.parent.parent, path, content, mode)
    return sha256(content)


# -- `.intentignore` -----------------------------------------------------------------------------------------


class IntentIgnore(Struct, frozen=True):
    """The merged content of both files."""

    intents: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()


def read_intent_ignore(workspace: Workspace) -> IntentIgnore:
    """Return both `.intentignore` files, the root's first. Raises OSError for an unreadable file."""
    lines: list[str] = []
    for path in (workspace.root / ".intentignore", workspace.folder / ".intentignore"):
        if path.is_file():
            lines += path.read_bytes()[:MAX_IGNORE_BYTES].decode("utf-8", "surrogateescape").splitlines()
    barred = frozenset(found for line in lines if (found := parse_barred_intent(line)))
    return IntentIgnore(barred, tuple(line for line in lines if is_pattern(line)))


def parse_barred_intent(line: str) -> str | None:
    """Return the id in `intent: INT-003`, or in a line with only an id."""
    found = re.fullmatch(r"\s*(?:intent:\s*)?([A-Z]{2,8}-\d{3,})\s*(?:#.*)?", line, re.ASCII)
    return found[1] if found and is_intent_id(found[1]) else None


def is_pattern(line: str) -> bool:
    return bool(line.strip()) and not line.startswith("#") and parse_barred_intent(line) is None


def find_barred_paths(workspace: Workspace, ignore: IntentIgnore, paths: Iterable[str]) -> dict[str, str]:
    """Return the `paths` barred by a pattern, with the pattern. Raises GitError, OSError."""
    query = [p for p in paths if p != "."]
    if not ignore.patterns or not query:
        return {}
    # A private empty repository with the patterns as its only exclude file, created once per content.
    text = "".join(f"{line}\n" for line in ignore.patterns).encode("utf-8", "surrogateescape")
    probe = workspace.state / "ignore" / sha256(text)[:16]
    if not (probe / "git" / PRIVATE_EXCLUDES).is_file():
        import shutil

        shutil.rmtree(probe, ignore_errors=True)
        create_probe(probe, text, {})
    rows = list_matches(probe, query, "-c", "core.excludesFile=/dev/null")
    return {path: pattern for _, pattern, path in rows if not pattern.startswith("!")}
