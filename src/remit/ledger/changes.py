"""What records say happened to files, read from the lines themselves: all that attribution has to know, and no more."""

from collections.abc import Iterator

from msgspec import DecodeError, Struct, ValidationError, json

from remit.core.contents import Hunk
from remit.core.record import KEY


class Change(Struct, frozen=True, gc=False):
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
    told: bool = False
    moved_from: str | None = None
    unproved: tuple[tuple[int, int], ...] = ()
    """New lines, first and last, of which nothing proves that the call wrote them."""
    likely: tuple[tuple[int, int], ...] = ()
    """Those of the unproved lines that nothing but the call can be seen to have written."""
    contained: bool = False
    """Whether a contained command left it."""
    command: str | None = None
    """What the call ran, where it was a command."""
    took_away: bool = False
    """Whether the same call took files away."""
    revision: str | None = None
    """The commit that was checked out when it was recorded."""

    @property
    def by_git(self) -> bool:
        """Whether git brought the content, as a checkout or a merge does, and nobody wrote it then."""
        return self.origin == "git"

    @property
    def observed(self) -> bool:
        """Whether it was found by comparing, and neither a call nor a command of Remit's own told of it."""
        return self.event == "human_edit" and self.origin != "verification"


class _Side(Struct, gc=False):
    sha256: str | None = None
    git_blob: str | None = None
    lines: int | None = None


class _File(Struct, gc=False, rename={"source": "from"}):
    path: str
    before: _Side | None = None
    after: _Side | None = None
    hunks: tuple[tuple[int, int, int, int], ...] | None = None
    told: bool = False
    source: str | None = None
    unproved: tuple[tuple[int, int], ...] = ()
    likely: bool = False


class _Chain(Struct, gc=False):
    seq: int = 0


class _Call(Struct, gc=False):
    command: str | None = None


class _Decision(Struct, gc=False):
    verdict: str = ""


class _Body(Struct, gc=False):
    event: str = ""
    session_id: str | None = None
    intent_id: str | None = None
    origin: str | None = None
    files: tuple[_File, ...] = ()
    took_away: bool = False
    chain: _Chain | None = None
    call: _Call | None = None
    decision: _Decision | None = None


class _Metadata(Struct, rename={"body": KEY}, gc=False):
    body: _Body


class _Vcs(Struct, gc=False):
    revision: str | None = None


class _Line(Struct, gc=False):
    id: str
    timestamp: str
    metadata: _Metadata
    vcs: _Vcs | None = None


_LINE = json.Decoder(_Line)
_NONE = _Side()


def changes_on(raw: bytes) -> Iterator[Change]:
    """The changes that a line tells of; none where it is no record of that shape, which is `verify`'s to report."""
    try:
        line = _LINE.decode(raw)
    except (DecodeError, ValidationError, UnicodeDecodeError, RecursionError):
        return
    body = line.metadata.body
    took_away = body.took_away or any(file.before and not file.after for file in body.files)
    wrote = body.event != "human_edit"  # such a record may name the call in which git brought the contents
    for file in body.files:
        before, after = file.before or _NONE, file.after or _NONE
        yield Change(
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
            told=file.told,
            moved_from=file.source,
            unproved=file.unproved,
            likely=file.unproved if file.likely and body.event == "mutation" else (),
            contained=wrote and body.decision is not None and body.decision.verdict == "contain",
            command=body.call.command if body.call and wrote else None,
            took_away=took_away,
            revision=line.vcs.revision if line.vcs else None,
        )
