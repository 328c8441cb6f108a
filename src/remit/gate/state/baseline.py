"""The last observation of the workspace, brought up to date by what was recorded since."""

import json
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from remit.core.diff.contents import ContentVersion
from remit.core.display_text import quote_path
from remit.gate.state.workspace_state import State
from remit.workspace.observe.observation import Change, Observation, versions_by_path

HEAD_FACT = "observed_head"
"""The fact that tells which commit the last observation stood on; absent before the first."""


class ObservedPath(Struct, frozen=True):
    """One path of the last observation; `version` is None where there was no file."""

    path: str
    version: ContentVersion | None


def baseline_head(state: State) -> str | None:
    """The commit that the last observation stood on, empty for none; None before the first. Raises StateError."""
    return state.read_fact(HEAD_FACT)


def read_baseline(state: State) -> list[ObservedPath]:
    """Every path of the last observation, with what records have told since. Raises StateError."""
    rows = state.fetch_rows("SELECT version FROM baseline WHERE workspace=?", state.workspace)
    return [msgspec.convert(json.loads(row[0]), ObservedPath) for row in rows]


def find_known_versions(state: State, paths: Iterable[str]) -> dict[str, ContentVersion | None]:
    """These paths as the last observation, or a record since, left them; only those that it tells of."""
    asked = {quote_path(path): path for path in paths}
    marks = ",".join("?" * len(asked))
    query = f"SELECT version FROM baseline WHERE workspace=? AND path IN ({marks})"
    found = [
        msgspec.convert(json.loads(row[0]), ObservedPath) for row in state.fetch_rows(query, state.workspace, *asked)
    ]
    return {one.path: one.version for one in found if one.path in asked.values()}


def replace_baseline(state: State, observation: Observation) -> None:
    """Keep this observation in place of the last. Raises StateError."""
    found = [ObservedPath(path, version) for path, version in versions_by_path(observation).items()]
    with state.transaction() as connection:
        connection.execute("DELETE FROM baseline WHERE workspace=?", (state.workspace,))
        connection.executemany("INSERT INTO baseline VALUES(?,?,?)", make_rows(state, found))
        connection.execute(
            "INSERT OR REPLACE INTO facts VALUES(?,?,?)", (state.workspace, HEAD_FACT, observation.head or "")
        )


def mark_recorded(state: State, done: Iterable[Change]) -> None:
    """These changes have a record: the next observation is not to wonder about them. Raises StateError."""
    found = [ObservedPath(c.path, c.after.version if c.after else None) for c in done]
    if not found or state.read_fact(HEAD_FACT) is None:
        return
    with state.transaction() as connection:
        connection.executemany("INSERT OR REPLACE INTO baseline VALUES(?,?,?)", make_rows(state, found))


def make_rows(state: State, found: Iterable[ObservedPath]) -> list[tuple[str, str, bytes]]:
    """The rows of these paths; a name that is not UTF-8 survives as an ASCII escape."""
    return [(state.workspace, quote_path(o.path), json.dumps(msgspec.to_builtins(o)).encode("ascii")) for o in found]
