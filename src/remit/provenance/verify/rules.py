"""The rules of `remit verify`, and a finding by one of them. The ids are stable: a build can name them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from remit.core.record import KEY

Severity: TypeAlias = Literal["note", "warning", "error"]
SEVERITIES: tuple[Severity, ...] = ("note", "warning", "error")
Document: TypeAlias = dict[str, Any]

RULES: dict[str, tuple[Severity, str]] = {
    "RMT001": ("error", "a change outside the intent's scope"),
    "RMT002": ("warning", "a change by an agent without an intent"),
    "RMT003": ("warning", "a change that no verdict came before"),
    "RMT004": ("error", "a protected path was changed"),
    "RMT005": ("warning", "tests were weakened together with a change of code"),
    "RMT006": ("note", "an intent was closed, and nothing shows that a criterion is met"),
    "RMT007": ("error", "the ledger is not what was appended"),
    "RMT008": ("error", "a commit message says of agents what the policy does not allow"),
    "RMT009": ("error", "settings that steer an agent were changed"),
    "RMT010": ("note", "what the project depends on was changed"),
    "RMT011": ("error", "what looks like a secret stands in a record or a note"),
    "RMT012": ("note", "a person's yes let a change through"),
    "RMT014": ("warning", "the declared class is not the computed one"),
    "RMT015": ("note", "a change that the selection did not announce"),
    "RMT016": ("error", "a content is not the one that was recorded"),
    "RMT017": ("error", "a note says more than its commit added"),
    "RMT018": ("error", "a constraint of the intent does not hold for what was changed under it"),
    "RMT019": ("error", "nothing shows who made a change, and evidence is required"),
}
"""What each rule finds, and how much it weighs."""

INTEGRITY_RULES = ("RMT007", "RMT016")


class RuleFinding(Struct, frozen=True):
    """One thing that is wrong. `line` is 1-based in the version of `commit`, 0 where it is about the whole file."""

    rule: str
    severity: Severity
    message: str
    path: str = ""
    line: int = 0
    commit: str | None = None
    record: str | None = None
    intent_id: str | None = None


class LinePosition(Struct, frozen=True):
    """Where a record's lines stand in a range of commits."""

    commit: str
    path: str
    line: int


class CommitRange(Struct, frozen=True):
    """The part of the history that is asked about: where the records' lines stand in it, and the paths it changed."""

    commits: tuple[str, ...]
    spots: Mapping[str, Sequence[LinePosition]]
    paths: frozenset[str]


def make_finding(rule: str, message: str, **about: Any) -> RuleFinding:
    """A finding of that rule, as much as the rule weighs."""
    return RuleFinding(rule, RULES[rule][0], message, **about)


def body_of(document: Document) -> Document:
    """Remit's part of a record."""
    return document["metadata"][KEY]


def place_findings(findings: Iterable[RuleFinding], spots: Sequence[LinePosition] | None) -> Iterator[RuleFinding]:
    """The findings where their lines stand now; those of files that the range does not touch are not its own."""
    for one in findings:
        if spots is None:
            yield one
            continue
        for spot in spots:
            if spot.path == one.path or not one.path:
                yield replace(one, path=spot.path, line=spot.line, commit=spot.commit)
