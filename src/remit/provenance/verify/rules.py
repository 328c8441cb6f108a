"""Rules of `remit verify`, and the findings by them. The ids are stable: a build can name them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

Severity: TypeAlias = Literal["note", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
Document: TypeAlias = dict[str, Any]

RULES: dict[str, tuple[Severity, str]] = {
    "RMT001": ("error", "a change outside the intent's scope"),
    "RMT002": ("warning", "a change by an agent without an intent"),
    "RMT003": ("warning", "a change without a verdict before it"),
    "RMT004": ("error", "a protected path was changed"),
    "RMT005": ("warning", "tests were weakened together with a change of code"),
    "RMT006": ("note", "an intent was closed without evidence for a criterion"),
    "RMT007": ("error", "the ledger differs from what was appended"),
    "RMT008": ("error", "a commit message makes a claim about agents that the policy forbids"),
    "RMT009": ("error", "settings that steer an agent were changed"),
    "RMT010": ("note", "a dependency file was changed"),
    "RMT011": ("error", "a record or a note contains what looks like a secret"),
    "RMT012": ("note", "a person's approval let a change through"),
    "RMT014": ("warning", "the declared class is not the computed one"),
    "RMT015": ("note", "a change that the session had not announced"),
    "RMT016": ("error", "a content differs from its recorded hash"),
    "RMT017": ("error", "a note attests lines that its commit did not add"),
    "RMT018": ("error", "a constraint of the intent is broken by the changes under it"),
    "RMT019": ("error", "a change has no evidence of its author, and evidence is required"),
}
"""Severity and meaning of each rule."""

INTEGRITY_RULES = ("RMT007", "RMT016")


class RuleFinding(Struct, frozen=True):
    """A finding. `line` counts from 1 in the version of `commit`, 0 for the whole file."""

    rule: str
    severity: Severity
    message: str
    path: str = ""
    line: int = 0
    commit: str | None = None
    record: str | None = None
    intent_id: str | None = None


class LinePosition(Struct, frozen=True):
    """Position of a record's lines in a range of commits."""

    commit: str
    path: str
    line: int


class CommitRange(Struct, frozen=True):
    """Part of the history under verification: positions of records' lines, and the changed paths."""

    commits: tuple[str, ...]
    spots: Mapping[str, Sequence[LinePosition]]
    paths: frozenset[str]


def make_finding(rule: str, message: str, **about: Any) -> RuleFinding:
    return RuleFinding(rule, RULES[rule][0], message, **about)


def place_findings(findings: Iterable[RuleFinding], positions: Sequence[LinePosition] | None) -> Iterator[RuleFinding]:
    """Move the findings to the current positions of their lines; findings on files outside the range are dropped."""
    for finding in findings:
        if positions is None:
            yield finding
            continue
        for position in positions:
            if position.path == finding.path or not finding.path:
                yield replace(finding, path=position.path, line=position.line, commit=position.commit)
