"""Files that may be written outside of an intent's scope: generated files, and companions. A generated file is ignored
by git, or named by a person's patterns. A change of it by a command is judged by every rule except the scope, and
counted instead of recorded by its path. It lies in an ignored folder, or is new and has an ignored name. An ignored
file outside of ignored folders that existed before is a person's (`.env`, local settings), unless commands left it as
it is. Companions are tests and pages of an intent's files, where its `companions` setting is on.
"""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from msgspec import Struct, json
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.decision import Target
from remit.core.diff.contents import hash_git_blob, sha256
from remit.core.intent import Intent
from remit.core.record import Record
from remit.core.redaction import is_secret_file
from remit.core.scope.file_roles import find_mirror, is_autoloaded_name, is_bytecode, select_mirrored_files
from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import quote_path
from remit.gate.records.call_records import call_body
from remit.gate.records.recorder import Recorder
from remit.gate.state.workspace_state import State
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.ignored_files import IgnoredPaths, find_ignored
from remit.workspace.git.repository import head_commit
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import hash_file

LEFT_FACT = "generated_alone"
"""Fact that holds the SHA-256 of ignored files outside of ignored folders that commands left, by path."""

MAX_FOLDERS = 50
"""Folders of generated files that one record counts by name."""

MAX_LEFT_FILES = 2000
MAX_LISTING_BYTES = 4 << 20  # size of the largest listing that is kept as a content
MAX_MIRRORED_FILES = 500  # files of one name that are looked at


def find_ignored_files(
    workspace: Workspace, state: State, paths: Collection[str], folders: Collection[str] = ()
) -> dict[str, str]:
    """Return the generated ones of `paths` and `folders`, with their ignored folder, or itself. The ignore files of the
    present HEAD count, and `info/exclude`. No file is generated where git cannot be asked.
    """
    try:
        ignored = find_ignored(workspace, head_commit(workspace), paths, folders)
    except (GitError, OSError):
        ignored = IgnoredPaths()
    found = {path: top for path, top in ignored.by_folder.items() if not has_loaded_name(top)}
    alone = [path for path in ignored.by_name if not has_loaded_name(path) and not is_secret_file(path)]
    existing = [path for path in alone if os.path.lexists(workspace.root / path)]
    # An existing file counts if it is as a command left it.
    left = json.decode(state.read_fact(LEFT_FACT) or "{}", type=dict[str, str]) if existing else {}
    hashes = ((path, hash_file(workspace.root / path)) for path in existing if quote_path(path) in left)
    own = {path for path, now in hashes if now and now[0] == left[quote_path(path)]}
    return found | {path: path for path in alone if path in own or path not in existing}


def find_tracked_matches(workspace: Workspace, patterns: tuple[str, ...]) -> list[str]:
    """Return tracked files with a matching pattern: tracking outweighs the pattern. Raises GitError."""
    if not patterns or workspace.common_dir is None:
        return []
    scope = Scope(patterns)
    return sorted(path for path in list_git_files(Git(workspace.root)) if scope.matches(path))


def is_exempt_from_scope(top: str) -> bool:
    """Return True if a generated file of an ignored folder may be written outside the scope. Compiled Python may not:
    it would run in place of a source that the intent does not own.
    """
    return not is_bytecode(top)


def has_loaded_name(path: str) -> bool:
    return any(is_autoloaded_name(part) for part in path.split("/"))


class GeneratedChange(Struct, frozen=True):
    """A changed generated file; `sha256` is None if it was deleted, `top` the ignored folder, or the file itself."""

    path: str
    top: str
    sha256: str | None
    bytes: int


def record_left_files(state: State, changed: Iterable[GeneratedChange]) -> None:
    """Store the hashes of ignored files outside of ignored folders that commands left. Raises StateError."""
    files = {quote_path(one.path): one.sha256 for one in changed if one.path == one.top}
    if not files:
        return
    with state.transaction():
        known = json.decode(state.read_fact(LEFT_FACT) or "{}", type=dict[str, str])
        kept = {path: left for path, left in known.items() if path not in files}
        kept |= {path: left for path, left in files.items() if left is not None}
        state.put_fact(LEFT_FACT, json.encode(dict(list(kept.items())[-MAX_LEFT_FILES:])).decode())


def format_listing(changed: Iterable[GeneratedChange]) -> bytes:
    lines = (f"{one.sha256 or 'deleted'} {quote_path(one.path)}\n" for one in sorted(changed, key=lambda c: c.path))
    return "".join(lines).encode()


def generated_record(
    recorder: Recorder, call: ToolCall, intent_id: str | None, changes: Sequence[GeneratedChange], listing: bytes
) -> Record:
    """Return the record of generated files: counts, and the digest of `listing`."""
    folders = Counter(change.top for change in changes)
    largest = sorted(folders.items(), key=lambda item: (-item[1], item[0]))[:MAX_FOLDERS]
    counts: dict[str, object] = {
        "files": len(changes),
        "deleted": sum(change.sha256 is None for change in changes),
        "bytes": sum(change.bytes for change in changes),
        "digest": f"sha256:{sha256(listing)}",
        "folders": {quote_path(folder): count for folder, count in largest},
    }
    counts |= {"folders_count": len(folders)} if len(folders) > len(largest) else {}
    counts |= {"listing": hash_git_blob(listing)} if len(listing) <= MAX_LISTING_BYTES else {}
    return recorder.make_record(call_body("generated", call, intent_id, detail={"generated": counts}), call.agent)


# Companions


def mark_mirrored_files(
    targets: tuple[Target, ...], call: ToolCall, workspace: Workspace, intent: Intent
) -> tuple[Target, ...]:
    """Mark the targets of a file tool outside the scope with the files that they mirror.

    A command's targets stay unmarked, which only saves git the search: `policy.checks.paths` counts no companion of a
    command.
    """
    if not intent.companions or call.command is not None or call.effect not in ("write", "delete"):
        return targets
    scope = Scope(intent.owned_scope)
    return tuple(
        t
        if t.path is None or scope.matches(t.path, fold=t.folds)
        else replace(t, mirrors=find_mirrored_files(str(t.path), workspace))
        for t in targets
    )


def find_mirrored_files(path: str, workspace: Workspace) -> tuple[str, ...]:
    """Return the files of which `path` is the test or the page; none if git cannot tell. Tracked files count. A new
    file counts only for a new companion: otherwise an agent could make an old test its own by writing a file of the
    right name.
    """
    mirror = find_mirror(path)
    if mirror is None or workspace.common_dir is None:
        return ()
    git = Git(workspace.root)
    name = "".join(f"\\{c}" if c in "*?[\\" else c for c in mirror.name)
    pattern = f":(glob)**/{name}.*"
    try:
        found = list_git_files(git, "--cached", "--", pattern, f":(literal){path}")
        if path not in found:
            found |= list_git_files(git, "--others", "--exclude-standard", "--", pattern)
    except GitError:
        return ()
    return select_mirrored_files(mirror, sorted(found - {path})[:MAX_MIRRORED_FILES])


def list_git_files(git: Git, *arguments: str) -> frozenset[str]:
    """Return the files that `git ls-files` lists. Raises GitError."""
    return frozenset(os.fsdecode(git.run("ls-files", "-z", *arguments)).split("\0")) - {""}
