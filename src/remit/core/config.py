"""`remit.toml`: the shape of contracts §10. All of it is optional; an unknown key is an error, not a silence."""

from typing import Literal

from msgspec import Struct

from remit.core.decision import ErrorType, Mode
from remit.core.redaction import PATTERNS_MOST, compile_pattern
from remit.core.treehead import read_public_key


class Share(Struct, frozen=True, forbid_unknown_fields=True):
    """What leaves the machine."""

    notes: bool = False
    log: Literal["off", "ref", "tree"] = "off"


class Ledger(Struct, frozen=True, forbid_unknown_fields=True):
    """Witnesses of the ledger, and the keys that a team trusts: 64 hex digits, or as verifiers take them."""

    witness: str | None = None
    trusted_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in self.trusted_keys:
            read_public_key(key)


class Redact(Struct, frozen=True, forbid_unknown_fields=True):
    """Regular expressions for a team's own secrets: what they match is masked before a record is written."""

    patterns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.patterns) > PATTERNS_MOST:
            raise ValueError(f"[redact] patterns: there are {len(self.patterns)}; the most is {PATTERNS_MOST}")
        for pattern in self.patterns:
            compile_pattern(pattern)


class ApprovalRules(Struct, frozen=True, forbid_unknown_fields=True):
    """When a person is asked, and how long their yes lasts. `threshold` 0 asks about every destructive call.

    `timeout_s` is how long a question waits; the agent's own time-out less 5 s by default.
    """

    threshold: int = 100
    timeout_s: float | None = None
    grant_hours: float = 8


OVERRIDABLE: tuple[ErrorType, ...] = (
    "MISSING_OR_INVALID_INTENT",
    "SCOPE_VIOLATION",
    "INTENTIGNORE_PATH_BLOCKED",
    "STALE_FILE",
    "INTENT_CLOSED",
)
"""The denials that are offered to a person, unless the configuration says otherwise."""


class Session(Struct, frozen=True, forbid_unknown_fields=True):
    """Times that concern sessions."""

    idle_minutes: int = 30
    lease_s: int = 60
    detour_minutes: int = 10


class Lessons(Struct, frozen=True, forbid_unknown_fields=True):
    """Where lessons are written: `AGENT.md` beside the intents, or a file at the workspace's root."""

    file: Literal["AGENT.md", "CLAUDE.md", "AGENTS.md"] = "AGENT.md"


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The file. `mode` is None where it is not set: an intents file then means enforce, none means observe."""

    mode: Mode | None = None
    share: Share = Share()
    ledger: Ledger = Ledger()
    redact: Redact = Redact()
    session: Session = Session()
    approvals: ApprovalRules = ApprovalRules()
    overrides: tuple[ErrorType, ...] = OVERRIDABLE
    lessons: Lessons = Lessons()
