"""What can be wrong with a log, and how it is told."""

from typing import Literal, TypeAlias

from msgspec import Struct

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


def records_named(first: int, last: int) -> str:
    """The records from `first` to `last`, as findings name them."""
    return f"record {first}" if first == last else f"records {first} to {last}"
