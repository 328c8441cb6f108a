"""`remit restore`: go back to how the files were before something was done."""

import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from remit.cli.agents.uninstall import require_confirmation
from remit.cli.blame.answer import path_in_workspace
from remit.cli.completion import complete_files, complete_sessions, complete_snapshots
from remit.cli.output import (
    FINDINGS,
    UNAVAILABLE,
    Failure,
    emit,
    emit_view,
    governed_gate,
    json_option,
    repo_option,
    reports_failures,
    view_options,
)
from remit.cli.person_only import require_person
from remit.cli.records.lookup import find_session
from remit.cli.records.session import changes_of_session
from remit.cli.terminal.screen import Screen
from remit.core.display_text import quote_path, sanitise_line
from remit.gate.gate import Gate
from remit.gate.snapshots.restore import (
    LATEST,
    find_last_restore,
    find_snapshot,
    find_snapshot_before,
    open_restore,
    plan_session_undo,
    record_restore,
    select_offered,
    undo_session,
)
from remit.gate.snapshots.take import SnapshotTaker
from remit.workspace.git.refs import head_commit
from remit.workspace.snapshots.restore import RestoreResult, RestoreRunning
from remit.workspace.snapshots.snapshot import PinnedSnapshots, Snapshot, decode_path

if TYPE_CHECKING:
    from remit.cli.terminal.view import ViewPart

T = TypeVar("T")

MAX_SHOWN_FILES = 20
PIN_COMMANDS = ("pin", "unpin")


