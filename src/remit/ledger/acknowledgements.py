"""What a person said of findings that nothing can mend: they were seen, and verification need not fail on them again.

An acknowledgement is a `recovery` record of this machine's log. It counts once a signed tree head covers it, so
that nobody without the key can make one; and it covers exactly what it names. Nothing disappears by it: an
acknowledged finding is still told, as a warning. What shows that a record was altered, removed or moved cannot be
acknowledged.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct, json
from msgspec.structs import replace

from remit.ledger.bodies import Line
from remit.ledger.findings import LedgerFinding
from remit.ledger.reader import positions
from remit.ledger.segments import UNREADABLE

ACKNOWLEDGED = "acknowledged"
"""The reason in the detail of such a `recovery` record."""

ACKNOWLEDGEABLE = frozenset({"wrong_log", "head_missing"})
"""Findings that a whole chain can have: an older version went on in another machine's log, or the head was lost."""

_MARK = f'"reason":"{ACKNOWLEDGED}"'.encode()

Acknowledged: TypeAlias = Mapping[tuple[str, str], str]
"""By log and subject, when a person acknowledged that."""


class _Subject(Struct):
    log: str
    subject: str


class _Body(Struct):
    event: str = ""
    reason: str = ""
    findings: tuple[_Subject, ...] = ()


class _Line(Line[_Body]):
    timestamp: str


_LINE = json.Decoder(_Line)


def acknowledgement(own: str, findings: Iterable[LedgerFinding]) -> dict[str, Any]:
    """The detail of the record that acknowledges these; `own` names this machine's log."""
    told = [
        {"log": f.log or own, "code": f.code, "subject": f.subject, "message": f.message, "seq": f.seq}
        for f in findings
    ]
    return {"reason": ACKNOWLEDGED, "by": "person", "findings": told}


def acknowledged_in(folder: Path, size: int | None = None) -> Acknowledged:
    """What records of a log acknowledge; only those among its first `size` lines, where that is given."""
    found: dict[tuple[str, str], str] = {}
    for number, line in enumerate(line for line in positions(folder) if line.ended):
        if size is not None and number >= size:
            break
        if _MARK not in line.raw:
            continue
        try:
            record = _LINE.decode(line.raw)
        except UNREADABLE:
            continue
        body = record.metadata.body
        if body.event == "recovery" and body.reason == ACKNOWLEDGED:
            found |= {(one.log, one.subject): record.timestamp for one in body.findings}
    return found


def weighed(findings: Sequence[LedgerFinding], own: str, known: Acknowledged) -> list[LedgerFinding]:
    """The findings; those that were acknowledged are warnings that say so."""
    return [_weighed(finding, known.get((finding.log or own, finding.subject))) for finding in findings]


def _weighed(finding: LedgerFinding, at: str | None) -> LedgerFinding:
    if at is None or finding.severity != "error" or finding.code not in ACKNOWLEDGEABLE:
        return finding
    return replace(finding, severity="warning", message=f"{finding.message} (acknowledged by a person, {at[:19]}Z)")
