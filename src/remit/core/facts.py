"""Everything a decision may depend on, gathered before it: `policy` sees facts, not the world."""

from typing import Literal, TypeAlias

from msgspec import Struct

from remit.core.decision import ErrorType, Mode
from remit.core.diff.edits import ProposedFile
from remit.core.grant import Grant
from remit.core.intent import Intent, LintFinding
from remit.core.intents.intent_set import IntentSet
from remit.core.scope.repopath import RepoPath


class Target(Struct, frozen=True):
    """One path that a call names, as the workspace resolved it, links followed.

    `path` is None where it lies outside the workspace. `sha256` is None where there is no file.
    `seen_sha256` is what this session last read or wrote there. `diff` is what changed since.
    """

    raw: str
    resolved: str
    path: RepoPath | None
    protected: str | None = None
    tolerated: bool = False
    """Outside, but a temporary folder or the agent's own: allowed, and recorded."""
    sha256: str | None = None
    seen_sha256: str | None = None
    diff: str = ""
    ignored_by: str | None = None
    generated: bool = False
    """A command may write it under any intent: git ignores it, or a person's own patterns name it."""
    folds: bool = False
    """The file system takes two spellings of a name for one."""
    leased_by: str | None = None
    """The session whose running call may change the file; None where there is none but the caller's own."""
    mirrors: tuple[str, ...] = ()
    """The files that it is the test or the page of; looked for only where an intent has companions."""
    strange: str | None = None
    """What it is beside a plain file of one name; looked for only before a file tool writes."""


NO_INTENTS = IntentSet()


class SessionFacts(Struct, frozen=True):
    """What is known of the session that calls. `source` is who bound the intent: a selection, a branch, …

    `denials` counts how often in a row it was refused for the same reason, `denial`; `failures` its failed tools.
    """

    intent_id: str | None = None
    source: str = ""
    denial: str = ""
    denials: int = 0
    failures: int = 0


class DeniedPath(Struct, frozen=True):
    """A path that was lately refused to the session. `names` are its spellings: from the root, from `cwd`, absolute."""

    path: str
    code: ErrorType
    tool: str
    names: tuple[str, ...] = ()


IntentsState: TypeAlias = Literal["ok", "missing", "invalid"]


Waiver: TypeAlias = tuple[ErrorType, tuple[tuple[str, str | None], ...]]


class Facts(Struct, frozen=True):
    """The situation a call meets. A pure value: the same facts give the same decision for ever."""

    mode: Mode
    session: SessionFacts = SessionFacts()
    intents: IntentSet = NO_INTENTS
    intents_state: IntentsState = "ok"
    intents_findings: tuple[LintFinding, ...] = ()
    config_error: str | None = None
    ignored_intents: frozenset[str] = frozenset()
    targets: tuple[Target, ...] = ()
    perhaps: tuple[Target, ...] = ()
    """What a command may write, and may leave alone."""
    denied: tuple[DeniedPath, ...] = ()
    temporary: str = ""
    """Where scratch files may lie, outside the workspace; empty where nothing outside is tolerated for that."""
    grants: tuple[Grant, ...] = ()
    containable: bool = False
    """Commands can be run contained here, and the configuration wants it."""
    bare: str = ""
    """Why this command, which leaves something running, would run as it is; empty where it can be contained."""
    waived: frozenset[Waiver] = frozenset()
    """What a person waived for this very call: a rule, about these paths, with the contents that they had then."""

    proposed: tuple[ProposedFile, ...] = ()
    """What the call would leave in its files; gathered only for an intent with structured constraints."""
    unjudged: tuple[str, ...] = ()
    """What the command's words name as commits to send or check out, and no branch, tag or remote's branch leads to."""
    changed: tuple[str, ...] = ()
    """The files that the intent has changed before; likewise."""

    def intent(self, intent_id: str | None) -> Intent | None:
        """The intent of that id, if there is one."""
        return self.intents.get(intent_id)

    @property
    def active(self) -> Intent | None:
        """The intent this session works under, if it still exists."""
        return self.intent(self.session.intent_id)
