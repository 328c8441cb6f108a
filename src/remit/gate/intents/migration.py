"""From a list of intents to files of one each and back, ended ones into a folder of their own, and what the ledger
knows written into the files.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from remit.core.intent import (
    FINAL_STATUSES,
    INTENTS_FOLDER,
    LIST_FILE,
    REASONED_STATUSES,
    Intent,
    IntentsDocument,
    identify,
)
from remit.core.intents.life import LifeRecord
from remit.core.intents.validation import parse_time
from remit.gate.context import WorkspaceContext
from remit.gate.governing.lives import read_life
from remit.gate.governing.rules import load_rules
from remit.gate.intents.intents import Intents
from remit.gate.intents.refusals import IntentError
from remit.workspace.git.command import Git, GitError
from remit.workspace.intents_file.storage import CLOSED_FOLDER, VIEW_MARK
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace
from remit.workspace.safe_files import remove_below, write_below

ROOT = ORCHESTRATION_FOLDER


class Migration(Struct, frozen=True):
    """What a migration writes and removes, below `.orchestration/`, and the commands that commit it."""

    written: list[str]
    removed: list[str]
    commit: str


def migrate_to_files(context: WorkspaceContext, *, dry_run: bool, ignore_view: Callable[[], None]) -> Migration:
    """Split the list into files of one intent each; nothing is written unless they say the same. Statuses and times go
    into the ledger. Raises IntentError, EditRefused, OSError.
    """
    from remit.workspace.intents_file.migrate import split_list
    from remit.workspace.intents_file.parse import parse_intents

    workspace = context.workspace
    path = workspace.intents_path
    content = path.read_bytes() if path.is_file() else b""
    if not content or content.startswith(VIEW_MARK):
        raise IntentError(f"there is no list to split: intents stand in {ROOT}/{INTENTS_FOLDER}/ already")
    files = split_list(content.decode("utf-8"))
    listed = parse_intents(content).intents
    names = [f"{INTENTS_FOLDER}/{name}" for name in files]
    known = load_rules(workspace).written or IntentsDocument()
    if doubled := sorted(intent.id for intent in listed if intent.id in known.files):
        raise IntentError(f"{', '.join(doubled)} stand in both layouts: take them out of one of them first")
    commit = f"git rm -q --cached {ROOT}/{LIST_FILE}; git add {ROOT} && git commit -m 'One file an intent'"
    made = Migration(names, [LIST_FILE], commit)
    if dry_run:
        return made
    records = read_life(workspace)
    at = Intents(context).format_now()
    for intent in listed:
        if intent.status == "IN_PROGRESS" and identify(intent) not in records:
            since = LifeRecord(intent.id, "IN_PROGRESS", intent.updated_at or at, "the list", str(workspace.root))
            detail = {"from": "IN_PROGRESS", "to": "IN_PROGRESS", "notes": "said by the list", "by": "person"}
            Intents(context).record_life(intent, since, detail)
    for name, text in zip(names, files.values(), strict=True):
        write_below(workspace.root, workspace.folder / name, text.encode())
    remove_below(workspace.root, path)
    ignore_view()
    context.record_intent_changes(load_rules(workspace), by="person")
    return made


def migrate_to_list(context: WorkspaceContext, *, dry_run: bool, show_list: Callable[[], None]) -> Migration:
    """Join the files into a list, with the statuses as derived; comments are lost. Raises as the way there."""
    from remit.workspace.intents_file.edit import add_intent
    from remit.workspace.intents_file.parse import parse_intents

    workspace, rules = context.workspace, load_rules(context.workspace)
    document = rules.document or IntentsDocument()
    if rules.errors:
        raise IntentError(f"{rules.errors[0].place}: {rules.errors[0].message}; mend it first")
    path = workspace.intents_path
    text = path.read_bytes().decode() if path.is_file() else ""
    text = "" if text.startswith(VIEW_MARK.decode()) else text
    here = {i.id for i in parse_intents(text.encode(), frozenset(document.files)).intents} if text else set[str]()
    times = {record.intent_id: record.at for record in read_life(workspace).values()}
    for intent in document.intents:
        if intent.id not in here:
            at = times.get(intent.id) or intent.created_at or Intents(context).format_now()
            text = add_intent(text, replace(intent, updated_at=None), now=at)
    own = [name for name in document.files.values() if name.startswith(f"{INTENTS_FOLDER}/")]
    made = Migration([LIST_FILE], own, f"git add -A {ROOT} && git commit -m 'Intents in one list'")
    if dry_run:
        return made
    write_below(workspace.root, path, text.encode())
    for name in (*own, f"{INTENTS_FOLDER}/README.md"):
        if (workspace.folder / name).exists():
            remove_below(workspace.root, workspace.folder / name)
    show_list()
    context.record_intent_changes(load_rules(workspace), by="person")
    return made


def list_lagging(context: WorkspaceContext) -> list[Intent]:
    """Return the intents whose files say another status than follows, with that status."""
    rules = load_rules(context.workspace)
    written = {i.id: i for i in (rules.written or IntentsDocument()).intents}
    document = rules.document or IntentsDocument()
    return [i for i in document.intents if i.status != written[i.id].status]


def sync_files(context: WorkspaceContext) -> list[Intent]:
    """Write the statuses that follow from records into the files. Raises IntentError, EditRefused, OSError."""
    lagging, intents = list_lagging(context), Intents(context)
    records = read_life(context.workspace)
    for intent in lagging:
        changes = {"status": intent.status}
        if intent.status in REASONED_STATUSES and intent.blocked_reason:
            changes = {"blocked_reason": intent.blocked_reason, **changes}
        intents.change_fields(intent.id, changes)
        record = records.get(identify(intent))
        if record is not None and record.status == intent.status and record.worktree == str(context.workspace.root):
            detail = {"from": intent.status, "to": intent.status, "notes": "written into its file", "by": "person"}
            intents.record_life(intent, replace(record, written=True), detail)
    context.record_intent_changes(load_rules(context.workspace), by="person")
    return lagging


def archive_ended(context: WorkspaceContext, before: datetime, *, dry_run: bool) -> Migration:
    """Move the files of intents that ended before that time into a folder of their own; git's index stays as it is.

    Raises IntentError, where two files would have one name, and OSError.
    """
    workspace, rules, intents = context.workspace, load_rules(context.workspace), Intents(context)
    written = rules.written or IntentsDocument()
    if written.intents and not written.files:
        raise IntentError("a list keeps its ended intents; `remit intent migrate` gives each a file of its own first")
    open_ids = {intent.id for intent in intents.document.intents if intent.status not in FINAL_STATUSES}
    records, moves = read_life(workspace), dict[str, str]()
    for intent in written.intents:
        name = written.files.get(intent.id, "")
        if intent.status not in FINAL_STATUSES or intent.id in open_ids or Path(name).parent != Path(INTENTS_FOLDER):
            continue
        ended = find_end(workspace, name, records.get(identify(intent)))
        if ended is not None and ended < before:
            moves[name] = f"{CLOSED_FOLDER}/{Path(name).name}"
    for name, target in moves.items():
        if (workspace.folder / target).exists():
            raise IntentError(f"{ROOT}/{target} is there already, and {ROOT}/{name} has its name: rename one of them")
    commit = f"git add -A {ROOT}/{INTENTS_FOLDER} && git commit -m 'Archive ended intents'"
    made = Migration(list(moves.values()), list(moves), commit)
    if dry_run or not moves:
        return made
    for name, target in moves.items():
        intents.write_text(workspace.folder / target, (workspace.folder / name).read_bytes().decode(), None)
        remove_below(workspace.root, workspace.folder / name)
        context.state.update_running_calls({f"{ROOT}/{name}": None})
    context.record_intent_changes(load_rules(workspace), by="person")
    return made


def find_end(workspace: Workspace, name: str, record: LifeRecord | None) -> datetime | None:
    """Return when an intent ended: as recorded, else by the newest commit of its file; None where neither tells."""
    if record is not None and record.status in FINAL_STATUSES:
        return parse_time(record.at)
    if workspace.common_dir is not None:
        with suppress(GitError):
            words = ("log", "-1", "--format=%cI", "--end-of-options", "HEAD", "--", f":(literal){ROOT}/{name}")
            found = parse_time(Git(workspace.root).text(*words, ok=(0, 128)).strip())
            return found.astimezone(UTC) if found else None
    return None
