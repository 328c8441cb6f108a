"""Intents and `.intentignore` on disk: a list of intents, and files of one each.

Each tool call reads the intents and files change rarely, so they are read through a cache, and the YAML parser is
imported only for a changed file. A write replaces only the version that was edited. `.intentignore` bars intents, and
paths that no intent may change; its path patterns are `.gitignore` patterns, so git evaluates them.
"""

import os
import re
import shlex
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from remit.core.bounds import INTENT_FILES, INTENTS_BYTES
from remit.core.diff.contents import Sha256, sha256
from remit.core.intent import (
    FINAL_STATUSES,
    INTENT_ID,
    INTENTS_FOLDER,
    MAX_FILE_BYTES,
    IntentsDocument,
    LintFinding,
    is_intent_id,
    split_id,
    tell_apart,
)
from remit.core.intents.validation import PlacedIntent, validate_intents
from remit.core.python_runtime import pause_gc, prepare_type
from remit.core.untrusted_input import sanitise_line
from remit.workspace.git.ignored_files import PRIVATE_EXCLUDES, create_probe, list_matches
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import hold_lock, read_regular_file, write_atomically, write_below

MAX_IGNORE_BYTES = 256 * 1024
CACHE_FORMAT = 4  # format of the cache. To be raised whenever equal bytes would be read differently.


VIEW_MARK = b"# remit:view sha256:"
"""Begin of a list that Remit wrote beside the files, for people and older versions: nothing reads intents there."""


def read_intents(path: Path, cache: Path | None = None, known: frozenset[str] = frozenset()) -> IntentsDocument | None:
    """Return the parsed file at `path`; None without a file, and for a view. A file that is irregular, unreadable or
    too large gives a document with a single error. `cache` is a file in Remit's state folder: valid for exactly these
    bytes, this CACHE_FORMAT and these `known` ids of intents elsewhere, and ignored if unusable.
    """
    try:
        content = read_regular_file(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        message = f"{str(path)!r} cannot be read: {error.strerror or error}"
        return IntentsDocument(findings=(LintFinding("YAML_PARSE_ERROR", "error", message),))
    if content.startswith(VIEW_MARK):
        return None
    digest = sha256(content)
    with pause_gc():
        if cache is not None and (found := _read_cache(cache, digest, known)) is not None:
            return found
        from remit.workspace.intents_file.parse import parse_intents  # milliseconds, and few calls find a changed file

        document = parse_intents(content, known)
        _write_cache(cache, _CachedIntents(CACHE_FORMAT, digest, document, known))
        return document


class _CachedIntents(Struct, frozen=True, array_like=True):
    format: int
    sha256: Sha256
    document: IntentsDocument
    known: frozenset[str] = frozenset()


def _read_cache(cache: Path, digest: Sha256, known: frozenset[str]) -> IntentsDocument | None:
    try:
        compiled = msgspec.msgpack.decode(
            read_regular_file(cache, MAX_FILE_BYTES * 8), type=prepare_type(_CachedIntents)
        )
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    fits = compiled.format == CACHE_FORMAT and digest == compiled.sha256 == compiled.document.sha256
    return compiled.document if fits and compiled.known == known else None


def _write_cache(cache: Path | None, compiled: Struct) -> None:
    if cache is not None:
        with suppress(OSError):
            cache.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(cache, msgspec.msgpack.encode(compiled), 0o600)


# -- files of one intent each --------------------------------------------------------------------------------

CLOSED_FOLDER = f"{INTENTS_FOLDER}/closed"
FILE_SUFFIX = ".yaml"
UNSETTLED_NS = 50_000_000  # age up to which a changed file may change again without a new time
KEPT_SPOTS = ("", "id", "parent_intent", "owned_scope", "dependencies")


class IntentFile(Struct, frozen=True, array_like=True):
    """A file of one intent, as read: its path below `.orchestration/`, and what `stat` said before."""

    name: str
    state: tuple[int, ...]
    sha256: Sha256
    placed: PlacedIntent | None
    findings: tuple[LintFinding, ...] = ()

    @property
    def intent_id(self) -> str | None:
        """Return the id, of an unreadable file the one in its name."""
        if self.placed is not None and is_intent_id(self.placed.intent.id):
            return self.placed.intent.id
        named = INTENT_ID.match(self.name.rpartition("/")[2])
        return named[0] if named else None

    @property
    def is_open(self) -> bool:
        return self.placed is None or self.placed.intent.status not in FINAL_STATUSES


class _CachedFiles(Struct, frozen=True, array_like=True):
    format: int
    files: tuple[IntentFile, ...]


FILES_CACHE: dict[Path, dict[str, IntentFile]] = {}
"""Files by folder, for a process that stays."""


def read_file_state(path: Path | str) -> tuple[int, ...]:
    """Return device, inode, size and times of a file: any change of the file shows in them."""
    try:
        status = os.stat(path)  # noqa: PTH116  a Path would be made anew for each of ten files, for every call
    except OSError:
        return (0,)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)


