"""The tools that leave something for the next session: lessons, and the todo list."""

from msgspec import Struct, to_builtins

from remit.core.globs import glob_error, is_absolute_pattern
from remit.gate.gate import Gate
from remit.gate.lessons import Lessons, TodoItem
from remit.tools.result import Caller, ToolResult, Words
from remit.workspace.shared_brain import Entry, Kind


class RecordLesson(Struct, frozen=True, forbid_unknown_fields=True):
    """Write down what the next session should know: a lesson from a failure, a decision, or a constraint."""

    kind: Kind
    lesson: Words
    problem: Words = ""
    resolution: Words = ""
    pattern: Words = ""
    paths: list[Words] = []


class UpdateTodoList(Struct, frozen=True, forbid_unknown_fields=True):
    """Replace this session's todo list in TODO.md, so that another session can go on where you stopped."""

    items: list[TodoItem]


def record_lesson(gate: Gate, caller: Caller, given: RecordLesson) -> ToolResult:
    """What was written."""
    wrong = next((p for p in given.paths if is_absolute_pattern(p) or glob_error(p)), None)
    if wrong is not None:
        raise ValueError(f"the path {wrong[:200]!r} cannot be used; expected one from the workspace's root")
    wanted = Entry(
        kind=given.kind,
        lesson=given.lesson,
        problem=given.problem,
        resolution=given.resolution,
        pattern=given.pattern,
        paths=tuple(given.paths),
    )
    entry = lessons(gate).record(caller.session, caller.agent, wanted)
    return ToolResult(f"Written down: {entry.told}", {"success": True, "lesson": to_builtins(entry)})


def update_todo_list(gate: Gate, caller: Caller, given: UpdateTodoList) -> ToolResult:
    """The list as it stands now."""
    text = lessons(gate).write_todo(caller.session, caller.agent, given.items)
    return ToolResult(text or "The list is empty.", {"success": True, "items": len(given.items)})


def lessons(gate: Gate) -> Lessons:
    """Who writes them down."""
    return Lessons(gate.workspace, gate.state, gate.recorder)