@click.command()
@click.argument(
    "point", required=False, metavar="[list | POINT | undo | pin | unpin]", shell_complete=complete_snapshots
)
@click.argument("paths", nargs=-1, metavar="[PATH | POINT]...", shell_complete=complete_files)
@click.option("--before", "what", metavar="WHAT", help="The state before an intent, a session, or a command's words.")
@click.option(
    "--session",
    "session_id",
    metavar="ID",
    help="Undo what this session changed, and nothing else.",
    shell_complete=complete_sessions,
)
@click.option("--preview", "--dry-run", "preview", is_flag=True, help="Only say what would be done.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@click.option("--limit", type=click.IntRange(1), default=MAX_SHOWN_FILES, show_default=True, help="List so many.")
@repo_option
@json_option
@view_options
@reports_failures
def restore(
    point: str | None,
    paths: tuple[str, ...],
    what: str | None,
    session_id: str | None,
    preview: bool,
    yes: bool,
    limit: int,
    repo: Path,
    as_json: bool,
) -> None:
    """Go back to a snapshot of the files, all of them or PATHs; what is there now is saved first.

    POINT is a snapshot's name or a part of it, or `latest`; `remit restore list` shows them, `remit restore undo`
    takes the last restore back. `remit restore pin POINT` keeps a snapshot whatever its age, `unpin POINT` no longer.
    With --session, the changes of one session are taken out of the files as they are now. Lines that others changed
    since stay; a file in which both changed the same lines is left as it is, and named.

    Files that came later stay, unless git tracks them. HEAD, the index and branches are not touched. Only a person
    may do this.
    """
    gate = governed_gate(repo)
    if session_id is not None:
        if point or what or paths:
            raise click.UsageError("--session goes with no POINT, PATH or --before")
        undo_one_session(gate, session_id, preview, yes, as_json)
        return
    if what is None and point in (None, "list"):
        emit_list(gate, limit, as_json)
        return
    if point in PIN_COMMANDS:
        require_person(f"`remit restore {point}`")
        change_pin(gate, point, paths, as_json)
        return
    if not preview:
        require_person("`remit restore`")
        finish_interrupted(gate)
    found = gate.snapshots.list_snapshots()
    wanted, undoing = choose_snapshot(found, point, what)
    only = [path_in_workspace(gate.workspace, repo, p) for p in ((point, *paths) if what and point else paths)]
    plan = preview_restore(gate, wanted, only, undoing)
    text = "\n".join(describe_restore(gate, plan, done=False, some=bool(only)))
    if preview or plan.plan.is_empty:
        emit(restore_document(plan), as_json, text)
        return
    if sys.stdin.isatty():
        click.echo(text, err=True)
        require_confirmation(
            yes, f"{len(plan.plan.write)} files would be written, {len(plan.plan.delete)} deleted", "add --yes"
        )
    done = perform_restore(gate, wanted, only, undoing)
    emit(restore_document(done), as_json, "\n".join(describe_restore(gate, done, done=True)))
    if done.failed:
        sys.exit(FINDINGS)


def undo_one_session(gate: Gate, given: str, preview: bool, yes: bool, as_json: bool) -> None:
    """Take what one session changed out of the files, or say what that would do. Exits 1 where a file is left."""
    if not preview:
        require_person("`remit restore --session`")
        finish_interrupted(gate)
    session = find_session(gate, given)
    plan = plan_session_undo(gate, gate.contents, changes_of_session(gate, session))
    lines = [f"{'would undo' if preview else 'undoing'} session {sanitise_line(session, 60)}"]
    lines += list_files("to write", list(plan.write)) + list_files("to delete", plan.delete)
    lines += [
        f"  left alone: {sanitise_line(quote_path(path))}: {sanitise_line(why)}" for path, why in plan.left.items()
    ]
    lines += ["nothing is to do: its changes are in no file"] if plan.is_empty and not plan.left else []
    data: dict[str, Any] = {
        "session_id": session,
        "saved": None,
        "write": [quote_path(path) for path in plan.write],
        "delete": [quote_path(path) for path in plan.delete],
        "left": {quote_path(path): why for path, why in plan.left.items()},
    }
    if preview or plan.is_empty:
        emit(data, as_json, "\n".join(lines))
        return
    if sys.stdin.isatty():
        click.echo("\n".join(lines), err=True)
        require_confirmation(yes, f"{len(plan.write)} files would be written, {len(plan.delete)} deleted", "add --yes")
    done = run_exclusively(gate, lambda: undo_session(gate, plan, session))
    data |= {"saved": done.saved.id, "failed": {quote_path(path): why for path, why in done.failed.items()}}
    lines += [
        f"  not done: {sanitise_line(quote_path(path))}: {sanitise_line(why)}" for path, why in done.failed.items()
    ]
    lines += [f"what was there is kept as {done.saved.id}; `remit restore undo` brings it back"]
    emit(data, as_json, "\n".join(lines))
    if done.failed or plan.left:
        sys.exit(FINDINGS)


def change_pin(gate: Gate, word: str, points: Sequence[str], as_json: bool) -> None:
    """Pin a snapshot, or let it go. Raises NoSuchSnapshot, UsageError."""
    if len(points) != 1:
        raise click.UsageError(f"name one snapshot: remit restore {word} POINT")
    snapshot, pins = find_snapshot(gate.snapshots.list_snapshots(), points[0]), PinnedSnapshots(gate.workspace)
    if word == "pin":
        pins.pin(snapshot.id)
        said = f"{snapshot.id} is kept until you say `remit restore unpin {snapshot.id}`"
    else:
        said = f"{snapshot.id} is {'no longer' if pins.unpin(snapshot.id) else 'not'} pinned"
    emit({"id": snapshot.id, "pinned": word == "pin"}, as_json, said)


def choose_snapshot(found: list[Snapshot], point: str | None, what: str | None) -> tuple[Snapshot, Snapshot | None]:
    """Where to go back to, and which restore that undoes. Raises NoSuchSnapshot."""
    if what is not None:
        return find_snapshot_before(found, what), None
    return find_last_restore(found) if point == "undo" else (find_snapshot(found, point or LATEST), None)


def finish_interrupted(gate: Gate) -> None:
    """Finish a restore that was interrupted, and say so."""
    done = run_exclusively(gate, open_restore(gate).finish_interrupted)
    if done is not None:
        record_restore(gate, done, finished=True)
        click.echo(f"finished the restore of {done.point.id}, which was interrupted", err=True)


def preview_restore(gate: Gate, point: Snapshot, only: list[str], undoing: Snapshot | None) -> RestoreResult:
    """What would be done."""
    return run_exclusively(gate, lambda: open_restore(gate).preview(point, only, undoing))


def perform_restore(gate: Gate, point: Snapshot, only: list[str], undoing: Snapshot | None) -> RestoreResult:
    """Do it, record it, and drop what is too old."""
    done = run_exclusively(gate, lambda: open_restore(gate).restore(point, only, undoing))
    waiting = record_restore(gate, done)
    if waiting:
        click.echo(f"the record of this waits until it can be written: {waiting}", err=True)
    SnapshotTaker(gate).tidy_store()
    return done


def run_exclusively(gate: Gate, step: Callable[[], T]) -> T:
    """What the step gives. Raises Failure where another restore runs."""
    try:
        return step()
    except RestoreRunning as error:
        raise Failure("RESTORE_RUNNING", str(error), exit_code=UNAVAILABLE) from error
    finally:
        gate.snapshots.close()


def emit_list(gate: Gate, limit: int, as_json: bool) -> None:
    """The newest snapshots."""
    found = select_offered(gate.snapshots.list_snapshots())
    pinned = PinnedSnapshots(gate.workspace).pinned_ids()
    more = [f"… and {len(found) - limit} older"] if len(found) > limit else []
    cut = open_restore(gate).read_journal()
    open_one = [f"the restore of {cut.point} was interrupted: the next `remit restore` finishes it"] if cut else []

    def view(screen: Screen) -> "Iterator[ViewPart]":
        from remit.cli.terminal.view import TextTable, mark, styled_text

        yield from open_one
        rows = [
            (
                styled_text(s.id, "cyan"),
                styled_text(screen.format_time(s.at), "dim"),
                mark("warning", "pinned") if s.id in pinned else styled_text(""),
                describe_occasion(s),
            )
            for s in found[:limit]
        ]
        yield from [TextTable(rows), *more] if rows else ["no snapshot is there yet"]

    emit_view([{**snapshot_document(s), "pinned": s.id in pinned} for s in found[:limit]], as_json, view)


def format_local_time(snapshot: Snapshot) -> str:
    """Its time, local, for people."""
    return datetime.fromtimestamp(snapshot.at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def describe_occasion(snapshot: Snapshot) -> str:
    """What it is the state before."""
    o = snapshot.occasion
    if o.kind == "session":
        return f"before session {sanitise_line(o.session, 40)}" + (
            f" of {sanitise_line(o.agent, 20)}" if o.agent else ""
        )
    if o.kind == "undone":
        return f"before what {sanitise_line(o.command or o.tool, 60)} did out of scope was undone ({o.intent})"
    if o.kind == "restore":
        return f"before the restore of {sanitise_line(o.point, 40)}"
    return " ".join(
        filter(None, ("before", sanitise_line(o.command or o.tool, 60), f"({o.intent})" if o.intent else ""))
    )


def snapshot_document(snapshot: Snapshot) -> dict[str, Any]:
    """One snapshot as JSON."""
    o = snapshot.occasion
    asked = {"intent_id": o.intent, "session_id": o.session, "agent": o.agent, "tool": o.tool, "command": o.command}
    return {
        "id": snapshot.id,
        "at": datetime.fromtimestamp(snapshot.at, UTC).isoformat(timespec="milliseconds"),
        "before": o.kind,
        "commit": snapshot.commit or None,
        "head": snapshot.head,
        "files": snapshot.files,
        "left": {quote_path(decode_path(path)): why for path, why in snapshot.left.items()},
        "remarks": snapshot.remarks,
        **{key: value for key, value in asked.items() if value},
    }


def restore_document(found: RestoreResult) -> dict[str, Any]:
    """What was done, or would be, as JSON."""
    return {
        "point": snapshot_document(found.point),
        "saved": found.saved.id if found.saved else None,
        "write": [quote_path(p) for p in found.plan.write],
        "delete": [quote_path(p) for p in found.plan.delete],
        "stay": [quote_path(p) for p in found.plan.untouched],
        "left": {quote_path(p): why for p, why in found.plan.not_restorable.items()},
        "failed": {quote_path(p): why for p, why in found.failed.items()},
    }


def describe_restore(gate: Gate, found: RestoreResult, *, done: bool, some: bool = False) -> list[str]:
    """The same for people; `some`: only of the files that they named."""
    plan = found.plan
    lines = [
        f"{'went' if done else 'going'} back to {found.point.id}, {format_local_time(found.point)}, {describe_occasion(found.point)}"  # noqa: E501
    ]
    if plan.is_empty:
        missing = ", or the snapshot does not have them" if some else ""
        lines.append(f"nothing is to do: the files are as they were{missing}")
    lines += list_files("written" if done else "to write", [path for path in plan.write if path not in found.failed])
    lines += list_files("deleted" if done else "to delete", [path for path in plan.delete if path not in found.failed])
    lines += list_files("stays, came later", plan.untouched)
    lines += [
        f"  left alone: {sanitise_line(quote_path(path))}: {sanitise_line(why)}"
        for path, why in plan.not_restorable.items()
    ]
    lines += [f"  {sanitise_line(remark)}" for remark in found.point.remarks]
    lines += [
        f"  not done: {sanitise_line(quote_path(path))}: {sanitise_line(why)}" for path, why in found.failed.items()
    ]
    if found.point.head and found.point.head != head_commit(gate.workspace):
        lines.append(f"HEAD was at {found.point.head[:12]} then; it stays where it is now")
    if done and found.saved:
        lines.append(f"what was there is kept as {found.saved.id}; `remit restore undo` brings it back")
    return lines


def list_files(name: str, paths: Sequence[str]) -> list[str]:
    """Some paths under a heading."""
    few = [f"  {name}: {sanitise_line(quote_path(path))}" for path in paths[:MAX_SHOWN_FILES]]
    return [*few, f"  {name}: {len(paths) - MAX_SHOWN_FILES} more"] if len(paths) > MAX_SHOWN_FILES else few
