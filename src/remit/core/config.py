"""`remit.toml`: the shape of contracts §10. All of it is optional; an unknown key is an error, not a silence."""

from typing import Literal, TypeAlias, get_args

from msgspec import Struct, json

from remit.core.decision import ErrorType, Mode
from remit.core.diff.contents import sha256
from remit.core.grant import UNWAIVABLE_CODES, ProjectGrant
from remit.core.scope.globs import glob_error
from remit.core.secrets.redaction import MAX_PATTERNS, compile_team_pattern
from remit.core.team_hooks import Hook, OnWriteCommand, TrustItem
from remit.core.tree_head import parse_public_key


class ShareSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """What leaves the machine.

    `log` "ref" is a git ref for each machine, `refs/remit/log/<machine>`; "tree" a tracked file for each under
    `.orchestration/log/`, of which every commit keeps a piece for good.
    """

    notes: bool = False
    log: Literal["off", "ref", "tree"] = "off"


class LedgerSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Witnesses of the ledger, and the keys that a team trusts: 64 hex digits, or as verifiers take them."""

    witness: str | None = None
    trusted_keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for key in self.trusted_keys:
            parse_public_key(key)


class Redact(Struct, frozen=True, forbid_unknown_fields=True):
    """Regular expressions for a team's own secrets: what they match is masked before a record is written."""

    patterns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if len(self.patterns) > MAX_PATTERNS:
            raise ValueError(f"[redact] patterns: there are {len(self.patterns)}; the most is {MAX_PATTERNS}")
        for pattern in self.patterns:
            compile_team_pattern(pattern)


class ApprovalRules(Struct, frozen=True, forbid_unknown_fields=True):
    """When a person is asked, and how long their yes lasts.

    `threshold` is a risk, 0 to 100: a destructive call that weighs as much needs a person's yes even where every rule
    allows it; 0 asks about each of them. Unset, people are asked about denials only, those that `overrides` names.
    `timeout_s` is how long a question waits; the agent's own time-out less 5 s by default.
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
"""The denials that are offered to a person, unless the configuration says otherwise."""


class SessionSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Times that concern sessions."""

    idle_minutes: float = 30
    lease_s: int = 60
    detour_minutes: int = 10


class LessonSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """Where lessons are written: `AGENT.md` beside the intents, or a file at the workspace's root."""

    file: Literal["AGENT.md", "CLAUDE.md", "AGENTS.md"] = "AGENT.md"


class TranscriptSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How long what agents and people said to each other is kept, on this machine only, without secrets.

    `retain_days` 0 keeps nothing: `remit why` then reads what the agents themselves still have.
    """

    retain_days: float = 90

    def __post_init__(self) -> None:
        if not 0 <= self.retain_days <= 36500:
            raise ValueError(f"[transcripts] retain_days: expected 0 to 36500 days, not {self.retain_days}")


class SnapshotSettings(Struct, frozen=True, forbid_unknown_fields=True):
    """How long states of the working tree are kept, how much room they take, and the largest file they hold.

    `secret_days` is how long they hold files whose names speak of secrets; with 0 they never do.
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
    """Whether agents' shell commands run contained where their text does not tell what they write.

    `rewrite` "auto" does so in enforce, where the agent takes another command from its hook; "off" never does, and
    effects are compared afterwards. `generated` are patterns of files that tools make anew and git does not ignore: a
    contained command may write them under any intent, once a person trusts the patterns, and where git does not track
    them. After `time_limit_s` it is ended, and what it did till then is judged; 0 is no limit.
    One that writes more than `size_limit_mib` is ended and keeps nothing. With `ssh_agent` it reaches the ssh-agent.
    """

    rewrite: Literal["auto", "off"] = "auto"
    generated: tuple[str, ...] = ()
    time_limit_s: float = 0
    size_limit_mib: int = 4096
    ssh_agent: bool = False

    @property
    def trust_items(self) -> tuple[TrustItem, ...]:
        """What a person has to trust before it counts."""
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
            why = glob_error(pattern)
            if why is not None:
                raise ValueError(f"[containment] generated: {pattern!r}: {why}")


TrailerStyle: TypeAlias = Literal["none", "kernel", "apache", "coauthor", "Remit-Intent"]
TRAILER_STYLES: tuple[TrailerStyle, ...] = get_args(TrailerStyle)


class Trailers(Struct, frozen=True, forbid_unknown_fields=True):
    """How a commit message says that an agent helped: `Assisted-by`, `Generated-by`, `Co-authored-by`, the intent.

    Nothing is ever said by `Signed-off-by`: only a person can.
    """

    style: TrailerStyle = "none"


class Verify(Struct, frozen=True, forbid_unknown_fields=True):
    """Commands that look at what agents write. What they rewrite is recorded as theirs, a failure is told."""

    on_write: tuple[OnWriteCommand, ...] = ()


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The file. `mode` is None where it is not set: in a governed workspace an intents file then means enforce, none
    observe.
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
