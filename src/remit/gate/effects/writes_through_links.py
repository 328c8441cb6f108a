"""Redirected writes: file tools that wrote to another place than the one that was judged.

A tool opens its path after the hook has resolved the path. In between, another process can put a link in the place of a
folder. The path is therefore resolved again when the call comes back; a write elsewhere is judged as a change by
itself.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.call import ToolCall
from remit.core.display_text import quote_path, sanitise_line
from remit.core.record import Record
from remit.core.scope.repopath import InvalidPath
from remit.gate.call_targets import resolve_targets
from remit.gate.context import WorkspaceContext
from remit.gate.evidence.file_tool_lines import predict_contents
from remit.gate.records.call_records import restore_record
from remit.gate.state.baseline import find_known_versions
from remit.gate.state.pending_calls import OpenCall, PendingCall
from remit.policy.classify import classify
from remit.workspace.observe.observation import Change, Observation, find_changes, observe_paths, read_at_commit

MAX_NAMED = 10


class RedirectedPaths(Struct, frozen=True):
    """Paths that a call leads to now and did not lead to at the decision.

    `inside` maps paths of the workspace to their spelling in the call; `outside` are absolute paths.
    """

    inside: dict[str, str] = {}
    outside: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inside or self.outside)


def find_redirected(context: WorkspaceContext, call: ToolCall, pending: PendingCall) -> RedirectedPaths:
    """Resolve the paths of a file tool again, and return the unjudged ones. Raises OSError."""
    if pending.whole or not pending.places or call.command is not None or classify(call) != "destructive":
        return RedirectedPaths()
    try:
        targets = resolve_targets(call, context.workspace, context.environment)
    except InvalidPath:
        return RedirectedPaths()
    found = [target for target in targets if target.resolved not in pending.places]
    inside = {str(target.path): target.raw for target in found if target.path is not None}
    outside = tuple(target.resolved for target in found if target.path is None and not target.tolerated)
    return RedirectedPaths(inside, outside)


def is_link_free(root: Path, path: str) -> bool:
    """Return True if no link lies on the way to a path of the workspace."""
    return (root / path).parent.resolve() == (root / path).parent


def find_redirected_changes(
    context: WorkspaceContext, call: ToolCall, redirected: RedirectedPaths, head: str | None
) -> tuple[Change, ...]:
    """Return the changes at redirected paths, compared with the baseline or the commit `head`.

    A content not predicted by the call's arguments may be a second process's: the change gets possible sessions.
    Raises RECORDING_ERRORS.
    """
    paths = redirected.inside
    known = find_known_versions(context.state, paths)
    committed = [path for path in paths if path not in known]
    before = read_at_commit(context.workspace, head, committed) if head else dict.fromkeys(committed)
    before |= {path: context.load_version(version) for path, version in known.items()}
    content_of = {raw: seen.content for path, raw in paths.items() if (seen := before[path]) is not None}
    expected = predict_contents(call, content_of.get)
    found = find_changes(context.workspace, Observation(None, before), observe_paths(context.workspace, paths))
    return tuple(
        c
        if c.after is not None and c.after.content == expected.get(paths[c.path])
        else replace(c, possible_sessions=(call.session.session_id,))
        for c in found
    )


def outside_record(context: WorkspaceContext, call: ToolCall, pending: PendingCall, paths: Sequence[str]) -> Record:
    why = "a link on the way led out of the workspace after the call was judged; its former content was not kept"
    detail: dict[str, object] = {"paths": [], "why": "the call wrote where it was not judged"}
    detail |= {"left": {quote_path(path): why for path in paths}}
    return restore_record(context.recorder, call, pending.intent_id, detail)


def outside_warning(call: ToolCall, paths: Sequence[str]) -> str:
    """Return the message to the model about a write outside the workspace."""
    if not paths:
        return ""
    names = ", ".join(sanitise_line(path, 200) for path in paths[:MAX_NAMED])
    return (
        f"Remit [OUTSIDE_WORKSPACE]: this {call.tool} call wrote to {names}: while it ran, another command put a link "
        "on the way. It was not undone, because nothing outside the workspace is kept. Tell the person at once."
    )


def awaited_paths(call: ToolCall, others: Iterable[OpenCall]) -> set[str]:
    """Return the absolute paths of pending file tools, except for the call itself."""
    own = (call.session, call.call_id)
    pending = (other.pending for other in others if (other.session, other.call_id) != own)
    return {
        place
        for other in pending
        if other is not None and other.effect in ("write", "delete")
        for place in (*other.places, *other.spelled)
    }
