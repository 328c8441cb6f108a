"""`remit restore`: return to the files of an earlier snapshot."""

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from remit.cli import output
from remit.cli.completion import complete_files, complete_sessions, complete_snapshots
from remit.cli.person_only import require_confirmation, require_person
from remit.cli.records.query import find_session
from remit.cli.records.session import changes_of_session
from remit.cli.screen import Screen
from remit.core.acts import Act
from remit.core.untrusted_input import quote_path, sanitise_line
from remit.gate.gate import Gate
from remit.gate.undo import recovery
from remit.gate.undo.restore import (
    DataRestore,
    count_changes_between,
    find_moment,
    open_restore,
    plan_data_restore,
    plan_session_undo,
    restore_data,
    undo_session,
)
from remit.workspace.git.repository import head_commit
from remit.workspace.snapshots.data_store import DATA_PREFIX
from remit.workspace.snapshots.restore import RestoreResult, RestoreRunning

if TYPE_CHECKING:
    from remit.cli.view import ViewPart

MAX_SHOWN_FILES = 20
SEARCHED_PROMPTS = 50


@click.command()
@click.argument(
    "point", required=False, metavar="[list | POINT | undo | pin | unpin]", shell_complete=complete_snapshots
)
@click.argument("paths", nargs=-1, metavar="[PATH | POINT]...", shell_complete=complete_files)
@click.option(
    "--before",
    "what",
    metavar="WHAT",
    help="The state before an intent, a session, a call, a time, or the words of a command or a prompt.",
)
@click.option(
    "--session",
    "session_id",
    metavar="ID",
    help="Undo what this session changed, and nothing else.",
    shell_complete=complete_sessions,
)
@click.option("--preview", "--dry-run", "preview", is_flag=True, help="Only say what would be done.")
@output.yes_option
@click.option("--limit", type=click.IntRange(1), default=MAX_SHOWN_FILES, show_default=True, help="List so many.")
@output.view_command_options
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
    `data@…` is a copy of runtime data from before a command.
    With --session, the changes of one session are taken out of the files as they are now. Lines that others changed
    since stay; a file in which both changed the same lines is left as it is, and named.

    Files that came later stay, unless git tracks them. HEAD, the index and branches are not touched. Only a person
    may do this.
    """
    gate = output.governed_gate(repo)
    if session_id is not None:
        if point or what or paths:
            raise click.UsageError("--session goes with no POINT, PATH or --before")
        undo_one_session(gate, session_id, preview, yes, as_json)
        return
    if what is None and point in (None, "list"):
        emit_list(gate, limit, as_json)
        return
    if point in ("pin", "unpin"):
        require_person(Act.PIN_POINT if point == "pin" else Act.RESTORE)
        emit_pin(gate, point, paths, as_json)
        return
    if point is not None and point.startswith(DATA_PREFIX):
        restore_runtime_data(
            gate, point, [output.path_in_workspace(gate.workspace, repo, path) for path in paths], preview, yes, as_json
        )
        return
    prepare(gate, preview)
    target = recovery.find_target(gate, point or "", before=find_prompt_time(gate, what) if what else what)
    named = (point, *paths) if what and point else paths
    only = [output.path_in_workspace(gate.workspace, repo, path) for path in named]
    with restore_lock_errors():
        plan = recovery.plan_restore_to(gate, target, only)
    lines = describe_restore(gate, plan, done=False, some=bool(only))
    if what and (between := count_changes_between(gate, target.point, what)):
        lines.append(f"{between} changes made after this snapshot and before {sanitise_line(what, 80)} go back as well")
    if preview or plan.plan.is_empty:
        output.emit(recovery.restore_document(plan), as_json, lines)
        return
    confirm(lines, len(plan.plan.write), len(plan.plan.delete), yes)
    with restore_lock_errors():
        done, waiting = recovery.restore_to(gate, target, only)
    if waiting:
        output.say(f"the record of this waits until it can be written: {waiting}", err=True)
    lines = describe_restore(gate, done, done=True)
    output.emit(recovery.restore_document(done), as_json, lines, output.FINDINGS if done.failed else 0)


def find_prompt_time(gate: Gate, what: str) -> str:
    with gate.index() as index:
        named = find_moment(gate, index, what) is not None
    if named or any(what in (s.occasion.command or s.occasion.tool) for s in gate.snapshots.list_snapshots()):
        return what
    # Imported here: most points are named by what the ledger holds.
    from remit.provenance.why.conversation_store import search_conversations
    from remit.tools.conversations import intake_of_all_sessions

    with intake_of_all_sessions(gate).open_conversations(gate.environment.clock.now()) as conversations:
        try:
            heard = search_conversations(conversations.database, what.split(), SEARCHED_PROMPTS, newest=True)
        except ValueError:  # no words
            return what
    return next((match.at for match in heard if match.role == "user" and match.at), what)


def undo_one_session(gate: Gate, session_id: str, preview: bool, yes: bool, as_json: bool) -> None:
    """Undo one session's changes, or preview the undo. Exits 1 if a file is left unchanged."""
    prepare(gate, preview)
    session = find_session(gate, session_id)
    plan = plan_session_undo(gate, gate.contents, changes_of_session(gate, session))
    lines = [f"{'would undo' if preview else 'undoing'} session {sanitise_line(session, 60)}"]
    lines += list_files("to write", list(plan.write)) + list_files("to delete", plan.delete)
    lines += list_reasons("left alone", plan.left)
    lines += ["nothing to do: no file contains its changes"] if plan.is_empty and not plan.left else []
    data = recovery.session_undo_document(session, plan)
    if preview or plan.is_empty:
        output.emit(data, as_json, lines)
        return
    confirm(lines, len(plan.write), len(plan.delete), yes)
    with restore_lock_errors():
        try:
            done = undo_session(gate, plan, session)
        finally:
            gate.snapshots.close()
    data |= {"saved": done.saved.id, "failed": recovery.quote_keys(done.failed)}
    lines += list_reasons("not done", done.failed)
    lines += [f"what was there is kept as {done.saved.id}; `remit restore undo` brings it back"]
    output.emit(data, as_json, lines, output.FINDINGS if done.failed or plan.left else 0)


