"""Meetings of an attempt with paths of a different owner: the denials, the work of each side, and the lesson."""

from collections.abc import Mapping
from pathlib import Path

import sqlalchemy as sa

from remit.core.scope.path_patterns import Scope
from remit.core.untrusted_input import sanitise_line
from remit.gate.gate import Gate
from remit.gate.intents.lessons import LessonsWriter
from remit.gate.state.workspace_state import State
from remit.workspace.agents.marked_blocks import BrainEntry
from remit.workspace.git.command import Git
from remit.workspace.place.workspace import Workspace
from remit.workspace.safe_files import read_regular_file
from remit_fleet.board import Board, Hold, TaskKey
from remit_fleet.conflict import Party
from remit_fleet.database.past import list_without_lesson, mark_lesson
from remit_fleet.database.store import Store

MAX_MEASURED_FILES = 200
MAX_MEASURED_BYTES = 1 << 20
MAX_PATHS = 20


def find_owners(board: Board, key: TaskKey, denied: list[str]) -> dict[str, tuple[str, ...]]:
    """Return the denied paths by the intent that holds the paths."""
    found: dict[str, tuple[str, ...]] = {}
    for hold in board.holds.values():
        if hold.repository == key[0] and hold.key != key:
            scope = Scope(hold.scope)
            if paths := tuple(path for path in denied if scope.matches(path)):
                found[hold.intent] = paths[:MAX_PATHS]
    return found


def list_new_denials(state: State, since: float, known: Mapping[str, float]) -> dict[str, float]:
    """Return the paths outside the write set newly denied in this worktree, with the times of denial."""
    query = "SELECT path, max(at) FROM denied WHERE workspace=? AND code='SCOPE_VIOLATION' AND at>=? GROUP BY path"
    rows = state.fetch_rows(query, state.workspace, since)
    return {str(row[0]): float(row[1]) for row in rows if row[1] > known.get(str(row[0]), 0.0)}


def measure_party(hold: Hold, tree: Workspace | None, base: str) -> Party:
    """Return a side of a conflict with the amount of its written work; zero if its worktree is on a remote host."""
    if tree is None or not base:
        return Party(hold.intent)
    git = Git(tree.root)
    changed = [
        line.split("\t") for line in git.text("diff", "--numstat", "--ignore-submodules=dirty", base).splitlines()
    ]
    made = git.text("ls-files", "--others", "--exclude-standard").splitlines()[:MAX_MEASURED_FILES]
    added = sum(int(parts[0]) for parts in changed if parts[0].isdigit())
    return Party(hold.intent, len(changed) + len(made), added + sum(count_lines(tree.root / path) for path in made))


def count_lines(path: Path) -> int:
    try:
        return read_regular_file(path, MAX_MEASURED_BYTES).count(b"\n")
    except (OSError, ValueError):
        return 0


def write_lessons(store: Store, gate: Gate, repository: str) -> None:
    """Write a lesson for each conflict without a lesson: both intents, the path, and a way to avoid the conflict."""
    with store.read() as connection:
        found = list_without_lesson(connection, repository)
    for row in found:
        entry = LessonsWriter(gate).record_lesson(None, "remit", describe_lesson(row))
        with store.write() as connection:
            mark_lesson(connection, row["id"], entry.id or "written")


def describe_lesson(row: sa.RowMapping) -> BrainEntry:
    paths = tuple(row["paths"] or ())
    shown = sanitise_line(", ".join(paths[:3]), 200) or "the same lines"
    return BrainEntry(
        "lesson",
        f"{row['a']} and {row['b']} met at {shown}.",
        intent_id=row["b"],
        paths=paths,
        problem=f"a conflict of the kind {row['kind']}, settled as {row['settled_as']}",
        pattern=f"give the path to one of them, or let {row['b']} depend on {row['a']}",
    )
