"""Runtime data: files changed by a project's running programs, for example a local database or uploads.

Names and patterns only. A path is data if a person's pattern covers the path and the file is no code: no source, no
file loaded by name, no secret unless the pattern spells out the secret.
"""

import re

from msgspec import Struct

from remit.core.agents import ROWS
from remit.core.redaction import is_secret_file
from remit.core.scope.file_roles import has_known_language, is_autoloaded_name, is_bytecode
from remit.core.scope.path_patterns import Scope

SIBLINGS = ("-wal", "-shm", "-journal")
"""Endings of the files that SQLite keeps beside a database: a pattern for the database covers them."""

SQLITE_MAGIC = b"SQLite format 3\0"
WAL_VERSION = 2
"""At offset 18 of an SQLite file whose log is a file `-wal`. Source: sqlite.org/fileformat2.html, read 2026-11."""

DATABASE_NAME = re.compile(r".+\.(?:sqlite|sqlite3|db|db3|s3db|duckdb|mdb)|data\.mdb|lock\.mdb", re.IGNORECASE)
"""Names of databases that programs write in place."""

WILDCARD = re.compile(r"[*?\[{]")
CODE_FOLDERS = (
    *("", "src/", "lib/", "libs/", "app/", "apps/", "pkg/", "packages/", "cmd/", "internal/", "test/", "tests/"),
    *("spec/", "docs/", "bin/", "scripts/", "tools/", "config/", "migrations/", "db/migrate/", "src/lib/", "vendor/"),
)
CODE_NAMES = ("zz.py", "zz.js", "zz.rb", "Makefile", ".envrc")
GOVERNING_PATHS = (
    *(".git/config", ".git/hooks/zz", ".orchestration/remit.toml", ".orchestration/zz", ".intentignore", ".vscode/zz"),
    *(path for row in ROWS.values() for path in row.settings_files),
)
SECRET_PROBES = (".env", ".env.local", "id_rsa", "secrets.yml", "credentials.json", "zz.pem", "zz.key")


class DataVersion(Struct, frozen=True, omit_defaults=True):
    """A version of a data file: its size with its log, the hash of a kept copy, and the result of `stat`."""

    bytes: int
    sha256: str | None = None
    stamp: str = ""


def explain_refused_pattern(pattern: str) -> str:
    """Return why a pattern may not name runtime data; "" if it may."""
    if pattern.startswith("!"):
        return ""
    scope = Scope((pattern,))
    reached = next((path for path in GOVERNING_PATHS if scope.matches(path)), "")
    if reached:
        return f"it reaches {reached}, which governs"
    reached = next(
        (f"{folder}{name}" for folder in CODE_FOLDERS for name in CODE_NAMES if scope.matches(folder + name)), ""
    )
    if reached:
        return f"it reaches code, such as {reached}: name the folder or the ending of the data"
    name, folder = pattern.rstrip("/").rpartition("/")[2], literal_folder(pattern)
    if any(part == ".orchestration" or is_autoloaded_name(part) for part in pattern.split("/")):
        return "it names what governs, or what programs load by its name"
    if has_known_language(name) or is_bytecode(pattern):
        return "it names code"
    matches_anything = scope.matches(f"{folder}zz.bin")
    if not matches_anything and any(scope.matches(folder + name) for name in CODE_NAMES):
        return "it names code, or what programs load by its name"
    if WILDCARD.search(pattern) and not matches_anything and any(scope.matches(folder + n) for n in SECRET_PROBES):
        return "it names secrets: those are data only where the pattern writes their name out"
    return ""


def literal_folder(pattern: str) -> str:
    """Return the folders of a pattern before its first wildcard, with a slash at the end; "" for the root."""
    found = WILDCARD.search(pattern)
    start = pattern[: found.start()] if found else pattern
    return start[: start.rfind("/") + 1]


def find_database_of(path: str) -> str:
    """Return the path of the database that a file stands beside; "" for any other file."""
    return next((path.removesuffix(ending) for ending in SIBLINGS if path.endswith(ending)), "")


class DataPatterns:
    """The patterns trusted by a person, as a single question: is a path runtime data by name?"""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self.patterns = patterns
        self.scope = Scope(patterns)

    def covers(self, path: str) -> bool:
        base = find_database_of(path)
        covered = path if self.scope.matches(path) else base if base and self.scope.matches(base) else ""
        return bool(covered) and self.may_be_data(covered) and self.may_be_data(path)

    def may_be_data(self, path: str) -> bool:
        parts = path.split("/")
        if parts[0] == ".orchestration" or any(map(is_autoloaded_name, parts)):
            return False
        if has_known_language(path) or is_bytecode(path):
            return False
        return not is_secret_file(path) or path in self.patterns


def format_bytes(count: int) -> str:
    for unit, size in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
