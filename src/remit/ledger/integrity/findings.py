"""What can be wrong with a log, and how it is told.

What a person said of findings that nothing can mend: they were seen, and verification need not fail on them again.

An acknowledgement is a `recovery` record of this machine's log. It counts once a signed tree head covers it, so
that nobody without the key can make one; and it covers exactly what it names. Nothing disappears by it: an
acknowledged finding is still told, as a warning. What shows that a record was altered, removed or moved cannot be
acknowledged.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct, json
from msgspec.structs import replace

from remit.ledger.reader import read_positions
from remit.ledger.record_views import RecordLine
from remit.ledger.segments import DECODE_ERRORS

FindingCode: TypeAlias = Literal[
    "altered",
    "removed",
    "truncated",
    "duplicated",
    "moved",
    "foreign",
    "wrong_log",
    "torn_tail",
    "head_missing",
    "head_behind",
    "head_unreadable",
    "head_forged",
    "rewritten",
    "unproved",
    "tracked_damaged",
    "unreadable",
]


class LedgerFinding(Struct, frozen=True):
    """One thing wrong with a log.

    `seq` to `last_seq` are the records it is about, None where there is none. `line` is 1-based in its
    segment: where the finding shows, which for records that are gone is the line before the gap. `log` names the log
    where it is not this machine's. `about` tells the finding from others where its place may change later.
    """

    code: FindingCode
    severity: Literal["error", "warning"]
    message: str
    seq: int | None = None
    last_seq: int | None = None
    segment: str = ""
    line: int = 0
    log: str = ""
    about: str = ""

    @property
    def subject(self) -> str:
        """What the finding is about, the same at every look: a person may have acknowledged exactly that."""
        return self.about or f"{self.code} {self.seq}-{self.last_seq} {self.segment}:{self.line}"


def name_records(first: int, last: int) -> str:
    """The records from `first` to `last`, as findings name them."""
    return f"record {first}" if first == last else f"records {first} to {last}"


ACKNOWLEDGED_REASON = "acknowledged"
"""The reason in the detail of such a `recovery` record."""

ACKNOWLEDGEABLE_CODES = frozenset({"wrong_log", "head_missing"})
"""Findings that a whole chain can have: an older version went on in another machine's log, or the head was lost."""

_ACKNOWLEDGED_BYTES = f'"reason":"{ACKNOWLEDGED_REASON}"'.encode()

Acknowledgements: TypeAlias = Mapping[tuple[str, str], str]
"""By log and subject, when a person acknowledged that."""


class _AcknowledgedFinding(Struct):
    log: str
    subject: str


class _AcknowledgementView(Struct):
    event: str = ""
    reason: str = ""
    findings: tuple[_AcknowledgedFinding, ...] = ()


class _AcknowledgementRecord(RecordLine[_AcknowledgementView]):
    timestamp: str


_ACKNOWLEDGEMENT = json.Decoder(_AcknowledgementRecord)


def build_acknowledgement(own: str, findings: Iterable[LedgerFinding]) -> dict[str, Any]:
    """The detail of the record that acknowledges these; `own` names this machine's log."""
    told = [
        {"log": f.log or own, "code": f.code, "subject": f.subject, "message": f.message, "seq": f.seq}
        for f in findings
    ]
    return {"reason": ACKNOWLEDGED_REASON, "by": "person", "findings": told}


def read_acknowledgements(folder: Path, size: int | None = None) -> Acknowledgements:
    """What records of a log acknowledge; only those among its first `size` lines, where that is given."""
    found: dict[tuple[str, str], str] = {}
    for number, line in enumerate(line for line in read_positions(folder) if line.ended):
        if size is not None and number >= size:
            break
        if _ACKNOWLEDGED_BYTES not in line.raw:
            continue
        try:
            record = _ACKNOWLEDGEMENT.decode(line.raw)
        except DECODE_ERRORS:
            continue
        body = record.metadata.body
        if body.event == "recovery" and body.reason == ACKNOWLEDGED_REASON:
            found |= {(one.log, one.subject): record.timestamp for one in body.findings}
    return found


def soften_acknowledged(findings: Sequence[LedgerFinding], own: str, known: Acknowledgements) -> list[LedgerFinding]:
    """The findings; those that were acknowledged are warnings that say so."""
    return [_soften_finding(finding, known.get((finding.log or own, finding.subject))) for finding in findings]


def _soften_finding(finding: LedgerFinding, at: str | None) -> LedgerFinding:
    if at is None or finding.severity != "error" or finding.code not in ACKNOWLEDGEABLE_CODES:
        return finding
    return replace(finding, severity="warning", message=f"{finding.message} (acknowledged by a person, {at[:19]}Z)")
