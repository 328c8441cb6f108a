"""Findings of checks, the decision they add up to, and the violation shown to an agent."""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from remit.core.call import CallClass

Verdict: TypeAlias = Literal["allow", "contain", "ask", "deny"]
Mode: TypeAlias = Literal["observe", "warn", "enforce"]

STRICTNESS: tuple[Verdict, ...] = ("allow", "contain", "ask", "deny")

ErrorType: TypeAlias = Literal[
    "MISSING_OR_INVALID_INTENT",
    "INVALID_INTENT_ID",
    "INTENT_NOT_FOUND",
    "INTENT_BLOCKED",
    "INTENT_CLOSED",
    "INTENT_IGNORED",
    "INTENT_ALREADY_ACTIVE",
    "INTENT_MISMATCH",
    "INTENTS_FILE_INVALID",
    "INTENTS_FILE_MISSING",
    "CONFIG_INVALID",
    "SCOPE_VIOLATION",
    "INTENTIGNORE_PATH_BLOCKED",
    "PROTECTED_PATH",
    "OUTSIDE_WORKSPACE",
    "STALE_FILE",
    "FILE_LEASED",
    "CONSTRAINT_VIOLATION",
    "COMMAND_BLOCKED",
    "INVALID_ARGUMENTS",
    "USER_REJECTED",
    "CIRCUIT_OPEN",
    "HOOK_BLOCKED",
]


def find_strictest(verdicts: tuple[Verdict, ...]) -> Verdict:
    """Return the strictest verdict, or `allow` for none."""
    return STRICTNESS[max(map(STRICTNESS.index, verdicts), default=0)]


class Finding(Struct, frozen=True):
    """A check's objection to a call. `message` names the fault and the next step."""

    rule: str
    code: ErrorType
    message: str
    verdict: Verdict = "deny"
    path: str | None = None
    context: dict[str, Any] = {}


class Decision(Struct, frozen=True):
    """The combined result of every check for a call.

    `verdict` is the strictest finding; `effect` is the action in the current mode: `observe` and `warn` let every call
    pass. `findings` are ordered by precedence.
    """

    effect: Verdict
    verdict: Verdict
    call_class: CallClass
    mode: Mode
    findings: tuple[Finding, ...] = ()
    intent_id: str | None = None
    governed: bool = True
    grants: tuple[str, ...] = ()
    """Ids of the grants that waived a finding."""

    @property
    def leading(self) -> Finding | None:
        """Return the finding to report first: the first of the strictest, never a remark."""
        return next((f for f in self.findings if f.verdict == self.verdict != "allow"), None)


UNGOVERNED_DECISION = Decision(effect="allow", verdict="allow", call_class="safe", mode="observe", governed=False)


class Violation(Struct, frozen=True):
    """A denial in a form that a model can act on. Wire format of contracts §5."""

    error_type: ErrorType
    error: str
    message: str
    tool: str
    classification: CallClass
    intent_id: str | None
    recoverable: bool
    action_hint: str
    context: dict[str, Any]
    path: str | UnsetType = UNSET
    status: Literal["error"] | UnsetType = "error"
