"""The baseline: the last observation of the workspace, brought up to date by what was recorded since.

Also the names of the contents that the content store holds. All functions raise StateError.
"""

import json
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from remit.core.diff.contents import ContentVersion
from remit.core.display_text import quote_path
from remit.gate.state.workspace_state import State
from remit.workspace.observe.observation import Change, Observation, versions_by_path

HEAD_FACT = "observed_head"
"""Fact that holds the commit of the last observation; absent before the first observation."""


class ObservedPath(Struct, frozen=True):
    """A path of the baseline; `version` is None for a missing file."""

    path: str
    version: ContentVersion | None


def baseline_head(state: State) -> str | None:
    """Return the commit of the last observation, empty for none; None before the first observation."""
    return state.read_fact(HEAD_FACT)


def read_baseline(state: State) -> list[ObservedPath]:
    rows = state.fetch_rows("SELECT version FROM baseline WHERE workspace=?", state.workspace)
    return [msgspec.convert(json.loads(row[0]), ObservedPath) for row in rows]


def find_known_versions(state: State, paths: Iterable[str]) -> dict[str, ContentVersion | None]:
    """Return the versions of these paths in the baseline; paths without an entry are left out."""
    asked = {quote_path(path): path for path in paths}
    marks = ",".join("?" * len(asked))
    query = f"SELECT version FROM baseline WHERE workspace=? AND path IN ({marks})"
    rows = state.fetch_rows(query, state.workspace, *asked)
    found = [msgspec.convert(json.loads(row[0]), ObservedPath) for row in rows]
    return {entry.path: entry.version for entry in found if entry.path in asked.values()}


def replace_baseline(state: State, observation: Observation) -> None:
    """Make an observation the new baseline."""
    entries = [ObservedPath(path, version) for path, version in versions_by_path(observation).items()]
    with state.transaction() as connection:
        connection.execute("DELETE FROM baseline WHERE workspace=?", (state.workspace,))
        connection.executemany("INSERT INTO baseline VALUES(?,?,?)", make_rows(state, entries))
        connection.execute(
            "INSERT OR REPLACE INTO facts VALUES(?,?,?)", (state.workspace, HEAD_FACT, observation.head or "")
        )


def mark_recorded(state: State, changes: Iterable[Change]) -> None:
    """Take recorded changes into the baseline: the next comparison leaves them out."""
    entries = [ObservedPath(c.path, c.after.version if c.after else None) for c in changes]
    if not entries or state.read_fact(HEAD_FACT) is None:
        return
    with state.transaction() as connection:
        connection.executemany("INSERT OR REPLACE INTO baseline VALUES(?,?,?)", make_rows(state, entries))


def make_rows(state: State, entries: Iterable[ObservedPath]) -> list[tuple[str, str, bytes]]:
    return [(state.workspace, quote_path(e.path), json.dumps(msgspec.to_builtins(e)).encode("ascii")) for e in entries]


def version_identity(version: ContentVersion | None) -> tuple[str, str] | None:
    return None if version is None else (version.sha256, version.mode)


# Kept contents


def find_unkept(state: State, blobs: set[str]) -> set[str]:
    """Return the git names without kept content."""
    if not blobs:
        return set()
    marks = ",".join("?" * len(blobs))
    rows = state.fetch_rows(f"SELECT git_blob FROM kept WHERE git_blob IN ({marks})", *blobs)
    return blobs - {row[0] for row in rows}


def mark_kept(state: State, blobs: set[str]) -> None:
    with state.transaction() as connection:
        connection.executemany("INSERT OR IGNORE INTO kept VALUES(?)", [(blob,) for blob in blobs])
