"""Facts and approvals that a decision depends on, findings of checks, their decision, and the violation shown.

Facts are gathered before the decision: `policy` never looks at the world.
"""

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from remit.core.assignment import AssignmentFacts
from remit.core.call import CallClass
from remit.core.diff.edits import ProposedFile
from remit.core.intent import Intent, IntentSet, LintFinding
from remit.core.scope.path_patterns import RepoPath, relative_glob_error

Verdict: TypeAlias = Literal["allow", "contain", "ask", "deny"]
Mode: TypeAlias = Literal["observe", "warn", "enforce"]
STRICTNESS: tuple[Verdict, ...] = ("allow", "contain", "ask", "deny")
ErrorType: TypeAlias = Literal[
    "MISSING_OR_INVALID_INTENT", "INVALID_INTENT_ID", "INTENT_NOT_FOUND", "INTENT_BLOCKED", "INTENT_CLOSED",
    "INTENT_IGNORED", "INTENT_ALREADY_ACTIVE", "INTENT_MISMATCH", "INTENT_SWITCH_NEEDS_PERSON",
    "INTENTS_FILE_INVALID", "INTENTS_FILE_MISSING", "CONFIG_INVALID", "SCOPE_VIOLATION", "INTENTIGNORE_PATH_BLOCKED",
    "PROTECTED_PATH", "OUTSIDE_WORKSPACE",
    "STALE_FILE", "FILE_LEASED", "CONSTRAINT_VIOLATION", "COMMAND_BLOCKED", "INVALID_ARGUMENTS", "USER_REJECTED",
    "CIRCUIT_OPEN", "HOOK_BLOCKED", "ASSIGNMENT_ENDED", "ASSIGNMENT_PAUSED",
]  # fmt: skip


def find_strictest(verdicts: tuple[Verdict, ...]) -> Verdict:
    return STRICTNESS[max(map(STRICTNESS.index, verdicts), default=0)]


ASSIGNMENT_RULE = "assignment"
"""Rule of the findings that an assignment makes: what it objects to, the intent's own scope does not allow again."""


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


Extent: TypeAlias = Literal["once", "session", "intent", "project"]
EXTENTS: tuple[Extent, ...] = ("once", "session", "intent", "project")
HIGH_RISK = 60
"""Risk above which an approval holds for a single call only."""
UNWAIVABLE_CODES: tuple[ErrorType, ...] = ("PROTECTED_PATH", "OUTSIDE_WORKSPACE")
"""Denials that no approval overrides, whatever the configuration."""


class Grant(Struct, frozen=True):
    """An approval. `code` is the waived rule; exactly one kind of subject is set.

    Subjects are paths (`pattern`), the first words of a command (`command`), or calls of a tool without paths and
    command (`tool`). `session_id` (once, session) or `intent_id` (intent) names the owner; a project's grant is owned
    by everyone. `until` is in seconds since the epoch; None never expires.
    """

    id: str
    code: ErrorType
    extent: Extent
    pattern: str | None = None
    session_id: str | None = None
    intent_id: str | None = None
    until: float | None = None
    by: str = "person"
    command: tuple[str, ...] = ()
    tool: str | None = None

    @property
    def rule(self) -> str:
        return self.pattern or " ".join(self.command) or self.tool or ""


class ProjectGrant(Struct, frozen=True, forbid_unknown_fields=True):
    """A `[[grants]]` entry of `remit.toml`: an approval for everyone in this project.

    `code` is the waived rule, `id` the underlying answer. Either `pattern` (paths), `command` (first words) or `tool`
    (calls without paths and command) is set.
    """

    id: str
    code: ErrorType
    pattern: str | None = None
    command: tuple[str, ...] = ()
    tool: str | None = None
    by: str = "person"

    def __post_init__(self) -> None:
        if self.code in UNWAIVABLE_CODES:
            raise ValueError(f"[[grants]] code: {self.code} is never waived")
        if sum(map(bool, (self.pattern, self.command, self.tool))) != 1:
            raise ValueError(f"[[grants]] {self.id}: expected one of `pattern`, `command` and `tool`")
        if self.pattern and (fault := relative_glob_error(self.pattern)):
            raise ValueError(f"[[grants]] pattern: {self.pattern!r} cannot be used: {fault}")

    @property
    def grant(self) -> Grant:
        return Grant(
            self.id, self.code, "project", pattern=self.pattern, by=self.by, command=self.command, tool=self.tool
        )


def applies_to_session(grant: Grant, session_id: str, intent_id: str | None) -> bool:
    if grant.extent == "project":
        return True
    if grant.extent == "intent":
        return grant.intent_id is not None and grant.intent_id == intent_id
    return grant.session_id is not None and grant.session_id == session_id


def suggest_pattern(path: str | None, extent: Extent) -> str | None:
    if path is None:
        return None
    literal = escape_pattern(path)
    folder = literal.rpartition("/")[0]
    return literal if extent == "once" or not folder else f"{folder}/**"


