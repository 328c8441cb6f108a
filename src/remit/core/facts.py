"""Facts that a decision may depend on, gathered before the decision: `policy` never looks at the world."""

from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.decision import ErrorType, Mode
from remit.core.diff.edits import ProposedFile
from remit.core.grant import Grant
from remit.core.intent import Intent, LintFinding
from remit.core.intents.intent_set import IntentSet
from remit.core.scope.repopath import RepoPath


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
    intents_state: IntentsState = "ok"
    intents_findings: tuple[LintFinding, ...] = ()
    config_error: str | None = None
    ignored_intents: frozenset[str] = frozenset()
    targets: tuple[Target, ...] = ()
    perhaps: tuple[Target, ...] = ()
    """Files that a command may write."""
    denied: tuple[DeniedPath, ...] = ()
    temporary: str = ""
    """Folder for scratch files outside the workspace; empty if none is tolerated."""
    grants: tuple[Grant, ...] = ()
    containable: bool = False
    """Commands can run contained here, and the configuration allows containment."""
    bare: str = ""
    """Reason why this command, which leaves a background process, cannot be contained; empty otherwise."""
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
    def active(self) -> Intent | None:
        return self.intent(self.session.intent_id)
