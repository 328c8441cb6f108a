"""File tools that wrote to another place than the one that was judged.

A tool opens its path after the hook has resolved it. In between, another process can put a link in the place of a
folder. So the path is resolved again when the call comes back: what lies elsewhere is judged as a change of its own.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import UNSET, Struct
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.display_text import quote_path, sanitise_line
from remit.core.record import Body, Record
from remit.core.scope.repopath import InvalidPath
from remit.gate.context import WorkspaceContext
from remit.gate.evidence.file_tool_lines import predict_contents
from remit.gate.gather import resolve_targets
from remit.gate.records import record_parts
from remit.gate.state.baseline import find_known_versions
from remit.gate.state.workspace_state import OpenCall, PendingCall
from remit.policy.classify import classify
from remit.workspace.observe.observation import Change, Observation, find_changes, observe_paths, read_at_commit

MAX_NAMED = 10


class RedirectedPaths(Struct, frozen=True):
    """Where the paths of a call lead now and did not before: in the workspace, by path the words for it in the call;
    and outside of it, as absolute paths.
    """

    inside: dict[str, str] = {}
    outside: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether any path leads elsewhere."""
        return bool(self.inside or self.outside)


def find_redirected(context: WorkspaceContext, call: ToolCall, pending: PendingCall) -> RedirectedPaths:
    """Resolve the paths of a file tool's call again, and return those that were not judged. Raises OSError."""
    if pending.whole or not pending.places or call.command is not None or classify(call) != "destructive":
        return RedirectedPaths()
    try:
        found = [
            one
            for one in resolve_targets(call, context.workspace, context.environment)
            if one.resolved not in pending.places
        ]
    except InvalidPath:
        return RedirectedPaths()
    inside = {str(one.path): one.raw for one in found if one.path is not None}
    return RedirectedPaths(inside, tuple(one.resolved for one in found if one.path is None and not one.tolerated))


def is_link_free(root: Path, path: str) -> bool:
    """Whether no link stands on the way to a path of the workspace."""
    return (root / path).parent.resolve() == (root / path).parent


def find_redirected_changes(
    context: WorkspaceContext, call: ToolCall, found: RedirectedPaths, head: str | None
) -> tuple[Change, ...]:
    """Return what the call changed where it was led to, compared with the last known content, else with `head`'s.

    A content that is not the one which the call's arguments make of that may be another process's: the change is
    marked as shared. Raises what CannotRecord names.
    """
    known = find_known_versions(context.state, found.inside)
    committed = [path for path in found.inside if path not in known]
    before = read_at_commit(context.workspace, head, committed) if head else dict.fromkeys(committed)
    before |= {path: record_parts.load_version(version, context.contents) for path, version in known.items()}
    content_of = {raw: seen.content for path, raw in found.inside.items() if (seen := before[path]) is not None}
    made = predict_contents(call, content_of.get)
    done = find_changes(context.workspace, Observation(None, before), observe_paths(context.workspace, found.inside))
    return tuple(
        c
        if c.after is not None and c.after.content == made.get(found.inside[c.path])
        else replace(c, possible_sessions=(call.session.session_id,))
        for c in done
    )


def outside_record(context: WorkspaceContext, call: ToolCall, pending: PendingCall, paths: Sequence[str]) -> Record:
    """Record that a call wrote outside the workspace, at a place that was not judged."""
    why = "a link on the way led out of the workspace after the call was judged; its former content was not kept"
    detail: dict[str, object] = {"paths": [], "why": "the call wrote where it was not judged"}
    detail |= {"left": {quote_path(path): why for path in paths}}
    body = Body(
        event="restore",
        intent_id=pending.intent_id,
        session_id=call.session.session_id,
        agent_id=call.session.agent_id or UNSET,
        call=record_parts.call_part(call),
        detail=detail,
    )
    return context.recorder.make_record(body)


def outside_warning(call: ToolCall, paths: Sequence[str]) -> str:
    """Tell the model that its call wrote outside the workspace; empty where it did not."""
    if not paths:
        return ""
    names = ", ".join(sanitise_line(path, 200) for path in paths[:MAX_NAMED])
    return (
        f"Remit [OUTSIDE_WORKSPACE]: this {call.tool} call wrote to {names}: while it ran, another command put a link "
        "on the way. It was not undone, because nothing outside the workspace is kept. Tell the person at once."
    )


def awaited_paths(call: ToolCall, others: Iterable[OpenCall]) -> set[str]:
    """Return the absolute paths that other file tools were let through to write and have not come back from."""
    own = (call.session, call.call_id)
    pending = (one.pending for one in others if (one.session, one.call_id) != own)
    return {
        place
        for one in pending
        if one is not None and one.effect in ("write", "delete")
        for place in (*one.places, *one.spelled)
    }