def list_intent_files(folder: Path) -> list[str]:
    """Return the names of the files of one intent, below `.orchestration/` at `folder`. Raises OSError."""
    names: list[str] = []
    for below in (INTENTS_FOLDER, CLOSED_FOLDER):
        with suppress(FileNotFoundError), os.scandir(f"{folder}/{below}") as entries:
            names += sorted(f"{below}/{entry.name}" for entry in entries if entry.name.endswith(FILE_SUFFIX))
    return names


def read_intent_files(folder: Path, cache: Path | None = None) -> list[IntentFile]:
    """Return the files of one intent below `.orchestration/` at `folder`; a file is parsed only if it has changed.
    `cache` is a file in Remit's state folder. Raises OSError, also for too many files.
    """
    names = list_intent_files(folder)
    if sum(not name.startswith(f"{CLOSED_FOLDER}/") for name in names) > INTENT_FILES.value:
        why = f"more than {INTENT_FILES.value} {INTENT_FILES.unit}; move ended ones into {CLOSED_FOLDER}/"
        raise OSError(0, why)
    known = FILES_CACHE.get(folder)
    if known is None and cache is not None:
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            content = read_regular_file(cache, INTENTS_BYTES.value * 2)
            kept = msgspec.msgpack.decode(content, type=prepare_type(_CachedFiles))
            known = {file.name: file for file in kept.files} if kept.format == CACHE_FORMAT else None
    known = known or {}
    states = {name: read_file_state(f"{folder}/{name}") for name in names}
    if sum(state[2] for state in states.values() if len(state) > 2) > INTENTS_BYTES.value:
        raise OSError(0, f"more than {INTENTS_BYTES.value} {INTENTS_BYTES.unit}")
    files: list[IntentFile] = []
    has_changed = known.keys() != states.keys()
    for name, state in states.items():
        file = known.get(name)
        if file is None or file.state != state:
            file, has_changed = read_intent_file(folder, name, state, file), True
        files.append(file)
    if has_changed:
        settled = [f for f in files if f.state and time.time_ns() - f.state[-1] > UNSETTLED_NS]
        FILES_CACHE[folder] = {file.name: file for file in settled}
        _write_cache(cache, _CachedFiles(CACHE_FORMAT, tuple(settled)))
    return files


def read_intent_file(folder: Path, name: str, state: tuple[int, ...], known: IntentFile | None = None) -> IntentFile:
    """Read one file; what is `known` of the same bytes, in another worktree, is not parsed again. A file that is
    irregular, unreadable or too large has a single finding.
    """
    try:
        content = read_regular_file(folder / name, MAX_FILE_BYTES)
    except OSError as error:
        placed, findings = None, [LintFinding("YAML_PARSE_ERROR", "error", f"it cannot be read: {error.strerror}")]
        return place_file(IntentFile(name, state, "", placed, tuple(findings)))
    digest = sha256(content)
    if known is not None and known.sha256 == digest:
        return replace(known, state=state)
    from remit.workspace.intents_file.parse import parse_single_intent  # milliseconds, and few calls change a file

    placed, findings = parse_single_intent(content)
    return place_file(IntentFile(name, state, digest, placed, tuple(findings)))


