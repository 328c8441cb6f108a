"""Findings about a log, and their acknowledgement by a person.

An acknowledgement is a `recovery` record of this machine's log. The acknowledgement takes effect under a signed tree
head, so forging requires the key, and covers exactly the named findings. An acknowledged finding is still reported, as
a warning. Findings of altered, removed or moved records cannot be acknowledged.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.ledger.log_files import decode_detail, decode_header
from remit.ledger.reader import read_positions

FindingCode: TypeAlias = (
    Literal["altered", "removed", "truncated", "duplicated", "moved", "foreign", "wrong_log", "torn_tail", "rewritten"]
    | Literal["head_missing", "head_behind", "head_unreadable", "head_forged"]
    | Literal["unproved", "tracked_damaged", "unreadable"]
)


class LedgerFinding(Struct, frozen=True):
    """A fault of a log. `seq` to `last_seq` are the affected records, None for a fault without records. `line` is the
    1-based line in the segment where the fault shows; for missing records, the line before the gap. `log` is the log's
    name, empty for this machine's. `about` identifies findings with a changing place.
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
        """A stable identity of the finding, for acknowledgements."""
        return self.about or f"{self.code} {self.seq}-{self.last_seq} {self.segment}:{self.line}"


def name_records(first: int, last: int) -> str:
    return f"record {first}" if first == last else f"records {first} to {last}"


ACKNOWLEDGED_REASON = "acknowledged"  # reason in a `recovery` record that acknowledges findings
ACKNOWLEDGEABLE_CODES = frozenset({"wrong_log", "head_missing"})
"""Codes that an unbroken chain can have: an older version continued in another machine's log, or the head was lost."""

_ACKNOWLEDGED_BYTES = f'"reason":"{ACKNOWLEDGED_REASON}"'.encode()

Acknowledgements: TypeAlias = Mapping[tuple[str, str], str]  # time of acknowledgement by (log, subject)


def build_acknowledgement(own: str, findings: Iterable[LedgerFinding]) -> dict[str, Any]:
    """Return the detail of an acknowledging record; `own` is the name of this machine's log."""
    named = [
        {"log": f.log or own, "code": f.code, "subject": f.subject, "message": f.message, "seq": f.seq}
        for f in findings
    ]
    return {"reason": ACKNOWLEDGED_REASON, "by": "person", "findings": named}


def read_acknowledgements(folder: Path, size: int | None = None) -> Acknowledgements:
    """Return the acknowledgements recorded in a log; with `size`, only those in the first `size` lines."""
    found: dict[tuple[str, str], str] = {}
    for number, line in enumerate(line for line in read_positions(folder) if line.ended):
        if size is not None and number >= size:
            break
        header = decode_header(line.raw) if _ACKNOWLEDGED_BYTES in line.raw else None
        if header is None or header.event != "recovery":
            continue
        detail = decode_detail(line.raw)
        if detail.reason == ACKNOWLEDGED_REASON:
            found |= {(finding.log, finding.subject): header.timestamp for finding in detail.findings}
    return found


def soften_acknowledged(findings: Sequence[LedgerFinding], own: str, known: Acknowledgements) -> list[LedgerFinding]:
    softened: list[LedgerFinding] = []
    for finding in findings:
        at = known.get((finding.log or own, finding.subject))
        if at is not None and finding.severity == "error" and finding.code in ACKNOWLEDGEABLE_CODES:
            message = f"{finding.message} (acknowledged by a person, {at[:19]}Z)"
            finding = replace(finding, severity="warning", message=message)
        softened.append(finding)
    return softened
