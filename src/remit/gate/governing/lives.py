"""Lives of intents: the newest transition of each, kept beside the ledger for all worktrees of a clone; the statuses
that follow from them; and the intents that no commit has yet.
"""

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import msgspec
from msgspec.structs import replace

from remit.core.intent import FINAL_STATUSES, MAX_FILE_BYTES, Intent, IntentsDocument, identify
from remit.core.intents.life import DerivedStatus, LifeRecord, Place, derive_status
from remit.core.python_runtime import prepare_type
from remit.workspace.git.command import Git, GitError
from remit.workspace.git.repository import current_branch
from remit.workspace.intents_file.storage import (
    FILE_SUFFIX,
    IntentFile,
    place_file,
    read_file_state,
    read_intent_file,
    read_intent_files,
)
from remit.workspace.place.workspace import ORCHESTRATION_FOLDER, Workspace, is_folder, path_exists
from remit.workspace.safe_files import hold_lock, read_tail, write_below

PENDING = "pending/"  # begin of the names of intents that only another worktree has as files
PENDING_DAYS = 30
LIFE_FILE = "life.json"  # file of the newest transition of each intent, by uid: the ledger has them all
LOST_FILE = "life.lost"  # file that tells of a lost LIFE_FILE: with its damaged content, or empty
ORIGIN_SUFFIX = ".origin"  # of the file that names the worktree, and the file there, that declared such an intent
MAX_CACHED = 64


def life_path(workspace: Workspace) -> Path:
    return pending_folder(workspace) / LIFE_FILE


@lru_cache(MAX_CACHED)
def pending_folder(workspace: Workspace) -> Path:
    """Return the folder that all worktrees of a clone share: lives, and copies of declared intents by uid."""
    return workspace.find_own_state("intents")


def read_pending(workspace: Workspace, own: Iterable[IntentFile]) -> list[IntentFile]:
    """Return the intents that other worktrees have declared and no commit has yet; an own file of an id counts."""
    folder, found = pending_folder(workspace), list[IntentFile]()
    names = [name for name in list_names(folder) if name.endswith(FILE_SUFFIX)]
    if not names:
        return []
    uids, ids = {identify(f.placed.intent) for f in own if f.placed}, {f.intent_id for f in own}
    for name in names:
        uid = name.removesuffix(FILE_SUFFIX)
        if uid not in uids and not is_declaration_gone(folder / f"{uid}{ORIGIN_SUFFIX}"):
            file = read_intent_file(folder, name, read_file_state(folder / name))
            if file.placed is not None and file.placed.sound and file.intent_id not in ids:
                found.append(place_file(replace(file, name=f"{PENDING}{name}")))
    return found


def read_origin(origin: Path) -> tuple[str, str]:
    """Return the worktree that declared an intent, and the file there."""
    root, _, file = os.fsdecode(read_tail(origin, MAX_FILE_BYTES)).partition("\n")
    return root, file


def is_declaration_gone(origin: Path) -> bool:
    root, file = read_origin(origin)
    return bool(file) and is_folder(root) and not path_exists(file)


def list_names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))  # noqa: PTH208
    except OSError:
        return []


def put_pending(workspace: Workspace, uid: str, file: Path | None) -> None:
    """Keep a copy of the file of a declared intent for the other worktrees; None forgets it. Raises OSError."""
    path, root = pending_folder(workspace) / f"{uid}{FILE_SUFFIX}", workspace.common_dir
    if root is None or workspace.is_assigned:
        return
    if file is None:
        path.unlink(missing_ok=True)
        path.with_suffix(ORIGIN_SUFFIX).unlink(missing_ok=True)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_below(root, path.with_suffix(ORIGIN_SUFFIX), os.fsencode(f"{workspace.root}\n{file}"), 0o600)
        write_below(root, path, file.read_bytes(), 0o600)


def forget_committed(workspace: Workspace) -> None:
    """Forget the copies of declared intents that HEAD has by now, and those that nobody has committed in a month."""
    folder = pending_folder(workspace)
    names = [name for name in list_names(folder) if name.endswith(FILE_SUFFIX)]
    if not names:
        return
    with suppress(OSError, GitError):
        own = {identify(f.placed.intent): f.name for f in read_intent_files(workspace.folder) if f.placed is not None}
        for name in names:
            uid = name.removesuffix(FILE_SUFFIX)
            path = f"{ORCHESTRATION_FOLDER}/{own[uid]}" if uid in own else ""
            is_old = time.time() - (folder / name).stat().st_mtime > PENDING_DAYS * 86400
            if is_old or (path and Git(workspace.root).run("ls-tree", "HEAD", "--", path)):
                put_pending(workspace, uid, None)