def escape_pattern(path: str) -> str:
    spelled = "".join(f"[{c}]" if c in "*?[" else f"\\{c}" if c in "\\{}" else c for c in path)
    return f"\\{spelled}" if spelled.startswith("!") else spelled


class Target(Struct, frozen=True):
    """A path named by a call, as resolved by the workspace with links followed.

    `path` is None outside the workspace. `sha256` is None for a missing file. `seen_sha256` is the content last read or
    written by the session. `diff` is the change since then.
    """

    raw: str
    resolved: str
    path: RepoPath | None
    protected: str | None = None
    tolerated: bool = False
    """Outside the workspace, but a temporary folder or the agent's own: allowed, and recorded."""
    sha256: str | None = None
    seen_sha256: str | None = None
    diff: str = ""
    ignored_by: str | None = None
    generated: bool = False
    """Open to commands under any intent: ignored by git, or matched by a person's own patterns."""
    folds: bool = False
    """The file system ignores case or Unicode form."""
    secret: bool = False
    """In a secret place, which no jail shows; looked for only under the floor of Remit's own agent."""
    leased_by: str | None = None
    """Another session whose running call may change the file, or None."""
    mirrors: tuple[str, ...] = ()
    """Subjects of this test or page; resolved only for intents with companions."""
    strange: str | None = None
    """Kind of a special file, such as a pipe or a hard link; checked only before a file tool writes."""


NO_INTENTS = IntentSet()


class SessionFacts(Struct, frozen=True):
    """State of the calling session. `source` names how the intent was bound: selection, branch, …

    `denials` counts consecutive denials for the same reason, `denial`; `failures` counts failed tools.
    """

    intent_id: str | None = None
    source: str = ""
    denial: str = ""
    denials: int = 0
    failures: int = 0
    narrow: tuple[tuple[str, ...], ...] = ()
    """Patterns that hold beside the scope, of this session and of its parent: a path has to match each of them."""


class DeniedPath(Struct, frozen=True):
    """A path recently denied to the session. `names` are its spellings: from the root, from `cwd`, absolute."""

    path: str
    code: ErrorType
    tool: str
    names: tuple[str, ...] = ()


IntentsState: TypeAlias = Literal["ok", "missing", "invalid"]
Waiver: TypeAlias = tuple[ErrorType, tuple[tuple[str, str | None], ...]]


class Facts(Struct, frozen=True):
    """The situation of a call. A pure value: equal facts always give equal decisions."""

    mode: Mode
    session: SessionFacts = SessionFacts()
    intents: IntentSet = NO_INTENTS
    assignment: AssignmentFacts | None = None
    """What a plan has assigned to this worktree; None for an ordinary one."""
    intents_state: IntentsState = "ok"
    intents_findings: tuple[LintFinding, ...] = ()
    config_error: str | None = None
    ignored_intents: frozenset[str] = frozenset()
    targets: tuple[Target, ...] = ()
    perhaps: tuple[Target, ...] = ()
    """Files that a command may write."""
    denied: tuple[DeniedPath, ...] = ()
    tool_finding: Finding | None = None
    """What stands against the tool itself, whatever its arguments: a person wants to be asked before it."""
    temporary: str = ""
    """Folder for scratch files outside the workspace; empty if none is tolerated."""
    grants: tuple[Grant, ...] = ()
    containable: bool = False
    """Commands can run contained here, and the configuration allows containment."""
    bare: str = ""
    """Reason why this command, which leaves a background process, cannot be contained; empty otherwise."""
    has_floor: bool = False
    """Remit's own agent makes the call: what its floor holds, holds in every mode."""
    uncontained: str = ""
    """Reason why nothing contains this command, where a command of unknown effect must not run bare; else empty."""
    restorable: bool = False
    """The command may only discard work of the working tree, it runs staged, and a snapshot precedes what it keeps."""
    exposed: tuple[str, ...] = ()
    """git commands of the text that take away a name or entries of the index, where nothing stages what they do."""
    waived: frozenset[Waiver] = frozenset()
    """Approvals for exactly this call: a rule, with its paths and their contents at that time."""

    proposed: tuple[ProposedFile, ...] = ()
    """Resulting files of the call; gathered only for intents with structured constraints."""
    unjudged: tuple[str, ...] = ()
    """Commits named by the command that no branch, tag or remote branch leads to."""
    changed: tuple[str, ...] = ()
    """Files changed earlier under the intent; gathered only for intents with structured constraints."""

    def intent(self, intent_id: str | None) -> Intent | None:
        return self.intents.get(intent_id)

    @property
    def narrowings(self) -> tuple[tuple[str, ...], ...]:
        """Patterns beside the intent's scope: a changed path has to match each, the session's and its assignment's."""
        return self.session.narrow if self.assignment is None else (*self.session.narrow, *self.assignment.sets)

    @property
    def active(self) -> Intent | None:
        return self.intent(self.session.intent_id)
