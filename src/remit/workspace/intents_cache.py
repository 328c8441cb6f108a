"""The intents in force: from the cache where the file stands as it was read, else read anew.

Every call of an agent asks, and the file seldom changes: what reads it is imported where it did.
"""

from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from remit.core.collector import uncollected
from remit.core.contents import Sha256, sha256
from remit.core.intent import FILE_LIMIT, IntentsDocument, LintFinding
from remit.workspace.whole_files import read_regular, write_atomically

FORMAT = 3
"""Of the cache. Raise it whenever the same bytes would now be read differently."""


def read_intents(path: Path, cache: Path | None = None) -> IntentsDocument | None:
    """The file at `path`, read; None where there is none.

    What is no regular file, cannot be read or is too large becomes a document with one error. `cache` is a
    file in Remit's own state folder: it is believed for exactly these bytes and this FORMAT, and passed
    over when it cannot be used.
    """
    try:
        content = read_regular(path, FILE_LIMIT)
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"{str(path)!r} cannot be read: {error.strerror or error}"
        return IntentsDocument(findings=(LintFinding("YAML_PARSE_ERROR", "error", message),))
    if cache is None:
        return _parsed(content)
    with uncollected():
        known = _cached(cache, sha256(content))
        if known is not None:
            return known
        document = _parsed(content)
        _remember(cache, document)
        return document


def _parsed(content: bytes) -> IntentsDocument:
    from remit.workspace.intents_file import parse_intents  # milliseconds, and few calls find a changed file

    return parse_intents(content)


class _Compiled(Struct, frozen=True, array_like=True):
    format: int
    sha256: Sha256
    document: IntentsDocument


def _cached(cache: Path, digest: Sha256) -> IntentsDocument | None:
    try:
        compiled = msgspec.msgpack.decode(read_regular(cache, FILE_LIMIT * 8), type=_Compiled)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    fits = compiled.format == FORMAT and digest == compiled.sha256 == compiled.document.sha256
    return compiled.document if fits else None


def _remember(cache: Path, document: IntentsDocument) -> None:
    with suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        compiled = _Compiled(FORMAT, document.sha256, document)
        write_atomically(cache, msgspec.msgpack.encode(compiled), 0o600)