def place_file(file: IntentFile) -> IntentFile:
    """Return the file with the file's name in the findings, and the positions named by rules between intents."""
    findings = tuple(replace(f, file=file.name, intent_id=f.intent_id or file.intent_id) for f in file.findings)
    placed = file.placed
    if placed is not None:
        places = {spot: at for spot, at in placed.places.items() if spot.partition(".")[0] in KEPT_SPOTS}
        placed = replace(placed, places=places, file=file.name)
    return replace(file, findings=findings, placed=placed)


def join_layouts(listed: IntentsDocument | None, files: Sequence[IntentFile]) -> IntentsDocument:
    """Return the intents of the list and of the files. Of an id in both, the file counts. Two files of one id are
    told apart by uid, and selected by nobody; any other error closes only its own intent.
    """
    findings = [finding for file in files for finding in file.findings]
    by_id: dict[str, list[IntentFile]] = {}
    for file in files:
        if file.intent_id is not None:
            by_id.setdefault(file.intent_id, []).append(file)
    doubled = {name: found for name, found in by_id.items() if len(found) > 1}
    for name, found in doubled.items():
        where = " and ".join(file.name.rpartition("/")[2] for file in found)
        message = f"{name} stands in {where}. Run: remit intent renumber {name}"
        findings += [LintFinding("DUPLICATE_ID", "error", message, name, "id", file=file.name) for file in found]
    document = listed or IntentsDocument()
    for intent in document.intents:
        if intent.id in by_id:
            message = f"{intent.id} stands in {by_id[intent.id][0].name}, too, which counts; take it out here"
            findings.append(LintFinding("IN_BOTH_LAYOUTS", "warning", message, intent.id))
    kept = tuple(intent for intent in document.intents if intent.id not in by_id)
    apart = [
        (intent, file)
        for found in doubled.values()
        if all(file.placed and file.placed.sound for file in found)
        for intent, file in zip(tell_apart([file.placed.intent for file in found if file.placed]), found, strict=False)
    ]
    single = (found[0].placed for name, found in by_id.items() if name not in doubled)
    own = [placed for placed in single if placed is not None and is_intent_id(placed.intent.id)]
    findings += [finding for file in files if (finding := check_file_name(file)) is not None]
    findings += validate_intents(own, {intent.id for intent in kept} | by_id.keys())
    return IntentsDocument(
        (*kept, *(placed.intent for placed in own if placed.sound), *(intent for intent, _ in apart)),
        (*document.findings, *sorted(findings, key=lambda f: (f.file, f.line, f.column))),
        sha256(
            "\n".join([document.sha256, *(f"{f.name} {f.sha256}" for f in files)]).encode("utf-8", "surrogateescape")
        ),
        {name: found[0].name for name, found in by_id.items()} | {i.id: file.name for i, file in apart},
        {i.id: document.sha256 for i in kept}
        | {name: found[0].sha256 for name, found in by_id.items()}
        | {i.id: file.sha256 for i, file in apart},
    )


def check_file_name(file: IntentFile) -> LintFinding | None:
    named = INTENT_ID.match(file.name.rpartition("/")[2])
    if file.placed is None or named is None or not is_intent_id(file.placed.intent.id):
        return None
    intent, (folder, _, name) = file.placed.intent, file.name.rpartition("/")
    if named[0] in (intent.id, *intent.formerly):
        return None
    here, there = (shlex.quote(f".orchestration/{folder}/{each}") for each in (name, intent.id + name[named.end() :]))
    message = f"the id inside is {intent.id}, and counts. Run: git mv {sanitise_line(f'{here} {there}')}"
    return LintFinding("NAME_MISMATCH", "warning", message, intent.id, "id", file=file.name)


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
    """Return the id in `intent: INT-003`, or in a line with only an id; it may be told apart by a uid."""
    found = re.fullmatch(r"\s*(?:intent:\s*)?([A-Z]{2,8}-\d{3,}(?:~[0-9a-f]{8})?)\s*(?:#.*)?", line, re.ASCII)
    return found[1] if found and is_intent_id(split_id(found[1])[0]) else None


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
