"""Recovery: the snapshots named by what they precede, what a restore would change, the restore itself, and pins."""

from typing import Any

from msgspec import Struct

from remit.console.guard import Refused
from remit.console.pages.now import OPEN_CALL_S
from remit.console.pages.page import PageRequest
from remit.gate.context import WorkspaceContext
from remit.gate.gate import Gate
from remit.gate.undo import recovery
from remit.gate.undo.restore import (
    NoSuchSnapshot,
    find_last_restore,
    open_restore,
    plan_session_undo,
    undo_session,
)
from remit.ledger.file_changes import SessionChange
from remit.workspace.snapshots.restore import RestoreRunning
from remit.workspace.snapshots.snapshot import PinnedSnapshots

MAX_POINTS = 200


class WorkingAgent(Struct, frozen=True):
    """An agent with a call under way, which may write while files are restored."""

    agent: str
    session_id: str
    tool: str
    seconds: int


class Recovery(Struct, frozen=True):
    """The snapshots of a repository, as `remit restore list` gives them. `interrupted` is the snapshot of a killed
    restore, `undoable` the snapshot from before the last restore.
    """

    points: list[dict[str, Any]]
    older: int
    interrupted: str = ""
    undoable: str = ""


class RecoveryPoint(Struct, frozen=True):
    """A snapshot with the preview of its restore; `words` say what the snapshot precedes."""

    name: str
    words: str
    preview: recovery.RestorePreview
    working: list[WorkingAgent]
    is_pinned: bool


class SessionUndoPage(Struct, frozen=True):
    """The undo of one session, and the agents at work."""

    session_id: str
    preview: recovery.SessionUndoPreview
    working: list[WorkingAgent]


class UndoBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The undo of a session: the plan that the person saw."""

    plan_sha256: str


class RestoreBody(Struct, frozen=True, forbid_unknown_fields=True):
    """A restore: the plan that the person saw, and the files to restore; none means all."""

    plan_sha256: str
    only: list[str] = []


class PinBody(Struct, frozen=True, forbid_unknown_fields=True):
    """Whether a snapshot is kept whatever its age."""

    pinned: bool


class RestoreDone(Struct, frozen=True):
    """A restore that was made: the snapshot of the state before, and files that could not be restored."""

    point: str
    saved: str
    written: int
    deleted: int
    failed: dict[str, str]
    waiting: str = ""


def read_recovery(request: PageRequest) -> Recovery:
    limit = request.number("limit", MAX_POINTS, 5000)
    return request.repositories.run_job(request.one_repository, list_points, limit)


def read_point(request: PageRequest) -> RecoveryPoint:
    return request.repositories.run_job(request.one_repository, preview_point, request.path["point"])


def restore_files(request: PageRequest, body: RestoreBody) -> RestoreDone:
    name, repository = request.path["point"], request.one_repository
    return request.repositories.run_job(repository, restore_point, name, body.only, body.plan_sha256)


def read_session_undo(request: PageRequest) -> SessionUndoPage:
    return request.repositories.run_job(request.one_repository, describe_session_undo, request.path["session"])


def undo_session_changes(request: PageRequest, body: UndoBody) -> RestoreDone:
    session, repository = request.path["session"], request.one_repository
    return request.repositories.run_job(repository, perform_session_undo, session, body.plan_sha256)


def pin_point(request: PageRequest, body: PinBody) -> dict[str, Any]:
    with request.repositories.open_gate(request.one_repository) as gate:
        try:
            snapshot, _ = recovery.change_pin(gate, request.path["point"], is_pinned=body.pinned)
        except NoSuchSnapshot as error:
            raise refuse_missing(error) from None
        finally:
            gate.snapshots.close()
    return {"id": snapshot.id, "pinned": body.pinned}


# In a worker


def list_points(gate: Gate, limit: int) -> Recovery:
    points = [row for _, row in recovery.list_restore_points(gate)]
    journal = open_restore(gate).read_journal()
    try:
        undoable = find_last_restore(gate.snapshots.list_snapshots())[0].id
    except NoSuchSnapshot:
        undoable = ""
    interrupted = journal.point if journal else ""
    return Recovery(points[:limit], max(0, len(points) - limit), interrupted, undoable)


def preview_point(gate: Gate, name: str) -> RecoveryPoint:
    try:
        target = recovery.find_target(gate, name)
        preview = recovery.preview_restore(gate, target)
    except NoSuchSnapshot as error:
        raise refuse_missing(error) from None
    except RestoreRunning as error:
        raise Refused(409, str(error), "load the page again in a moment") from None
    pinned = PinnedSnapshots(gate.workspace).pinned_ids()
    words = "before the last restore" if name == recovery.UNDO else recovery.describe_occasion(target.point)
    shown = recovery.UNDO if name == recovery.UNDO else target.point.id
    return RecoveryPoint(shown, words, preview, list_working_agents(gate), target.point.id in pinned)


def restore_point(gate: Gate, name: str, only: list[str], plan_sha256: str) -> RestoreDone:
    """Restore what the person saw in the preview. Raises Refused if the plan is another one by now."""
    try:
        finished = recovery.finish_interrupted(gate)
        target = recovery.find_target(gate, name)
        planned = recovery.plan_restore_to(gate, target)
        if planned.plan.is_empty:
            raise Refused(409, "there is nothing to do: the files are as they were then")
        if finished or recovery.hash_plan(planned) != plan_sha256:
            why = f"an interrupted restore was finished first ({finished})" if finished else "files changed meanwhile"
            raise Refused(409, f"nothing was restored: {why}", "look at the new preview")
        paths = recovery.unquote_selection(only, planned)
        if len(paths) != len(set(only)):
            raise Refused(409, "nothing was restored: a chosen file is not part of the plan", "look at the new preview")
        done, waiting = recovery.restore_to(gate, target, paths)
    except NoSuchSnapshot as error:
        raise refuse_missing(error) from None
    except RestoreRunning as error:
        raise Refused(409, str(error), "load the page again in a moment") from None
    failed = recovery.quote_keys(done.failed)
    saved = done.saved.id if done.saved else ""
    return RestoreDone(done.point.id, saved, len(done.plan.write), len(done.plan.delete), failed, waiting or "")


def describe_session_undo(gate: Gate, session: str) -> SessionUndoPage:
    plan = plan_session_undo(gate, gate.contents, require_session_changes(gate, session))
    return SessionUndoPage(session, recovery.preview_session_undo(gate, session, plan), list_working_agents(gate))


def perform_session_undo(gate: Gate, session: str, plan_sha256: str) -> RestoreDone:
    """Undo what the person saw in the preview. Raises Refused if the plan is another one by now."""
    try:
        finished = recovery.finish_interrupted(gate)
        plan = plan_session_undo(gate, gate.contents, require_session_changes(gate, session))
        if plan.is_empty:
            raise Refused(409, "there is nothing to do: no file contains its changes")
        if finished or recovery.hash_session_undo(plan) != plan_sha256:
            raise Refused(409, "nothing was undone: files changed meanwhile", "look at the new preview")
        done = undo_session(gate, plan, session)
    except RestoreRunning as error:
        raise Refused(409, str(error), "load the page again in a moment") from None
    finally:
        gate.snapshots.close()
    return RestoreDone(session, done.saved.id, len(plan.write), len(plan.delete), recovery.quote_keys(done.failed))


def require_session_changes(gate: Gate, session: str) -> tuple[SessionChange, ...]:
    changes = recovery.list_session_changes(gate, session)
    if changes is None:
        raise Refused(404, "no record names this session", "the page Sessions lists them")
    return changes


def refuse_missing(error: NoSuchSnapshot) -> Refused:
    return Refused(404, str(error), "the page Recovery lists the snapshots; old ones are deleted unless pinned")


def list_working_agents(context: WorkspaceContext) -> list[WorkingAgent]:
    now = context.environment.clock.now()
    return [
        WorkingAgent(call.pending.agent, call.session.session_id, call.tool, max(0, int(now - call.at)))
        for call in context.state.list_open_calls()
        if call.pending is not None and now - call.at < OPEN_CALL_S
    ]
