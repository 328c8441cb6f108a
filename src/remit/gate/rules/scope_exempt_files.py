"""Generated files: files ignored by git, or that a person's patterns name. A command may write them under any intent.

A change of a generated file is judged by every rule except the scope, and counted instead of recorded by its path. A
file is generated if it lies in an ignored folder, or is new and has an ignored name. An ignored file outside of ignored
folders that existed before is a person's (`.env`, local settings), unless commands left it as it is.
"""

import os
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct, json

from remit.core.display_text import quote_path
from remit.core.scope.file_roles import is_autoloaded_name, is_bytecode
from remit.core.scope.globs import Scope
from remit.core.secrets.secret_files import is_secret_file
from remit.gate.state.workspace_state import State
from remit.workspace.files.read_files import hash_file
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.committed_ignores import IgnoredPaths, find_ignored
from remit.workspace.git.refs import head_commit
from remit.workspace.place.workspace import Workspace

LEFT_FACT = "generated_alone"
"""Fact that holds the SHA-256 of ignored files outside of ignored folders that commands left, by path."""

MAX_LEFT_FILES = 2000
MAX_LISTING_BYTES = 4 << 20
"""Size of the largest listing that is kept as a content."""


class GeneratedFiles:
    """Finder of generated files among the changes of commands.

    `commit` is HEAD before the command, whose `.gitignore` files count; with `private`, `info/exclude` counts as well,
    which an uncontained command may have written.
    """

    def __init__(self, workspace: Workspace, state: State, commit: str | None, *, private: bool = True) -> None:
        self.workspace = workspace
        self.state = state
        self.commit = commit
        self.private = private

    @classmethod
    def at_head(cls, workspace: Workspace, state: State) -> "GeneratedFiles":
        """Return a finder by the ignore rules of the present HEAD."""
        return cls(workspace, state, head_commit(workspace))

    def find_generated(
        self, paths: Collection[str], folders: Collection[str] = (), existing: Callable[[str], bool] | None = None
    ) -> dict[str, str]:
        """Return the generated ones of `paths` and `folders`, with their ignored folder, or itself.

        `existing` tells if a path existed before; by default, if it exists now. No file is generated where git cannot
        be asked.
        """
        try:
            ignored = find_ignored(self.workspace, self.commit, paths, folders, with_private_rules=self.private)
        except (GitError, OSError):
            ignored = IgnoredPaths()
        found = {path: top for path, top in ignored.by_folder.items() if not has_loaded_name(top)}
        alone = [path for path in ignored.by_name if not has_loaded_name(path) and not is_secret_file(path)]
        there = list(filter(existing or self.exists_now, alone))
        own = self.find_left_by_commands(there) if there else set[str]()
        return found | {path: path for path in alone if path in own or path not in there}

    def exists_now(self, path: str) -> bool:
        return os.path.lexists(self.workspace.root / path)

    def find_left_by_commands(self, paths: Iterable[str]) -> set[str]:
        """Return the files that are as a command left them. Raises StateError."""
        known = json.decode(self.state.read_fact(LEFT_FACT) or "{}", type=dict[str, str])
        asked = [path for path in paths if quote_path(path) in known]
        return {p for p in asked if (now := hash_file(self.workspace.root / p)) and now[0] == known[quote_path(p)]}


def find_tracked_matches(workspace: Workspace, patterns: tuple[str, ...]) -> list[str]:
    """Return tracked files with a matching pattern: tracking outweighs the pattern. Raises GitError."""
    if not patterns or workspace.common_dir is None:
        return []
    scope = Scope(patterns)
    listed = os.fsdecode(Git(workspace.root).run("ls-files", "-z")).split("\0")
    return [path for path in listed if path and scope.matches(path)]


def is_exempt_from_scope(top: str) -> bool:
    """Return True if a generated file of an ignored folder may be written outside the scope.

    Compiled Python may not: it would run in place of a source that the intent does not own.
    """
    return not is_bytecode(top)


def has_loaded_name(path: str) -> bool:
    return any(is_autoloaded_name(part) for part in path.split("/"))


def record_left_files(state: State, changed: Iterable["GeneratedChange"]) -> None:
    """Store the hashes of ignored files outside of ignored folders that commands left. Raises StateError."""
    files = {quote_path(one.path): one.sha256 for one in changed if one.path == one.top}
    if not files:
        return
    with state.group_changes():
        known = json.decode(state.read_fact(LEFT_FACT) or "{}", type=dict[str, str])
        kept = {path: left for path, left in known.items() if path not in files}
        kept |= {path: left for path, left in files.items() if left is not None}
        state.put_fact(LEFT_FACT, json.encode(dict(list(kept.items())[-MAX_LEFT_FILES:])).decode())


class GeneratedChange(Struct, frozen=True):
    """A changed generated file; `sha256` is None if it was deleted, `top` the ignored folder, or the file itself."""

    path: str
    top: str
    sha256: str | None
    bytes: int


def format_listing(changed: Iterable[GeneratedChange]) -> bytes:
    lines = (f"{one.sha256 or 'deleted'} {quote_path(one.path)}\n" for one in sorted(changed, key=lambda c: c.path))
    return "".join(lines).encode()
