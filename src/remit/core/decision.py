"""Facts and approvals that a decision depends on, findings of checks, their decision, and the violation in two forms.

Facts are gathered before the decision: `policy` never looks at the world.
"""

import shlex
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from remit.core.assignment import AssignmentFacts
from remit.core.call import CallClass, ToolCall
from remit.core.diff.edits import ProposedFile
from remit.core.intent import Intent, IntentSet, LintFinding
from remit.core.scope.path_patterns import RepoPath, relative_glob_error
from remit.core.untrusted_input import escape_surrogates, sanitise_line

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


HINTS: dict[ErrorType, str] = {
    "MISSING_OR_INVALID_INTENT": "select_active_intent",
    "INVALID_INTENT_ID": "select_active_intent",
    "INTENT_NOT_FOUND": "select_active_intent",
    "INTENT_BLOCKED": "select_active_intent",
    "INTENT_CLOSED": "select_active_intent",
    "INTENT_IGNORED": "select_active_intent",
    "INTENT_ALREADY_ACTIVE": "clear_active_intent",
    "INTENT_MISMATCH": "select_active_intent",
    "INTENT_SWITCH_NEEDS_PERSON": "ask_user",
    "INTENTS_FILE_INVALID": "ask_user",
    "INTENTS_FILE_MISSING": "ask_user",
    "CONFIG_INVALID": "ask_user",
    "SCOPE_VIOLATION": "request_scope_expansion",
    "INTENTIGNORE_PATH_BLOCKED": "choose_another_path",
    "PROTECTED_PATH": "use_remit_tools",
    "OUTSIDE_WORKSPACE": "choose_another_path",
    "STALE_FILE": "read_file",
    "FILE_LEASED": "retry_later",
    "CONSTRAINT_VIOLATION": "revise_content",
    "COMMAND_BLOCKED": "revise_command",
    "INVALID_ARGUMENTS": "revise_arguments",
    "USER_REJECTED": "ask_user",
    "CIRCUIT_OPEN": "stop_and_report",
    "HOOK_BLOCKED": "ask_user",
    "ASSIGNMENT_ENDED": "stop_and_report",
    "ASSIGNMENT_PAUSED": "retry_later",
}

MEANINGS: dict[ErrorType, str] = {
    "MISSING_OR_INVALID_INTENT": "a change, and no intent is selected",
    "INVALID_INTENT_ID": "what was to be selected is not shaped like an id",
    "INTENT_NOT_FOUND": "no intent has that id; the known ones are listed",
    "INTENT_BLOCKED": "it is BLOCKED; the reason is given",
    "INTENT_CLOSED": "it is DONE or ABORTED",
    "INTENT_IGNORED": "`.intentignore` bars it",
    "INTENT_ALREADY_ACTIVE": "the session works under another one",
    "INTENT_MISMATCH": "the call cites another intent than the active one",
    "INTENT_SWITCH_NEEDS_PERSON": "the intent owns what was refused to this session: a person changes intents for it",
    "INTENTS_FILE_INVALID": "the file of the intent, or the list, has errors; the first one's place is given",
    "INTENTS_FILE_MISSING": "no file declares an intent to select",
    "CONFIG_INVALID": "`remit.toml`, or a file of the hooks folder, cannot be used",
    "SCOPE_VIOLATION": "a path is not in the intent's `owned_scope`",
    "INTENTIGNORE_PATH_BLOCKED": "a pattern of `.intentignore` bars the path",
    "PROTECTED_PATH": "Remit's own files, an agent's hook settings, git's internals",
    "OUTSIDE_WORKSPACE": "the path, links followed, leaves the workspace",
    "STALE_FILE": "the file is not as this session last read it; the difference is given",
    "FILE_LEASED": "another session's call holds the path",
    "CONSTRAINT_VIOLATION": "the content would break a structured constraint",
    "COMMAND_BLOCKED": "the command is not an agent's to run",
    "INVALID_ARGUMENTS": "a path or command is missing, or no text",
    "USER_REJECTED": "a person said no",
    "ASSIGNMENT_ENDED": "the attempt that this worktree was assigned to is over, or its lease is",
    "ASSIGNMENT_PAUSED": "a person or a rule has paused the attempt, and the call has waited as long as it may",
    "CIRCUIT_OPEN": "the same denial too often in a row",
    "HOOK_BLOCKED": "a [hook](../how-to/add-hooks.md) refuses, one of Remit's own checks broke,"
    " or nothing can be recorded",
}
"""When each code is given, for the reference page of violations."""

HINTS_AFTER_REFUSAL = {
    "request_scope_expansion": "choose_another_path",
    "select_active_intent": "ask_user",
    "propose_intent": "ask_user",
    "clear_active_intent": "ask_user",
}
"""Hints in place of those that would put the same question to a person who has just refused."""

REFUSED_BY_PERSON = "person_said_no"  # The key in a finding's context for a refusal by a person

NOT_RECOVERABLE: frozenset[ErrorType] = frozenset(
    {
        "INTENTS_FILE_INVALID",
        "INTENTS_FILE_MISSING",
        "CONFIG_INVALID",
        "CIRCUIT_OPEN",
        "HOOK_BLOCKED",
        "ASSIGNMENT_ENDED",
    }
)

