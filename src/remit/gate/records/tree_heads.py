"""Signed tree heads of the log, kept beside it and in notes of commits, where they outlive the state folder.

No decision waits for a tree head: heads are made after a call, at the end of a session, or when a person asks.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from remit.core.config import Config
from remit.core.machine_paths import KEY_PATH
from remit.core.record import Body, Record
from remit.core.tree_head import (
    InvalidTreeHead,
    TreeHead,
    derive_public_key,
    parse_public_key,
    parse_signed_head,
    sign_head,
)
from remit.gate.environment import Environment
from remit.gate.rules.load import load_rules
from remit.ledger.integrity.tree_heads import (
    HEAD_INTERVAL_RECORDS,
    MAX_WHOLE_BYTES,
    FoundHead,
    build_altered_detail,
    measure_tree,
    read_frontier,
    read_stored_heads,
    store_head,
)
from remit.ledger.log import MachineLog
from remit.ledger.reader import measure_log_bytes
from remit.ledger.segments import LedgerError
from remit.workspace.contents.remit_repository import RemitRepository
from remit.workspace.git.command import Git
from remit.workspace.git.machine_identity import machine_id
from remit.workspace.git.refs import head_commit
from remit.workspace.place.workspace import Workspace

NOTES_REF = "refs/notes/remit"
HEAD_SEPARATOR = "---\n"
"""Separator of the heads of several machines in one commit's note."""

IDENTITY = ("-c", "user.name=Remit", "-c", "user.email=remit@localhost")

SESSION_END_EVENTS = frozenset({"session_end"})
FINISHED_EVENTS = frozenset({"mutation", "tool_result"})
"""Events that are recorded when no decision waits."""


class LogWriter(Protocol):
    """The parts of a `Recorder` that signing needs."""

    @property
    def workspace(self) -> Workspace: ...

    @property
    def environment(self) -> Environment: ...

    @property
    def log(self) -> MachineLog: ...

    @property
    def views(self) -> tuple[Path, ...]: ...

    def make_record(self, body: Body, /) -> Record: ...

    def recovery_record(self, detail: dict[str, Any], /) -> Record: ...


class KeyUnusable(LedgerError):
    """An error of the machine's signing key."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(
            f"the key {str(path)!r} cannot sign: {why}\n"
            "hint: move it and the file `machine` beside it away; a new key is made, and older heads become unproved"
        )


def key_path(home: Path) -> Path:
    return home / KEY_PATH


def read_private_key(home: Path) -> bytes:
    """Return the private key; the first use makes the key. Raises OSError, KeyUnusable."""
    machine_id(home)
    path = key_path(home)
    try:
        seed = path.read_bytes()
    except FileNotFoundError:
        raise KeyUnusable(path, "it is not there") from None
    if len(seed) != 32:
        raise KeyUnusable(path, f"it has {len(seed)} bytes; an Ed25519 key has 32")
    return seed


def trusted_keys(home: Path, config: Config) -> tuple[bytes, ...]:
    trusted = tuple(map(parse_public_key, config.ledger.trusted_keys))
    return (derive_public_key(read_private_key(home)), *trusted)


def make_head(recorder: LogWriter, *, whole: bool = False) -> FoundHead | None:
    """Sign the log as it is, record that, and keep the head beside the log; return None for an empty log.

    Unless it is large, the log is hashed as a whole; if the lines of an earlier head have changed, a `recovery` record
    with both roots comes first. Raises OSError, LedgerError.
    """
    folder = recorder.log.folder
    known = read_frontier(folder)
    measured = measure_tree(folder, known, whole=whole or measure_log_bytes(folder) <= MAX_WHOLE_BYTES)
    if known is not None and measured.earlier_root != known.root:
        recorder.log.append([recorder.recovery_record(build_altered_detail(known, measured))], views=recorder.views)
        measured = measure_tree(folder, None, whole=True)
    now = measured.frontier
    if now is None:
        return None
    head = TreeHead(recorder.log.name, now.size, bytes.fromhex(now.root))
    note = sign_head(head, read_private_key(recorder.environment.home))
    recorder.log.append([_head_record(recorder, head, note)], views=recorder.views)
    store_head(folder, note, replace(now, commit=head_commit(recorder.workspace)))
    return FoundHead(note, f"heads, {now.size} records")


def _head_record(recorder: LogWriter, head: TreeHead, note: str) -> Record:
    detail = {"size": head.size, "root": head.root.hex(), "note": note}
    return recorder.make_record(Body(event="tree_head", intent_id=None, session_id=None, detail=detail))


def sign_after_append(recorder: LogWriter, records: Sequence[Record], newest_seq: int) -> None:
    """Make a tree head if one is due after an append, and at the end of a session also a commit's note.

    Raises OSError, LedgerError, GitError; the records themselves are safe.
    """
    events = {record.body.event for record in records}
    ended = not events.isdisjoint(SESSION_END_EVENTS)
    if not ended and events.isdisjoint(FINISHED_EVENTS):
        return
    known = read_frontier(recorder.log.folder)
    if ended:
        made = make_head(recorder)
        if made is not None and head_commit(recorder.workspace) != (known.commit if known else None):
            write_head_note(recorder, "HEAD", made.note, shown=load_rules(recorder.workspace).config.share.notes)
    elif newest_seq + 1 - (known.size if known else 0) >= HEAD_INTERVAL_RECORDS:
        make_head(recorder)


def newest_head(folder: Path) -> str | None:
    return next((head.note for head in reversed(list(read_stored_heads(folder)))), None)


def write_head_note(recorder: LogWriter, commit: str, note: str, *, shown: bool) -> str | None:
    """Write a head into a commit's note, and return the commit, or None. Raises GitError, OSError.

    Heads of other logs in the note stay. Only the notes ref changes: with `shown` the one of the user's repository,
    which `git log --all` lists; else the one of Remit's own.
    """
    workspace = recorder.workspace
    if workspace.common_dir is None:
        return None
    git = Git(workspace.root)
    found = git.text("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}^{{commit}}", ok=(0, 1, 128))
    if not found:
        return None
    own = RemitRepository(workspace)
    if not shown:
        own.create()
    run = git.run if shown else own.run
    old = run("notes", f"--ref={NOTES_REF}", "show", found, ok=(0, 1)).decode("utf-8", "replace")
    kept = [part for part in split_heads(old) if _origin(part) != recorder.log.name]
    text = HEAD_SEPARATOR.join([*kept, note])
    run(*IDENTITY, "notes", f"--ref={NOTES_REF}", "add", "-f", "-F", "-", found, stdin=text.encode())
    return found


def split_heads(text: str) -> list[str]:
    """Return the heads in the text of a commit's note."""
    return [part.removesuffix("\n") + "\n" for part in re.split(r"^---\n", text, flags=re.MULTILINE) if part.strip()]


def _origin(note: str) -> str | None:
    try:
        return parse_signed_head(note).head.origin
    except InvalidTreeHead:
        return None
