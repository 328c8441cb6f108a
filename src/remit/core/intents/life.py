"""The life of an intent: the status in the file, the records of this clone, and the resulting status. Pure."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from msgspec import Struct, json
from msgspec.structs import replace

from remit.core.diff.contents import sha256
from remit.core.intent import FINAL_STATUSES, REASONED_STATUSES, Intent, Status

Origin: TypeAlias = Literal["file", "record", "elsewhere", "open"]


class LifeRecord(Struct, frozen=True, omit_defaults=True):
    """The newest transition of an intent in this clone, with its place. `written` is True if the file there agrees;
    `reopened` names the states of the file with a closing revoked by a person.
    """

    intent_id: str
    status: Status
    at: str
    by: str
    worktree: str
    branch: str = ""
    head: str | None = None
    reason: str | None = None
    written: bool = False
    reopened: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """Return the branch, or the worktree of a detached head."""
        return self.branch or self.worktree


class Place(Struct, frozen=True):
    """The place of a question about statuses. `heads` are the commits of all branches, `merged` the branches in this
    HEAD.
    """

    worktree: str = ""
    branch: str = ""
    heads: Mapping[str, str | None] = {}
    merged: frozenset[str] = frozenset()


class DerivedStatus(Struct, frozen=True, rename={"origin": "from"}):
    """A status with its source, and the source in words."""

    status: Status
    origin: Origin
    said: str = ""
    reason: str | None = None


def fingerprint(intent: Intent) -> str:
    """Return the name of an intent's written fields, whatever layout they stand in."""
    return sha256(json.encode(replace(intent, updated_at=None), order="deterministic"))


def derive_status(intent: Intent, record: LifeRecord | None, place: Place) -> DerivedStatus:
    """Return the status of an intent from the file and the newest record; the first matching rule wins."""
    written = intent.status
    if written in FINAL_STATUSES and not (record and record.reopened and fingerprint(intent) in record.reopened):
        return DerivedStatus(written, "file", "in this checkout")
    if record and record.status in FINAL_STATUSES:
        is_here = record.worktree == place.worktree and record.branch == place.branch
        reason = record.reason if record.status in REASONED_STATUSES else None
        where = f"on {record.branch} ({record.worktree})" if record.branch else f"in {record.worktree}"
        if not record.written:
            said = "recorded; `remit intent sync` writes it"
            return DerivedStatus(record.status, "record", said if is_here else f"recorded {where}", reason)
        if not is_here and is_alive_elsewhere(record, place):
            return DerivedStatus(record.status, "elsewhere", f"{where}, not merged here", reason)
    if written == "BLOCKED":
        return DerivedStatus("BLOCKED", "file", "by the file", intent.blocked_reason)
    if record and record.status == "BLOCKED" and not record.written:
        return DerivedStatus("BLOCKED", "record", f"{record.by}, since {record.at}", record.reason)
    if record and record.status == "IN_PROGRESS":
        return DerivedStatus("IN_PROGRESS", "record", f"{record.by} in {record.worktree}, since {record.at}")
    if written == "IN_PROGRESS":
        return DerivedStatus("IN_PROGRESS", "file", "by the file")
    return DerivedStatus("DRAFT", "open", "open")


def is_alive_elsewhere(record: LifeRecord, place: Place) -> bool:
    if record.place not in place.heads:
        return False
    return record.place not in place.merged or place.heads[record.place] == record.head
