"""What records say happened to files, read from the lines themselves: all that attribution has to know, and no more.

The net change that one session made to each file, from its records.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import DecodeError, Struct, ValidationError, json
from msgspec.structs import replace

from remit.core.diff.contents import Hunk
from remit.core.record import KEY


class RecordedChange(Struct, frozen=True, gc=False):
    """One change of one file. Blobs are git's names; a side that does not exist, or was not recorded, is None.

    `hunks` are None where the record has none; `told` says that the tool's own answer gave their place. `origin` is
    the word of a `human_edit`: `person`, `git`, `verification` for a trusted command that Remit ran, or `unknown`.
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
    unproved_lines: tuple[tuple[int, int], ...] = ()
    """New lines, first and last, of which nothing proves that the call wrote them."""
    likely_lines: tuple[tuple[int, int], ...] = ()
    """Those of the unproved lines that nothing but the call can be seen to have written."""
    is_contained: bool = False
    """Whether a contained command left it."""
    command: str | None = None
    """What the call ran, where it was a command."""
    has_deletions: bool = False
    """Whether the same call took files away."""
    revision: str | None = None
    """The commit that was checked out when it was recorded."""

    @property
    def came_from_git(self) -> bool:
        """Whether git brought the content, as a checkout or a merge does, and nobody wrote it then."""
        return self.origin == "git"

    @property
    def is_found_by_comparison(self) -> bool:
        """Whether it was found by comparing, and neither a call nor a command of Remit's own told of it."""
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


_CHANGE_RECORD = json.Decoder(_ChangeRecord)
_NO_SIDE = _ChangedSide()


def read_changes(raw: bytes) -> Iterator[RecordedChange]:
    """The changes that a line tells of; none where it is no record of that shape, which is `verify`'s to report."""
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
            is_contained=wrote and body.decision is not None and body.decision.verdict == "contain",
            command=body.call.command if body.call and wrote else None,
            has_deletions=took_away,
            revision=line.vcs.revision if line.vcs else None,
        )


class SessionChange(Struct, frozen=True):
    """A run of a session's changes to one file that follow one another, as one change.

    `before` and `after` are git blob names: None where the file did not exist on that side, empty where its content
    was not kept, as of a file with secrets. A change by somebody else in between begins a new run. `records` are the
    ids of the mutation records, oldest first.
    """

    path: str
    before: str | None
    after: str | None
    records: tuple[str, ...]


def join_session_changes(documents: Iterable[dict[str, Any]]) -> tuple[SessionChange, ...]:
    """Join a session's mutation records, oldest first, into one change for each run of each file, in their order.

    Runs that end as they began are left out.
    """
    runs: list[SessionChange] = []
    newest: dict[str, int] = {}
    for document in documents:
        for change in read_mutation_changes(document):
            at = newest.get(change.path)
            if at is not None and runs[at].after == change.before:
                runs[at] = replace(runs[at], after=change.after, records=(*runs[at].records, *change.records))
            else:
                newest[change.path] = len(runs)
                runs.append(change)
    return tuple(run for run in runs if run.before != run.after)


def read_mutation_changes(document: dict[str, Any]) -> Iterable[SessionChange]:
    """Yield the changes of one mutation record."""
    for file in document["metadata"][KEY].get("files", []):
        before, after = file.get("before"), file.get("after")
        yield SessionChange(str(file["path"]), read_blob_name(before), read_blob_name(after), (str(document["id"]),))


def read_blob_name(side: dict[str, Any] | None) -> str | None:
    """Return the git blob name of one side of a change; empty where it was not kept, None where there was no file."""
    return None if side is None else str(side.get("git_blob") or "")