def restore_runtime_data(gate: Gate, name: str, only: Sequence[str], preview: bool, yes: bool, as_json: bool) -> None:
    """Bring back a copy of runtime data, or say what it holds. Raises NoSuchSnapshot."""
    plan = plan_data_restore(gate, name, only)
    if not preview and plan.copies:
        require_person(Act.RESTORE)
        confirm(describe_data_restore(plan, done=False), len(plan.copies), 0, yes)
        plan = restore_data(gate, plan)
    data = {"point": plan.point.name, "saved": plan.saved or None, "write": list(map(quote_path, plan.copies))}
    lines = describe_data_restore(plan, done=bool(plan.saved) or not preview)
    output.emit(
        {**data, "failed": recovery.quote_keys(plan.failed)}, as_json, lines, output.FINDINGS if plan.failed else 0
    )


def describe_data_restore(plan: DataRestore, *, done: bool) -> list[str]:
    point, written = plan.point, [path for path in plan.copies if path not in plan.failed]
    lines = [f"{'went' if done else 'going'} back to {point.name}, {recovery.describe_occasion(point)}"]
    lines += list_files("written" if done else "to write", written) or ["nothing to do: it does not have them"]
    lines += list_reasons("not done", plan.failed)
    lines += [f"what was there is kept as {plan.saved}"] if plan.saved else []
    return lines


def prepare(gate: Gate, preview: bool) -> None:
    """Require a person, and finish a restore that was interrupted; a preview needs neither."""
    if preview:
        return
    require_person(Act.RESTORE)
    with restore_lock_errors():
        finished = recovery.finish_interrupted(gate)
    if finished:
        output.say(f"finished the restore of {finished}, which was interrupted", err=True)