def read_life(workspace: Workspace) -> dict[str, LifeRecord]:
    """Return the newest record of each intent, by uid; a file that is missing or damaged is made anew.

    Raises OSError, LedgerError where the ledger cannot be asked.
    """
    path = life_path(workspace)
    if (known := decode_lives(path)) is not None:
        return known
    found = collect_lives(workspace)
    if workspace.is_governed:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with hold_lock(path.with_suffix(".lock")):
                if decode_lives(path) is None:
                    note_loss(workspace, path, was_missed=bool(found))
                    write_lives(workspace, found)
    return found


def put_life_record(workspace: Workspace, uid: str, record: LifeRecord | None) -> None:
    """Store the newest record of an intent; None forgets it. Raises FileLocked, OSError, LedgerError."""
    path = life_path(workspace)
    path.parent.mkdir(parents=True, exist_ok=True)
    with hold_lock(path.with_suffix(".lock")):
        known = decode_lives(path)
        records = collect_lives(workspace) if known is None else known
        records.pop(uid, None)
        write_lives(workspace, records | ({uid: record} if record else {}))


def mend_lives(workspace: Workspace) -> None:
    """Let the file say what the ledger does. Raises FileLocked, OSError, LedgerError."""
    path = life_path(workspace)
    with hold_lock(path.with_suffix(".lock")):
        write_lives(workspace, (decode_lives(path) or {}) | collect_lives(workspace))


def decode_lives(path: Path) -> dict[str, LifeRecord] | None:
    """Return what the file holds; None for one that is missing or damaged."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=prepare_type(dict[str, LifeRecord]))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def write_lives(workspace: Workspace, records: Mapping[str, LifeRecord]) -> None:
    path, content = life_path(workspace), msgspec.json.encode(records)
    write_below(workspace.common_dir or workspace.root, path, content, 0o600)


def note_loss(workspace: Workspace, path: Path, *, was_missed: bool) -> None:
    """Keep the damaged file, or the sign that it was missing, for `remit doctor`. Raises OSError."""
    if path_exists(path):
        path.replace(path.with_name(LOST_FILE))
    elif was_missed:
        write_below(workspace.common_dir or workspace.root, path.with_name(LOST_FILE), b"", 0o600)


def collect_lives(workspace: Workspace) -> dict[str, LifeRecord]:
    """Return the newest record of each intent, from the ledger of this clone. Raises OSError, LedgerError."""
    if not is_folder(workspace.log_folder):
        return {}
    # Imported here: the file is there for nearly every call.
    from remit.ledger.index.lives import read_lives

    nested, own = workspace.governed_nested_roots, str(workspace.root)

    def belongs_here(worktree: str) -> bool:
        # Nested workspaces share the ledger, not lives.
        return worktree == own if workspace.is_nested else os.fsencode(worktree) not in nested

    return read_lives(workspace.state, workspace.log_folder, belongs_here)


def derive_life(
    workspace: Workspace, document: IntentsDocument, records: Mapping[str, LifeRecord]
) -> dict[str, DerivedStatus]:
    found = {intent.id: records.get(identify(intent)) for intent in document.intents}
    place = find_place(workspace, [record for record in found.values() if record])
    return {intent.id: derive_status(intent, found[intent.id], place) for intent in document.intents}


def find_place(workspace: Workspace, records: Iterable[LifeRecord]) -> Place:
    root, branch = str(workspace.root), current_branch(workspace) or ""
    away = [r for r in records if r.status in FINAL_STATUSES and r.written and (r.worktree, r.branch) != (root, branch)]
    if not away or workspace.common_dir is None:
        return Place(root, branch)
    heads: dict[str, str | None] = {r.worktree: r.head for r in away if not r.branch and path_exists(r.worktree)}
    merged = list[str]()
    with suppress(GitError):
        git, form = Git(workspace.root), "--format=%(refname:lstrip=2)"
        rows = git.text("for-each-ref", f"{form} %(objectname)", "refs/heads").splitlines()
        heads |= dict((name, commit) for name, _, commit in (row.rpartition(" ") for row in rows))
        merged = git.text("for-each-ref", form, "--merged=HEAD", "refs/heads").splitlines()
    return Place(root, branch, heads, frozenset(merged))


def apply_life(intent: Intent, life: DerivedStatus) -> Intent:
    if life.status == intent.status and (life.status != "BLOCKED" or life.reason == intent.blocked_reason):
        return intent
    return replace(intent, status=life.status, blocked_reason=life.reason)
