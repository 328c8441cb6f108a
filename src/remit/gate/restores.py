"""Going back: which snapshot is meant, and the records of a restore."""

from collections.abc import Sequence

from remit.core.identifiers import fitting_ids
from remit.core.record import Body
from remit.core.text import quoted_path
from remit.gate.gate import Gate
from remit.gate.snapshots import Snapshots
from remit.workspace.snapshots import Snapshot
from remit.workspace.snapshots_restore import Restored, Restoring

PATHS_NAMED = 200
LATEST = "latest"
CANDIDATES_NAMED = 10


class NoSuchSnapshot(ValueError):
    """Nothing, or more than one thing, is meant."""


def restoring(gate: Gate) -> Restoring:
    """Restores of the gate's workspace."""
    config = gate.governing.config
    most, secrets = config.snapshots.max_file_mib, config.snapshots.secret_days > 0
    return Restoring(gate.workspace, gate.snapshots, gate.environment.clock, most, secrets=secrets)


def offered(found: Sequence[Snapshot]) -> list[Snapshot]:
    """The snapshots that people are shown: not those that only served to finish a restore."""
    return [s for s in found if s.occasion.kind != "resume"]


def named(found: Sequence[Snapshot], point: str) -> Snapshot:
    """The snapshot whose id begins so. Raises NoSuchSnapshot."""
    states = [s for s in offered(found) if s.occasion.kind != "undone"]
    if point == LATEST and states:
        return states[0]
    fitting = fitting_ids(point, (s.id for s in found))
    if len(fitting) > 1:
        few = ", ".join(fitting[:CANDIDATES_NAMED])
        raise NoSuchSnapshot(f"{point!r} fits {len(fitting)} snapshots: {few}; give more of the name")
    if not fitting:
        raise NoSuchSnapshot(f"no snapshot is named {point!r}; `remit restore list` shows what there is")
    return next(s for s in found if s.id == fitting[0])


def before(found: Sequence[Snapshot], what: str) -> Snapshot:
    """The state before an intent or a session did anything, or before the last command that says `what`.

    `found` has the newest first. Raises NoSuchSnapshot.
    """
    of_one = [
        s for s in found if s.occasion.kind in ("call", "session") and what in (s.occasion.intent, s.occasion.session)
    ]
    if of_one:
        return of_one[-1]
    for snapshot in found:
        if snapshot.occasion.kind == "call" and what in (snapshot.occasion.command or snapshot.occasion.tool):
            return snapshot
    raise NoSuchSnapshot(
        f"no snapshot precedes {what!r}: no intent or session of that name, no command with these words; "
        "`remit restore list` shows what there is"
    )


def last_restore(found: Sequence[Snapshot]) -> tuple[Snapshot, Snapshot | None]:
    """The state before the last restore, and the snapshot that it went back to. Raises NoSuchSnapshot."""
    for snapshot in found:
        if snapshot.occasion.kind == "restore":
            return snapshot, next((s for s in found if s.id == snapshot.occasion.point), None)
    raise NoSuchSnapshot("there is no restore to undo")


def recorded(gate: Gate, done: Restored, *, finished: bool = False) -> str | None:
    """Record a restore that was made; why that has to wait, where it has to."""
    if done.saved is None:
        return None
    records = [Snapshots(gate).record(done.saved, done.saved.occasion, None, 0)]
    detail: dict[str, object] = {
        "to": done.point.id,
        "saved": done.saved.id,
        "written": len(done.plan.write),
        "deleted": len(done.plan.delete),
        "paths": [quoted_path(p) for p in [*done.plan.write, *done.plan.delete][:PATHS_NAMED]],
    }
    detail |= {"undo": True} if done.undoing else {}
    detail |= {"finished": True} if finished else {}
    detail |= {"failed": {quoted_path(p): why for p, why in done.failed.items()}} if done.failed else {}
    records.append(gate.recorder.record(Body(event="restore", intent_id=None, session_id=None, detail=detail)))
    return gate.recorder.append_or_spool(records)
