"""Changes of files, as recorded: the fields that attribution needs, decoded directly from log lines."""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import DecodeError, Struct, ValidationError, json
from msgspec.structs import replace

from remit.core.diff.contents import Hunk
from remit.core.python_runtime import prepare_type
from remit.core.record import KEY


class RecordedChange(Struct, frozen=True, gc=False):
    """The change of a file by a record. Blobs are git object names; None for a missing or unrecorded side. `hunks` is
    None if the record has none. `has_tool_positions` is True if the tool's own answer stated the positions. `origin`,
    only in `human_edit` records, is `person`, `git`, `verification` (a trusted command that Remit ran) or `unknown`.
    """

    seq: int
    id: str
    at: str
    event: str
    path: str
    session_id: str | None = None
    intent_id: str | None = None
    origin: str | None = None
    before_blob: str | None = None
    after_blob: str | None = None
    after_sha: str | None = None
    before_lines: int | None = None
    hunks: tuple[Hunk, ...] | None = None
    has_tool_positions: bool = False
    moved_from: str | None = None
    unproved_lines: tuple[tuple[int, int], ...] = ()  # ranges of new lines without proof that the call wrote them
    likely_lines: tuple[tuple[int, int], ...] = ()  # unproved ranges for which the call is the only known writer
    is_layout: bool = False  # true if the unproved lines are a new layout of lines before the change
    replays: str | None = None  # of a replay: the record of the call that it proves
    is_contained: bool = False  # true if a contained command left the change
    command: str | None = None  # the command of the call, if the call ran one
    has_deletions: bool = False  # true if the same call deleted files
    revision: str | None = None  # the checked-out commit at the time of recording

    @property
    def came_from_git(self) -> bool:
        """True if git brought the content, e.g. by a checkout or merge, and no writer is known."""
        return self.origin == "git"

    @property
    def is_found_by_comparison(self) -> bool:
        """True if the change was found by comparison and neither a call nor a command of Remit's reported it."""
        return self.event == "human_edit" and self.origin != "verification"


class _ChangedSide(Struct, gc=False):
    sha256: str | None = None
    git_blob: str | None = None
    lines: int | None = None


class _ChangedFile(Struct, gc=False, rename={"source": "from"}):
    path: str
    before: _ChangedSide | None = None
    after: _ChangedSide | None = None
    hunks: tuple[tuple[int, int, int, int], ...] | None = None
    told: bool = False
    source: str | None = None
    unproved: tuple[tuple[int, int], ...] = ()
    likely: bool = False
    layout: bool = False


class _ChangeChain(Struct, gc=False):
    seq: int = 0


class _ChangeCall(Struct, gc=False):
    command: str | None = None


class _ChangeDecision(Struct, gc=False):
    verdict: str = ""


class _ChangeView(Struct, gc=False):
    event: str = ""
    session_id: str | None = None
    intent_id: str | None = None
    origin: str | None = None
    files: tuple[_ChangedFile, ...] = ()
    took_away: bool = False
    replays: str | None = None
    chain: _ChangeChain | None = None
    call: _ChangeCall | None = None
    decision: _ChangeDecision | None = None


class _ChangeMetadata(Struct, rename={"body": KEY}, gc=False):
    body: _ChangeView


class _ChangeVcs(Struct, gc=False):
    revision: str | None = None


class _ChangeRecord(Struct, gc=False):
    id: str
    timestamp: str
    metadata: _ChangeMetadata
    vcs: _ChangeVcs | None = None


_CHANGE_RECORD = json.Decoder(prepare_type(_ChangeRecord))
_NO_SIDE = _ChangedSide()


def read_changes(raw: bytes) -> Iterator[RecordedChange]:
    """Yield the changes recorded on a line; none for an invalid line, which `verify` reports."""
    try:
        line = _CHANGE_RECORD.decode(raw)
    except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError):
        return
    body = line.metadata.body
    took_away = body.took_away or any(file.before and not file.after for file in body.files)
    wrote = body.event != "human_edit"  # such a record may name the call in which git brought the contents
    for file in body.files:
        before, after = file.before or _NO_SIDE, file.after or _NO_SIDE
        yield RecordedChange(
            seq=body.chain.seq if body.chain else 0,
            id=line.id,
            at=line.timestamp,
            event=body.event,
            path=file.path,
            session_id=body.session_id if wrote else None,
            intent_id=body.intent_id if wrote else None,
            origin=body.origin,
            before_blob=before.git_blob,
            after_blob=after.git_blob,
            after_sha=after.sha256,
            before_lines=before.lines if file.before else 0,
            hunks=None if file.hunks is None else tuple(Hunk(*numbers) for numbers in file.hunks),
            has_tool_positions=file.told,
            moved_from=file.source,
            unproved_lines=file.unproved,
            likely_lines=file.unproved if file.likely and body.event == "mutation" else (),
            is_layout=file.layout and body.event in ("mutation", "replay"),
            replays=body.replays if body.event == "replay" else None,
            is_contained=wrote and body.decision is not None and body.decision.verdict == "contain",
            command=body.call.command if body.call and wrote else None,
            has_deletions=took_away,
            revision=line.vcs.revision if line.vcs else None,
        )


def apply_replays(changes: Iterable[RecordedChange]) -> tuple[RecordedChange, ...]:
    """Return the changes without replays, each with the evidence of its replay."""
    found = tuple(changes)
    proofs = {(change.replays, change.path): change for change in found if change.event == "replay"}
    if not proofs:
        return found
    return tuple(
        replace(change, unproved_lines=proof.unproved_lines, likely_lines=(), is_layout=proof.is_layout)
        if (proof := proofs.get((change.id, change.path))) and proof.after_blob == change.after_blob
        else change
        for change in found
        if change.event != "replay"
    )


class SessionChange(Struct, frozen=True):
    """Consecutive changes of a session to a file, joined into a single change. `before` and `after` are git blob names:
    None if the file did not exist, empty if the content was not stored (e.g. a file with secrets). A foreign change in
    between begins a new run. `records` are the ids of the mutation records, oldest first.
    """

    path: str
    before: str | None
    after: str | None
    records: tuple[str, ...]


def join_session_changes(documents: Iterable[dict[str, Any]]) -> tuple[SessionChange, ...]:
    """Join a session's mutation records, oldest first, into one change per run. Runs that end as they began are
    omitted.
    """
    runs: list[SessionChange] = []
    newest: dict[str, int] = {}
    for document in documents:
        for file in document["metadata"][KEY].get("files", []):
            sides = (file.get("before"), file.get("after"))
            before, after = (None if side is None else str(side.get("git_blob") or "") for side in sides)
            change = SessionChange(str(file["path"]), before, after, (str(document["id"]),))
            at = newest.get(change.path)
            if at is not None and runs[at].after == change.before:
                runs[at] = replace(runs[at], after=change.after, records=(*runs[at].records, *change.records))
            else:
                newest[change.path] = len(runs)
                runs.append(change)
    return tuple(run for run in runs if run.before != run.after)