EXAMPLES: dict[str, str] = {
    "select_active_intent": 'select_active_intent(intent_id="{intent}")',
    "propose_intent": 'propose_intent(name="what you are about to do", owned_scope=["src/that/**"], reason="why"), '
    "or ask the person to run `remit intent new`",
    "clear_active_intent": "clear_active_intent()",
    "request_scope_expansion": "stay inside {scope}, or ask the person to widen the scope of {active}",
    "choose_another_path": "write to a path inside {scope}",
    "use_remit_tools": "say in your answer which setting should change, and why; the person changes it",
    "read_file": "read {path}, then write it again with the change taken in",
    "revise_content": "the same change, so that it keeps to {constraint}",
    "revise_command": "the same work with your file tools, inside {scope}",
    "revise_arguments": "the same call with a file path (or a command) that is text",
}

SHELL_FORMS: dict[str, str] = {
    "select_active_intent": "remit intent select {intent}",
    "clear_active_intent": "remit intent clear",
    "propose_intent": 'remit intent propose "what you are about to do" --scope "src/that/**" --why "why"',
    "request_scope_expansion": 'remit intent widen {file} --why "why"',
}
"""Commands that do what a tool of Remit's does: a session may have no such tool, or not have it yet."""

Ways: TypeAlias = Literal["shell first", "tool first", "tool only"]
"""Which way to a tool of Remit's a refusal names: the tool leads where the session has used one."""

REASONS: dict[str, str] = {
    "select_active_intent": "Work is done under an intent, so that every line can say why it is there.",
    "clear_active_intent": "A session works under one intent at a time.",
    "propose_intent": "Work is done under an intent that a person agreed to, and none is open.",
    "ask_user": "What governs agents is a person's to mend; until then changes are refused.",
    "request_scope_expansion": "A change outside the agreed scope surprises the people and agents who own it.",
    "choose_another_path": "Some places are nobody's to change under an intent.",
    "use_remit_tools": "An agent that could edit its own rules would not be bound by them.",
    "read_file": "Writing over a change one has not seen loses somebody's work.",
    "revise_content": "What an intent must keep to was agreed with people before the work began.",
    "revise_command": "That command is not an agent's to run.",
    "retry_later": "Someone else has it just now: two at the same time lose somebody's work.",
    "stop_and_report": "Trying the same again costs time and brings nothing; a person can.",
    "revise_arguments": "A call that cannot be read cannot be judged.",
}


def leading_violation(call: ToolCall, decision: Decision) -> Violation | None:
    return None if decision.leading is None else make_violation(decision.leading, call, decision)


def make_violation(finding: Finding, call: ToolCall, decision: Decision) -> Violation:
    """Return a finding as a violation; the codes of other findings stand in `context.also`."""
    also: list[str] = [f.code for f in decision.findings if f is not finding and f.verdict not in ("allow", "contain")]
    # The next step: to propose an intent if none is open, and another way after a person's refusal.
    hint = HINTS[finding.code]
    if finding.context.get(REFUSED_BY_PERSON):
        hint = HINTS_AFTER_REFUSAL.get(hint, hint)
    elif hint == "select_active_intent" and finding.context.get("available_intents") == []:
        hint = "propose_intent"
    return Violation(
        error_type=finding.code,
        error=finding.message,
        message=finding.message,
        tool=call.tool,
        classification=decision.call_class,
        intent_id=decision.intent_id,
        recoverable=finding.code not in NOT_RECOVERABLE,
        action_hint=hint,
        context={**finding.context, **({"also": also} if also else {})},
        path=UNSET if finding.path is None else escape_surrogates(str(finding.path)),
    )


def explain(violation: Violation, ways: Ways = "shell first") -> str:
    """Return the violation in five parts: the violated rule, what happened, what to do, an example, and the reason."""
    hint, context = violation.action_hint, violation.context
    offered = [*context.get("owning_intents", []), *context.get("available_intents", [])]
    scope = context.get("owned_scope") or ["the scope of your intent"]
    path = violation.path if isinstance(violation.path, str) else "the file"
    words = {
        "intent": offered[0] if offered else "INT-001",
        "active": violation.intent_id or "your intent",
        "scope": sanitise_line(", ".join(map(str, scope[:5])), 500),
        "constraint": "; ".join(str(b["constraint"]) for b in context.get("broken", [])[:3]) or "the constraint",
        "path": path,
        "file": sanitise_line(shlex.quote(path)),
    }
    example = EXAMPLES.get(hint, "").format(**words)
    parts = [
        f"[{violation.error_type}] {violation.error}",
        f"What happened: {violation.tool} was not run; nothing was changed.",
        f"Do: {describe_step(hint, words, ways)}",
        *([f"Example: {example}"] if example else []),
        f"Why: {REASONS.get(hint, REASONS['ask_user'])}",
    ]
    if diff := context.get("diff"):
        parts.append(f"Changed since you read it:\n{diff}")
    return "\n".join(parts)


def describe_step(hint: str, words: dict[str, str], ways: Ways) -> str:
    if hint not in SHELL_FORMS or ways == "tool only":
        return hint
    command = SHELL_FORMS[hint].format(**words)
    if ways == "tool first":
        return f"{hint}   (or run alone in your shell: {command})"
    return f"run alone in your shell: {command}   (or {hint})"