def confirm(lines: Sequence[str], written: int, deleted: int, yes: bool) -> None:
    """Show the plan at a terminal, and ask. Raises Failure without a yes."""
    if sys.stdin.isatty():
        output.say("\n".join(lines), err=True)
        require_confirmation(yes, f"{written} files would be written, {deleted} deleted", "add --yes")


@contextmanager
def restore_lock_errors() -> Generator[None]:
    """Raise Failure if another restore runs."""
    try:
        yield
    except RestoreRunning as error:
        raise output.Failure("RESTORE_RUNNING", str(error), exit_code=output.UNAVAILABLE) from error


def emit_pin(gate: Gate, word: str, points: Sequence[str], as_json: bool) -> None:
    """Pin or unpin a snapshot. Raises NoSuchSnapshot, UsageError."""
    if len(points) != 1:
        raise click.UsageError(f"name one snapshot: remit restore {word} POINT")
    snapshot, has_changed = recovery.change_pin(gate, points[0], is_pinned=word == "pin")
    if word == "pin":
        text = f"{snapshot.id} is kept until you say `remit restore unpin {snapshot.id}`"
    else:
        text = f"{snapshot.id} is {'no longer' if has_changed else 'not'} pinned"
    output.emit({"id": snapshot.id, "pinned": word == "pin"}, as_json, text)


def emit_list(gate: Gate, limit: int, as_json: bool) -> None:
    points = recovery.list_restore_points(gate)
    shown, older = points[:limit], len(points) - limit
    interrupted = open_restore(gate).read_journal()

    def list_view(screen: Screen) -> "Iterator[ViewPart]":
        from remit.cli.view import TextTable, mark, styled_text

        if interrupted:
            yield f"the restore of {interrupted.point} was interrupted: the next `remit restore` finishes it"
        rows = [
            (
                styled_text(row["id"], "cyan"),
                styled_text(screen.format_time(point.at), "dim"),
                mark("warning", "pinned") if row["pinned"] else styled_text(""),
                recovery.describe_occasion(point),
            )
            for point, row in shown
        ]
        yield TextTable(rows) if rows else "no snapshot is there yet"
        if older > 0:
            yield f"… and {older} older"

    output.emit_view([row for _, row in shown], as_json, list_view)


def describe_restore(gate: Gate, result: RestoreResult, *, done: bool, some: bool = False) -> list[str]:
    plan, point = result.plan, result.point
    at = datetime.fromtimestamp(point.at, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    lines = [f"{'went' if done else 'going'} back to {point.id}, {at}, {recovery.describe_occasion(point)}"]
    if plan.is_empty:
        missing = ", or the snapshot does not have them" if some else ""
        lines.append(f"nothing to do: the files are as they were{missing}")
    lines += list_files("written" if done else "to write", [path for path in plan.write if path not in result.failed])
    lines += list_files("deleted" if done else "to delete", [path for path in plan.delete if path not in result.failed])
    lines += list_files("stays, came later", plan.untouched)
    lines += list_reasons("left alone", plan.not_restorable)
    lines += [f"  {sanitise_line(remark)}" for remark in point.remarks]
    lines += list_reasons("not done", result.failed)
    if point.head and point.head != head_commit(gate.workspace):
        lines.append(f"HEAD was at {point.head[:12]} then; it stays where it is now")
    if done and result.saved:
        lines.append(f"what was there is kept as {result.saved.id}; `remit restore undo` brings it back")
    return lines


def list_files(name: str, paths: Sequence[str]) -> list[str]:
    lines = [f"  {name}: {sanitise_line(quote_path(path))}" for path in paths[:MAX_SHOWN_FILES]]
    return [*lines, f"  {name}: {len(paths) - MAX_SHOWN_FILES} more"] if len(paths) > MAX_SHOWN_FILES else lines


def list_reasons(name: str, reasons: Mapping[str, str]) -> list[str]:
    return [f"  {name}: {sanitise_line(quote_path(path))}: {sanitise_line(why)}" for path, why in reasons.items()]
