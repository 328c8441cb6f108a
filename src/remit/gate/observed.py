"""The last observation of the workspace, brought up to date by what was recorded since."""

import json
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from remit.core.contents import Version
from remit.core.text import quoted_path
from remit.gate.state import State
from remit.workspace.observe import Change, Observation, versions

KNOWN = "observed_head"
"""The fact that tells which commit the last observation stood on; absent before the first."""


class Observed(Struct, frozen=True):
    """One path of the last observation; `version` is None where there was no file."""

    path: str
    version: Version | None


def observed_head(state: State) -> str | None:
    """The commit that the last observation stood on, empty for none; None before the first. Raises StateError."""
    return state.fact(KNOWN)


def last_observed(state: State) -> list[Observed]:
    """Every path of the last observation, with what records have told since. Raises StateError."""
    rows = state.rows("SELECT version FROM baseline WHERE workspace=?", state.workspace)
    return [msgspec.convert(json.loads(row[0]), Observed) for row in rows]


def last_known(state: State, paths: Iterable[str]) -> dict[str, Version | None]:
    """These paths as the last observation, or a record since, left them; only those that it tells of."""
    asked = {quoted_path(path): path for path in paths}
    marks = ",".join("?" * len(asked))
    query = f"SELECT version FROM baseline WHERE workspace=? AND path IN ({marks})"
    found = [msgspec.convert(json.loads(row[0]), Observed) for row in state.rows(query, state.workspace, *asked)]
    return {one.path: one.version for one in found if one.path in asked.values()}


def remember(state: State, observation: Observation) -> None:
    """Keep this observation in place of the last. Raises StateError."""
    found = [Observed(path, version) for path, version in versions(observation).items()]
    with state.writing() as connection:
        connection.execute("DELETE FROM baseline WHERE workspace=?", (state.workspace,))
        connection.executemany("INSERT INTO baseline VALUES(?,?,?)", rows_of(state, found))
        connection.execute(
            "INSERT OR REPLACE INTO facts VALUES(?,?,?)", (state.workspace, KNOWN, observation.head or "")
        )


def explain(state: State, done: Iterable[Change]) -> None:
    """These changes have a record: the next observation is not to wonder about them. Raises StateError."""
    found = [Observed(c.path, c.after.version if c.after else None) for c in done]
    if not found or state.fact(KNOWN) is None:
        return
    with state.writing() as connection:
        connection.executemany("INSERT OR REPLACE INTO baseline VALUES(?,?,?)", rows_of(state, found))


def rows_of(state: State, found: Iterable[Observed]) -> list[tuple[str, str, bytes]]:
    """The rows of these paths; a name that is not UTF-8 survives as an ASCII escape."""
    return [(state.workspace, quoted_path(o.path), json.dumps(msgspec.to_builtins(o)).encode("ascii")) for o in found]
