"""What was staged, and by whom: the entries of git's index that differ from HEAD, as the last call left them.

The index is state that the next commit takes over: a commit may hold an entry outside the scope only if its stager is
known. What changed while no call of an agent was open is a person's, what a contained command left was
judged, and everything else is nobody's word. Absent is a value: an entry that was taken out needs a stager, too.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from remit.core.call import ToolCall
from remit.core.python_runtime import prepare_type
from remit.gate.state.tickets import has_uncontained_call
from remit.gate.state.workspace_state import State, encode_ascii
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import head_commit
from remit.workspace.place.workspace import Workspace
from remit.workspace.sandbox.new_commits import RAW_DIFF_OPTIONS, TreeChange, parse_raw_diff

STAGED_FACT = "staged"
CHECKSUM_BYTES = 20  # at the end of an index; zeros with `index.skipHash`, hence the times beside it

Stager: TypeAlias = Literal["person", "judged", "unknown"]
"""Who staged an entry. `judged`: a contained command, whose index was looked into."""


class StagedEntry(Struct, frozen=True):
    """An entry that differs from HEAD; mode and blob are empty where it was taken out."""

    mode: str
    blob: str
    stager: Stager


class StagedEntries(Struct, frozen=True):
    """The entries by path from the repository's root; `key` changes with the index or HEAD."""

    key: str
    entries: dict[str, StagedEntry] = {}

    def has_known_stager(self, change: TreeChange) -> bool:
        found = self.entries.get(change.path)
        return found is not None and found.stager != "unknown" and (found.mode, found.blob) == entry_value(change)

    def is_persons(self, path: str, value: tuple[str, str]) -> bool:
        found = self.entries.get(path)
        return found is not None and found.stager == "person" and (found.mode, found.blob) == value


def entry_value(change: TreeChange) -> tuple[str, str]:
    """Return mode and blob of an entry; both empty where there is none."""
    return (change.mode, change.new) if change.new else ("", "")


def load_staged(state: State) -> StagedEntries:
    """Return what is known of the staged entries. Raises StateError."""
    text = state.read_fact(STAGED_FACT)
    return msgspec.json.decode(text, type=prepare_type(StagedEntries)) if text else StagedEntries("")


def note_persons_staging(workspace: Workspace, state: State, call: ToolCall) -> None:
    """Before a call: what changed in the index since the last one is a person's, unless another call may have done it.

    Raises StateError, OSError.
    """
    if not has_uncontained_call(call, state):
        note_staged(workspace, state, "person")


def note_staged(workspace: Workspace, state: State, stager: Stager) -> None:
    """Keep the staged entries; of those that changed since they were kept, `stager` is the one who did it.

    An index that git cannot read leaves what is known as it is. Raises StateError, OSError.
    """
    key = describe_index(workspace)
    if not key:
        return
    known = load_staged(state)
    if known.key == key:
        return
    with suppress(GitError):
        found = list_staged_changes(workspace)
        entries = {
            path: replace_stager(known.entries.get(path), StagedEntry(*entry_value(change), stager))
            for path, change in found.items()
        }
        state.put_fact(STAGED_FACT, encode_ascii(StagedEntries(key, entries)).decode())


def replace_stager(known: StagedEntry | None, found: StagedEntry) -> StagedEntry:
    return known if known is not None and (known.mode, known.blob) == (found.mode, found.blob) else found


def describe_index(workspace: Workspace) -> str:
    if workspace.git_dir is None:
        return ""
    try:
        with (workspace.git_dir / "index").open("rb") as file:
            status = os.fstat(file.fileno())
            file.seek(max(0, status.st_size - CHECKSUM_BYTES))
            index = f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {file.read().hex()}"
    except FileNotFoundError:
        index = "none"
    return f"{head_commit(workspace)} {index}"


def list_staged_changes(workspace: Workspace) -> Mapping[str, TreeChange]:
    """Return the entries of the index that differ from HEAD, by path, without unmerged ones. Raises GitError."""
    git = Git(workspace.root)
    base = head_commit(workspace) or git.text("hash-object", "-t", "tree", "/dev/null")
    found = [*parse_raw_diff(git.run("diff-index", "--cached", "--no-relative", *RAW_DIFF_OPTIONS, base))]
    unmerged = {change.path for change in found if change.conflict}
    return {change.path: change for change in found if change.path not in unmerged}
