"""Signed tree heads of the log, kept beside it and in notes of commits, where they outlive the state folder.

No decision waits for a tree head: heads are made after a call, at the end of a session, or when a person asks. A
report holds each head, wherever it is found, against the log.
"""

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from msgspec.structs import replace

from remit.core import tree_head
from remit.core.config import Config
from remit.core.machine_paths import KEY_PATH
from remit.core.record import Body, Record
from remit.gate.governing.rules import load_rules
from remit.gate.machine import Environment
from remit.ledger import tree_heads
from remit.ledger.log import MachineLog
from remit.ledger.log_files import LedgerError, decode_detail
from remit.ledger.reader import measure_log_bytes, read_lines
from remit.workspace.contents.content_store import ContentStore, RemitRepository
from remit.workspace.git.command import Git
from remit.workspace.git.repository import head_commit, machine_id
from remit.workspace.place.workspace import Workspace
from remit.workspace.sharing.shared_refs import find_shared_head_lines, find_tracked_head_lines

NOTES_REF = "refs/notes/remit"
HEAD_SEPARATOR = "---\n"
"""Separator of the heads of several machines in one commit's note."""

IDENTITY = ("-c", "user.name=Remit", "-c", "user.email=remit@localhost")


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


def read_private_key(home: Path) -> bytes:
    """Return the private key; the first use makes the key. Raises OSError, KeyUnusable."""
    machine_id(home)
    path = home / KEY_PATH
    try:
        seed = path.read_bytes()
    except FileNotFoundError:
        raise KeyUnusable(path, "it is not there") from None
    if len(seed) != 32:
        raise KeyUnusable(path, f"it has {len(seed)} bytes; an Ed25519 key has 32")
    return seed


def trusted_keys(home: Path, config: Config) -> tuple[bytes, ...]:
    trusted = tuple(map(tree_head.parse_public_key, config.ledger.trusted_keys))
    return (tree_head.derive_public_key(read_private_key(home)), *trusted)


def make_head(recorder: LogWriter, *, whole: bool = False) -> tree_heads.FoundHead | None:
    """Sign the log as it is, record that, and keep the head beside the log; return None for an empty log.

    Unless it is large, the log is hashed as a whole; if the lines of an earlier head have changed, a `recovery` record
    with both roots comes first. Raises OSError, LedgerError.
    """
    folder = recorder.log.folder
    known = tree_heads.read_frontier(folder)
    measured = tree_heads.measure_tree(
        folder, known, whole=whole or measure_log_bytes(folder) <= tree_heads.MAX_WHOLE_BYTES
    )
    if known is not None and measured.earlier_root != known.root:
        recorder.log.append(
            [recorder.recovery_record(tree_heads.build_altered_detail(known, measured))], views=recorder.views
        )
        measured = tree_heads.measure_tree(folder, None, whole=True)
    now = measured.frontier
    if now is None:
        return None
    head = tree_head.TreeHead(recorder.log.name, now.size, bytes.fromhex(now.root))
    note = tree_head.sign_head(head, read_private_key(recorder.environment.home))
    detail = {"size": head.size, "root": head.root.hex(), "note": note}
    record = recorder.make_record(Body(event="tree_head", intent_id=None, session_id=None, detail=detail))
    recorder.log.append([record], views=recorder.views)
    tree_heads.store_head(folder, note, replace(now, commit=head_commit(recorder.workspace)))
    return tree_heads.FoundHead(note, f"heads, {now.size} records")


def sign_ended_session(recorder: LogWriter, known: tree_heads.Frontier | None) -> None:
    """Make a tree head, and a note of the commit that no head covers yet. Raises OSError, LedgerError, GitError."""
    made = make_head(recorder)
    if made is not None and head_commit(recorder.workspace) != (known.commit if known else None):
        write_head_note(recorder, "HEAD", made.note, shown=load_rules(recorder.workspace).config.share.notes)


def newest_head(folder: Path) -> str | None:
    return next((head.note for head in reversed(list(tree_heads.read_stored_heads(folder)))), None)


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
    heads = [note]
    for part in reversed(split_heads(old)):
        origin: str | None = None
        with suppress(tree_head.InvalidTreeHead):
            origin = tree_head.parse_signed_head(part).head.origin
        heads[:0] = [] if origin == recorder.log.name else [part]
    text = HEAD_SEPARATOR.join(heads)
    run(*IDENTITY, "notes", f"--ref={NOTES_REF}", "add", "-f", "-F", "-", found, stdin=text.encode())
    return found


def split_heads(text: str) -> list[str]:
    return [part.removesuffix("\n") + "\n" for part in re.split(r"^---\n", text, flags=re.MULTILINE) if part.strip()]


def tracked_log_name(log: MachineLog) -> str | None:
    """Return the name of the log's tracked file; None for an empty log. Pruning does not change the name."""
    first = next(iter(tree_heads.read_leaves(log.folder)), None)
    return f"{log.name.rpartition('/')[2]}-{first.hex()[:8]}.jsonl" if first else None


def heads_report(recorder: LogWriter, config: Config) -> tree_heads.HeadsReport:
    """Check every known head of the log: those beside it, in its records, in notes of commits, and in shared logs.

    Raises OSError, LedgerError, GitError, InvalidKey.
    """
    workspace, folder = recorder.workspace, recorder.log.folder
    found = list(heads_in_notes(workspace))
    name = tracked_log_name(recorder.log)
    tracked = find_tracked_head_lines(workspace, name) if name else ()
    lines = (*find_shared_head_lines(workspace), *tracked)
    found += [tree_heads.FoundHead(note, where) for line, where in lines if (note := decode_detail(line).note)]
    found += [*tree_heads.read_stored_heads(folder), *tree_heads.read_recorded_heads(read_lines(folder))]
    return tree_heads.check_heads(
        tree_heads.read_leaves(folder), found, recorder.log.name, trusted_keys(recorder.environment.home, config)
    )


def heads_in_notes(workspace: Workspace) -> Iterator[tree_heads.FoundHead]:
    if workspace.common_dir is None:
        return
    own = RemitRepository(workspace)
    list_notes = ("notes", f"--ref={NOTES_REF}", "list")
    listed = Git(workspace.root).text(*list_notes, ok=(0, 1))
    if own.exists:
        listed += "\n" + own.run(*list_notes, ok=(0, 1)).decode("utf-8", "replace")
    pairs = [(note, commit) for note, _, commit in (line.partition(" ") for line in listed.splitlines() if line)]
    contents = ContentStore(workspace, "").load_many(note for note, _ in pairs)
    for note, commit in pairs:
        for part in split_heads(contents.get(note, b"").decode("utf-8", "replace")):
            yield tree_heads.FoundHead(part, f"note of commit {commit[:12]}")
