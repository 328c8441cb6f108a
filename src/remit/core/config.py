"""Settings of `remit.toml`. Every key is optional; unknown keys are errors."""

from typing import Literal, TypeAlias, get_args

from msgspec import Struct, json

from remit.core.decision import ErrorType, Mode
from remit.core.diff.contents import sha256
from remit.core.grant import UNWAIVABLE_CODES, ProjectGrant
from remit.core.scope.globs import glob_error
from remit.core.secrets.bounded_regex import MAX_PATTERNS, compile_team_pattern
from remit.core.team_hooks import Hook, OnWriteCommand, TrustItem
from remit.core.tree_head import parse_public_key


class ShareSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Data that leaves the machine.

    `log` "ref" pushes a git ref per machine, `refs/remit/log/<machine>`; "tree" keeps a tracked file per machine under
    `.orchestration/log/`, and so in every commit.
    """

    notes: bool = False
    log: Literal["off", "ref", "tree"] = "off"


class LedgerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The ledger's witness, and keys that a team trusts: 64 hex digits, or verifier keys."""

    witness: str | None = None
    trusted_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in self.trusted_keys:
            parse_public_key(key)


class Redact(Struct, frozen=True, forbid_unknown_fields=True):
    """Regular expressions for a team's secrets; matches are masked before a record is written."""

    patterns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.patterns) > MAX_PATTERNS:
            raise ValueError(f"[redact] patterns: there are {len(self.patterns)}; at most {MAX_PATTERNS} are allowed")
        for pattern in self.patterns:
            compile_team_pattern(pattern)


class ApprovalRules(Struct, frozen=True, forbid_unknown_fields=True):
    """When a person is asked, and how long an approval lasts.

    `threshold` is a risk from 0 to 100: destructive calls of at least this risk need approval even if every rule allows
    them; 0 asks about every destructive call. Unset, people are asked only about denials named by `overrides`.
    `timeout_s` is the lifetime of a question, by default the agent's own timeout minus 5 s.
    """

    threshold: int | None = None
    timeout_s: float | None = None
    grant_hours: float = 8

    def __post_init__(self) -> None:
        if self.threshold is not None and not 0 <= self.threshold <= 100:
            raise ValueError(f"[approvals] threshold: expected a risk from 0 to 100, not {self.threshold}")


OVERRIDABLE: tuple[ErrorType, ...] = (
    "MISSING_OR_INVALID_INTENT",
    "SCOPE_VIOLATION",
    "INTENTIGNORE_PATH_BLOCKED",
    "STALE_FILE",
    "INTENT_CLOSED",
)
"""Denials offered to a person unless the configuration says otherwise."""


class SessionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Time limits of sessions, leases and detours."""

    idle_minutes: float = 30
    lease_s: int = 60
    detour_minutes: int = 10


class LessonSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """The file for lessons: `AGENT.md` beside the intents, or a file at the workspace root."""

    file: Literal["AGENT.md", "CLAUDE.md", "AGENTS.md"] = "AGENT.md"


class TranscriptSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Retention of conversations, stored without secrets on this machine only.

    `retain_days` 0 stores nothing: `remit why` then reads the agents' own transcripts.
    """

    retain_days: float = 90

    def __post_init__(self) -> None:
        if not 0 <= self.retain_days <= 36500:
            raise ValueError(f"[transcripts] retain_days: expected 0 to 36500 days, not {self.retain_days}")


class SnapshotSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Retention and size limits of snapshots.

    `secret_days` applies to files with secret-like names; 0 never stores them.
    """

    keep_days: float = 14
    secret_days: float = 3
    max_mib: int = 2048
    max_file_mib: int = 50

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) < 0:
                raise ValueError(f"[snapshots] {name}: expected 0 or more, not {getattr(self, name)}")


class ContainmentRules(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules for running shell commands contained if their text does not show their writes.

    `rewrite` "auto" contains commands in enforce mode if the agent accepts a rewritten command; "off" never does, and
    effects are compared afterwards.
    `generated` are patterns of unignored files that tools regenerate: contained commands may write untracked matches
    under any intent, once a person trusts the patterns.
    After `time_limit_s` a command is ended and judged by its effects so far; 0 means no limit. A command that writes
    more than `size_limit_mib` is ended and keeps nothing. `ssh_agent` gives access to the ssh-agent.
    """

    rewrite: Literal["auto", "off"] = "auto"
    generated: tuple[str, ...] = ()
    time_limit_s: float = 0
    size_limit_mib: int = 4096
    ssh_agent: bool = False

    @property
    def trust_items(self) -> tuple[TrustItem, ...]:
        """Return the patterns that a person must trust before they count."""
        if not self.generated:
            return ()
        digest = sha256(b"generated\0" + json.encode(self.generated))
        text = f"kept under any intent, and only counted: {', '.join(self.generated)}"
        return (TrustItem("generated", "remit.toml [containment] generated", text, digest),)

    def __post_init__(self) -> None:
        if not 0 <= self.time_limit_s < float("inf"):
            raise ValueError(f"[containment] time_limit_s: expected 0 or more seconds, not {self.time_limit_s}")
        if self.size_limit_mib < 1:
            raise ValueError(f"[containment] size_limit_mib: expected 1 or more, not {self.size_limit_mib}")
        for pattern in self.generated:
            fault = glob_error(pattern)
            if fault is not None:
                raise ValueError(f"[containment] generated: {pattern!r}: {fault}")


TrailerStyle: TypeAlias = Literal["none", "kernel", "apache", "coauthor", "Remit-Intent"]
TRAILER_STYLES: tuple[TrailerStyle, ...] = get_args(TrailerStyle)


class Trailers(Struct, frozen=True, forbid_unknown_fields=True):
    """Trailers of commit messages that name an agent: `Assisted-by`, `Generated-by`, `Co-authored-by`, the intent.

    `Signed-off-by` is never used: only a person can certify.
    """

    style: TrailerStyle = "none"


class Verify(Struct, frozen=True, forbid_unknown_fields=True):
    """Commands that check agents' writes. Their rewrites are recorded as their own, their failures reported."""

    on_write: tuple[OnWriteCommand, ...] = ()


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file. Without `mode`, a governed workspace enforces if an intents file exists, and observes
    otherwise.
    """

    mode: Mode | None = None
    share: ShareSettings = ShareSettings()
    ledger: LedgerSettings = LedgerSettings()
    redact: Redact = Redact()
    session: SessionSettings = SessionSettings()
    approvals: ApprovalRules = ApprovalRules()
    overrides: tuple[ErrorType, ...] = OVERRIDABLE
    lessons: LessonSettings = LessonSettings()
    trailers: Trailers = Trailers()
    transcripts: TranscriptSettings = TranscriptSettings()
    snapshots: SnapshotSettings = SnapshotSettings()
    containment: ContainmentRules = ContainmentRules()
    verify: Verify = Verify()
    hooks: tuple[Hook, ...] = ()
    grants: tuple[ProjectGrant, ...] = ()

    def __post_init__(self) -> None:
        never = next((code for code in self.overrides if code in UNWAIVABLE_CODES), None)
        if never is not None:
            raise ValueError(f"overrides: {never} is never waived; take it out")
