"""`.intentignore`: barred intents, and paths that no intent may change.

Path patterns are `.gitignore` patterns, so git evaluates them, in a private empty repository.
"""

import hashlib
import os
import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from remit.core.intent import is_intent_id
from remit.workspace.files.atomic import write_atomically
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import Workspace

MAX_IGNORE_BYTES = 256 * 1024


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
    probe = create_pattern_repository(workspace, ignore.patterns)
    out = Git(probe).run(
        "--git-dir=.",
        "--work-tree=empty",
        "-c",
        "core.excludesFile=/dev/null",
        "check-ignore",
        "--no-index",
        "--verbose",
        "-z",
        "--stdin",
        stdin=os.fsencode("".join(f"{p}\0" for p in query)),
        ok=(0, 1),
    )
    fields = out.decode("utf-8", "surrogateescape").split("\0")
    rows = zip(fields[2::4], fields[3::4], strict=False)
    return {path: pattern for pattern, path in rows if not pattern.startswith("!")}


def create_pattern_repository(workspace: Workspace, patterns: tuple[str, ...]) -> Path:
    """Return an empty repository with the patterns as its only exclude file; created once per content."""
    text = "".join(f"{line}\n" for line in patterns).encode("utf-8", "surrogateescape")
    probe = workspace.state / "ignore" / hashlib.sha256(text).hexdigest()[:16]
    if not (probe / "info" / "exclude").is_file():
        probe.mkdir(parents=True, exist_ok=True)
        Git(probe).run("init", "--quiet", "--bare", "--template=", ".")
        (probe / "empty").mkdir(exist_ok=True)
        (probe / "info").mkdir(exist_ok=True)
        write_atomically(probe / "info" / "exclude", text, durable=False)
    return probe
