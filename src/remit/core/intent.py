"""Intents: units of work with scope, constraints and definition of done (contracts §3)."""

import re
from typing import Any, Literal, TypeAlias, get_args

from msgspec import Struct

Status: TypeAlias = Literal["DRAFT", "IN_PROGRESS", "BLOCKED", "DONE", "ABORTED"]
Priority: TypeAlias = Literal["LOW", "MEDIUM", "HIGH", "CRITICAL"]

STATUSES: tuple[Status, ...] = get_args(Status)
PRIORITIES: tuple[Priority, ...] = get_args(Priority)
STATUS_ALIASES: dict[str, Status] = {"PENDING": "DRAFT", "COMPLETED": "DONE", "COMPLETE": "DONE"}
FINAL_STATUSES: frozenset[Status] = frozenset({"DONE", "ABORTED"})
TRANSITIONS: dict[Status, frozenset[Status]] = {
    "DRAFT": frozenset({"IN_PROGRESS", "ABORTED"}),
    "IN_PROGRESS": frozenset({"DONE", "BLOCKED", "ABORTED"}),
    "BLOCKED": frozenset({"IN_PROGRESS", "ABORTED"}),
    "DONE": frozenset(),
    "ABORTED": frozenset(),
}
INTENT_ID = re.compile(r"[A-Z]{2,8}-\d{3,}", re.ASCII)


def is_intent_id(text: str) -> bool:
    return INTENT_ID.fullmatch(text) is not None


class Constraint(Struct, frozen=True):
    """Free text (`kind` None: guidance) or a structured rule (`kind` is its type, `options` the rest)."""

    text: str
    kind: str | None = None
    options: dict[str, Any] = {}


class Criterion(Struct, frozen=True):
    """An acceptance criterion; `verify` is a command that exits 0 once the criterion is met."""

    text: str
    verify: str | None = None


class Intent(Struct, frozen=True):
    """An intent of `active_intents.yaml`. Times are ISO 8601 text as written."""

    id: str
    owned_scope: tuple[str, ...]
    name: str = ""
    description: str = ""
    status: Status = "DRAFT"
    priority: Priority = "MEDIUM"
    owner: str = ""
    constraints: tuple[Constraint, ...] = ()
    acceptance_criteria: tuple[Criterion, ...] = ()
    companions: bool = False
    network: Literal["allow", "none"] = "allow"
    dependencies: tuple[str, ...] = ()
    parent_intent: str | None = None
    references: tuple[str, ...] = ()
    blocked_reason: str | None = None
    created_at: str | None = None
    updated_at: str | None = None

    @property
    def title(self) -> str:
        return self.name or self.id

    @property
    def rules(self) -> tuple[Constraint, ...]:
        return tuple(constraint for constraint in self.constraints if constraint.kind is not None)


Severity: TypeAlias = Literal["error", "warning"]

LintCode: TypeAlias = Literal[
    "YAML_PARSE_ERROR",
    "MISSING_ACTIVE_INTENTS",
    "INVALID_ID_FORMAT",
    "DUPLICATE_ID",
    "INVALID_STATUS",
    "INVALID_FIELD",
    "EMPTY_SCOPE",
    "INVALID_GLOB",
    "ABSOLUTE_PATH",
    "INVALID_TIMESTAMP_FORMAT",
    "INVALID_DEPENDENCY",
    "CIRCULAR_DEPENDENCY",
    "INVALID_PARENT",
    "SCOPE_OVERLAP",
    "DOUBTFUL_SCOPE",
    "INVALID_TIMESTAMP",
    "MISSING_CONSTRAINTS",
    "MISSING_ACCEPTANCE_CRITERIA",
    "UNFINISHED_DEPENDENCY",
    "TOO_MANY_INTENTS",
    "UNKNOWN_KEY",
]


class LintFinding(Struct, frozen=True):
    """A fault of an intents file. `line` and `column` are 1-based."""

    code: LintCode
    severity: Severity
    message: str
    intent_id: str | None = None
    field: str | None = None
    line: int = 1
    column: int = 1


MAX_FILE_BYTES = 4 * 1024 * 1024
"""Bytes of an intents file. Larger files are refused unread."""


class IntentsDocument(Struct, frozen=True):
    """A parsed intents file. A faulty intent does not hide the rest."""

    intents: tuple[Intent, ...] = ()
    findings: tuple[LintFinding, ...] = ()
    sha256: str = ""

    @property
    def errors(self) -> tuple[LintFinding, ...]:
        """Return the findings that make the file fail closed."""
        return tuple(f for f in self.findings if f.severity == "error")
