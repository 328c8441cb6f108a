"""Generated files: what git ignores, and what a person's own patterns name. Commands keep them under any intent.

Such a change is judged by all rules but the scope, and it is counted, not recorded by its path. It is generated where
it lies in a folder that git ignores, or makes a new file whose name git ignores. An ignored file that stands alone and
was there before is a person's (`.env`, local settings), unless commands themselves left it as it is.
"""

import os
from collections.abc import Callable, Collection, Iterable, Sequence

from msgspec import UNSET, Struct, json

from remit.core.call import ToolCall
from remit.core.diff.contents import hash_git_blob, sha256
from remit.core.display_text import quote_path
from remit.core.record import Body, Record
from remit.core.scope.file_roles import is_autoloaded_name, is_bytecode
from remit.core.scope.globs import Scope
from remit.core.secrets.secret_files import is_secret_file
from remit.gate.context import WorkspaceContext
from remit.gate.records import record_parts
from remit.gate.state.workspace_state import State
from remit.workspace.files.read_files import hash_file
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.committed_ignores import IgnoredPaths, find_ignored
from remit.workspace.git.refs import head_commit
from remit.workspace.place.workspace import Workspace

LEFT_FACT = "generated_alone"
"""The fact that holds, by path, the SHA-256 of ignored files that stand alone and that commands left so."""

MAX_LEFT_FILES = 2000
MAX_FOLDERS = 50
"""Folders that one record counts by name."""

MAX_LISTING_BYTES = 4 << 20


class GeneratedFiles:
    """Finds generated files among those that the commands of one workspace change.

    `commit` is HEAD before the command: its `.gitignore` files count. `private` says whether the repository's
    `info/exclude` counts as well, which a command that is not contained may have written.
    """

    def __init__(self, workspace: Workspace, state: State, commit: str | None, *, private: bool = True) -> None:
        self.workspace = workspace
        self.state = state
        self.commit = commit
        self.private = private

    @classmethod
    def at_head(cls, workspace: Workspace, state: State) -> "GeneratedFiles":
        """By the rules of HEAD as it is."""
        return cls(workspace, state, head_commit(workspace))

    def find_generated(
        self, paths: Collection[str], folders: Collection[str] = (), existing: Callable[[str], bool] | None = None
    ) -> dict[str, str]:
        """Those of `paths` and `folders` that are generated, each with the ignored folder, or file, that it belongs to.

        `existing` says of a path whether a file was there before; by default whether it is there now. Where git cannot
        be asked, none is generated.
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
        """Whether something lies there now."""
        return os.path.lexists(self.workspace.root / path)

    def find_left_by_commands(self, paths: Iterable[str]) -> set[str]:
        """Those of these files that are as a command left them. Raises StateError."""
        known = json.decode(self.state.read_fact(LEFT_FACT) or "{}", type=dict[str, str])
        asked = [path for path in paths if quote_path(path) in known]
        return {p for p in asked if (now := hash_file(self.workspace.root / p)) and now[0] == known[quote_path(p)]}


def find_tracked_matches(workspace: Workspace, patterns: tuple[str, ...]) -> list[str]:
    """The tracked files that patterns of generated files match, and do not cover all the same. Raises GitError."""
    if not patterns or workspace.common_dir is None:
        return []
    scope = Scope(patterns)
    listed = os.fsdecode(Git(workspace.root).run("ls-files", "-z")).split("\0")
    return [path for path in listed if path and scope.matches(path)]


def is_exempt_from_scope(top: str) -> bool:
    """Whether a generated file of that folder, or of that name, may stay out of the scope.

    Compiled Python may not: it would run in place of a source that the intent does not own.
    """
    return not is_bytecode(top)


def has_loaded_name(path: str) -> bool:
    """Whether a part of the path is a name that programs load unasked."""
    return any(is_autoloaded_name(part) for part in path.split("/"))


def record_left_files(state: State, changed: Iterable["GeneratedChange"]) -> None:
    """Remember how commands left ignored files that stand alone. Raises StateError."""
    files = {quote_path(one.path): one.sha256 for one in changed if one.path == one.top}
    if not files:
        return
    with state.group_changes():
        known = json.decode(state.read_fact(LEFT_FACT) or "{}", type=dict[str, str])
        kept = {path: left for path, left in known.items() if path not in files}
        kept |= {path: left for path, left in files.items() if left is not None}
        state.put_fact(LEFT_FACT, json.encode(dict(list(kept.items())[-MAX_LEFT_FILES:])).decode())


class GeneratedChange(Struct, frozen=True):
    """One changed file. `sha256` is None for one that was deleted, `top` the ignored folder, or file, it belongs to."""

    path: str
    top: str
    sha256: str | None
    bytes: int


def generated_record(
    context: WorkspaceContext, call: ToolCall, intent_id: str | None, changed: Sequence[GeneratedChange]
) -> Record:
    """The record that counts them. Its digest, and the listing that is kept as a content, tell which they were."""
    listing = "".join(
        f"{one.sha256 or 'deleted'} {quote_path(one.path)}\n" for one in sorted(changed, key=lambda one: one.path)
    ).encode()
    folders: dict[str, int] = {}
    for one in changed:
        folders[one.top] = folders.get(one.top, 0) + 1
    largest = sorted(folders.items(), key=lambda item: (-item[1], item[0]))[:MAX_FOLDERS]
    counted: dict[str, object] = {
        "files": len(changed),
        "deleted": sum(one.sha256 is None for one in changed),
        "bytes": sum(one.bytes for one in changed),
        "digest": f"sha256:{sha256(listing)}",
        "folders": {quote_path(folder): count for folder, count in largest},
    }
    if len(folders) > len(largest):
        counted["folders_count"] = len(folders)
    if len(listing) <= MAX_LISTING_BYTES:
        context.keep_contents([("generated", listing)])
        counted["listing"] = hash_git_blob(listing)
    body = Body(
        event="generated",
        intent_id=intent_id,
        session_id=call.session.session_id,
        agent_id=call.session.agent_id or UNSET,
        call=record_parts.call_part(call),
        detail={"generated": counted},
    )
    return context.recorder.make_record(body, call.agent)
