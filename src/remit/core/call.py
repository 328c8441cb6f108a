"""Tool calls of agents, their outcomes, and the other events that hooks report, independent of the agent."""

import hashlib
from typing import Any, Literal, TypeAlias

from msgspec import Struct, json

from remit.core.diff.contents import LineRange
from remit.core.diff.edits import Edit

Effect: TypeAlias = Literal["read", "write", "delete", "execute", "network", "meta", "none", "unproved"]
CallClass: TypeAlias = Literal["safe", "meta", "destructive", "unproved"]
COMPARED_CLASSES: tuple[CallClass, ...] = ("destructive", "unproved")
"""Classes of calls that may change files: the workspace is compared after them. Only a destructive call is judged."""
StartSource: TypeAlias = Literal["startup", "resume", "clear", "compact", "other"]
OWN_AGENT = "remit"
"""Name of Remit's own agent, which runs its tools in the gate's process and resumes its calls."""

SESSION_VARIABLE = "REMIT_SESSION"
"""Set for each command of Remit's own agent, to the id of its session."""

REMIT_TOOLS = frozenset(
    (
        *("select_active_intent", "list_active_intents", "get_intent_context", "clear_active_intent"),
        *("complete_intent", "propose_intent", "request_scope_expansion", "record_lesson", "update_todo_list"),
        *("query_traces", "why"),
        *("report_progress", "post_note", "read_notes", "list_workers", "submit_review"),
        "submit_patch",
    )
)
"""Names of the agent-facing tools; `remit.tools` offers exactly these."""
REMIT_COMMANDS = frozenset(
    (
        *(("intent", name) for name in ("select", "clear", "list", "show", "complete", "propose", "widen")),
        ("patch", "check"),
        *((name,) for name in ("log", "show", "blame", "why", "lesson", "todo", "status", "--help", "--version")),
    )
)
"""First words of the `remit …` commands open to agents; all others are for people."""
ACTING_COMMANDS = frozenset(
    (*(("intent", name) for name in ("select", "clear", "complete", "propose", "widen")), ("lesson",), ("todo",))
)
"""Those of them that the hook performs for the session: each has to be the only command of its call."""


MUTATION_CLASSES = ("AST_REFACTOR", "INTENT_EVOLUTION", "BUG_FIX", "OPTIMIZATION", "DOCUMENTATION", "CONFIGURATION")
"""Kinds of change that a write tool may declare."""


class SessionKey(Struct, frozen=True):
    """A conversation of an agent. A sub-agent carries its parent's session id and its own `agent_id`."""

    session_id: str
    agent_id: str = ""

    @property
    def parent(self) -> "SessionKey | None":
        return SessionKey(self.session_id) if self.agent_id else None


class Citation(Struct, frozen=True):
    """The intent, mutation class and hash declared by a write tool of Remit's own agent; empty for other agents."""

    intent_id: str | None = None
    mutation_class: str | None = None
    expected_content_hash: str | None = None


class ToolCall(Struct, frozen=True):
    """A tool call normalised by an adapter, and still untrusted.

    `paths` are as the agent wrote them: absolute, or relative to `cwd`. `call_id` is empty for agents that send none.
    `malformed` explains arguments that do not fit the agent's row.
    """

    agent: str
    session: SessionKey
    tool: str
    effect: Effect
    cwd: str
    call_id: str = ""
    paths: tuple[str, ...] = ()
    command: str | None = None
    arguments_sha256: str = ""
    remit_tool: str | None = None
    malformed: str | None = None
    citation: Citation = Citation()
    whole_workspace: bool = False
    """Effects cannot be derived from the arguments: compare the whole workspace."""
    transcript: str | None = None
    """Path of the conversation's transcript, according to the agent."""
    checks_itself: bool = False
    """A search-and-replace edit, which fails by itself on a changed file and so is never stale."""
    has_unwatched_stdin: bool = False
    """The agent may type into a running command without asking its hooks."""
    arguments: dict[str, Any] = {}
    """Arguments as sent by the agent, for a team's own hooks. Remit's rules use the fields above."""
    edit: Edit | None = None
    """The change that a file tool would make; None if the arguments do not determine the change."""
    proposal: str | None = None
    """The agent's original proposal, if a person edited the call before approving."""
    permission_mode: str = ""
    """The agent's permission mode (`default`, `auto`, `bypassPermissions`), if known."""
    hook_pid: int = 0
    """Process that delivered the call, a descendant of the agent; 0 if unknown."""
    given_folder: str = ""
    """Absolute folder that an argument beside the command names; an agent may or may not run the command there."""
    governing_root: str = ""
    """Root of the workspace that governs the call: its session's, wherever the call stands. Empty: whoever is asked."""
    patch_author: str = ""
    """The attempt that made a patch which this call applies, as `INT-014/7`, by the patch's own word."""
    is_unlisted: bool = False
    """The tool stands in no agent's row: its effect, and its paths, come from its arguments."""
    unproved: str | None = None
    """Reason why the command's proven effects do not hold here: git settings start a program."""


class Outcome(Struct, frozen=True):
    """The agent's report of a finished call. The workspace is compared anyway: reports are weak evidence.

    `positions` are the lines claimed by the tool, by path in the agent's spelling; `changed_by_person`: by the tool's
    report a person edited the proposal; `read_only`: the output mentions a read-only file system; `lacks_remit`: the
    output says the shell found no `remit`.
    """

    ok: bool = True
    exit_code: int | None = None
    summary: str = ""
    duration_ms: int | None = None
    positions: dict[str, tuple[LineRange, ...]] = {}
    changed_by_person: bool = False
    read_only: bool = False
    lacks_remit: bool = False


def hash_arguments(arguments: object) -> str:
    """Return the SHA-256 of a call's arguments in canonical JSON, equal in the hook and the MCP server."""
    return hashlib.sha256(json.encode(arguments or {}, order="sorted")).hexdigest()


class BeforeCall(Struct, frozen=True):
    """A tool is about to run. Only this event can refuse."""

    call: ToolCall


class AfterCall(Struct, frozen=True):
    """A tool has run."""

    call: ToolCall
    outcome: Outcome
    failed: bool = False
    """The agent sent its separate event for failed tools."""


class SessionStarted(Struct, frozen=True):
    """A conversation began, was resumed, or lost its context to compaction."""

    session: SessionKey
    cwd: str
    source: StartSource = "startup"
    model: str | None = None


class PromptGiven(Struct, frozen=True):
    """A person wrote to the agent. A repeated `prompt_id` is no new prompt; empty for agents that send none."""

    session: SessionKey
    cwd: str
    prompt_id: str = ""


class TurnEnded(Struct, frozen=True):
    """The agent finished its turn."""

    session: SessionKey
    cwd: str


class SessionEnded(Struct, frozen=True):
    """The conversation ended."""

    session: SessionKey
    cwd: str
    reason: str = ""


class IgnoredEvent(Struct, frozen=True):
    """An event without meaning for Remit."""

    name: str
    cwd: str = ""


HookEvent: TypeAlias = BeforeCall | AfterCall | SessionStarted | PromptGiven | TurnEnded | SessionEnded | IgnoredEvent
